"""Spark's calls in their order, for each PySpark that there is, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("pyspark")

from odradek.client.types import TopicPartition
from odradek.spark.reading.stream_planner import StreamPlanner
from odradek.spark.reading.stream_reader import HAS_LIMITS, StreamReader

from ..simulated_spark import SimulatedTopic, options

TP = TopicPartition("t", 0)


class Commits:
    """Stands for `GroupOffsets`."""

    def __init__(self) -> None:
        self.made: list[int] = []

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self.made[-1:] != [offsets[TP]]:
            self.made.append(offsets[TP])

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def topic() -> SimulatedTopic:
    return SimulatedTopic()


@pytest.fixture
def reader(topic: SimulatedTopic) -> Any:
    source = options(startingOffsets="earliest", commitOffsetsToGroup="g")
    reader: Any = StreamReader(source)
    reader.planner = StreamPlanner(source, topic)
    reader.group = Commits()
    return reader


@pytest.mark.parametrize(
    "tells_start",
    [pytest.param(True, marks=pytest.mark.skipif(not HAS_LIMITS, reason="PySpark 4.1 says no start")), False],
    ids=["from 4.2 on", "4.1"],
)
def test_a_batch_is_in_the_group_as_soon_as_spark_has_finished_it(
    topic: SimulatedTopic, reader: Any, tells_start: bool
) -> None:
    """Spark says `commit` when the next one begins; that it asks for the next end says so before."""

    def end_after(start: dict[str, Any]) -> Any:
        return reader.latestOffset(start, None) if tells_start else reader.latestOffset()

    topic.append(0, 3)
    start = reader.initialOffset()
    end = end_after(start)
    # Asked again before the batch runs, as by 4.1 for `Trigger.AvailableNow`.
    assert end_after(start) == end
    reader.partitions(start, end)
    assert reader.group.made == []
    assert end_after(end) == end
    assert reader.group.made == [3]
    topic.append(0, 2)
    start, end = end, end_after(end)
    reader.commit(start)
    reader.partitions(start, end)
    assert reader.group.made == [3]
    end_after(end)
    assert reader.group.made == [3, 5]


def test_a_batch_that_is_run_again_is_in_the_group_when_it_is_done(
    topic: SimulatedTopic, reader: Any
) -> None:
    """A restarted 4.1 plans the batch of the checkpoint before it asks for anything."""
    topic.append(0, 3)
    reader.partitions({"t": {"0": 0}}, {"t": {"0": 2}})
    assert reader.group.made == []
    reader.latestOffset()
    assert reader.group.made == [2]
