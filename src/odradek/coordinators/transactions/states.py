"""The states of a transactional id, and the legal moves between them.

A transaction spans partitions that do not know of each other. What makes it one is a single record: once
PrepareCommit (or PrepareAbort) is committed in `__transaction_state`, the outcome is decided and nothing can
change it. All that remains is to tell each partition by a marker, which may be repeated as often as it
takes. Before that record, nothing is decided and the transaction can still be aborted.

    Empty              The id has a producer; no transaction since that producer came.
    Ongoing            A transaction with at least its beginning in the log; times out into an abort.
    PrepareCommit      Decided: markers are being written.
    PrepareAbort       Decided: markers are being written.
    CompleteCommit     Every partition has its marker. The next transaction may begin.
    CompleteAbort      The same, after an abort.
    Dead               The id has expired; in the log that is a tombstone, never this state.
    PrepareEpochFence  Between taking a producer its epoch and aborting what it left. Both stand in one record
                       (PrepareAbort with the higher epoch), so this is never in the log either.

             partitions                end, commit                  all markers
    Empty ─────────────► Ongoing ──────────────────► PrepareCommit ─────────────► CompleteCommit ─┐
      ▲                  ▲  │ └────────────────────► PrepareAbort ──────────────► CompleteAbort ──┤
      │                  │  └─► PrepareEpochFence ──────▲                                         │
      │                  └────────── partitions ──────────────────────────────────────────────────┤
      └───────────────────────────── InitProducerId ──────────────────────────────────────────────┘

From Empty and Complete… an abort of transactions V2 leads to PrepareAbort too, with no partitions: its
producer cannot know whether anything has reached the coordinator, and gets its next epoch in any case
(KIP-890).

Empty, CompleteCommit and CompleteAbort may expire. Ids and moves: Kafka's `TransactionState` since 4.0
(`validPreviousStates`, which this table has the other way round).
"""

from __future__ import annotations

from enum import IntEnum


class TransactionState(IntEnum):
    """A state; the value is its id in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name in DescribeTransactions and ListTransactions."""
        return "".join(word.capitalize() for word in self.name.split("_"))


_S = TransactionState
_FROM_REST = frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD})

LEGAL_MOVES: dict[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: _FROM_REST,
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT, _S.PREPARE_EPOCH_FENCE}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: _FROM_REST,
    _S.COMPLETE_ABORT: _FROM_REST,
    _S.DEAD: frozenset(),
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.PREPARE_ABORT}),
}

PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""Decided, with markers still to be written."""
AT_REST = frozenset(state for state, moves in LEGAL_MOVES.items() if _S.DEAD in moves)
"""No transaction is open: a new producer or transaction may come, and the id may expire."""
STATE_BY_TITLE = {state.title: state for state in TransactionState}
