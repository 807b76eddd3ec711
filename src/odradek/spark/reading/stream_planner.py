"""The next batch of a streaming query: from the checkpoint's offsets and the brokers' answers.

The invariants of a query's reading side, whatever happens to its driver:

- A batch reads exactly the offsets between its start and its end; Spark writes both into the checkpoint
  before the batch runs, and runs it again with the same ones after a crash.
- The start of a batch is the end of the one before.
- The start of batch 0 is asked for by Spark again after a crash, and has moved by then: "latest" with every
  record, "earliest" with every one that is deleted. So the end of batch 0 says where that batch began
  (`SourceOffset.began`), and what Spark was told the second time is not used.
- Checkpoints of releases before that, and PySpark 4.1, which does not say where a batch begins: where the
  start moves with the end of a partition, batch 0 takes nothing from it and only writes its place down;
  records flow from batch 1 on. Where the start asked for anew is past the end that batch 0 was given, that
  partition has nothing to read in batch 0.
- A partition that appears while the query runs is read from its beginning.
- A partition that no answer names any more keeps its place in the checkpoint: it may be hidden (its
  description forbidden for a while, a broker that does not know it yet) and come back. That is lost data
  too, told before anything is written down. When it comes back, its topic's id tells whether it is the same.
  Without an id, a log that reaches its place is taken for the same one; one that ends before it is lost data,
  and where that does not fail the query, a batch leaves it out, so that the next one has it from its
  beginning.
- A topic with another id than the checkpoint has was deleted and made again. That is lost data; where it
  does not fail the query, all partitions of the topic count as having just appeared. A task is told the id
  that its offsets belong to, so that none reads one topic by the other's.
"""

import logging
from collections.abc import Mapping, Set
from typing import Protocol

from odradek.client.types import TopicPartition
from odradek.errors import OdradekError
from odradek.spark.errors import DataLossError, made_again
from odradek.spark.offsets import (
    LATEST,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Latest,
    Limit,
    Offsets,
    SourceOffset,
    show,
)
from odradek.spark.options import SourceOptions
from odradek.spark.ranges import OffsetRange, split
from odradek.spark.reading.admission import Admission

logger = logging.getLogger(__name__)


class Brokers(Protocol):
    """The questions of the planner; `offset_reader.OffsetReader` answers."""

    def earliest(self, partitions: "list[TopicPartition]") -> Offsets: ...

    def latest(self, known_ends: SourceOffset | None = None) -> SourceOffset: ...

    def resolve(self, limit: Limit, *, starting: bool) -> SourceOffset: ...


