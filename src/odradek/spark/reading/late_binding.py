"""The ends of a batch's tasks, found when they run: a frame that is used again reads what is there then.

Spark asks a Python source for its tasks once, when a frame is used for the first time, and runs the same ones
whenever it is used again: in the static side of a stream's join for as long as the stream lives. Meanwhile
records come and are deleted, partitions come, and a topic is made again. So a limit that moves (earliest,
latest, a time) is looked up by the task itself, as Spark's Kafka connector does (KafkaBatchPartitionReader,
`resolveRange`).

Each row is still read once within one execution, since what is divided among tasks does not depend on what
they find: the first piece of a partition begins at its beginning, whatever that is by then, the last one
ends at its end, and the cuts between them stay where they are. All partitions that had nothing to read when
the tasks were planned, those to come among them, belong to one task (`Others`), which plans for them when it
runs.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, KafkaError
from odradek.spark.errors import DataLossError, ReadError, UnknownTopicError
from odradek.spark.offsets import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Limit,
    Offsets,
    SourceOffset,
)
from odradek.spark.options import SourceOptions
from odradek.spark.ranges import OffsetRange
from odradek.wire.primitives import ZERO_UUID, uuid_to_text

if TYPE_CHECKING:
    from odradek.client import RawReader

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Binding:
    """The ends of a piece of a partition that are looked up when it is read.

    Attributes:
        from_beginning: the partition is read from a beginning that moves: what is deleted there is not lost.
        to_end: it is read to an end that moves.
        first, last: the piece is the first, or last, one of its partition.
        cut_at_end: `where` made the piece end before the partition did.
        end_time_ms: it is read up to the first record of this time; None: to the end of the log.
    """

    from_beginning: bool
    to_end: bool
    first: bool
    last: bool
    cut_at_end: bool = False
    end_time_ms: int | None = None


@dataclass(frozen=True)
class Found:
    """A partition as it is when it is read. `end` is None where nobody asked for it."""

    begin: int
    end: int | None
    topic_id: str


@dataclass(frozen=True)
class Others:
    """All selected partitions but these: by topic, the numbers of those that have tasks of their own."""

    numbers: Mapping[str, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def than(cls, partitions: Iterable[TopicPartition]) -> "Others":
        numbers: dict[str, set[int]] = {}
        for tp in partitions:
            numbers.setdefault(tp.topic, set()).add(tp.partition)
        return cls({topic: frozenset(of_topic) for topic, of_topic in numbers.items()})

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(
            TopicPartition(topic, n) for topic, of_topic in self.numbers.items() for n in of_topic
        )


def bindings(
    options: SourceOptions, ends: SourceOffset, pieces: Sequence[OffsetRange]
) -> dict[OffsetRange, Binding]:
    """Return how each of `pieces` (the tasks of a batch) is bound; those whose ends stay are left out.

    Args:
        ends: where the batch ended when it was planned.
    """
    first: Offsets = {}
    last: Offsets = {}
    for r in pieces:
        first[r.tp] = min(first.get(r.tp, r.start), r.start)
        last[r.tp] = max(last.get(r.tp, r.end), r.end)
    bound_pieces = {}
    for r in pieces:
        from_beginning, to_end = _moves(options.start, r.tp, EARLIEST), _moves(options.end, r.tp, LATEST)
        if from_beginning or to_end:
            bound_pieces[r] = Binding(
                from_beginning,
                to_end,
                first=r.start == first[r.tp],
                last=r.end == last[r.tp],
                cut_at_end=last[r.tp] < ends.offsets[r.tp],
                end_time_ms=_time_of(options.end, r.tp),
            )
    return bound_pieces


def partitions_may_come(options: SourceOptions) -> bool:
    """Return whether partitions of which nothing was to be read may have something to read later."""
    if not isinstance(options.end, AtOffsets):
        return True
    return any(offset == LATEST for offset in options.end.offsets.values())


def bound(piece: OffsetRange, binding: Binding, partition: Found) -> OffsetRange:
    """Return what is to be read of `piece` as its partition is now; it may be empty."""
    made_again = bool(piece.topic_id and partition.topic_id and piece.topic_id != partition.topic_id)
    start, end = piece.start, piece.end
    if binding.from_beginning:
        start = partition.begin if binding.first and made_again else max(start, partition.begin)
    if binding.to_end and partition.end is not None:
        if not binding.last:
            end = min(end, partition.end) if made_again else end
        elif made_again or binding.end_time_ms is not None:
            end = partition.end
        elif not binding.cut_at_end:
            # Whoever is asked may not know the newest end yet; the planner knew an older one.
            end = max(end, partition.end)
    if binding.from_beginning:
        # All of it was deleted.
        start = min(start, end)
    return replace(piece, start=start, end=end, topic_id=partition.topic_id or piece.topic_id)


def ranges_now(
    options: SourceOptions,
    reader: "RawReader",
    pieces: Sequence[tuple[OffsetRange, Binding | None]],
    others: Others | None,
) -> list[OffsetRange]:
    """Return what one task is to read now.

    Raises:
        DataLossError: the log does not reach a start any more.
        ReadError: the brokers cannot be asked.
    """
    try:
        bindings = [(piece, binding) for piece, binding in pieces if binding is not None]
        partitions = _look_up(options, reader, bindings)
        ranges = []
        for piece, binding in pieces:
            if binding is not None and piece.tp in partitions:
                now = partitions[piece.tp]
                if now is None:
                    continue
                piece = bound(piece, binding, now)
            if not _is_past(options, piece):
                ranges.append(piece)
        if options.where is not None:
            ranges = options.where.narrowed(ranges)
        return ranges + (_ranges_of_others(options, reader, others) if others is not None else [])
    except KafkaError as error:
        names = ", ".join(str(piece.tp) for piece, _ in pieces) or "the selected partitions"
        raise ReadError(f"Could not find where {names} begin and end now: {error}") from error


def _is_past(options: SourceOptions, r: OffsetRange) -> bool:
    """Return whether the range begins where its partition does not reach.

    Raises:
        DataLossError: it does, with `failOnDataLoss`.
    """
    if r.start <= r.end:
        return False
    reason = (
        f"Partition {r.tp} is to be read from offset {r.start}, and ends at {r.end}: the start is set too "
        "high, or the topic was cut or created anew."
    )
    if options.fail_on_data_loss:
        raise DataLossError(reason)
    logger.warning("some data may have been lost: %s", reason)
    return True


def _look_up(
    options: SourceOptions, reader: "RawReader", pieces: Sequence[tuple[OffsetRange, Binding]]
) -> dict[TopicPartition, Found | None]:
    """The partitions as they are now, None where a new plan would not have one.

    Those that are gone although they were named are left out, for who reads them to say so.
    """
    if not pieces:
        return {}
    topics = reader.look_up_topics({piece.tp.topic for piece, _ in pieces})
    partitions: dict[TopicPartition, Found | None] = {}
    there: dict[TopicPartition, Binding] = {}
    ids: dict[TopicPartition, str] = {}
    for piece, binding in pieces:
        tp, topic = piece.tp, topics[piece.tp.topic]
        ids[tp] = uuid_to_text(topic.topic_id) if topic.topic_id != ZERO_UUID else ""
        if not topic.error and tp.partition in topic.partitions:
            there[tp] = binding
        elif not topic.error and piece.topic_id and ids[tp] not in ("", piece.topic_id):
            partitions[tp] = None  # made again with fewer partitions
        elif options.pattern and binding.from_beginning and binding.to_end and _is_gone(reader, tp):
            logger.warning("%s is gone, and not read any more", tp)
            partitions[tp] = None
    try:
        begins = reader.beginning_offsets(there)
        times: dict[tuple[str, int], int] = {
            tp: limits.end_time_ms
            for tp, limits in there.items()
            if limits.to_end and limits.end_time_ms is not None
        }
        by_time = reader.offsets_for_times(times) if times else {}
        ends = {tp: offset for tp, offset in by_time.items() if offset is not None}
        # All of a piece's topic may be another one by now, so the end of each is asked for.
        ends |= reader.end_offsets([tp for tp, limits in there.items() if limits.to_end and tp not in ends])
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return partitions
    return partitions | {tp: Found(begins[tp], ends.get(tp), ids[tp]) for tp in there}


def _is_gone(reader: "RawReader", tp: TopicPartition) -> bool:
    """Return whether several answers, one after the other, do not have the partition."""
    try:
        reader.beginning_offsets([tp])
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return True
    return False


def _ranges_of_others(options: SourceOptions, reader: "RawReader", others: Others) -> list[OffsetRange]:
    from odradek.spark.reading.offset_reader import OffsetReader

    with closing(OffsetReader(options, reader=reader)) as brokers:
        try:
            starts, ends = brokers.bounds(options.start, options.end, others.partitions)
        except UnknownTopicError as error:
            if options.fail_on_data_loss:
                raise
            logger.warning("some data may have been lost: %s", error)
            return []
        ranges = [
            OffsetRange(tp, start, ends.offsets[tp], starts.topic_ids.get(tp.topic, ""))
            for tp, start in sorted(starts.offsets.items())
        ]
        ranges = [r for r in ranges if r.size and not _is_past(options, r)]
        if options.where is None:
            return ranges
        from odradek.spark.where.cuts import cut

        return cut(ranges, options.where, brokers)


def _moves(limit: Limit, tp: TopicPartition, special: int) -> bool:
    return not isinstance(limit, AtOffsets) or limit.offsets.get(tp, special) == special


def _time_of(limit: Limit, tp: TopicPartition) -> int | None:
    if isinstance(limit, AtTimestamp):
        return limit.timestamp_ms
    return limit.timestamps.get(tp) if isinstance(limit, AtTimestamps) else None
