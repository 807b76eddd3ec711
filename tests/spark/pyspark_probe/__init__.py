"""`format("probe")`: one row, with what the task that reads it has. PySpark finds it as it finds odradek."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition


class _Reader(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[tuple[str, str]]:
        import odradek

        yield sys.executable, odradek.__file__


class DefaultSource(DataSource):
    """Spark runs its tasks as it runs those of any data source in Python."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "probe"

    def schema(self) -> str:
        """Return the columns: the Python of the task, and where it has odradek."""
        return "python STRING, package STRING"

    def reader(self, schema: object) -> DataSourceReader:
        """Return what reads the row."""
        return _Reader()