class StreamPlanner:
    """One run of one streaming query, between its start and its stop.

    Args:
        options: what to read.
        brokers: who knows the offsets.
    """

    def __init__(self, options: SourceOptions, brokers: Brokers) -> None:
        self._options = options
        self._brokers = brokers
        self._admission = Admission(
            options.max_offsets_per_trigger, options.min_offsets_per_trigger, options.max_trigger_delay_ms
        )
        self._initial: SourceOffset | None = None
        # Partitions whose start would be another one if it were asked for again (`_moving_partitions`).
        self._moving: frozenset[TopicPartition] = frozenset()
        self._first_end: SourceOffset | None = None
        # The ends of `Trigger.AvailableNow`; None for a run that goes on.
        self._target: SourceOffset | None = None
        self._asked_for_initial = False
        self._last_end: SourceOffset | None = None
        # Partitions that have a place and that the last answer did not name.
        self._absent: frozenset[TopicPartition] = frozenset()
        self._forgotten: frozenset[TopicPartition] = frozenset()
        """Those that came back shorter than they were read, until no checkpoint has their places."""
        self._told: set[tuple[str, str]] = set()
        self.newest: SourceOffset | None = None
        """The ends seen by the last `next_end`, for progress reports."""

    def initial(self) -> SourceOffset:
        """Return the start of a new query. It is remembered, as batch 0 asks twice, and "latest" moves."""
        self._asked_for_initial = True
        return self._begin()

    def _begin(self) -> SourceOffset:
        if self._initial is None:
            initial = self._brokers.resolve(self._options.start, starting=True)
            self._moving = self._moving_partitions(initial.offsets)
            if self.newest is not None:
                # pyspark 4.1 asks for the end of batch 0 first.
                ends = self.newest.offsets
                offsets = {**initial.offsets}
                offsets |= {tp: min(offsets[tp], ends[tp]) for tp in self._moving & ends.keys()}
                initial = SourceOffset(offsets, initial.topic_ids)
            self._initial = initial
        return self._initial

    def aim_at_what_is_there(self) -> None:
        """Fix the ends of `Trigger.AvailableNow`: nothing that comes later is read by this run."""
        self._target = self._brokers.latest()

    def next_end(self, start: SourceOffset, *, unlimited: bool, now_ms: int) -> SourceOffset:
        """The end of the batch that begins at `start`; `start` itself if there is nothing to read yet.

        Args:
            unlimited: Spark wants all that is there, whatever the options say.
            now_ms: a monotonic clock, for `maxTriggerDelay`.

        Raises:
            DataLossError: a topic was made again since.
        """
        newest = self._newest(start)
        self.newest = newest
        self._report_recreated(start, newest)
        newest = self._with_absent(start, newest)
        begins = self._begins(start, newest)
        ends = dict(newest.offsets)
        first_batch = start == self._initial and self._first_end is None
        if not unlimited:
            admitted = self._admission.admit(begins, {tp: ends[tp] for tp in begins}, now_ms)
            if admitted is None:
                return start
            # What has no known beginning was deleted meanwhile; `ranges` reports it.
            ends |= admitted
        if first_batch:
            recreated = start.recreated(newest)
            ends |= {tp: start.offsets[tp] for tp in self._moving & ends.keys() if tp.topic not in recreated}
        # Where a broker tells no id (an older one among newer ones), the known one stays.
        ids = {**start.topic_ids, **newest.topic_ids}
        began = {tp: begins[tp] for tp in ends if tp in begins} if first_batch else {}
        end = SourceOffset(ends, {tp.topic: ids[tp.topic] for tp in ends if tp.topic in ids}, began)
        # Spark compares texts, and the end of the first batch says more than others.
        nothing_new = end.offsets == start.offsets and end.topic_ids == start.topic_ids
        return start if nothing_new and not first_batch else end

    def _newest(self, start: SourceOffset) -> SourceOffset:
        """The ends of all partitions, or those that this run aims at."""
        known_ends = self._present(start)
        if self._target is None:
            return self._brokers.latest(known_ends)
        if start.recreated(self._target) or known_ends.is_past(self._target):
            # The brokers that were asked before may have been the last to hear of it.
            self._target = self._brokers.latest(known_ends)
        return self._target

    def end_without_start(self) -> SourceOffset:
        """All that is there, for a Spark that does not say where the batch begins (pyspark 4.1).

        The first answer of a process may be the end of batch 0, and says where that would begin.
        """
        newest = self._brokers.latest(self._present(self._last_end) if self._last_end is not None else None)
        self.newest = newest
        if self._last_end is None:
            end = SourceOffset(newest.offsets, newest.topic_ids, self._began_before(newest.offsets))
        else:
            end = self._with_absent(self._last_end, newest)
            if (end.offsets, end.topic_ids) == (self._last_end.offsets, self._last_end.topic_ids):
                end = self._last_end
        self._last_end = end
        return end

    def _began_before(self, ends: Mapping[TopicPartition, int]) -> Offsets:
        """Return where batch 0 would begin if it ended at `ends`; nothing if it could not begin now."""
        try:
            begins = self._begin().offsets
        except (ValueError, OdradekError) as problem:
            # Of a query that has long begun; who begins one is told when Spark asks where.
            logger.info("where the query would begin is not known: %s", problem)
            return {}
        return {tp: min(begins[tp], end) for tp, end in ends.items() if tp in begins}

    def present(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        """Return `offsets` without those of partitions that are not there now."""
        return {tp: offset for tp, offset in offsets.items() if tp not in self._absent}

    def _present(self, place: SourceOffset) -> SourceOffset:
        """`place` without what is known to be absent: it is not waited for again at each trigger."""
        return SourceOffset(self.present(place.offsets), place.topic_ids)

    def _with_absent(self, start: SourceOffset, newest: SourceOffset) -> SourceOffset:
        """Return `newest` with the places of partitions that it lacks; see the head of this file.

        Raises:
            DataLossError: there are such, and that shall fail the query.
        """
        recreated = start.recreated(newest)
        absent = {tp for tp in start.offsets.keys() - newest.offsets.keys() if tp.topic not in recreated}
        if absent - self._absent:
            self._lost(
                f"Partitions {show(absent)} have been deleted, or may not be described any more. Their "
                "places are kept for the case that they come back."
            )
        self._look_at_returned(start, newest, self._absent - absent)
        self._absent = frozenset(absent)
        kept = {tp: start.offsets[tp] for tp in absent}
        ids = {tp.topic: start.topic_ids[tp.topic] for tp in kept if tp.topic in start.topic_ids}
        ends = {tp: end for tp, end in newest.offsets.items() if tp not in self._forgotten}
        if not kept and len(ends) == len(newest.offsets):
            return newest
        return SourceOffset({**ends, **kept}, {**ids, **newest.topic_ids})

    def _look_at_returned(
        self, start: SourceOffset, newest: SourceOffset, returned: Set[TopicPartition]
    ) -> None:
        """Find those of the partitions that are there again which are not what they were.

        Only of a query that goes on where data is lost: others have failed when a partition was missed.
        """
        self._forgotten &= start.offsets.keys()
        shorter = set()
        for tp in sorted(returned & start.offsets.keys() & newest.offsets.keys()):
            place, end = start.offsets[tp], newest.offsets[tp]
            if tp.topic in start.topic_ids:
                logger.warning("%s is there again", tp)
            elif end >= place:
                logger.warning(
                    "%s is there again, and is gone on with at %d. Its brokers tell no topic ids (before "
                    "Kafka 2.8): if it was deleted and made again, its first records are not read",
                    tp,
                    place,
                )
            else:
                self._lost(
                    f"Partition {tp} is there again and ends at {end}, but had been read up to {place}: it "
                    "was deleted and made again, or its log was cut. With failOnDataLoss=false it is read "
                    "from its beginning."
                )
                shorter.add(tp)
        self._forgotten |= shorter

    def ranges(self, start: SourceOffset, end: SourceOffset) -> list[OffsetRange]:
        """The tasks of the batch from `start` to `end`.

        Raises:
            DataLossError: offsets are gone.
        """
        if end.began and self._asked_for_initial and start == self._initial:
            return self._ranges_of_first_batch(start, end)
        first_batch = start == self._initial and self._first_end in (None, end)
        if first_batch:
            self._first_end = end
        if start == end:
            return []
        # The start of batch 0 is asked for anew after a crash, and then newer than its end.
        self._report_recreated(*((end, start) if first_batch else (start, end)))
        begins = self._begins(start, end)
        # What batch 0 does not know has come since it was first planned, and is read later.
        self._report_changed_partitions(end if first_batch else start, end, begins)
        recreated = start.recreated(end)
        ranges = []
        for tp in sorted(end.offsets.keys() & begins.keys()):
            begin, until = begins[tp], end.offsets[tp]
            if first_batch and tp in self._moving and (until < begin or tp.topic in recreated):
                continue
            if until < begin:
                self._lost(
                    f"Partition {tp} offset was changed from {begin} to {until}. This could either be a "
                    "user error that the start offset is set too high and this is the first batch, or the "
                    "topic was created anew."
                )
            ranges.append(OffsetRange(tp, begin, until, end.topic_ids.get(tp.topic, "")))
        return self._tasks(ranges)

    def _ranges_of_first_batch(self, start: SourceOffset, end: SourceOffset) -> list[OffsetRange]:
        """Return the tasks of batch 0, which begins where its end says that it began.

        `start` is where it would begin now. What is lost since is met by the tasks.
        """
        self._first_end = end
        self._report_recreated(end, start)
        return self._tasks(
            [
                OffsetRange(tp, begin, end.offsets[tp], end.topic_ids.get(tp.topic, ""))
                for tp, begin in sorted(end.began.items())
                if tp in end.offsets
            ]
        )

    def _tasks(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        if self._options.where is not None:
            ranges = self._options.where.narrowed(ranges)
        return split(ranges, self._options.min_partitions, self._options.max_records_per_partition)

    def _begins(self, start: SourceOffset, end: SourceOffset) -> Offsets:
        """Return the beginning of each partition of `end`: at `start`, or at its beginning if it is new."""
        recreated = start.recreated(end)
        begins = {
            tp: start.offsets[tp] for tp in end.offsets if tp in start.offsets and tp.topic not in recreated
        }
        new = [tp for tp in end.offsets if tp not in begins]
        if new:
            begins |= self._brokers.earliest(new)
        return begins

    def _report_recreated(self, old: SourceOffset, new: SourceOffset) -> None:
        for topic in sorted(old.recreated(new)):
            if (topic, new.topic_ids[topic]) not in self._told:
                self._lost(made_again(topic, old.topic_ids[topic], new.topic_ids[topic]))
                # Once, and not at every trigger that waits for more data.
                self._told.add((topic, new.topic_ids[topic]))

    def _report_changed_partitions(self, start: SourceOffset, end: SourceOffset, begins: Offsets) -> None:
        unknown = end.offsets.keys() - begins.keys()
        if unknown:
            self._lost(
                f"Cannot find initial offsets for partitions {show(unknown)}. They may have been deleted."
            )
        for tp in sorted(begins.keys() - start.offsets.keys()):
            if begins[tp] != 0:
                self._lost(f"Added partition {tp} starts from {begins[tp]} instead of 0.")
        recreated = start.recreated(end)
        deleted = {tp for tp in start.offsets.keys() - end.offsets.keys() if tp.topic not in recreated}
        if deleted:
            self._lost(f"Partitions {show(deleted)} have been deleted.")

    def _lost(self, reason: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(reason)
        logger.warning("some data may have been lost: %s", reason)

    def _moving_partitions(self, initial: Mapping[TopicPartition, int]) -> frozenset[TopicPartition]:
        """The partitions whose start would be another one if it were asked for again after a crash."""
        start = self._options.start
        if isinstance(start, Latest):
            return frozenset(initial)
        if isinstance(start, AtOffsets):
            return frozenset(tp for tp, offset in start.offsets.items() if offset == LATEST)
        if isinstance(start, AtTimestamp | AtTimestamps) and self._options.latest_if_no_match:
            ends = self._brokers.latest().offsets
            return frozenset(tp for tp, offset in initial.items() if offset >= ends.get(tp, 0))
        return frozenset()
