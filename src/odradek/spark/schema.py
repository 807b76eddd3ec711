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
    """The `pyarrow.Schema` of the record batches that Spark expects for `spark_schema(columns)`."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(spark_schema(columns), timezone="UTC")
