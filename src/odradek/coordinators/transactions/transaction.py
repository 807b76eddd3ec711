"""The state of a transactional id, and how each event changes it.

Values do not change; each function gives the value after a move, and none makes an illegal one. Sources are
the `prepare…` functions of Kafka's `TransactionMetadata.scala`.

Epochs. A producer writes with (producer id, epoch); a partition refuses an epoch older than it has seen. So
whoever may write last is the one with the highest epoch, and taking a producer its right to write is to write
something with a higher one. Transactions V2 (KIP-890) raise the epoch with every end of a transaction, so
that a late record of the last transaction cannot slip into the next one. An epoch is a signed 16-bit number
and the highest is kept for fencing: a producer whose epoch is used up goes on under a new id, epoch 0.

Prepared transactions of two-phase commits (KIP-939). A producer that comes back for what it has prepared is
given the next epoch, so that its former self can do nothing more, while the transaction keeps the epoch that
its records were written with. So an ongoing transaction may have two pairs of id and epoch: `producer_id`
and `epoch` are those of the transaction, `next_producer_id` and `next_epoch` those that the client has to
name. The end makes one of them again.

Fencing aborts what a producer left under the next epoch. With V2 that can be an end like any other: the
producer whose transaction it was may repeat its abort, or initialise again with the epoch that it has, and
goes on with the next one. Where another producer is waiting it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from odradek.coordinators.transactions.states import AT_REST, LEGAL_MOVES, TransactionState
from odradek.errors import ProducerFencedError
from odradek.util.topic_partition import TopicPartition
from odradek.wire.epochs import NO_EPOCH

NO_ID = -1
NEVER_MS = 2**31 - 1
"""The timeout of a transaction that is part of a two-phase commit: none."""
MAX_EPOCH = 0x7FFF
"""No client ever has it, so that a producer can always be fenced. Kafka:
`TransactionMetadata.isProducerEpochExhausted`."""
TRANSACTIONS_V2 = 2

_S = TransactionState


class IllegalMoveError(RuntimeError):
    """A move that the table does not have was about to be made: a defect, never a client's doing."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of a transactional id.

    Attributes:
        transactional_id: whose.
        producer_id: the present one.
        epoch: its present epoch; -1 before the first.
        timeout_ms: after which an ongoing transaction is aborted.
        state: where it is.
        updated_ms: when it last changed; expiry counts from here.
        partitions: topic and partition index of what the transaction has touched.
        start_ms: when the present or last transaction began, -1 if none since InitProducerId.
        previous_producer_id: the one before the last move.
        next_producer_id: takes over when the markers are written; -1 if none.
        next_epoch: with `next_producer_id`, what the client of a prepared transaction holds; -1 if there are
            no two pairs, and the next producer id begins with epoch 0.
        client_version: of the client that ended the transaction: 2 is KIP-890's. 0 in Empty and Ongoing.
        last_epoch: the epoch before the last raise. Not in the log, so -1 after a restart.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    client_version: int = 0
    last_epoch: int = NO_EPOCH
    next_epoch: int = NO_EPOCH

    @property
    def is_kept(self) -> bool:
        """Return whether the client has another id or epoch than the transaction was written with."""
        return self.next_epoch != NO_EPOCH

    @property
    def client(self) -> tuple[int, int]:
        """Id and epoch that the client holds; once the transaction is decided, those it goes on with."""
        if self.is_kept:
            return self.next_producer_id, self.next_epoch
        if self.next_producer_id != NO_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.epoch


def is_exhausted(epoch: int) -> bool:
    """Return whether no epoch is left above this one for a producer; the highest is the coordinator's own."""
    return epoch >= MAX_EPOCH - 1


def check_move(before: Transaction, to: TransactionState) -> None:
    """Check a move against the table.

    Raises:
        IllegalMoveError: the table does not have it.
    """
    if to not in LEGAL_MOVES[before.state]:
        raise IllegalMoveError(f"{before.transactional_id}: {before.state.title} to {to.title}")


