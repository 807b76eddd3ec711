"""The states of a transactional producer, and the legal moves between them.

As in Kafka's TransactionManager, and PREPARED of KIP-939. An error that concerns the transaction alone leads
to ABORTABLE_ERROR, from where only an abort leads on. FATAL_ERROR may be reached from everywhere and never
left: what the producer knows of itself is no longer true, and a new one has to be made.

    UNINITIALIZED → INITIALIZING → READY → IN_TRANSACTION → COMMITTING → READY
                                                │     └→ PREPARED → COMMITTING | ABORTING
                                                └→ ABORTABLE_ERROR → ABORTING → READY
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto


class TxnState(Enum):
    """The states of a transactional producer."""

    UNINITIALIZED = auto()
    """Without producer id."""
    INITIALIZING = auto()
    """A producer id is asked for, or a higher epoch."""
    READY = auto()
    """Between transactions."""
    IN_TRANSACTION = auto()
    """Records and offsets may be sent."""
    PREPARED = auto()
    """All is in the logs; only how it ends is open."""
    COMMITTING = auto()
    """EndTxn(commit) is due or on its way."""
    ABORTING = auto()
    """EndTxn(abort) is due or on its way."""
    ABORTABLE_ERROR = auto()
    """The transaction cannot be committed any more."""
    FATAL_ERROR = auto()
    """Nothing goes any more."""


_S = TxnState

#: state → the states that may follow.
MOVES: Mapping[TxnState, frozenset[TxnState]] = {
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING, _S.PREPARED, _S.FATAL_ERROR}),
    _S.INITIALIZING: frozenset({_S.READY, _S.PREPARED, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset(
        {_S.PREPARED, _S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}
    ),
    _S.PREPARED: frozenset({_S.COMMITTING, _S.ABORTING, _S.FATAL_ERROR}),
    _S.COMMITTING: frozenset({_S.READY, _S.UNINITIALIZED, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTING: frozenset({_S.READY, _S.UNINITIALIZED, _S.INITIALIZING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTABLE_ERROR, _S.ABORTING, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset({_S.FATAL_ERROR}),
}
