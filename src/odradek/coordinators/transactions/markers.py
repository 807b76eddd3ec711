"""The markers that a decided transaction owes its partitions, as data: a shell sends them.

What an answer to WriteTxnMarkers means for the transaction is Kafka's
`TransactionMarkerRequestCompletionHandler.scala`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from odradek.errors import ErrorCode
from odradek.util.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class TransactionMarkers:
    """Markers to be written, an entry of a WriteTxnMarkers request.

    Attributes:
        transactional_id: whose transaction.
        producer_id: that wrote it.
        producer_epoch: of the decision, at least that of the records.
        coordinator_epoch: leader epoch of the partition of `__transaction_state`.
        commit: or abort.
        partitions: that still have to get their marker.
        transaction_version: 2 if the epoch was raised for this end (KIP-890), so that a marker which comes
            late can be told from one of the next transaction (KIP-1228).
        decision: which of the shard's decisions they are of; not sent. Before V2 the next transaction has the
            same id and epoch, and an answer may come late.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int = 0
    decision: int = field(default=0, compare=False)


class Effect(Enum):
    """The meaning of the answer for one partition."""

    DONE = "done"
    RETRY = "retry"
    CANCEL = "cancel"


EFFECTS: dict[ErrorCode, Effect] = {
    ErrorCode.NONE: Effect.DONE,
    # The producer cannot have written there either.
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Effect.DONE,
    ErrorCode.UNSUPPORTED_VERSION: Effect.DONE,
    # Somebody else has taken over; the transaction is no longer ours to end.
    ErrorCode.INVALID_PRODUCER_EPOCH: Effect.CANCEL,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: Effect.CANCEL,
}
"""Everything else is tried again; Kafka stops with an exception at errors that it does not expect here."""


def effect_of(error: ErrorCode) -> Effect:
    """Return the meaning of `error` in the answer to a marker."""
    return EFFECTS.get(error, Effect.RETRY)


def by_leader(
    markers: Iterable[TransactionMarkers], leader_of: Callable[[TopicPartition], int | None]
) -> tuple[dict[int, list[TransactionMarkers]], list[TransactionMarkers]]:
    """Sort markers by the broker that they go to.

    Args:
        markers: to be sent.
        leader_of: the leader's broker id, -1 while there is none, `None` if the partition does not exist.

    Returns:
        What to send to each broker (under -1 what has to wait for a leader), and markers of partitions that
        no longer exist, which count as written.
    """
    sends: dict[int, list[TransactionMarkers]] = {}
    gone: list[TransactionMarkers] = []
    for entry in markers:
        parts: dict[int | None, set[TopicPartition]] = {}
        for partition in sorted(entry.partitions):
            parts.setdefault(leader_of(partition), set()).add(partition)
        for leader, partitions in parts.items():
            part = replace(entry, partitions=frozenset(partitions))
            (gone if leader is None else sends.setdefault(leader, [])).append(part)
    return sends, gone
