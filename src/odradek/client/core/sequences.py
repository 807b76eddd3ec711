"""The idempotent producer's memory: which sequence each partition gets next, and what to do when one is lost.

KIP-98 and KIP-360. Brokers write a batch only if its sequence follows the last one of (producer id, epoch) in
that partition, and remember five batches to recognise repeats. So a try that may have reached the log keeps
its sequence for ever. If a sequence is lost for good (a batch expired unacknowledged, or the broker forgot
the producer), the producer raises its epoch, by which the partition counts anew from 0.

Invariants: a partition's batches in flight are ordered by sequence and without gaps among themselves; a
batch of a new epoch is sent only when none of the old epoch is in flight, but for those rewritten to the
new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from odradek.client.core.batches import ProducerBatch
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode
from odradek.records.batch import NO_SEQUENCE

_MAX_EPOCH = 32_767
_FORGOTTEN = (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


class IdState(Enum):
    """Return whether there is a producer id."""

    NEEDED = auto()
    REQUESTED = auto()
    READY = auto()


@dataclass(slots=True)
class PartitionSequence:
    """One partition: next sequence, last one acknowledged, what is in flight, in order of sequence."""

    producer_id: int = -1
    producer_epoch: int = -1
    next: int = 0
    last_acked: int = NO_SEQUENCE
    last_acked_offset: int = -1
    in_flight: list[ProducerBatch] = field(default_factory=list)

    def restart(self, producer_id: int, producer_epoch: int) -> None:
        """Count anew from 0, what is in flight included."""
        sequence = 0
        for batch in self.in_flight:
            batch.reset_producer_state(producer_id, producer_epoch, sequence)
            sequence = (sequence + batch.count) & 0x7FFF_FFFF
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.next = sequence
        self.last_acked = NO_SEQUENCE


class Sequences:
    """The state of one idempotent producer.

    Args:
        transactional: epochs come from the coordinator alone (`id_received`). What would need a higher one
            fails the batch instead, and with it the transaction; `lost` tells when nothing less will do.
    """

    def __init__(self, *, transactional: bool = False) -> None:
        self._transactional = transactional
        self.state = IdState.NEEDED
        self.producer_id = -1
        self.producer_epoch = -1
        self._partitions: dict[TopicPartition, PartitionSequence] = {}
        self._unresolved: dict[TopicPartition, int] = {}
        self._to_rewrite: set[TopicPartition] = set()
        self.bump_wanted = False
        """Whether `apply_bump` has something to do."""

    # The producer id

    def id_requested(self) -> None:
        """InitProducerId is on its way."""
        self.state = IdState.REQUESTED

    def id_failed(self) -> None:
        """It failed; ask again."""
        self.state = IdState.NEEDED

    def id_received(self, producer_id: int, producer_epoch: int) -> None:
        """It came."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.state = IdState.READY
        if self._transactional:
            # Nothing is in flight between transactions.
            self._unresolved.clear()
        for tp in self._to_rewrite:
            self._restart(tp)
        self._to_rewrite.clear()

    def apply_bump(self) -> None:
        """Raise the epoch if that was asked for since the last call. Called between requests, never amid
        one.
        """
        if not self.bump_wanted or self.state is not IdState.READY:
            return
        self.bump_wanted = False
        if self.producer_epoch >= _MAX_EPOCH:
            # No epoch is left: a new id it must be. What is to be rewritten waits for it.
            self.producer_id = self.producer_epoch = -1
            self.state = IdState.NEEDED
            return
        self.producer_epoch += 1
        for tp in self._to_rewrite:
            self._restart(tp)
        self._to_rewrite.clear()

    def _restart(self, tp: TopicPartition) -> None:
        self._entry(tp).restart(self.producer_id, self.producer_epoch)
        self._unresolved.pop(tp, None)

    def _request_bump(self, tp: TopicPartition) -> None:
        self.bump_wanted = True
        self._to_rewrite.add(tp)

    # Sending

    def _entry(self, tp: TopicPartition) -> PartitionSequence:
        entry = self._partitions.get(tp)
        if entry is None:
            entry = self._partitions[tp] = PartitionSequence(self.producer_id, self.producer_epoch)
        return entry

    def may_send(self, batch: ProducerBatch) -> bool:
        """Return whether the first batch of a partition's queue may leave now."""
        if self.state is not IdState.READY or self.bump_wanted:
            return False
        entry = self._entry(batch.tp)
        if not batch.has_sequence:
            stale = (entry.producer_id, entry.producer_epoch) != (self.producer_id, self.producer_epoch)
            if entry.in_flight and stale:
                return False
            return batch.tp not in self._unresolved
        # A retry leaves only when it is the oldest unacknowledged one: in doubt, one at a time.
        return not entry.in_flight or entry.in_flight[0].base_sequence == batch.base_sequence

    def assign(self, batch: ProducerBatch) -> None:
        """Give a batch that leaves its sequence, if it has none yet."""
        if batch.has_sequence:
            return
        entry = self._entry(batch.tp)
        if (entry.producer_id, entry.producer_epoch) != (self.producer_id, self.producer_epoch):
            entry.restart(self.producer_id, self.producer_epoch)
        batch.set_producer_state(self.producer_id, self.producer_epoch, entry.next)
        entry.next = (entry.next + batch.count) & 0x7FFF_FFFF
        entry.in_flight.append(batch)

    def split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """`batch` is replaced by `parts`, which share its sequences."""
        entry = self._entry(batch.tp)
        if batch in entry.in_flight:
            at = entry.in_flight.index(batch)
            entry.in_flight[at : at + 1] = parts

    # Answers

    def acknowledged(self, batch: ProducerBatch, base_offset: int) -> None:
        """The batch is in the log."""
        entry = self._entry(batch.tp)
        self._remove(entry, batch)
        current = (batch.producer_id, batch.producer_epoch) == (entry.producer_id, entry.producer_epoch)
        first = entry.last_acked == NO_SEQUENCE
        if current and (first or not _at_or_before(batch.last_sequence, entry.last_acked)):
            entry.last_acked = batch.last_sequence
        if base_offset >= 0:
            entry.last_acked_offset = max(entry.last_acked_offset, base_offset + batch.count - 1)

    def failed(self, batch: ProducerBatch, code: ErrorCode, *, retries_left: bool) -> None:
        """The batch is given up after an answer.

        Args:
            retries_left: the broker refused for good, so that the sequences after it can be closed up; if
                instead the tries ran out, it is not known whether the batch was written.
        """
        entry = self._entry(batch.tp)
        self._remove(entry, batch)
        if code == ErrorCode.UNKNOWN_PRODUCER_ID:
            entry.next, entry.last_acked = 0, NO_SEQUENCE
            self._unresolved.pop(batch.tp, None)
        elif self._transactional:
            if batch.attempts:
                # An earlier try may have been written: the same sequence cannot stand for other records.
                self._mark_unresolved(batch)
            elif retries_left:
                self._close_up(entry, batch)
        elif code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or retries_left:
            self._request_bump(batch.tp)

    def expired(self, batch: ProducerBatch) -> None:
        """The batch ran out of time. If it ever left, nobody knows whether it was written."""
        if not batch.has_sequence:
            return
        self._remove(self._entry(batch.tp), batch)
        self._mark_unresolved(batch)

    def _mark_unresolved(self, batch: ProducerBatch) -> None:
        after = (batch.last_sequence + 1) & 0x7FFF_FFFF
        self._unresolved[batch.tp] = max(self._unresolved.get(batch.tp, 0), after)

    @staticmethod
    def _close_up(entry: PartitionSequence, refused: ProducerBatch) -> None:
        """The sequences after a batch that was surely not written take its place."""
        for batch in entry.in_flight:
            if _at_or_before(refused.base_sequence, batch.base_sequence):
                sequence = (batch.base_sequence - refused.count) & 0x7FFF_FFFF
                batch.reset_producer_state(batch.producer_id, batch.producer_epoch, sequence)
        entry.next = (entry.next - refused.count) & 0x7FFF_FFFF

    def resolve(self) -> set[TopicPartition]:
        """Settle partitions with an expired batch once nothing of theirs is in flight any more.

        Returns: of a transactional producer, those whose sequences are lost; a higher epoch is needed.
        """
        lost = set()
        for tp in list(self._unresolved):
            entry = self._entry(tp)
            if entry.in_flight:
                continue
            del self._unresolved[tp]
            if not self._is_next(entry, entry.next):
                if self._transactional:
                    lost.add(tp)
                else:
                    self._request_bump(tp)
        return lost

    def can_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Return whether the same records may be sent again after an error; may ask for an epoch bump."""
        if code not in _FORGOTTEN:
            return code.retriable
        entry = self._entry(batch.tp)
        if self._transactional:
            return self._can_retry_in_transaction(entry, batch, code, log_start_offset)
        if code == ErrorCode.UNKNOWN_PRODUCER_ID:
            # Without a log start offset the broker was losing the partition as it answered; a batch that was
            # rewritten meanwhile has been dealt with.
            if log_start_offset != -1 and not batch.sequence_was_reset:
                self._request_bump(batch.tp)
            return True
        unresolved = self._unresolved.get(batch.tp)
        if unresolved is None:
            # If it is not the next one, those before it are yet to be dealt with.
            lost = self._is_next(entry, batch.base_sequence) and not batch.sequence_was_reset
        else:
            lost = unresolved == batch.base_sequence
        if lost:
            self._request_bump(batch.tp)
        return True

    def _can_retry_in_transaction(
        self, entry: PartitionSequence, batch: ProducerBatch, code: ErrorCode, log_start_offset: int
    ) -> bool:
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            later = batch.sequence_was_reset or not self._is_next(entry, batch.base_sequence)
            return batch.tp not in self._unresolved and later
        if log_start_offset == -1 or batch.sequence_was_reset:
            return True
        if entry.last_acked_offset < log_start_offset:
            # Retention took all that the broker knew the producer by: it counts from 0 again, as we do then.
            entry.restart(entry.producer_id, entry.producer_epoch)
            return True
        return False

    def surely_written(self, batch: ProducerBatch) -> bool:
        """Return whether a later batch of the same epoch was acknowledged: then the log has this one, too."""
        entry = self._entry(batch.tp)
        same = (batch.producer_id, batch.producer_epoch) == (entry.producer_id, entry.producer_epoch)
        known = entry.last_acked != NO_SEQUENCE and not batch.sequence_was_reset
        return same and known and _at_or_before(batch.last_sequence, entry.last_acked)

    @staticmethod
    def _is_next(entry: PartitionSequence, sequence: int) -> bool:
        return sequence == ((entry.last_acked + 1) & 0x7FFF_FFFF if entry.last_acked != NO_SEQUENCE else 0)

    @staticmethod
    def _remove(entry: PartitionSequence, batch: ProducerBatch) -> None:
        if batch in entry.in_flight:
            entry.in_flight.remove(batch)

    def in_flight(self, tp: TopicPartition) -> list[ProducerBatch]:
        """Return the batches of a partition that were sent and not acknowledged, in order of sequence."""
        return list(self._entry(tp).in_flight)


def _at_or_before(a: int, b: int) -> bool:
    """Return whether sequence `a` is `b` or comes before it; they wrap at 2^31, so their distance tells."""
    return ((b - a) & 0x7FFF_FFFF) < 0x4000_0000
