"""The requests of a stream's micro-batches: what is known is not asked again, what may change is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from odradek.client.blocking import BlockingConnection
from odradek.spark.connections import close_idle
from odradek.spark.options import parse_source
from odradek.spark.reading.stream_reader import HAS_LIMITS, StreamReader

pytestmark = pytest.mark.skipif(not HAS_LIMITS, reason="PySpark 4.1 asks without a start")


class Run:
    """A run of a query: Spark's calls in their order, and the requests that planner and tasks send."""

    def __init__(self, servers: str, topic: str, sent: list[str], **given: str) -> None:
        texts = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
        self.reader = StreamReader(parse_source({**texts, **given}, streaming=True))
        self._sent = sent
        self._at: Any = None

    def batch(self) -> tuple[list[bytes], dict[str, int], dict[str, int]]:
        """The values of the next batch, and the requests to plan it, and to read it."""
        self._sent.clear()
        if self._at is None:
            self._at = self.reader.initialOffset()
        end = self.reader.latestOffset(self._at, self.reader.getDefaultReadLimit())
        tasks = self.reader.partitions(self._at, end)
        planning = self._counted()
        self._at = end
        rows = [
            value
            for task in tasks
            for batch in self.reader.read(task)
            for value in batch.column("value").to_pylist()
        ]
        return rows, planning, self._counted()

    def _counted(self) -> dict[str, int]:
        counted = Counter(name.removesuffix("Request") for name in self._sent)
        self._sent.clear()
        return dict(counted)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the requests that are sent."""
    names: list[str] = []
    send = BlockingConnection.send

    def noted(connection: BlockingConnection, request: Any, *rest: Any, **more: Any) -> Any:
        names.append(type(request).__name__)
        return send(connection, request, *rest, **more)

    monkeypatch.setattr(BlockingConnection, "send", noted)
    close_idle()
    yield names
    close_idle()


def test_a_batch_asks_for_the_ends_and_for_the_records(servers: str, new_topic: Any, sent: list[str]) -> None:
    """Every time for partitions and ends, as topics grow, go and are made again; never for where they are."""
    topic = new_topic()
    run = Run(servers, topic.name, sent)
    topic.produce("a")
    assert run.batch()[0] == [b"a"]
    for value in "bc":
        topic.produce(value)
        rows, planning, reading = run.batch()
        assert (rows, planning) == ([value.encode()], {"Metadata": 1, "ListOffsets": 1})
        assert reading == {"Fetch": 1}
    # A trigger that finds nothing asks no more than that.
    assert run.batch() == ([], {"Metadata": 1, "ListOffsets": 1}, {})
    run.reader.stop()


def test_with_its_end_fixed_a_run_asks_for_records_alone(
    servers: str, new_topic: Any, sent: list[str]
) -> None:
    """`Trigger.AvailableNow`: what is there when it begins is read, in as many batches as the limit says."""
    topic = new_topic()
    topic.produce([str(number) for number in range(6)])
    run = Run(servers, topic.name, sent, maxOffsetsPerTrigger="2")
    run.reader.prepareForTriggerAvailableNow()
    assert run.batch()[0] == [b"0", b"1"]
    topic.produce("x")
    for expected in ([b"2", b"3"], [b"4", b"5"]):
        assert run.batch() == (expected, {}, {"Fetch": 1})
    assert run.batch() == ([], {}, {})
    run.reader.stop()
