"""Kinds of columns, and why a record is malformed: the numbers that `_tree.pxd` has too. Pure."""

BOOL = 1
INT8 = 2
INT16 = 3
INT32 = 4
INT64 = 5
FLOAT = 6
DOUBLE = 7
DECIMAL = 8
DATE = 9
TIMESTAMP = 10
DURATION = 11
STRING = 12
BINARY = 13
STRUCT = 14
LIST = 15
MAP = 16

TRUNCATED = 1
TRAILING = 2
SYNTAX = 3
WRONG_KIND = 4
OUT_OF_RANGE = 5
NOT_UTF8 = 6
BAD_TIME = 7
BAD_NUMBER = 8
TOO_DEEP = 9
TOO_LARGE = 10
BAD_BASE64 = 11
BAD_SYMBOL = 12
BAD_LENGTH = 13
BAD_BRANCH = 14
BAD_TAG = 15
MISSING_FIELD = 16
BAD_MAGIC = 17
UNRESOLVED = 19

DEEPEST = 100
LARGEST = 0x7FFFFFFF

WORDS = {
    TRUNCATED: "it ends too early",
    TRAILING: "something follows after its end",
    SYNTAX: "it is not {format}",
    WRONG_KIND: "the value is not of the column's type",
    OUT_OF_RANGE: "the number does not fit the column's type",
    NOT_UTF8: "the characters are not UTF-8",
    BAD_TIME: "not a date or time of ISO 8601",
    BAD_NUMBER: "not a number",
    TOO_DEEP: f"it is nested deeper than {DEEPEST} levels",
    TOO_LARGE: "it is too large for a column",
    BAD_BASE64: "bytes have to be base64",
    BAD_SYMBOL: "the writer's enum has no such symbol",
    BAD_LENGTH: "it has another length than the type",
    BAD_BRANCH: "the writer's union has no such branch",
    BAD_TAG: "a field's number or wire type is wrong",
    MISSING_FIELD: "a required field is missing",
    BAD_MAGIC: "it does not begin with the registry's byte 0 and the id of a schema",
    UNRESOLVED: "the writer's schema does not resolve to the reader's",
}
"""What `Tree`'s decoders report, for people."""
