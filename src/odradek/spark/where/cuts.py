"""The conditions of `where` on time, as offsets: the part of each range that can hold such rows.

A row that is wanted must never be cut away, whatever timestamps producers have written:

- The first offset whose time is not before t is a safe beginning: all before it are older. Brokers find it by
  their index, whatever the order of the timestamps.
- That there is no such offset is believed only if the newest timestamp of the partition is older too. A
  broker answers by the first of its files that may have one; records without timestamps make it take a
  file's own time, and it looks no further. Before Kafka 3.0 nobody tells the newest timestamp, so there such
  a partition is read whole.
- By t there is an end only where times go up with offsets: where brokers stamp, by the topic's configs, and
  the record at which a range would end was stamped already. Brokers' clocks may be set back, and differ
  between leaders, by less than `CLOCKS_MS`.
- Where brokers cannot tell (before 0.10.1, and topics in a message format before 0.10), nothing is cut.

Ends are asked for before times, so what arrives meanwhile is beyond the range. `Where.rows` takes out of what
is read what is not wanted after all.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from odradek.client.types import TopicPartition
from odradek.errors import KafkaError
from odradek.spark.ranges import OffsetRange
from odradek.spark.where.conditions import Where

logger = logging.getLogger(__name__)
T = TypeVar("T")

CLOCKS_MS = 3_600_000
"""By how much brokers' clocks may go back and differ without a row being missed at the end."""

_BY_BROKER = 1


class Times(Protocol):
    """The questions about time; `offset_reader.OffsetReader` answers."""

    def not_before(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...

    def newest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]: ...

    def stamped(self, topics: Iterable[str]) -> frozenset[str]: ...

    def first_timestamp_types(self, ranges: Iterable[OffsetRange]) -> dict[TopicPartition, int]: ...


def cut_and_tell(ranges: list[OffsetRange], where: Where, times: Times) -> list[OffsetRange]:
    """Return `cut`'s result, and write a line about it for whoever runs the query."""
    left = cut(ranges, where, times)
    read, total = sum(r.size for r in left), sum(r.size for r in ranges)
    _tell(
        f"read {shown(read)} of {shown(total)} offsets, {len(left)} of {len(ranges)} partitions: {where.text}"
    )
    return left


def cut(ranges: Iterable[OffsetRange], where: Where, times: Times) -> list[OffsetRange]:
    """Return the parts of `ranges` that can hold rows which `where` wants; none is empty."""
    left = where.narrowed(ranges)
    least, end = where.times_us
    if least is not None and end is not None and least >= end:
        return []
    if least is not None:
        left = _begin_not_before(left, -(-least // 1000), times)
    if end is not None:
        left = _end_before(left, -(-end // 1000), times)
    return left


def shown(number: int) -> str:
    """Return a count for people: 12,000 or 9.1 M."""
    return f"{number:,}" if number < 1_000_000 else f"{number / 1_000_000:,.1f} M"


def _begin_not_before(ranges: list[OffsetRange], time_ms: int, times: Times) -> list[OffsetRange]:
    if time_ms < 0:
        return ranges
    first_offsets = _first_offsets(times, [r.tp for r in ranges], time_ms)
    doubtful = [tp for tp, first in first_offsets.items() if first is None]
    newest = _topic_by_topic(times.newest, doubtful, "the newest timestamps")
    older = {tp for tp, time in newest.items() if time is not None and time < time_ms}
    # What is newer came since, and can be first_offsets now.
    since = [tp for tp, time in newest.items() if time is not None and time >= time_ms]
    first_offsets |= _first_offsets(times, since, time_ms)
    left = []
    for r in ranges:
        first = first_offsets.get(r.tp)
        if first is not None and first < r.end:
            left.append(replace(r, start=max(r.start, first)))
        elif first is None and r.tp not in older:
            left.append(r)
    return left


def _end_before(ranges: list[OffsetRange], time_ms: int, times: Times) -> list[OffsetRange]:
    if time_ms < 0:
        return ranges
    stamped = _stamped(times, {r.tp.topic for r in ranges})
    partitions = [r.tp for r in ranges if r.tp.topic in stamped]
    first_offsets = _first_offsets(times, partitions, time_ms + CLOCKS_MS)
    ends = {r.tp: end for r in ranges if (end := first_offsets.get(r.tp)) is not None and end < r.end}
    # From the first record that is too new on: what comes before may have got its time from producers.
    behind = [replace(r, start=ends[r.tp]) for r in ranges if r.tp in ends]
    types = times.first_timestamp_types(behind) if behind else {}
    cuts = {tp: end for tp, end in ends.items() if types.get(tp) == _BY_BROKER}
    return [replace(r, end=cuts.get(r.tp, r.end)) for r in ranges if cuts.get(r.tp, r.end) > r.start]


def _stamped(times: Times, topics: set[str]) -> frozenset[str]:
    if not topics:
        return frozenset()
    try:
        return times.stamped(topics)
    except KafkaError as problem:
        logger.info("message.timestamp.type is not known: %s", problem)
        return frozenset()


def _first_offsets(
    times: Times, partitions: Iterable[TopicPartition], time_ms: int
) -> dict[TopicPartition, int | None]:
    return _topic_by_topic(
        lambda some: times.not_before(dict.fromkeys(some, time_ms)), partitions, "offsets by time"
    )


def _topic_by_topic(
    ask: Callable[[list[TopicPartition]], dict[TopicPartition, T]],
    partitions: Iterable[TopicPartition],
    offsets: str,
) -> dict[TopicPartition, T]:
    """Return the answers about `partitions`; topics that brokers cannot tell it of are left out."""
    tps = list(partitions)
    if not tps:
        return {}
    try:
        return ask(tps)
    except KafkaError as problem:
        topics = sorted({tp.topic for tp in tps})
        if len(topics) > 1:
            answers: dict[TopicPartition, T] = {}
            for topic in topics:
                answers |= _topic_by_topic(ask, [tp for tp in tps if tp.topic == topic], offsets)
            return answers
        if not problem.retriable:
            logger.info("%s are not known of %s: %s", offsets, topics[0], problem)
            return {}
        raise


def _tell(line: str) -> None:
    """Write a line to the log, or to Spark's output where nobody set up a log, which shows only warnings."""
    if logger.isEnabledFor(logging.INFO):
        logger.info(line)
    else:
        print(f"odradek: {line}", file=sys.stderr)  # noqa: T201
