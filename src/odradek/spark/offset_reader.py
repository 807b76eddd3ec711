"""The driver's questions: which partitions are there, where do they begin and end, what was at that time.

A question is asked up to `fetchOffset.numRetries` times, since topics come and go while a query runs. What
cannot get better by asking again (offsets named for the wrong partitions, a time that nothing matches) is an
error at once.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from odradek.client import RawReader
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, KafkaError
from odradek.spark.connections import open_reader
from odradek.spark.errors import UnknownTopicError
from odradek.spark.offsets import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    Limit,
    Offsets,
    show,
)
from odradek.spark.options import SourceOptions

log = logging.getLogger(__name__)
T = TypeVar("T")


class OffsetReader:
    """Offsets of the partitions that `options` select.

    Args:
        options: what to read.
        sleep: called with seconds between two tries.

    Methods raise `UnknownTopicError` for a topic that does not exist, `KafkaError` when no try succeeded.
    """

    def __init__(self, options: SourceOptions, sleep: Callable[[float], None] = time.sleep) -> None:
        self._options = options
        self._sleep = sleep
        self._reader: RawReader | None = None

    def partitions(self) -> list[TopicPartition]:
        """The partitions that are selected and exist, sorted."""
        return self._retried(self._partitions)

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offset of each of `partitions`; those that no longer exist are left out."""
        wanted = set(partitions)
        if not wanted:
            return {}
        return self._retried(lambda: self._earliest(wanted & set(self._partitions())))

    def latest(self, known: Mapping[TopicPartition, int] | None = None) -> Offsets:
        """The end of every selected partition.

        An end before the offset that is `known` is asked for again: a broker that has just become leader may
        not know the newest yet.
        """
        options = self._options
        offsets = self._retried(lambda: self._latest(self._partitions()))
        for _ in range(options.fetch_offset_tries - 1):
            behind = {tp: end for tp, end in offsets.items() if known and end < known.get(tp, 0)}
            if not behind:
                break
            log.warning("ends before what was read already, asking again: %s", behind)
            self._sleep(options.fetch_offset_retry_interval_ms / 1000)
            offsets = self._retried(lambda: self._latest(self._partitions()))
        return offsets

    def resolve(self, limit: Limit, *, starting: bool) -> Offsets:
        """`limit` as offsets, one for every selected partition; `starting`: it is where a read starts.

        Raises `ValueError` if it names other partitions than are selected, or a time that nothing matches.
        """
        return self._retried(lambda: self._resolve(limit, starting))

    def close(self) -> None:
        """Close the connections; the next question opens new ones."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _resolve(self, limit: Limit, starting: bool) -> Offsets:
        partitions = self._partitions()
        if isinstance(limit, Earliest):
            return self._earliest(partitions)
        if isinstance(limit, Latest):
            return self._latest(partitions)
        if isinstance(limit, AtOffsets):
            _check_same(limit.offsets, partitions, "startingOffsets" if starting else "endingOffsets")
            return self._fill_in(limit.offsets)
        if isinstance(limit, AtTimestamp):
            return self._at_times(dict.fromkeys(partitions, limit.timestamp_ms), starting)
        assert isinstance(limit, AtTimestamps)
        side = "startingOffsetsByTimestamp" if starting else "endingOffsetsByTimestamp"
        _check_same(limit.timestamps, partitions, side)
        return self._at_times(limit.timestamps, starting)

    def _at_times(self, times: Mapping[TopicPartition, int], starting: bool) -> Offsets:
        asked = {(tp.topic, tp.partition): time_ms for tp, time_ms in times.items()}
        found = self._client().offsets_for_times(asked)
        offsets = {}
        for tp, time_ms in times.items():
            offset = found.get(tp)
            if offset is None:
                if starting and not self._options.latest_if_no_match:
                    raise ValueError(
                        f"No offset matched from request of topic-partition {tp} and timestamp {time_ms}."
                    )
                offset = LATEST
            offsets[tp] = offset
        return self._fill_in(offsets)

    def _fill_in(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        """`offsets` with real ones in place of `EARLIEST` and `LATEST`."""
        ends = self._latest([tp for tp, offset in offsets.items() if offset == LATEST])
        begins = self._earliest([tp for tp, offset in offsets.items() if offset == EARLIEST])
        return {**offsets, **ends, **begins}

    def _earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        wanted = list(partitions)
        return _keyed(self._client().beginning_offsets(wanted)) if wanted else {}

    def _latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        wanted = list(partitions)
        return _keyed(self._client().end_offsets(wanted)) if wanted else {}

    def _partitions(self) -> list[TopicPartition]:
        options, client = self._options, self._client()
        if options.pattern:
            pattern = re.compile(options.pattern)
            topics = {name: numbers for name, numbers in client.topics().items() if pattern.search(name)}
        else:
            names = options.topics or sorted({tp.topic for tp in options.assigned})
            topics = {name: self._partitions_of(name) for name in names}
        existing = sorted(
            TopicPartition(name, number) for name, numbers in topics.items() for number in numbers
        )
        if not options.assigned:
            return existing
        missing = set(options.assigned) - set(existing)
        if missing:
            raise UnknownTopicError(f"assign names partitions that do not exist: {show(missing)}")
        return list(options.assigned)

    def _partitions_of(self, topic: str) -> list[int]:
        try:
            return self._client().partitions_for(topic)
        except KafkaError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopicError(f"topic '{topic}' does not exist") from error
            raise

    def _client(self) -> RawReader:
        if self._reader is None:
            self._reader = open_reader(self._options.client)
        return self._reader

    def _retried(self, question: Callable[[], T]) -> T:
        """The answer to `question`, asked over new connections after a failure."""
        tries = self._options.fetch_offset_tries
        for attempt in range(1, tries + 1):
            try:
                return question()
            except (KafkaError, OSError, UnknownTopicError) as error:
                self.close()
                if attempt == tries:
                    raise
                log.warning("attempt %d of %d to get offsets failed: %s", attempt, tries, error)
                self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
        raise AssertionError("unreachable: fetch_offset_tries is positive")


def _keyed(offsets: Mapping[tuple[str, int], int]) -> Offsets:
    return {TopicPartition(*tp): offset for tp, offset in offsets.items()}


def _check_same(
    named: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition], option: str
) -> None:
    if set(named) != set(partitions):
        raise ValueError(
            f"If {option} contains specific offsets, you must specify all TopicPartitions. Use -1 for "
            f"latest, -2 for earliest. Specified: {show(named)} Assigned: {show(partitions)}"
        )
