"""Runs commands on shards, and makes answers wait for the log.

    load ──► Loading ──all replayed──► Active ──► unload
                └──a record cannot be read──► Failed

One shard per partition of the topic. Requests for a shard that is Loading are answered
COORDINATOR_LOAD_IN_PROGRESS, for a shard that is Failed or not here NOT_COORDINATOR.

A command runs to its end before the next command starts. Its records are appended as one batch: if that fails
nothing has changed, and the client is told. If it succeeds the records are replayed at once, so that the next
command sees them, but *no answer leaves before everything appended so far is committed* (has been passed by
the high watermark): nobody learns of a state that the log could still lose. Without anything waiting for
commit, which is the rule on a single broker, answers leave at once. The same holds for what has been loaded:
a new leader replays its log to the end, and tells of it when the in-sync replicas have all of that.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Generic, Protocol, TypeVar

from odradek.coordinators.append_errors import seen_by_client
from odradek.coordinators.loader import replay_chunks
from odradek.coordinators.outcome import CoordinatorRecord, Outcome
from odradek.coordinators.reply import Reply
from odradek.errors import (
    CoordinatorLoadInProgressError,
    ErrorCode,
    KafkaError,
    NotCoordinatorError,
    OdradekError,
    RecordTooLargeError,
)
from odradek.records.batch import NO_PRODUCER_ID
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Buffer, Codec
from odradek.util.clock import Clock
from odradek.util.repeats import Repeats
from odradek.util.timers import TimerHandle, Timers

logger = logging.getLogger("odradek.coordinators")

R = TypeVar("R")
DeferredResponse = tuple[Reply[object], object]
"""A reply, and the response that it gets once everything appended so far is committed."""


class RecordLog(Protocol):
    """The partitions of the coordinator's topic; the broker fulfils it."""

    def append(self, topic: str, partition: int, batches: bytes, on_committed: Callable[[], None]) -> int:
        """Append one batch, as the partition's leader, to be committed by all in-sync replicas.

        Args:
            topic: the coordinator's topic.
            partition: which of its partitions.
            batches: one record batch; its base offset is given by the log.
            on_committed: called once the high watermark has passed the batch, perhaps before this returns;
                never if leadership is lost before.

        Returns:
            The offset of the batch's first record.

        Raises:
            KafkaError: nothing was appended.
        """
        ...

    def when_committed(self, topic: str, partition: int, on_committed: Callable[[], None]) -> None:
        """Call `on_committed` once what the partition has now is committed; see `append`."""
        ...

    def max_batch_bytes(self, topic: str, partition: int) -> int:
        """The largest batch that `append` takes."""
        ...

    def read_all(self, topic: str, partition: int) -> Iterator[Buffer]:
        """The whole partition from its log start to its end, as chunks of whole batches."""
        ...


class Shard(Protocol):
    """One partition's state."""

    def replay_bytes(self, offset: int, producer_id: int, key: bytes | None, value: bytes | None) -> None:
        """Apply a record of the log."""
        ...

    def replay(self, offset: int, producer_id: int, key: object, value: object) -> None:
        """Apply a record that has just been appended."""
        ...

    def replay_end_of_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply the end of a producer's transaction."""
        ...

    def on_loaded(self) -> Outcome:
        """Everything has been replayed; the shard comes alive."""
        ...

    def on_unloaded(self) -> None:
        """The shard goes; whoever waits is to be answered."""
        ...


S = TypeVar("S", bound=Shard)


class ShardState(Enum):
    """The stages of a shard's life."""

    LOADING = "Loading"
    ACTIVE = "Active"
    FAILED = "Failed"


class _Waiting:
    """Answers that wait until what was appended before them is committed.

    Attributes:
        sequence: of the last append before them; they leave once no append up to it is uncommitted.
        answers: in the order in which their commands ran.
        timer: makes them errors when the commit takes too long.
    """

    __slots__ = ("answers", "sequence", "timer")

    def __init__(self, sequence: int, answers: list[DeferredResponse], timer: TimerHandle) -> None:
        self.sequence = sequence
        self.answers = answers
        self.timer = timer