def new_transaction(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """An id that has not been seen before; without an epoch, so not yet in the log."""
    return Transaction(transactional_id, producer_id, NO_EPOCH, timeout_ms, _S.EMPTY, now_ms)


def raise_epoch(before: Transaction, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction:
    """Hand the id to a producer that initialises, with the next epoch.

    Args:
        before: at rest.
        timeout_ms: the producer's.
        expected_epoch: of a producer that goes on after an error, else `None`.
        now_ms: the time.

    Raises:
        ProducerFencedError: another producer has come in between.
    """
    check_move(before, _S.EMPTY)
    if expected_epoch is None:
        epoch, last = before.epoch + 1, NO_EPOCH
    elif expected_epoch == before.epoch or before.epoch == NO_EPOCH:
        epoch, last = before.epoch + 1, before.epoch
    elif expected_epoch == before.last_epoch:
        # The answer to the same request was lost: it is given again.
        epoch, last = before.epoch, before.last_epoch
    else:
        raise ProducerFencedError
    return _initialised(before, before.producer_id, epoch, last, timeout_ms, now_ms)


def rotate(before: Transaction, producer_id: int, timeout_ms: int, resumed: bool, now_ms: int) -> Transaction:
    """Hand the id to a producer that initialises, under a new producer id since the epochs are used up."""
    check_move(before, _S.EMPTY)
    return _initialised(before, producer_id, 0, before.epoch if resumed else NO_EPOCH, timeout_ms, now_ms)


def _initialised(
    before: Transaction, producer_id: int, epoch: int, last: int, timeout_ms: int, now_ms: int
) -> Transaction:
    return Transaction(
        before.transactional_id,
        producer_id,
        epoch,
        timeout_ms,
        _S.EMPTY,
        now_ms,
        previous_producer_id=before.producer_id,
        last_epoch=last,
    )


def add_partitions(before: Transaction, partitions: frozenset[TopicPartition], now_ms: int) -> Transaction:
    """Begin a transaction, or widen the one that is ongoing."""
    check_move(before, _S.ONGOING)
    return replace(
        before,
        state=_S.ONGOING,
        partitions=before.partitions | partitions,
        previous_producer_id=before.producer_id,
        start_ms=before.start_ms if before.state is _S.ONGOING else now_ms,
        updated_ms=now_ms,
        # How the transaction is ended is said by its end.
        client_version=0,
    )


def keep(before: Transaction, rotated_id: int, now_ms: int) -> Transaction:
    """Hand an ongoing transaction to a producer that comes back for it: the client's epoch is raised, that of
    the transaction is not.

    Args:
        before: ongoing.
        rotated_id: a new producer id when the client's epochs are used up, else -1.
        now_ms: the time.
    """
    if before.state is not _S.ONGOING:
        raise IllegalMoveError(f"{before.transactional_id}: {before.state.title} has nothing to keep")
    producer_id, epoch = before.client
    # `producer_id` and `epoch` stay, as the records of the transaction have them: its markers must match.
    if rotated_id != NO_ID:
        return replace(
            before,
            previous_producer_id=producer_id,
            next_producer_id=rotated_id,
            next_epoch=0,
            updated_ms=now_ms,
        )
    return replace(before, next_producer_id=producer_id, next_epoch=epoch + 1, updated_ms=now_ms)


def prepare(
    before: Transaction, *, commit: bool, client_version: int, next_producer_id: int, now_ms: int
) -> Transaction:
    """Decide the transaction, as its producer asks.

    Args:
        before: ongoing; or at rest, for an abort of V2 that had nothing to abort.
        commit: or abort.
        client_version: from 2 on the epoch is raised.
        next_producer_id: for V2 when the client's epochs are used up, else -1.
        now_ms: the time.
    """
    to = _S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT
    check_move(before, to)
    after = replace(
        before,
        state=to,
        start_ms=now_ms if before.state in AT_REST else before.start_ms,
        client_version=client_version,
        updated_ms=now_ms,
    )
    # Before V2 the epoch stays for the producer's whole life, across all of its transactions.
    if client_version < TRANSACTIONS_V2:
        return after
    client_id, client_epoch = before.client
    rotated = next_producer_id != NO_ID
    after = replace(
        after,
        epoch=min(before.epoch + 1, MAX_EPOCH),
        last_epoch=client_epoch,
        previous_producer_id=client_id if rotated else before.previous_producer_id,
        next_producer_id=next_producer_id,
        next_epoch=NO_EPOCH,
    )
    # The client holds a pair of its own, whose epoch goes up by one as well; it takes over with `complete`.
    if before.is_kept and not rotated:
        return replace(after, next_producer_id=client_id, next_epoch=client_epoch + 1)
    return after


def fence_and_abort(before: Transaction, *, raises: bool, next_producer_id: int, now_ms: int) -> Transaction:
    """Take the producer its epoch and decide to abort what it left, both in one record.

    Args:
        before: ongoing.
        raises: transactions V2, where each end raises the epoch, so this one needs no epoch beside it.
        next_producer_id: for V2 when the client's epochs are used up, else -1.
        now_ms: the time.
    """
    check_move(before, _S.PREPARE_EPOCH_FENCE)
    fenced = replace(before, state=_S.PREPARE_EPOCH_FENCE)
    if raises:
        return prepare(
            fenced,
            commit=False,
            client_version=TRANSACTIONS_V2,
            next_producer_id=next_producer_id,
            now_ms=now_ms,
        )
    # No last epoch: it would let the fenced producer repeat its InitProducerId and go on (`raise_epoch`).
    fenced = replace(fenced, epoch=min(before.epoch + 1, MAX_EPOCH), last_epoch=NO_EPOCH)
    return prepare(fenced, commit=False, client_version=0, next_producer_id=NO_ID, now_ms=now_ms)


def complete(before: Transaction, now_ms: int) -> Transaction:
    """Every partition has its marker."""
    to = _S.COMPLETE_COMMIT if before.state is _S.PREPARE_COMMIT else _S.COMPLETE_ABORT
    check_move(before, to)
    after = replace(before, state=to, partitions=frozenset(), updated_ms=now_ms)
    if before.client_version < TRANSACTIONS_V2:
        return after
    producer_id, epoch = before.client
    return replace(
        after,
        producer_id=producer_id,
        epoch=epoch,
        last_epoch=before.last_epoch,
        # What the client held before: it may have to repeat itself.
        previous_producer_id=before.previous_producer_id
        if producer_id != before.producer_id
        else before.producer_id,
        next_producer_id=NO_ID,
        next_epoch=NO_EPOCH,
    )
