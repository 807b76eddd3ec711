"""Makes `format("odradek")` known: PySpark looks for a `DefaultSource` in every module named `pyspark_*`."""

from odradek.spark.source import OdradekDataSource as DefaultSource

__all__ = ["DefaultSource"]
