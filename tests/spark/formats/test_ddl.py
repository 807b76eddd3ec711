"""DDL as types, as Spark itself reads it (`test_typed_read` asks Spark)."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as spark

from odradek.serdes.errors import SchemaError
from odradek.spark.formats.ddl import ddl_of, parse_ddl


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("a INT, b string", "struct<a:int,b:string>"),
        ("a: int", "struct<a:int>"),
        ("bigint", "bigint"),
        ("`a b` LONG NOT NULL COMMENT 'it''s', `c``d` REAL", "struct<a b:bigint,c`d:float>"),
        ("a decimal(10, 2), b dec(5), c numeric", "struct<a:decimal(10,2),b:decimal(5,0),c:decimal(10,0)>"),
        (
            "array<map<string, struct<x INT, y: array<date>>>>",
            "array<map<string,struct<x:int,y:array<date>>>>",
        ),
        ("a varchar(10), b char(3), c tinyint", "struct<a:string,b:string,c:tinyint>"),
        (
            "t timestamp_ntz, u timestamp, order int, `not` boolean",
            "struct<t:timestamp_ntz,u:timestamp,order:int,not:boolean>",
        ),
        ("struct<>", "struct<>"),
    ],
)
def test_types(text: str, simple: str) -> None:
    assert parse_ddl(text).simpleString() == simple


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the DDL is empty"),
        ("a", "the type 'a', which no record can be read into"),
        ("a variant", "the type 'variant'"),
        ("a int b", "'b' where the end should be"),
        ("a array<int", "the end where '>' should be"),
        ("a decimal(40,2)", "decimal\\(40,2\\) is not possible"),
        ("a decimal(x)", "'x' in the DDL has to be a number"),
        ("a int, a string", "names the column 'a' twice"),
        ("a int NOT b", "where NULL after NOT should be"),
        ("a int ?", "cannot read the DDL 'a int \\?' from '\\?' on"),
        ("array<" * 60 + "int" + ">" * 60, "nested deeper than 50 levels"),
    ],
)
def test_what_cannot_be_read(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        parse_ddl(text)


HOSTILE = (
    "a",
    "x int) USING csv LOCATION '/etc' --",
    "`",
    "``; DROP TABLE t",
    "a`b",
    "a b",
    "é",
    "order",
    "1",
    "a:b<c>,",
)


def test_types_as_ddl_keep_every_name_a_name() -> None:
    inside = spark.StructType([spark.StructField(name, spark.LongType()) for name in HOSTILE])
    kinds = [
        spark.DecimalType(20, 0),
        spark.BinaryType(),
        inside,
        spark.ArrayType(inside),
        spark.MapType(spark.StringType(), spark.ArrayType(inside)),
        spark.TimestampNTZType(),
        spark.DateType(),
    ]
    whole = spark.StructType(
        [spark.StructField(name, kind) for name, kind in zip(HOSTILE, kinds * 2, strict=False)]
    )
    assert parse_ddl(ddl_of(whole)) == whole
