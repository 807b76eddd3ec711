"""The merge of `examples/change_data.py`, on batches whose rows are another each time they are read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_record_that_compaction_takes_while_a_batch_is_merged_leaves_no_key_twice(
    spark: Any, tmp_path: Path
) -> None:
    """The first read of the second batch finds the change of `a`, the next one would not."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        from change_data import merge, newest
    finally:
        sys.path.pop(0)
    schema = "key binary, value binary, offset bigint"
    table, taken = tmp_path / "table", str(tmp_path / "taken")

    def compacted(batches: Any) -> Any:
        for batch in batches:
            if not Path(taken).exists():
                Path(taken).touch()
                yield batch

    row = (b"a", b'{"name": "A", "city": "Lviv", "change": 1}', 0)
    merge(table, spark.createDataFrame([row], schema), 0)
    second = spark.createDataFrame([(b"a", row[1].replace(b"1", b"2"), 1)], schema).coalesce(1)
    merge(table, second.mapInArrow(compacted, schema), 1)
    version = newest(table)
    assert version is not None
    assert [tuple(r) for r in spark.read.parquet(str(version)).collect()] == [("a", "A", "Lviv", 2)]
