"""The driver's questions: which partitions are there, where do they begin and end, what was at that time.

A question is asked up to `fetchOffset.numRetries` times, since topics come and go while a query runs. What
cannot get better by asking again (offsets named for the wrong partitions, a time that nothing matches) is an
error at once.
"""

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from odradek.client.errors import NoBrokersAvailableError
from odradek.client.types import TopicPartition
from odradek.errors import (
    ErrorCode,
    KafkaError,
    UnsupportedForMessageFormatError,
    UnsupportedVersionError,
    error_for,
)
from odradek.spark.connections import first_contact_ms, open_reader, unreachable
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
    SourceOffset,
    show,
)
from odradek.spark.options import SourceOptions
from odradek.spark.ranges import OffsetRange
from odradek.wire.primitives import ZERO_UUID, uuid_to_text

if TYPE_CHECKING:
    from odradek.client import RawReader
    from odradek.client.raw_partitions import FoundTopic

logger = logging.getLogger(__name__)
T = TypeVar("T")


class OffsetReader:
    """Offsets of the partitions that `options` select.

    Args:
        options: what to read.
        sleep: called with seconds between two tries.
        reader: asked first, and not closed here; None: a reader is opened for the first question.

    Raises:
        UnknownTopicError: by every method, for a topic that does not exist.
        KafkaError: by every method, when no try succeeded.
        UnreachableError: by every method, if no broker could be reached at the first question.
    """

    def __init__(
        self,
        options: SourceOptions,
        sleep: Callable[[float], None] = time.sleep,
        reader: "RawReader | None" = None,
    ) -> None:
        self._options = options
        self._sleep = sleep
        self._given = reader
        self._reader = reader
        """None until the next question; else `_given`, or a reader that this object opened and closes."""
        self._reached = reader is not None
        """Whether a broker has ever answered; stays True."""
        self._left_out: frozenset[TopicPartition] = frozenset()
        """The assigned partitions that were missing when they were last looked for, to be told of once."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offset of each of `partitions`; those that no longer exist are left out."""
        wanted = set(partitions)
        if not wanted:
            return {}
        # One partition that is gone would be the error of all.
        return self._retried(lambda: self._earliest(wanted & set(self._selected().partitions)))

    def latest(self, known_ends: SourceOffset | None = None) -> SourceOffset:
        """The end of every selected partition.

        An answer that does not fit the `known_ends` is asked for again, as brokers learn one after the other:
        a broker that has just become leader may not know the newest end yet, another may not have heard of a
        new partition, or of a topic that was made again.
        """
        options = self._options
        ends = self._retried(self._latest_of_selected)
        for _ in range(options.fetch_offset_tries - 1):
            doubts = _doubts(known_ends, ends) if known_ends is not None else []
            # In the end the last answer counts, and the planner decides what is lost.
            if not doubts:
                break
            logger.warning("asking again for the ends of partitions: %s", "; ".join(doubts))
            self._sleep(options.fetch_offset_retry_interval_ms / 1000)
            ends = self._retried(self._latest_of_selected)
        return ends

    def resolve(self, limit: Limit, *, starting: bool) -> SourceOffset:
        """`limit` as offsets, one for every selected partition; `starting`: a read starts there.

        Raises:
            ValueError: it names other partitions than are selected, or a time that nothing matches.
        """
        return self._retried(lambda: self._resolve(limit, starting, self._selected()))

    def bounds(
        self, start: Limit, end: Limit, without: Collection[TopicPartition] = ()
    ) -> tuple[SourceOffset, SourceOffset]:
        """Return the start and the end of a batch: `resolve` for both, of the same partitions.

        Nothing is asked about those in `without`.
        """

        def both() -> tuple[SourceOffset, SourceOffset]:
            # Looked for once: a partition that is new in between would have an end without a start.
            selected = self._selected()
            return (
                self._resolve(start, True, selected, without),
                self._resolve(end, False, selected, without),
            )

        return self._retried(both)

    def not_before(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset of each partition that is not before a time; None where brokers find none.

        Raises:
            KafkaError: no try succeeded, or brokers or a topic have no index by time.
        """
        times = {(tp.topic, tp.partition): time_ms for tp, time_ms in times_ms.items()}
        return self._retried(lambda: _typed(self._client().offsets_for_times(times)))

    def newest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The largest timestamp (epoch ms) of each partition.

        Raises:
            KafkaError: no try succeeded, or a broker is older than Kafka 3.0.
        """
        wanted = list(partitions)
        return self._retried(lambda: _typed(self._client().newest_timestamps(wanted)))

    def stamped(self, topics: Iterable[str]) -> frozenset[str]:
        """Those of `topics` whose records get their timestamps from the brokers, by their configs now."""
        # Which says nothing of the records that are there: `first_timestamp_types` looks at those
        # (docs/decisions/filters-are-not-pushed-down.md).
        wanted = sorted(set(topics))
        types = self._retried(lambda: self._client().topic_configs(wanted, "message.timestamp.type"))
        return frozenset(topic for topic, value in types.items() if value == "LogAppendTime")

    def first_timestamp_types(self, ranges: Iterable[OffsetRange]) -> dict[TopicPartition, int]:
        """The type (0 producer's, 1 broker's) of the first timestamp in each of `ranges` that has a record.

        Reads one batch of each.
        """
        wanted = {r.tp: r for r in ranges}
        # A fetch gives at least the first batch of one partition, however small the limit is (KIP-74).
        configs = {**self._options.client, "max.partition.fetch.bytes": "1"}
        types: dict[TopicPartition, int] = {}
        with open_reader(configs) as reader:
            ranges_to_read = [(tp.topic, tp.partition, r.start, r.end) for tp, r in wanted.items()]
            rows_of = reader.fetch_columns_many(
                ranges_to_read, batch_rows=1, fail_on_data_loss=False, wait_for_end=False
            )
            for topic, partition, rows in rows_of:
                types.setdefault(TopicPartition(topic, partition), rows.column("timestampType")[0].as_py())
                if len(types) == len(wanted):
                    break
        return types

    def close(self) -> None:
        """Close the connections; the next question opens new ones. A reader that was given is left alone."""
        reader, self._reader = self._reader, None
        if reader is not None and reader is not self._given:
            reader.close()

    def _latest_of_selected(self) -> SourceOffset:
        selected = self._selected()
        return SourceOffset(self._latest(selected.partitions), selected.topic_ids)

    def _resolve(
        self,
        limit: Limit,
        starting: bool,
        selected: "_Selected",
        without: Collection[TopicPartition] = (),
    ) -> SourceOffset:
        # What is missing was named in `assign`, so that it may be named here as well.
        named = [*selected.partitions, *selected.missing]
        if isinstance(limit, AtOffsets):
            _check_same(limit.offsets, named, "startingOffsets" if starting else "endingOffsets")
        if isinstance(limit, AtTimestamps):
            side = "startingOffsetsByTimestamp" if starting else "endingOffsetsByTimestamp"
            _check_same(limit.timestamps, named, side)
        wanted = [tp for tp in selected.partitions if tp not in without] if without else selected.partitions
        return SourceOffset(self._offsets_at(limit, starting, wanted), selected.topic_ids)

    def _offsets_at(self, limit: Limit, starting: bool, partitions: list[TopicPartition]) -> Offsets:
        if isinstance(limit, Earliest):
            return self._earliest(partitions)
        if isinstance(limit, Latest):
            return self._latest(partitions)
        if isinstance(limit, AtOffsets):
            return self._fill_in({tp: limit.offsets[tp] for tp in partitions})
        if isinstance(limit, AtTimestamp):
            return self._at_times(dict.fromkeys(partitions, limit.timestamp_ms), starting)
        assert isinstance(limit, AtTimestamps)
        return self._at_times({tp: limit.timestamps[tp] for tp in partitions}, starting)

    def _at_times(self, times: Mapping[TopicPartition, int], starting: bool) -> Offsets:
        timestamps = {(tp.topic, tp.partition): time_ms for tp, time_ms in times.items()}
        matches = self._client().offsets_for_times(timestamps)
        offsets = {}
        for tp, time_ms in times.items():
            offset = matches.get(tp)
            # All records are older. For an end that is the log's end, as with the connector.
            if offset is None:
                if starting and not self._options.latest_if_no_match:
                    raise ValueError(
                        f"No offset matched from request of topic-partition {tp} and timestamp {time_ms}."
                    )
                offset = LATEST
            offsets[tp] = offset
        return self._fill_in(offsets)

    def _fill_in(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        """`offsets` with the log's own in place of `EARLIEST` and `LATEST`."""
        ends = self._latest([tp for tp, offset in offsets.items() if offset == LATEST])
        begins = self._earliest([tp for tp, offset in offsets.items() if offset == EARLIEST])
        return {**offsets, **ends, **begins}

    def _earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        wanted = list(partitions)
        return _keyed(self._client().beginning_offsets(wanted)) if wanted else {}

    def _latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        wanted = list(partitions)
        return _keyed(self._client().end_offsets(wanted)) if wanted else {}

    def _selected(self) -> "_Selected":
        """Return the selected partitions that exist, by an answer that was asked for now."""
        options = self._options
        topics = self._topics()
        existing = sorted(TopicPartition(name, n) for name, topic in topics.items() for n in topic.partitions)
        missing = frozenset(options.assigned) - set(existing)
        if missing and options.fail_on_data_loss:
            raise UnknownTopicError(
                f"assign names partitions that do not exist: {show(missing)}. With failOnDataLoss=false they "
                "are left out until they do"
            )
        if missing - self._left_out:
            logger.warning("assign names partitions that do not exist; they are left out: %s", show(missing))
        self._left_out = missing
        # Brokers before 2.8 have no ids: docs/decisions/topic-ids-in-checkpoints.md says what that costs.
        ids = {name: topic.topic_id for name, topic in topics.items() if topic.topic_id != ZERO_UUID}
        return _Selected(
            [tp for tp in options.assigned if tp not in missing] if options.assigned else existing,
            {name: uuid_to_text(topic_id) for name, topic_id in ids.items()},
            missing,
        )

    def _topics(self) -> "dict[str, FoundTopic]":
        options = self._options
        if options.pattern:
            from odradek.util.java_regex import compile_java

            pattern = compile_java(options.pattern)
            existing = self._client().look_up_topics()
            # Searched in the names, as by the connector; Kafka's tools want the whole name to match.
            topics = {name: topic for name, topic in existing.items() if pattern.search(name)}
        else:
            names = options.topics or sorted({tp.topic for tp in options.assigned})
            topics = self._client().look_up_topics(names)
        for name, topic in list(topics.items()):
            if topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                # Nobody has named it: it was deleted while the topics were listed.
                if options.pattern:
                    del topics[name]
                    continue
                raise UnknownTopicError(f"topic '{name}' does not exist")
            if topic.error:
                raise error_for(topic.error, f"topic '{name}': {topic.error.message}")
        return topics

    def _client(self) -> "RawReader":
        if self._reader is None:
            # Who has once been reached will be so again.
            patience_ms = math.inf if self._reached else first_contact_ms(self._options.client)
            self._reader = open_reader(self._options.client, patience_ms)
        return self._reader

    def _retried(self, question: Callable[[], T]) -> T:
        """The answer to `question`, asked over new connections after a failure."""
        tries = self._options.fetch_offset_tries
        for attempt in range(1, tries + 1):
            try:
                answer = question()
                self._reached = True
                return answer
            except NoBrokersAvailableError as error:
                # Which is raised before a first broker was reached, and has been tried again by then.
                self.close()
                raise unreachable(self._options.client, error) from error
            except (UnsupportedVersionError, UnsupportedForMessageFormatError):
                # What a broker does not support it will not support a second later.
                raise
            except (KafkaError, OSError, UnknownTopicError) as error:
                self.close()
                if attempt == tries:
                    raise
                logger.warning("attempt %d of %d to get offsets failed: %s", attempt, tries, error)
                self._sleep(self._options.fetch_offset_retry_interval_ms / 1000)
        raise AssertionError("unreachable: fetch_offset_tries is positive")


class _Selected(NamedTuple):
    """Partitions, sorted, and the ids of their topics where brokers have some.

    Attributes:
        missing: partitions that were named, do not exist, and are left out.
    """

    partitions: list[TopicPartition]
    topic_ids: dict[str, str]
    missing: frozenset[TopicPartition]


def _doubts(known_ends: SourceOffset, newer: SourceOffset) -> list[str]:
    """Return the contradictions between the `newer` ends and the `known_ends`."""
    recreated = known_ends.recreated(newer)
    doubts = [f"{topic} has another id" for topic in sorted(recreated)]
    for tp, offset in known_ends.offsets.items():
        if tp.topic in recreated:
            continue
        end = newer.offsets.get(tp)
        if end is None:
            doubts.append(f"{tp} is not there any more")
        elif end < offset:
            doubts.append(f"{tp} ends at {end}, before {offset}, which was read already")
    return doubts


def _typed(by_pair: Mapping[tuple[str, int], T]) -> dict[TopicPartition, T]:
    return {TopicPartition(*tp): value for tp, value in by_pair.items()}


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
