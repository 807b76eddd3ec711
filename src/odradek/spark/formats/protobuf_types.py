"""Types of protobuf's fields: the numbers that `_protobuf.pyx` has too. Pure."""

from odradek.spark.formats import kinds

P_INT32 = 1
P_INT64 = 2
P_UINT32 = 3
P_UINT64 = 4
P_SINT32 = 5
P_SINT64 = 6
P_BOOL = 7
P_ENUM = 8
P_FIXED32 = 9
P_SFIXED32 = 10
P_FLOAT = 11
P_FIXED64 = 12
P_SFIXED64 = 13
P_DOUBLE = 14
P_STRING = 15
P_BYTES = 16
P_MESSAGE = 17
P_STAMP = 18
P_SPAN = 19
P_ENTRY = 20
NULL_IF_ABSENT = 0
ZERO_IF_ABSENT = 1
REQUIRED = 2

MERGED_BYTES = 64 << 20
"""Bytes that merging may copy in a record: each piece copies those before it, so the cost is a square."""

#: The kind of a field's column; of other types either INT32 or INT64.
KIND = {
    P_DOUBLE: kinds.DOUBLE,
    P_FLOAT: kinds.FLOAT,
    P_BOOL: kinds.BOOL,
    P_ENUM: kinds.STRING,
    P_STRING: kinds.STRING,
    P_BYTES: kinds.BINARY,
    P_MESSAGE: kinds.STRUCT,
    P_STAMP: kinds.TIMESTAMP,
    P_SPAN: kinds.DURATION,
    P_UINT64: kinds.DECIMAL,
    P_FIXED64: kinds.DECIMAL,
}