class _Slot(Generic[S]):
    __slots__ = ("appended", "ended", "epoch", "outbox", "shard", "state", "uncommitted", "waiting")

    def __init__(self, shard: S, outbox: list[DeferredResponse], epoch: int) -> None:
        self.shard = shard
        # Filled by commands and by the shard, empty between two commands: `_flush` takes all of it.
        self.outbox = outbox
        self.epoch = epoch
        self.state = ShardState.LOADING
        # Appends of this slot are numbered; this is the number of the last.
        self.appended = 0
        # The numbers of appends that the high watermark has not passed. None is above `appended`, unless
        # an append is being made.
        self.uncommitted: set[int] = set()
        # Their `sequence` never falls, so that the first is always the next to leave.
        self.waiting: deque[_Waiting] = deque()
        # Transactions that ended behind what is being loaded: producer id, and whether committed. Empty
        # unless Loading.
        self.ended: list[tuple[int, bool]] = []


class CoordinatorRuntime(Generic[S]):
    """The shards of one internal topic that this broker leads.

    Args:
        topic: the internal topic.
        log: its partitions.
        clock: the time.
        timers: for the bound on waiting for commits, and to load in pieces.
        new_shard: makes the empty shard of a partition, and the list in which it leaves answers.
        commit_timeout_ms: how long an answer waits for the commit before it becomes an error.
        codec: how the records are compressed.
    """

    def __init__(
        self,
        *,
        topic: str,
        log: RecordLog,
        clock: Clock,
        timers: Timers,
        new_shard: Callable[[int], tuple[S, list[DeferredResponse]]],
        commit_timeout_ms: int,
        codec: Codec = Codec.NONE,
    ) -> None:
        self.topic = topic
        self._log = log
        self._clock = clock
        self._timers = timers
        self._new_shard = new_shard
        self._commit_timeout_ms = commit_timeout_ms
        self._codec = codec
        self.on_unasked: Callable[[], object] | None = None
        """Called when something was done that nobody has asked for: what was due, or what was loaded."""
        self._slots: dict[int, _Slot[S]] = {}
        self._repeats = Repeats(logger, lambda: clock.monotonic_ms() / 1000)

    # Life of a shard

    def load(self, partition: int, leader_epoch: int) -> None:
        """Take a partition over, as its leader; what is known of it from before is dropped.

        An older epoch than that of the loaded shard changes nothing.
        """
        present = self._slots.get(partition)
        if present is not None:
            if leader_epoch < present.epoch:
                return
            # In one epoch nobody else has written: the shard is what the log says. A failed shard loads
            # again.
            if leader_epoch == present.epoch and present.state is not ShardState.FAILED:
                return
            self.unload(partition, leader_epoch)
        shard, outbox = self._new_shard(partition)
        slot = self._slots[partition] = _Slot(shard, outbox, leader_epoch)
        self._load_further(
            partition, slot, replay_chunks(shard, self._log.read_all(self.topic, partition)), 0
        )

    def _load_further(self, partition: int, slot: _Slot[S], steps: Iterator[int], records: int) -> None:
        # Given up, or taken over in a newer epoch, between two pieces.
        if self._slots.get(partition) is not slot:
            return
        try:
            step = next(steps, None)
            if step is None:
                self._wait_for_what_is_there(partition, slot)
        except (OdradekError, OSError) as error:
            # Not served with what could be read: a missing record would be a forgotten offset, or a zombie's
            # transaction that nobody fences.
            slot.state = ShardState.FAILED
            logger.error("%s-%d cannot be loaded: %s", self.topic, partition, error)
            return
        if step is None:
            slot.state = ShardState.ACTIVE
            for producer_id, committed in slot.ended:
                slot.shard.replay_end_of_transaction(producer_id, committed=committed)
            slot.ended.clear()
            if records:
                logger.info("%s-%d: loaded %d records", self.topic, partition, records)
            self._execute(partition, slot, "load", slot.shard.on_loaded, None)
            return
        # Others get their turn between two chunks.
        self._timers.call_later(0, lambda: self._load_further(partition, slot, steps, records + step))

    def unload(self, partition: int, leader_epoch: int | None = None) -> None:
        """Give a partition up; everybody who waits is told NOT_COORDINATOR.

        Args:
            partition: which.
            leader_epoch: of the leader that follows; an epoch older than that of the loaded shard changes
                nothing. `None`: in any case.
        """
        slot = self._slots.get(partition)
        if slot is None or (leader_epoch is not None and leader_epoch < slot.epoch):
            return
        # First: whoever is answered below may ask again at once, and must not find this slot.
        del self._slots[partition]
        slot.shard.on_unloaded()
        answers, slot.outbox[:] = list(slot.outbox), []
        for waiting in slot.waiting:
            waiting.timer.cancel()
            for reply, _ in waiting.answers:
                reply.fail(ErrorCode.NOT_COORDINATOR)
        slot.waiting.clear()
        # `on_unloaded` has left these, for those who waited in the shard.
        for reply, response in answers:
            reply.answer(response)

    def unload_all(self) -> None:
        """Give all partitions up, for a broker that stops."""
        for partition in tuple(self._slots):
            self.unload(partition)

    def state(self, partition: int) -> ShardState | None:
        """Return the stage of the partition's shard; `None` if it is not here."""
        slot = self._slots.get(partition)
        return None if slot is None else slot.state

    def partitions(self) -> list[int]:
        """The partitions whose shards are here, in whatever state."""
        return list(self._slots)

    def shard(self, partition: int) -> S:
        """The partition's shard, for reading.

        Raises:
            CoordinatorLoadInProgressError: it is being loaded.
            NotCoordinatorError: it is not here, or could not be loaded.
        """
        return self._active(partition).shard

    def _active(self, partition: int) -> _Slot[S]:
        slot = self._slots.get(partition)
        if slot is None or slot.state is ShardState.FAILED:
            raise NotCoordinatorError
        if slot.state is ShardState.LOADING:
            raise CoordinatorLoadInProgressError
        return slot

    def transaction_ended(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """Somebody else has appended a transaction's marker to a partition; to be called at once.

        What the transaction wrote counts from now on, or never; whoever asks for it is answered when the
        marker is committed.
        """
        slot = self._slots.get(partition)
        if slot is None or slot.state is ShardState.FAILED:
            return
        if slot.state is ShardState.LOADING:
            # What is being loaded ends where the log ended when that began.
            slot.ended.append((producer_id, committed))
            return
        slot.shard.replay_end_of_transaction(producer_id, committed=committed)
        # The marker is appended, not committed: a fetch of offsets must not tell of it before.
        self._wait_for_what_is_there(partition, slot)

    def _wait_for_what_is_there(self, partition: int, slot: _Slot[S]) -> None:
        """Make the answers that follow wait until all that the partition has now is committed."""
        slot.appended = sequence = slot.appended + 1
        slot.uncommitted.add(sequence)
        self._log.when_committed(self.topic, partition, lambda: self._committed(slot, sequence))

    # Commands

    def run(
        self, partition: int, name: str, command: Callable[[S], Outcome], reply: Reply[R] | None = None
    ) -> None:
        """Run a command on a partition's shard.

        Args:
            partition: whose.
            name: of the command, for the log.
            command: decides, and changes nothing that its records depend on.
            reply: gets the outcome's response, or the error that the command or the log raised; None where
                nobody asked.
        """
        try:
            slot = self._active(partition)
        except KafkaError as error:
            if reply is not None:
                reply.fail(error.code)
            return
        shard = slot.shard
        self._execute(partition, slot, name, lambda: command(shard), reply)

    def _execute(
        self,
        partition: int,
        slot: _Slot[S],
        name: str,
        command: Callable[[], Outcome],
        reply: Reply[R] | None,
    ) -> None:
        try:
            outcome: Outcome | None = command()
            # What `on_appended` and `on_failed` decide may have records of its own.
            while outcome is not None:
                if outcome.response is not None and not outcome.records:
                    self._leave(slot, reply, outcome.response)
                    break
                outcome = self._write(partition, slot, outcome, reply) if outcome.records else None
        except KafkaError as error:
            self._fail(slot, reply, error.code)
        # A mistake in one command is answered, and the shard goes on: other groups depend on it.
        except Exception as error:
            self._repeats.log(
                logging.ERROR,
                (name, type(error)),
                "%s on %s-%d failed",
                name,
                self.topic,
                partition,
                exc_info=error,
            )
            self._fail(slot, reply, ErrorCode.UNKNOWN_SERVER_ERROR)
        self._flush(slot)
        if reply is None and self.on_unasked is not None:
            self.on_unasked()

    def _write(
        self, partition: int, slot: _Slot[S], outcome: Outcome, reply: Reply[R] | None
    ) -> Outcome | None:
        """Append and replay an outcome's records; returns what follows."""
        try:
            producer_id = NO_PRODUCER_ID if outcome.producer is None else outcome.producer.producer_id
            for batch, records in self._batches(partition, outcome):
                self._append(partition, slot, batch, records, producer_id)
        except KafkaError as error:
            code = seen_by_client(error.code)
            self._repeats.log(
                logging.WARNING,
                (partition, error.code),
                "%s-%d: append failed: %s",
                self.topic,
                partition,
                error.code.name,
            )
            then = outcome.on_failed(code) if outcome.on_failed is not None else None
            if then is None or then.response is None:
                self._fail(slot, reply, code)
            return then
        # After the replay, so that it finds the durable state as its records have made it.
        then = outcome.on_appended() if outcome.on_appended is not None else None
        if outcome.response is not None:
            self._leave(slot, reply, outcome.response)
        return then

    def _batches(self, partition: int, outcome: Outcome) -> Iterator[tuple[bytes, list[CoordinatorRecord]]]:
        limit = self._log.max_batch_bytes(self.topic, partition)
        now_ms = self._clock.now_ms()
        builder = self._builder(outcome)
        inside: list[CoordinatorRecord] = []
        for record in outcome.records:
            key, value = record.encode()
            # An atomic outcome is never spread: half of it could be committed, and the other half lost.
            if inside and not outcome.atomic and builder.size_with(key, value) > limit:
                yield builder.build(), inside
                builder, inside = self._builder(outcome), []
            builder.append(now_ms, key, value)
            inside.append(record)
        batch = builder.build()
        if len(batch) > limit:
            raise RecordTooLargeError(f"a batch of {len(batch)} bytes for {self.topic}-{partition}")
        yield batch, inside

    def _builder(self, outcome: Outcome) -> BatchBuilder:
        producer = outcome.producer
        if producer is None:
            return BatchBuilder(codec=self._codec)
        # As Kafka's: the sequence says nothing, a coordinator's are not checked.
        return BatchBuilder(
            codec=self._codec,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            transactional=True,
        )

    def _append(
        self,
        partition: int,
        slot: _Slot[S],
        batch: bytes,
        records: list[CoordinatorRecord],
        producer_id: int,
    ) -> None:
        # Before the append, as `on_committed` may be called from within.
        sequence = slot.appended + 1
        slot.uncommitted.add(sequence)
        try:
            base_offset = self._log.append(
                self.topic, partition, batch, lambda: self._committed(slot, sequence)
            )
        except BaseException:
            slot.uncommitted.discard(sequence)
            raise
        slot.appended = sequence
        # Before the commit: the next command has to see what this command decided, or both could decide the
        # same.
        for at, record in enumerate(records):
            slot.shard.replay(base_offset + at, producer_id, record.key, record.value)

    # Answers

    def _leave(self, slot: _Slot[S], reply: Reply[R] | None, response: object) -> None:
        if reply is not None:
            slot.outbox.append((reply, response))  # type: ignore[arg-type]

    def _fail(self, slot: _Slot[S], reply: Reply[R] | None, code: ErrorCode) -> None:
        if reply is not None:
            # Errors tell nothing that the log could still lose, but keep their turn.
            slot.outbox.append((reply, reply.error_response(code)))  # type: ignore[arg-type]

    def _flush(self, slot: _Slot[S]) -> None:
        if not slot.outbox:
            return
        answers, slot.outbox[:] = list(slot.outbox), []
        # Also behind answers that wait: the answers to one member must not overtake each other.
        if not slot.uncommitted and not slot.waiting:
            for reply, response in answers:
                reply.answer(response)
            return
        waiting = _Waiting(slot.appended, answers, _UNSET)
        waiting.timer = self._timers.call_later(
            self._commit_timeout_ms, lambda: self._commit_time_is_up(slot, waiting)
        )
        slot.waiting.append(waiting)

    def _committed(self, slot: _Slot[S], sequence: int) -> None:
        slot.uncommitted.discard(sequence)
        # Not `sequence` itself: purgatories may tell of a later append before an earlier one.
        first_uncommitted = min(slot.uncommitted, default=None)
        while slot.waiting and (first_uncommitted is None or slot.waiting[0].sequence < first_uncommitted):
            waiting = slot.waiting.popleft()
            waiting.timer.cancel()
            for reply, response in waiting.answers:
                reply.answer(response)

    def _commit_time_is_up(self, slot: _Slot[S], waiting: _Waiting) -> None:
        slot.waiting.remove(waiting)
        # The append stays in `uncommitted`: it may still be committed, and what follows must wait for it.
        code = seen_by_client(ErrorCode.REQUEST_TIMED_OUT)
        for reply, _ in waiting.answers:
            reply.fail(code)


class _Unset:
    def cancel(self) -> None:
        """Nothing is set."""


_UNSET = _Unset()
