"""The columns of `columns.py` in Spark's and in Arrow's words."""

from functools import cache
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

HEADERS_TYPE = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))

SPARK_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS_TYPE,
}


def spark_schema(columns: tuple[str, ...]) -> StructType:
    """The table's schema; every column nullable, as the connector's are."""
    schema = StructType()
    for name in columns:
        schema.add(name, SPARK_TYPES[name], nullable=True)
    return schema


@cache
def arrow_schema(columns: tuple[str, ...]) -> Any:
    """The `pyarrow.Schema` of the record batches that Spark expects for `spark_schema(columns)`.

    Spark compares: names, types, the unit of the timestamp, the name of a list's field.
    """
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.field("element", header)),
    }
    return pa.schema([pa.field(name, types[name]) for name in columns])
