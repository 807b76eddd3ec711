# compiled: mypyc
"""The idempotent and transactional producers of a partition, as its log knows them (KIP-98).

For each producer id: its epoch, its last five batches, and the transaction that it has open. By the batches a
gap is refused, and a batch that is sent again is answered with the offsets that it got the first time. The
rules are those of Kafka's ProducerStateManager and ProducerAppendInfo since 2.5 (KIP-360): a producer that is
not known may begin at any sequence, because its records may have been deleted.
"""

from __future__ import annotations

import logging
from enum import Enum
from heapq import nsmallest
from typing import TYPE_CHECKING, Final, NamedTuple, final

from odradek.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from odradek.log.producers.verification import Verifications
from odradek.records.batch import CONTROL_BIT, NO_SEQUENCE, TRANSACTIONAL_BIT, BatchHeader
from odradek.records.control import ControlType, EndTransactionMarker
from odradek.wire.epochs import NO_EPOCH

if TYPE_CHECKING:
    from odradek.log.producers.producer_bounds import ProducerBounds
    from odradek.records.validate import AcceptedBatch

logger = logging.getLogger(__name__)

BATCHES_KEPT: Final = 5
"""An idempotent producer has at most five requests under way, any of which it may send again. Kafka:
`ProducerStateEntry.NUM_BATCHES_TO_RETAIN`."""

LATE_TRANSACTION_BUFFER_MS = 5 * 60 * 1000
"""Kafka: `ProducerStateManager.LATE_TRANSACTION_BUFFER_MS`."""

NO_OFFSET: Final = -1
_SEQUENCE_MASK: Final = 0x7FFF_FFFF
_NO_SEQUENCE: Final = NO_SEQUENCE
_TRANSACTIONAL: Final = TRANSACTIONAL_BIT
_NOT_PLAIN: Final = CONTROL_BIT | TRANSACTIONAL_BIT


class Origin(Enum):
    """The writer of an append, by which is decided what is checked (`AppendOrigin`)."""

    CLIENT = "client"
    # Its batches have no sequences: markers, and offsets that a transaction commits.
    COORDINATOR = "coordinator"
    # Also what is replayed from the own log: it was checked when it was appended first.
    REPLICATION = "replication"


@final
class BatchMetadata:
    """One appended batch of a producer; `timestamp` is the batch's largest."""

    __slots__ = ("last_offset", "last_sequence", "offset_delta", "timestamp")

    def __init__(self, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> None:
        self.last_sequence = last_sequence
        self.last_offset = last_offset
        self.offset_delta = offset_delta
        self.timestamp = timestamp

    def _fields(self) -> tuple[int, int, int, int]:
        return self.last_sequence, self.last_offset, self.offset_delta, self.timestamp

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BatchMetadata) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"BatchMetadata{self._fields()}"

    def is_same(self, other: BatchMetadata) -> bool:
        """Return whether both end with the same sequence and offset."""
        return self.last_sequence == other.last_sequence and self.last_offset == other.last_offset

    @classmethod
    def of(cls, header: BatchHeader) -> BatchMetadata:
        """Return what is kept of a batch."""
        base_offset, delta, base_sequence = header.base_offset, header.last_offset_delta, header.base_sequence
        last_sequence = (
            NO_SEQUENCE if base_sequence == NO_SEQUENCE else (base_sequence + delta) & _SEQUENCE_MASK
        )
        return cls(last_sequence, base_offset + delta, delta, header.max_timestamp)

    @property
    def first_sequence(self) -> int:
        """The first record's sequence; sequences wrap from 2^31-1 to 0."""
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MASK

    @property
    def first_offset(self) -> int:
        """The first record's offset."""
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """The state of one producer id.

    `txn_first_offset` is -1 while it has no transaction open. `last_offset` is that of its last batch or
    marker; -1 if that is not known any more. `epoch` goes down only by the replay of a log that says so.
    `batches` are of this epoch, at most `BATCHES_KEPT`, the newest last.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_offset",
        "last_timestamp",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = -1,
        txn_first_offset: int = NO_OFFSET,
        last_batch: BatchMetadata | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.txn_first_offset = txn_first_offset
        # Not a deque, which takes 760 bytes however few are in it: most producers write one batch.
        self.batches: tuple[BatchMetadata, ...] = () if last_batch is None else (last_batch,)
        self.last_offset = NO_OFFSET if last_batch is None else last_batch.last_offset

    @property
    def last_batch(self) -> BatchMetadata | None:
        """The newest batch, if any is known in this epoch."""
        return self.batches[-1] if self.batches else None

    @property
    def last_sequence(self) -> int:
        """The newest batch's last sequence, -1 if none is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """The batch of the same epoch and sequences, if it is among the last five."""
        # A new epoch begins its sequences at 0 again: equal numbers are no duplicates across epochs.
        if header.producer_epoch != self.epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last and batch.first_sequence == first:
                return batch
        return None

    def set_epoch(self, epoch: int) -> None:
        """Move to the epoch, in which sequences begin anew."""
        if self.epoch != epoch:
            self.epoch = epoch
            self.batches = ()

    def add(self, batch: BatchMetadata) -> None:
        """Keep a batch that was appended, and forget the oldest of too many."""
        self.last_offset = batch.last_offset
        self.batches = (*self.batches[1 - BATCHES_KEPT :], batch)


