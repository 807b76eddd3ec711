"""Readers and writers that outlive a task."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from odradek.spark.connections import borrowed_reader, borrowed_writer, close_idle  # noqa: E402


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    close_idle()
    yield
    close_idle()


def test_the_next_task_gets_what_the_last_one_gave_back(servers: str) -> None:
    configs = {"bootstrap.servers": servers}
    with borrowed_reader(configs) as reader, borrowed_writer(configs) as writer:
        pass
    with borrowed_reader(configs) as same_reader, borrowed_writer(configs) as same_writer:
        assert (same_reader, same_writer) == (reader, writer)
        with borrowed_reader(configs) as second, borrowed_writer(configs) as third:
            assert second is not reader
            assert third is not writer
    with borrowed_writer({**configs, "acks": "1"}) as other:
        assert other not in (writer, third)


def test_a_writer_is_given_back_with_all_acknowledged(servers: str, new_topic: Any) -> None:
    topic = new_topic()
    for total in (2, 4):
        with borrowed_writer({"bootstrap.servers": servers}) as writer:
            writer.write_columns(pa.record_batch({"value": pa.array([b"a", b"b"])}), topic.name)
        assert topic.ends() == {0: total}
        assert writer.rows_written == total


def test_a_task_that_fails_gives_nothing_back(servers: str) -> None:
    configs = {"bootstrap.servers": servers}
    with pytest.raises(RuntimeError), borrowed_reader(configs) as reader, borrowed_writer(configs) as writer:
        raise RuntimeError
    with borrowed_reader(configs) as other_reader, borrowed_writer(configs) as other_writer:
        assert other_reader is not reader
        assert other_writer is not writer


def test_what_the_first_tasks_leave_is_frozen_and_later_garbage_is_collected() -> None:
    lines = """
import gc
from odradek.spark.garbage import freeze_what_stays
counts = []
kept = []
for task in range(8):
    freeze_what_stays()
    counts.append(gc.get_freeze_count())
    kept.append([[task]])
    gc.collect()
assert counts[0] > 0 and counts[3] > counts[0], counts
assert len(set(counts[3:])) == 1, counts
"""
    subprocess.run([sys.executable, "-c", lines], check=True, timeout=300)
