"""The columns in Spark's words and in Arrow's say the same."""

import inspect

import pytest

from odradek.spark.columns import ALL_COLUMNS, BASE_COLUMNS

pytest.importorskip("pyspark")


@pytest.mark.parametrize("columns", [ALL_COLUMNS, BASE_COLUMNS, ("value", "offset")])
def test_arrow_batches_have_the_schema_that_spark_compares_with(columns: tuple[str, ...]) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    from odradek.spark.schema import arrow_schema, spark_schema

    if "timezone" not in inspect.signature(to_arrow_schema).parameters:
        pytest.skip("this PySpark does not compare")
    assert arrow_schema(columns).equals(to_arrow_schema(spark_schema(columns), timezone="UTC"))
