"""Why filters are not pushed down: PySpark gives the plan made for one query's filters to other queries.

docs/decisions/filters-are-not-pushed-down.md. A plain data source shows it, so that we notice when Spark
mends it.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, LessThan

from odradek.spark.reading.batch_reader import BatchReader

pytestmark = pytest.mark.spark
ROWS = 10


class CountingReader(DataSourceReader):
    """Rows 0 to 9, fewer where a filter allows: as Spark's documentation says a source may do it."""

    def __init__(self) -> None:
        self._rows = ROWS

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 (Spark's name)
        for one in filters:
            if isinstance(one, LessThan) and one.attribute == ("offset",):
                self._rows = min(self._rows, one.value)
            else:
                yield one

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._rows)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        for number in range(partition.value):
            yield (number,)


class CountingSource(DataSource):
    """See `CountingReader`."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def schema(self) -> str:
        return "offset bigint"

    def reader(self, schema: Any) -> CountingReader:
        return CountingReader()


@pytest.fixture
def counting(spark: Any) -> Iterator[Any]:
    """A new frame of the plain source, with filters pushed down."""
    from pyspark import cloudpickle

    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "true")
    # Spark's Python processes do not find this module by its name.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(CountingSource)
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    yield lambda: spark.read.format("counting").load()
    spark.conf.set(setting, before)


def test_a_filter_reaches_queries_that_do_not_have_it(counting: Any) -> None:
    """When this fails, Spark is mended: see the decision for what to do then."""
    frame = counting()
    assert frame.where("offset < 5").count() == 5
    assert frame.count() == 5, "rows 5 to 9 are not lost any more"


def test_a_filter_of_one_branch_reaches_the_other(counting: Any) -> None:
    """When this fails, Spark is mended: see the decision for what to do then."""
    frame = counting()
    both = frame.where("offset < 5").union(frame.where("offset < 2"))
    assert both.count() == 4, "rows 2 to 4 are not lost any more"


def test_our_source_takes_no_filters() -> None:
    assert BatchReader.pushFilters is DataSourceReader.pushFilters