class CompletedTxn(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerState:
    """All producers of one partition. Touches no files: `producer_snapshots` keeps it on the disk.

    Attributes: `entries`, by producer id; `end_offset`: the state is that after all records below it;
    `verifications`: of whom a transaction coordinator is being asked; `bounds`: told of every new id.
    """

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.end_offset = 0
        self.verifications = Verifications()
        self.bounds: ProducerBounds | None = None
        self._ongoing: dict[int, int] = {}
        """Open transactions: first offset to producer id. Between appends these are the entries with a
        `txn_first_offset`; `complete` takes out what a marker has ended."""
        self._unreplicated: dict[int, int] = {}
        """Ended transactions whose marker is not below the high watermark yet: first to last offset."""

    def clear(self) -> None:
        """Forget all producers."""
        self.entries.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.verifications.clear()

    def load(self, entry: ProducerEntry) -> None:
        """Take over what a snapshot says."""
        self.entries[entry.producer_id] = entry
        if entry.txn_first_offset >= 0:
            self._ongoing[entry.txn_first_offset] = entry.producer_id

    def has_late_transaction(self, now_ms: int, longest_ms: int) -> bool:
        """Return whether the oldest open transaction was silent for five minutes more than any may take.

        Its coordinator should have ended it: it hangs, or the coordinator does (KIP-664).

        Args:
            now_ms: epoch ms.
            longest_ms: `transaction.max.timeout.ms`.
        """
        if not self._ongoing:
            return False
        # The first to begin is the one that holds the last stable offset back.
        since_ms = self.entries[self._ongoing[min(self._ongoing)]].last_timestamp
        return since_ms > 0 and now_ms - since_ms > longest_ms + LATE_TRANSACTION_BUFFER_MS

    # Before an append.

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """The same batch, appended before, if it was one of the producer's last five."""
        entry = self.entries.get(header.producer_id)
        return entry.find_duplicate(header) if entry is not None else None

    def is_next(self, batch: AcceptedBatch) -> bool:
        """True where `find_duplicate` certainly finds nothing and `check` certainly does not object: for the
        usual batch of a producer that goes on, without transactions or within its open transaction."""
        entry = self.entries.get(batch.producer_id)
        return (
            entry is not None
            and entry.epoch == batch.producer_epoch
            and (entry.txn_first_offset < 0 or batch.attributes & _TRANSACTIONAL != 0)
            and len(entry.batches) > 0
            and batch.base_sequence == (entry.batches[-1].last_sequence + 1) & _SEQUENCE_MASK
        )

    def in_transaction(self, producer_id: int, epoch: int | None = None) -> bool:
        """Return whether the producer has a transaction open here; with an epoch, in that epoch."""
        entry = self.entries.get(producer_id)
        if entry is None or entry.txn_first_offset < 0:
            return False
        return epoch is None or entry.epoch == epoch

    def check(self, header: BatchHeader, origin: Origin) -> None:
        """Check whether a data batch may come next; nothing is changed.

        Raises:
            InvalidProducerEpochError: the epoch was superseded.
            OutOfOrderSequenceError: there is a gap.
            InvalidTxnStateError: a plain batch within a transaction.
        """
        entry = self.entries.get(header.producer_id)
        # Whatever was known of this producer may have gone with retention, so nothing can be held against it
        # (KIP-360).
        if entry is None:
            return
        epoch = header.producer_epoch
        # A zombie: an instance that was fenced by a newer instance (KIP-98).
        if epoch < entry.epoch:
            raise InvalidProducerEpochError(
                f"epoch {epoch} of producer {header.producer_id} is below the last one seen, {entry.epoch}"
            )
        # A follower takes what its leader has taken, and a coordinator's sequences say nothing.
        if origin is Origin.CLIENT:
            _check_sequence(entry, header)
        if entry.txn_first_offset >= 0 and not header.is_transactional:
            raise InvalidTxnStateError(
                f"producer {header.producer_id} has a transaction open since offset "
                f"{entry.txn_first_offset} and wrote a batch outside of it"
            )

    def check_marker(self, header: BatchHeader, marker: EndTransactionMarker) -> None:
        """Check whether a transaction marker may come next; nothing is changed.

        Raises:
            InvalidProducerEpochError: the epoch was superseded.
            TransactionCoordinatorFencedError: the coordinator's epoch was.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return
        # The same epoch is right: only since KIP-890 a transaction's end raises it.
        if header.producer_epoch < entry.epoch:
            raise InvalidProducerEpochError(
                f"epoch {header.producer_epoch} of producer {header.producer_id} is below the last one "
                f"seen, {entry.epoch}"
            )
        # Of a coordinator that does not know yet that another broker has its partition: its decision is
        # stale.
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"coordinator epoch {marker.coordinator_epoch} of producer {header.producer_id} is below "
                f"the last one seen, {entry.coordinator_epoch}"
            )

    # After an append.

    def append(self, header: BatchHeader, marker: EndTransactionMarker | None) -> CompletedTxn | None:
        """Take note of an appended batch of a producer, of its marker if it is a control batch.

        Returns the transaction that it ended; `complete` is then due.
        """
        producer_id, attributes, base_offset = header.producer_id, header.attributes, header.base_offset
        if attributes & CONTROL_BIT:
            entry = self._entry(producer_id)
            # The transaction that was asked about is over: a batch that comes late has to ask again
            # (KIP-890).
            if self.verifications:
                self.verifications.end(producer_id)
            # The cleaner leaves a control batch empty once its transaction is gone.
            return self._append_marker(entry, header, marker) if marker is not None else None
        self._append_data(
            producer_id, header.producer_epoch, attributes, base_offset, BatchMetadata.of(header)
        )
        return None

    def append_batch(self, batch: AcceptedBatch, base_offset: int) -> None:
        """Do what `append` does, for a batch that a client has sent, which is at that offset now."""
        delta, base_sequence = batch.last_offset_delta, batch.base_sequence
        last_sequence = (
            _NO_SEQUENCE if base_sequence == _NO_SEQUENCE else (base_sequence + delta) & _SEQUENCE_MASK
        )
        self._append_data(
            batch.producer_id,
            batch.producer_epoch,
            batch.attributes,
            base_offset,
            BatchMetadata(last_sequence, base_offset + delta, delta, batch.max_timestamp),
        )

    def _entry(self, producer_id: int) -> ProducerEntry:
        """Return the entry of a producer, a new entry where the producer is not known."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
            if self.bounds is not None:
                self.bounds.joined(self, producer_id)
        return entry

    def _append_data(
        self, producer_id: int, epoch: int, attributes: int, base_offset: int, batch: BatchMetadata
    ) -> None:
        entry = self._entry(producer_id)
        entry.set_epoch(epoch)
        entry.add(batch)
        entry.last_timestamp = batch.timestamp
        if attributes & _TRANSACTIONAL and entry.txn_first_offset < 0:
            # Asked once per transaction: from here on the open transaction itself says that it is known.
            if self.verifications:
                self.verifications.end(producer_id)
            entry.txn_first_offset = base_offset
            self._ongoing[base_offset] = producer_id

    def _append_marker(
        self, entry: ProducerEntry, header: BatchHeader, marker: EndTransactionMarker
    ) -> CompletedTxn | None:
        completed = None
        if entry.txn_first_offset >= 0:
            aborted = marker.control_type is ControlType.ABORT
            completed = CompletedTxn(entry.producer_id, entry.txn_first_offset, header.base_offset, aborted)
        # May be higher than that of the records: where a coordinator aborts, it fences their producer.
        entry.set_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        entry.last_offset = header.base_offset
        entry.txn_first_offset = NO_OFFSET
        return completed

    def complete(self, txn: CompletedTxn) -> int:
        """Take note of a transaction's end. Returns the last stable offset that its marker brings about."""
        # As if the marker were committed already. It goes into the transaction index, where it tells a search
        # at which entry to stop (`TxnIndex.collect`).
        others = [offset for offset, producer in self._ongoing.items() if producer != txn.producer_id]
        self._ongoing.pop(txn.first_offset, None)
        # Another leader may not have the marker: until it is committed, the transaction still holds back.
        self._unreplicated[txn.first_offset] = txn.last_offset
        return min(others) if others else txn.last_offset + 1

    # Offsets.

    @property
    def first_unstable_offset(self) -> int | None:
        """Return where the first transaction begins that is open, or ended but not yet replicated."""
        if not self._ongoing and not self._unreplicated:
            return None
        return min((*self._ongoing, *self._unreplicated))

    @property
    def has_unreplicated(self) -> bool:
        """Return whether transactions have ended whose marker is not below the high watermark yet."""
        return bool(self._unreplicated)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forget the transactions whose marker is below the high watermark: they are decided for good."""
        if self._unreplicated:
            self._unreplicated = {
                first: last for first, last in self._unreplicated.items() if last >= high_watermark
            }

    def on_log_start(self, log_start_offset: int) -> None:
        """Take note that records below the offset are gone."""
        # Producers stay, though their records may be gone: they may be writing on (since KIP-360).
        self.on_high_watermark(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)

    def evict(self, count: int, but: int) -> int:
        """Forget up to `count` producers, those first whose last batch or marker is the furthest behind.

        No producer is forgotten that has a transaction open, or of which a coordinator is being asked, nor
        the id `but`.

        Returns:
            How many were forgotten.
        """
        idle = (
            entry
            for entry in self.entries.values()
            if entry.txn_first_offset < 0
            and entry.producer_id != but
            and not self.verifications.is_asked_of(entry.producer_id)
        )
        oldest = nsmallest(count, idle, key=_last_offset)
        for entry in oldest:
            del self.entries[entry.producer_id]
        return len(oldest)

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers without an open transaction that were silent for so long; returns how many."""
        expired = [
            producer_id
            for producer_id, entry in self.entries.items()
            if is_expired(entry, now_ms, expiration_ms)
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        self.verifications.remove_expired(now_ms, expiration_ms)
        return len(expired)


def _last_offset(entry: ProducerEntry) -> int:
    return entry.last_offset


def is_expired(entry: ProducerEntry, now_ms: int, expiration_ms: int) -> bool:
    """Return whether a producer may be forgotten (`producer.id.expiration.ms`)."""
    return entry.txn_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms


def _check_sequence(entry: ProducerEntry, header: BatchHeader) -> None:
    first = header.base_sequence
    if header.producer_epoch != entry.epoch:
        # Any other first sequence of a new epoch means that a batch before it is missing. An entry without an
        # epoch comes of a control batch that the cleaner has emptied.
        if first != 0 and entry.epoch != NO_EPOCH:
            raise OutOfOrderSequenceError(
                f"producer {header.producer_id} begins epoch {header.producer_epoch} with sequence {first}, "
                f"not 0"
            )
        return
    # 0 where no batch of this epoch is known: after a marker that has raised the epoch.
    expected = (entry.last_sequence + 1) & _SEQUENCE_MASK
    if first != expected:
        raise OutOfOrderSequenceError(
            f"producer {header.producer_id} sent sequence {first}, expected was {expected}"
        )


def replay(
    state: ProducerState, header: BatchHeader, marker: EndTransactionMarker | None
) -> tuple[CompletedTxn, int] | None:
    """Do what `append` and `complete` do, for a batch that is in the log already, whatever `check` says.

    Returns the transaction that it ended and the last stable offset then.
    """
    entry = state.entries.get(header.producer_id)
    plain = entry is not None and entry.epoch == header.producer_epoch and not header.attributes & _NOT_PLAIN
    if plain and entry is not None and entry.txn_first_offset < 0:
        # Nearly all batches: the producer goes on, without transactions.
        state.append(header, None)
        return None
    try:
        if marker is None:
            state.check(header, Origin.REPLICATION)
        else:
            state.check_marker(header, marker)
    except KafkaError as error:
        logger.warning("a batch at offset %d that should not be there: %s", header.base_offset, error)
    completed = state.append(header, marker)
    return (completed, state.complete(completed)) if completed is not None else None
