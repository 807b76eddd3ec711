"""Spark's side of a streaming query, as far as offsets go: its checkpoint, and what it asks a source when.

Written after `MicroBatchExecution`: the end of a batch is logged before the batch runs; a batch that was
logged but not committed runs again, with the same offsets; the start of batch 0 is asked for, never logged.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odradek.client.types import TopicPartition
from odradek.spark.errors import DataLossError
from odradek.spark.offsets import (
    EARLIEST,
    LATEST,
    AtOffsets,
    Earliest,
    Latest,
    Limit,
    Offsets,
    SourceOffset,
    from_spark,
    to_spark,
)
from odradek.spark.options import SourceOptions, parse_source
from odradek.spark.ranges import OffsetRange
from odradek.spark.reading.stream_planner import StreamPlanner
from odradek.wire.primitives import uuid_from_text, uuid_to_text


class SimulatedTopic:
    """Partitions as pairs: the first offset that is still there, and the next one to be written.

    `topic_id` is empty for a broker without ids.
    """

    def __init__(self, partitions: int = 1, topic_id: str = "") -> None:
        self.topic_id = topic_id
        self.waited_for = 0
        """How often partitions were missed, which takes some seconds of asking again."""
        self.hidden = False
        """Whether brokers do not name it: for a pattern it is not there then."""
        self.bounds = {TopicPartition("t", number): (0, 0) for number in range(partitions)}

    def append(self, number: int, count: int = 1) -> None:
        begin, end = self.bounds[TopicPartition("t", number)]
        self.bounds[TopicPartition("t", number)] = (begin, end + count)

    def delete_before(self, number: int, offset: int) -> None:
        self.bounds[TopicPartition("t", number)] = (offset, self.bounds[TopicPartition("t", number)][1])

    def add_partition(self) -> None:
        self.bounds[TopicPartition("t", len(self.bounds))] = (0, 0)

    def make_again(self, partitions: int = 1) -> None:
        """Delete it, and make it anew under another id."""
        self.topic_id = topic_id(self.topic_id)
        self.bounds = {TopicPartition("t", number): (0, 0) for number in range(partitions)}

    def _here(self, offsets: Offsets) -> SourceOffset:
        if self.hidden:
            return SourceOffset({})
        return SourceOffset(offsets, {"t": self.topic_id} if self.topic_id else {})

    def earliest(self, partitions: list[TopicPartition]) -> Offsets:
        return {tp: self.bounds[tp][0] for tp in partitions if tp in self.bounds and not self.hidden}

    def latest(self, known_ends: SourceOffset | None = None) -> SourceOffset:
        self.waited_for += bool(
            known_ends is not None and known_ends.offsets.keys() - self._here(self._ends()).offsets
        )
        return self._here(self._ends())

    def _ends(self) -> Offsets:
        return {tp: end for tp, (_, end) in self.bounds.items()}

    def resolve(self, limit: Limit, *, starting: bool) -> SourceOffset:
        return self._here(self._at(limit))

    def _at(self, limit: Limit) -> Offsets:
        if isinstance(limit, Earliest):
            return self.earliest(list(self.bounds))
        if isinstance(limit, Latest):
            return self._ends()
        assert isinstance(limit, AtOffsets)
        special = {EARLIEST: 0, LATEST: 1}
        return {
            tp: self.bounds[tp][special[offset]] if offset in special else offset
            for tp, offset in limit.offsets.items()
        }


def topic_id(before: str = "") -> str:
    """The id of a topic, and that of the one which is made in its place."""
    return uuid_to_text((int.from_bytes(uuid_from_text(before) if before else b"") + 1).to_bytes(16))


def options(**given: Any) -> SourceOptions:
    """Options of a stream over topic `t`."""
    texts = {name: str(value) for name, value in given.items()}
    return parse_source({"kafka.bootstrap.servers": "x:1", "subscribe": "t", **texts}, streaming=True)


class SimulatedQuery:
    """A query with its checkpoint; `crash` loses the driver, the checkpoint stays.

    `read`: the ranges that each batch read, by batch number; a batch that runs again replaces its own.
    `started_at`: where the query began, as the source said when its first batch was planned.
    `written_in_between`: records that come to partition 0 between that question and the one for the end.
    """

    def __init__(self, topic: SimulatedTopic, source: SourceOptions, written_in_between: int = 0) -> None:
        self.topic = topic
        self._written_in_between = written_in_between
        self._source = source
        self._logged: list[str] = []
        self.committed = 0
        self.read: dict[int, list[OffsetRange]] = {}
        self.now_ms = 0
        self.started_at: Mapping[TopicPartition, int] = {}
        self.crash()

    @property
    def logged_ends(self) -> list[SourceOffset]:
        return [from_spark(json.loads(text)) for text in self._logged]

    def crash(self) -> None:
        self.planner = StreamPlanner(self._source, self.topic)
        self._limited = bool(self._source.max_offsets_per_trigger or self._source.min_offsets_per_trigger)

    def forget_where_it_began(self) -> None:
        """Leave of the first batch's end what a release would have written that did not note its start."""
        end = from_spark(json.loads(self._logged[0]))
        self._logged[0] = json.dumps(to_spark(replace(end, began={})))

    def log_next_batch(self) -> bool:
        """Plan the next batch and log its end; False if there is none, or one is still to be run."""
        if self.committed < len(self._logged):
            return False
        start = self._start_of(len(self._logged))
        if not self._logged:
            self.started_at = start.offsets
            self.topic.append(0, self._written_in_between)
        end = self.planner.next_end(start, unlimited=not self._limited, now_ms=self.now_ms)
        text = json.dumps(to_spark(end))
        if self._logged and text == self._logged[-1]:
            return False
        self._logged.append(text)
        return True

    def run_logged_batch(self) -> None:
        """Plan the tasks of the batch that is logged but not committed, and read them."""
        batch = len(self._logged) - 1
        if batch >= self.committed:
            ranges = self.planner.ranges(self._start_of(batch), self.logged_ends[batch])
            # A task whose topic has another id by now skips its range, or fails.
            gone = [r for r in ranges if r.topic_id not in ("", self.topic.topic_id)]
            if gone and self._source.fail_on_data_loss:
                raise DataLossError("a task met another topic")
            self.read[batch] = [part for r in ranges if r not in gone for part in self._there(r)]

    def _there(self, r: OffsetRange) -> list[OffsetRange]:
        """The part of a range that a task still finds; raises as the task does."""
        begin, end = self.topic.bounds.get(r.tp, (r.end, r.end))
        if self._source.fail_on_data_loss and not begin <= r.start <= r.end <= end:
            raise DataLossError(f"a task did not find all of {r}")
        there = replace(r, start=max(r.start, begin), end=min(r.end, end))
        return [there] if there.size > 0 else []

    def commit(self) -> None:
        if len(self._logged) - 1 in self.read:
            self.committed = len(self._logged)

    def step(self) -> bool:
        """One whole trigger; False if nothing was there to do."""
        more = self.committed < len(self._logged) or self.log_next_batch()
        self.run_logged_batch()
        self.commit()
        return more

    def _start_of(self, batch: int) -> SourceOffset:
        if batch == 0:
            return from_spark(json.loads(json.dumps(to_spark(self.planner.initial()))))
        return self.logged_ends[batch - 1]

    def offsets_read(self, tp: TopicPartition, topic_id: str | None = None) -> list[int]:
        """Every offset that committed batches read of one partition, in order of reading.

        `topic_id`: of the topic with this id; None: whatever it is.
        """
        return [
            offset
            for batch in range(self.committed)
            for r in self.read[batch]
            if r.tp == tp and topic_id in (None, r.topic_id)
            for offset in range(r.start, r.end)
        ]
