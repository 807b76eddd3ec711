"""The records of a Produce request that take long: looked at beside the loop, right before their append.

A few partitions at a time are looked at and appended, then the next ones: so what has been made of a request
(records unpacked, converted, packed anew) never takes more memory than `MOST_PREPARED_BYTES` and one batch.

A topic of an older message format has the offsets in what is made of its records. There one request after
another is converted and appended, partition by partition; what comes for the same partition meanwhile waits
(`odradek.broker.conversion.conversions`).
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.broker.conversion.packed import (
    QUICK_UNPACKED_BYTES,
    accept_little,
    is_packed,
    recodes_long,
)
from odradek.broker.conversion.produce import (
    FIRST_VERSION_OF_BATCHES,
    QUICK_PACKED_BYTES,
    PreparedRecords,
    partitions_by_index,
    takes_long,
    topic_name,
    without_frames,
)
from odradek.broker.event_loop.slices import NobodyWaits, Steps, wait
from odradek.errors import KafkaError
from odradek.log.partition.format_conversion import Prepared
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Container

    from odradek.broker.requests.context import RequestContext
    from odradek.replication.partition import Partition
    from odradek.wire.messages.produce import TopicProduceData

PARTITIONS_BETWEEN_PAUSES: Final = 16

MOST_PREPARED_BYTES = 32 * 1024 * 1024
"""How much of one request is made before it is appended, and one batch more."""


class Looked(NamedTuple):
    """A batch or message set that has been looked at in a thread.

    Attributes:
        outcome: what has been made of it, or why it is refused.
        unpacked_bytes: how many bytes that took.
    """

    outcome: Prepared | Exception
    unpacked_bytes: int


class Preparation:
    """Looks at the records of one request, in steps.

    Attributes:
        prepared: what has been made of the records of those partitions that are to be appended now.
    """

    def __init__(self, context: RequestContext) -> None:
        self.prepared: PreparedRecords = {}
        self._context = context
        self._room = 0
        """How much may still be unpacked before the next pause."""
        self._room_of_old = 0
        """How many bytes of message sets may still be left to the next append, whatever they unpack to."""
        self._turn: TopicPartition | None = None
        """The partition for which nobody else converts meanwhile."""

    def look(
        self, topic: TopicProduceData, start: int, refused: Container[tuple[str, bytes, int]]
    ) -> Steps[int]:
        """Look at some partitions of a topic; they are to be appended before the next pause.

        Args:
            topic: of the request.
            start: where in its list of partitions to begin.
            refused: partitions that are not appended to: (name, topic id, index), as the request has them.

        Returns:
            Where the next ones begin.

        Raises:
            NobodyWaits: the peer has gone, and what takes long is not done for nobody.
        """
        self._room = QUICK_UNPACKED_BYTES
        self._room_of_old = QUICK_PACKED_BYTES
        context = self._context
        partitions = topic.partition_data
        end = min(start + PARTITIONS_BETWEEN_PAUSES, len(partitions))
        name = topic_name(context, topic)
        here = partitions_by_index(context, name)
        size = 0
        looked: list[tuple[Partition, TopicPartition, Any]] = []
        for at in range(start, end):
            data = partitions[at]
            partition = here.get(data.index)
            if partition is None or not data.records or (topic.name, topic.topic_id, data.index) in refused:
                continue  # the append says so
            assert name is not None
            key = (name, data.index)
            is_old = not partition.log.rules.holds_batches
            if is_old:
                if at > start:
                    return (yield from self._up_to(at, looked))
                yield from self._come(key)
            looked.append((partition, key, data.records))
            size += yield from self._look(partition, key, data.records)
            if is_old or size > MOST_PREPARED_BYTES:
                end = at + 1
                break
        return (yield from self._up_to(end, looked))

    def _up_to(self, end: int, looked: list[tuple[Partition, TopicPartition, Any]]) -> Steps[int]:
        """Look again at what its topic's configs have made obsolete meanwhile; then return `end`."""
        while True:
            for partition, key, records in looked:
                prepared = self.prepared.get(key)
                if isinstance(prepared, Prepared) and not partition.log.is_current(prepared):
                    yield from self._look(partition, key, records)
                    break
            else:
                return end

    def appended(self) -> None:
        """Let go of what has been appended, or refused. Call it in any case."""
        self.prepared.clear()
        turn, self._turn = self._turn, None
        if turn is not None:
            self._context.broker.conversions.give_turn(turn)

    def _come(self, key: TopicPartition) -> Steps[None]:
        """Wait until nobody else converts records for this partition."""
        conversions = self._context.broker.conversions
        yield from conversions.come(key)
        conversions.take_turn(key)
        self._turn = key

    def _look(self, partition: Partition, key: TopicPartition, records: Any) -> Steps[int]:
        """Look at what is for one partition; returns how many bytes have been made of it.

        What is little and of today is looked at here, what is little and old by the append.
        """
        context = self._context
        rules = partition.log.rules
        if not partition.is_leader:
            return 0  # the append says so
        if rules.holds_batches and is_packed(records):
            accepted = accept_little(context, partition, records, self._room)
            if accepted is not None and accepted.accepted is not None:
                self._room -= accepted.accepted.unpacked_bytes
                self.prepared[key] = accepted
                return 0
        elif rules.holds_batches and context.api_version >= FIRST_VERSION_OF_BATCHES:
            if not recodes_long(partition, records):
                return 0
        elif not takes_long(partition, records):
            self._room_of_old -= len(records)
            if self._room_of_old >= 0:
                return 0
        if not context.peer.is_open:
            raise NobodyWaits
        done: Looked = yield from wait(
            context.broker.unpacking.run(
                partial(
                    _look_in_a_thread,
                    partition,
                    records,
                    context.now_ms,
                    context.api_version,
                    rules.max_unpacked_bytes,
                ),
                partial(_cost, rules.max_unpacked_bytes),
                context.peer,
            )
        )
        self._room = QUICK_UNPACKED_BYTES
        outcome = done.outcome
        self.prepared[key] = outcome
        if not isinstance(outcome, Prepared):
            return 0
        return len(outcome.records) + (len(outcome.placed.records) if outcome.placed is not None else 0)


def _look_in_a_thread(
    partition: Partition, records: Any, now_ms: int, produce_version: int, most_bytes: int
) -> Looked:
    """Make of records what an append writes.

    How far records unpack that are refused is not told: by the time that they took, a nanosecond a byte,
    which no codec is quicker than.
    """
    began = time.thread_time_ns()
    outcome: Prepared | Exception
    unpacked_bytes = 0
    try:
        outcome = partition.log.prepare(records, now_ms=now_ms, produce_version=produce_version)
        unpacked_bytes = outcome.unpacked_bytes
    except KafkaError as error:
        outcome = without_frames(error)
    except Exception as error:
        outcome = error  # unforeseen: the append of this partition fails, and logs it
    if not unpacked_bytes:
        unpacked_bytes = min(most_bytes, time.thread_time_ns() - began)
    return Looked(outcome, unpacked_bytes)


def _cost(most_bytes: int, looked: Looked | None) -> int:
    return most_bytes if looked is None else looked.unpacked_bytes
