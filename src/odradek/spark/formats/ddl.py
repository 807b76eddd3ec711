"""Spark's DDL of columns (`id BIGINT, tags ARRAY<STRING>`) as types.

PySpark asks a JVM to read it, which the processes that plan a Python source do not have.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import types as spark

from odradek.serdes.errors import SchemaError

_PLAIN: dict[str, Any] = {
    "boolean": spark.BooleanType(),
    "tinyint": spark.ByteType(),
    "byte": spark.ByteType(),
    "smallint": spark.ShortType(),
    "short": spark.ShortType(),
    "int": spark.IntegerType(),
    "integer": spark.IntegerType(),
    "bigint": spark.LongType(),
    "long": spark.LongType(),
    "float": spark.FloatType(),
    "real": spark.FloatType(),
    "double": spark.DoubleType(),
    "date": spark.DateType(),
    "timestamp": spark.TimestampType(),
    "timestamp_ltz": spark.TimestampType(),
    "timestamp_ntz": spark.TimestampNTZType(),
    "string": spark.StringType(),
    "binary": spark.BinaryType(),
}
_DECIMAL = ("decimal", "dec", "numeric")
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|([<>(),:]))")
_MOST_LEVELS = 50


def parse_ddl(text: str) -> Any:
    """The type that `text` describes: one type (`INT`, `STRUCT<…>`), or columns, which are a struct.

    Raises:
        SchemaError: it cannot be read; names what, and where it stands.
    """
    parser = _Parser(text)
    if parser.looks_like_columns():
        data_type = parser.columns("")
    else:
        data_type = parser.type(0)
    parser.end()
    return data_type


def ddl_of(schema: Any) -> str:
    """Return the columns of a struct in DDL, each name in backticks, those inside other columns too.

    Names come from a registry, or a schema's file, and may be anything; `simpleString` has them as they are.
    """
    return ", ".join(f"{_quoted(field.name)} {_type_in_ddl(field.dataType)}" for field in schema.fields)


def _type_in_ddl(data_type: Any) -> str:
    if isinstance(data_type, spark.StructType):
        inside = (f"{_quoted(field.name)}: {_type_in_ddl(field.dataType)}" for field in data_type.fields)
        return f"STRUCT<{', '.join(inside)}>"
    if isinstance(data_type, spark.ArrayType):
        return f"ARRAY<{_type_in_ddl(data_type.elementType)}>"
    if isinstance(data_type, spark.MapType):
        return f"MAP<{_type_in_ddl(data_type.keyType)}, {_type_in_ddl(data_type.valueType)}>"
    return str(data_type.simpleString())


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise SchemaError(f"cannot read the DDL '{text}' from '{text[at:].strip()[:20]}' on")
            quoted, string, word, sign = match.groups()
            kind = "name" if quoted else "string" if string else "word" if word else "sign"
            value = quoted[1:-1].replace("``", "`") if quoted else string or word or sign
            self._tokens.append((kind, value, match.start()))
            at = match.end()
        self._at = 0

    def looks_like_columns(self) -> bool:
        """`name type`, `name: type` or `` `name` ``, and not a type alone."""
        if not self._tokens:
            raise SchemaError(
                "the DDL is empty: name columns and their types, as in 'id BIGINT, name STRING'"
            )
        if len(self._tokens) == 1:
            return False
        (kind, _, _), (following, value, _) = self._tokens[:2]
        return kind == "name" or (kind == "word" and (following in ("word", "name") or value == ":"))

    def columns(self, closing: str, level: int = 0) -> Any:
        """Columns up to the closing sign, which is left there."""
        fields: list[Any] = []
        while not self._is(closing):
            name = self._name()
            self._skip(":")
            data_type = self.type(level)
            if self._word("not") and not self._word("null"):
                self._fail("NULL after NOT")
            if self._word("comment"):
                self._next("a comment", "string")
                while self._at < len(self._tokens) and self._tokens[self._at][0] == "string":
                    self._at += 1
            if any(field.name == name for field in fields):
                raise SchemaError(f"the DDL names the column '{name}' twice: '{self._text}'")
            # Whether a value is there is for the record to say.
            fields.append(spark.StructField(name, data_type, nullable=True))
            if not self._skip(","):
                break
        return spark.StructType(fields)

    def type(self, level: int) -> Any:
        """One type."""
        if level > _MOST_LEVELS:
            raise SchemaError(f"the DDL is nested deeper than {_MOST_LEVELS} levels")
        word = self._next("a type", "word").lower()
        if word in _PLAIN:
            return _PLAIN[word]
        if word in _DECIMAL:
            return self._decimal()
        if word in ("char", "varchar"):
            self._numbers(1)
            return spark.StringType()
        if word == "array":
            self._sign("<")
            element = self.type(level + 1)
            self._sign(">")
            return spark.ArrayType(element)
        if word == "map":
            self._sign("<")
            key = self.type(level + 1)
            self._sign(",")
            value = self.type(level + 1)
            self._sign(">")
            return spark.MapType(key, value)
        if word == "struct":
            self._sign("<")
            struct = self.columns(">", level + 1)
            self._sign(">")
            return struct
        raise SchemaError(
            f"the DDL has the type '{word}', which no record can be read into. There are: "
            f"{', '.join(sorted({*_PLAIN, 'decimal(p,s)', 'array<…>', 'map<…,…>', 'struct<…>'}))}"
        )

    def end(self) -> None:
        """Nothing may be left."""
        if self._at < len(self._tokens):
            self._fail("the end")

    def _decimal(self) -> Any:
        if not self._is("("):
            return spark.DecimalType(10, 0)
        numbers = self._numbers(2)
        precision, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
        if not 0 < precision <= 38 or not 0 <= scale <= precision:
            raise SchemaError(
                f"decimal({precision},{scale}) is not possible: up to 38 digits, scale of those"
            )
        return spark.DecimalType(precision, scale)

    def _numbers(self, most: int) -> list[int]:
        self._sign("(")
        numbers: list[int] = []
        while len(numbers) < most:
            word = self._next("a number", "word")
            if not word.isdigit():
                raise SchemaError(f"'{word}' in the DDL has to be a number: '{self._text}'")
            numbers.append(int(word))
            if not self._skip(","):
                break
        self._sign(")")
        return numbers

    def _name(self) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at][0] in ("name", "word"):
            self._at += 1
            return self._tokens[self._at - 1][1]
        self._fail("a column's name")
        raise AssertionError

    def _next(self, expectation: str, kind: str) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == kind:
            self._at += 1
            return self._tokens[self._at - 1][1]
        self._fail(expectation)
        raise AssertionError

    def _is(self, sign: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at][:2] == ("sign", sign)

    def _skip(self, sign: str) -> bool:
        if self._is(sign):
            self._at += 1
            return True
        return False

    def _sign(self, sign: str) -> None:
        if not self._skip(sign):
            self._fail(f"'{sign}'")

    def _word(self, word: str) -> bool:
        if self._at == len(self._tokens):
            return False
        kind, value, _ = self._tokens[self._at]
        matches = kind == "word" and value.lower() == word
        self._at += matches
        return matches

    def _fail(self, expectation: str) -> None:
        if self._at < len(self._tokens):
            at = self._tokens[self._at][2]
            rest = f"'{self._text[at:].strip()[:20]}'"
        else:
            rest = "the end"
        raise SchemaError(f"the DDL '{self._text}' has {rest} where {expectation} should be")
