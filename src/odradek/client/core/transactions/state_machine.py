"""The state of a transactional producer, and what errors do to it.

States and moves are those of Kafka's TransactionManager, and PREPARED of KIP-939. An error that concerns the
transaction alone leads to ABORTABLE_ERROR, from where only an abort leads on. FATAL_ERROR may be reached from
everywhere and never left: what the producer knows of itself is no longer true, and a new one has to be made.

    UNINITIALIZED → INITIALIZING → READY → IN_TRANSACTION → COMMITTING → READY
                                                │     └→ PREPARED → COMMITTING | ABORTING
                                                └→ ABORTABLE_ERROR → ABORTING → READY

Errors come from three sides: answers to the transaction's requests, batches that failed, and the application,
which could not even queue what it meant to send.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from odradek.client.core.transactions.errors import (
    FATAL_IN_PRODUCE,
    GROUP_MOVED_ON,
    ErrorReaction,
    mark,
    reaction_to,
)
from odradek.client.core.transactions.queue import RequestQueue
from odradek.client.core.transactions.requests import TxnRequest
from odradek.client.core.transactions.transactional_request_result import TransactionalRequestResult
from odradek.client.errors import CommitFailedError, IllegalStateError
from odradek.errors import ErrorCode, KafkaError, OdradekError, error_for


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


class TransactionStateMachine:
    """The state of one producer, the error that led there, and the call that is under way.

    Args:
        transactional_id: the producer's name over its restarts.

    Attributes:
        state: it changes by `MOVES` alone.
        last_error: why, where that is an error; else None.
        v2: whether transactions are KIP-890's.
        can_bump: whether the coordinator raises the epoch on request (KIP-360).
    """

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = TxnState.UNINITIALIZED
        self.last_error: OdradekError | None = None
        self.v2 = False
        self.can_bump = False
        self._bump_required = False
        self._queue = RequestQueue(transactional_id)
        self._call: TransactionalRequestResult | None = None

    def _cached(self, name: str) -> tuple[TransactionalRequestResult, bool]:
        """A call that the application gave up waiting for goes on, and may be waited for again."""
        pending = self._call
        if pending is None or pending.acked:
            return TransactionalRequestResult(name), False
        if pending.name != name:
            raise IllegalStateError(f"{pending.name} timed out and has to be called again before {name}")
        return pending, True

    @property
    def pending(self) -> TransactionalRequestResult | None:
        """The call whose outcome the application has not seen; None if there is none."""
        return None if self._call is None or self._call.acked else self._call

    def _nothing_pending(self, name: str) -> None:
        if self._call is not None and not self._call.acked:
            raise IllegalStateError(f"{self._call.name} timed out and has to be called again before {name}")

    def _check(self) -> None:
        """Raise the error that stands in the way, as one of its class."""
        error = self.last_error
        if error is None or self.state not in (TxnState.ABORTABLE_ERROR, TxnState.FATAL_ERROR):
            return
        fatal = self.state is TxnState.FATAL_ERROR
        advice = "the producer must be closed" if fatal else "the transaction must be aborted"
        raise mark(type(error)(f"{self._who}: {advice}: {error}"), fatal=fatal) from error

    @property
    def _who(self) -> str:
        return f"transactional.id {self.transactional_id!r}"

    @property
    def _where(self) -> str:
        return f"{self._who} is {self.state.name}"

    def _move(self, target: TxnState, error: OdradekError | None = None) -> None:
        if target not in MOVES[self.state]:
            raise IllegalStateError(f"{self._where}: it cannot become {target.name}")
        self.state, self.last_error = target, error

    # Errors

    def _react(self, request: TxnRequest, code: ErrorCode, message: str = "") -> None:
        reaction = reaction_to(request.api, code)
        if reaction is ErrorReaction.FIND_COORDINATOR:
            self._queue.forget(request)
            self._queue.again(request)
            return
        if reaction is ErrorReaction.RETRY:
            self._queue.again(request)
            return
        error: OdradekError = error_for(code, f"{request.api.api_name}: {message or code.message}")
        if reaction is ErrorReaction.FENCED:
            # Old coordinators say INVALID_PRODUCER_EPOCH, and mean the same.
            self._fatal(
                request,
                error_for(
                    ErrorCode.PRODUCER_FENCED,
                    f"{self._who}: another producer with the same transactional.id has taken over "
                    f"({request.api.api_name} was answered with {code.name})",
                ),
            )
        elif reaction is ErrorReaction.FATAL:
            self._fatal(request, error)
        elif reaction is ErrorReaction.REFUSED:
            self._abortable(request, error)
            self._move(TxnState.UNINITIALIZED)
            error.requires_abort = False
        elif reaction is ErrorReaction.ABORT_AND_BUMP:
            if self.can_bump or self.v2:
                self._bump_required = True
                self._abortable(request, error)
            else:
                self._fatal(request, error)
        else:
            if code in GROUP_MOVED_ON:
                error = CommitFailedError(f"{request.api.api_name}: the group has moved on: {error}")
            self._abortable(request, error)

    def _fatal(self, request: TxnRequest | None, error: OdradekError) -> None:
        mark(error, fatal=True)
        self._move(TxnState.FATAL_ERROR, error)
        for waiting in [*([request] if request is not None else []), *self._queue.drain()]:
            if waiting.call is not None:
                waiting.call.finish(error)
        if self._call is not None:
            self._call.finish(error)

    def _abortable(self, request: TxnRequest, error: OdradekError) -> None:
        mark(error, fatal=False)
        # What was asked before the abort, and fails, is what the abort is for.
        if self.state is not TxnState.ABORTING or request.call is self._call:
            self._move(TxnState.ABORTABLE_ERROR, error)
        if request.call is not None:
            request.call.finish(error)

    def batch_failed(self, error: OdradekError) -> None:
        """A batch was given up: the transaction cannot be committed any more."""
        if self.state is TxnState.FATAL_ERROR:
            return
        if isinstance(error, KafkaError) and error.code in FATAL_IN_PRODUCE:
            self._fatal(None, error)
            return
        if self.can_bump or self.v2:
            self._bump_required = True
        self._not_to_be_committed(error)

    def send_failed(self, error: OdradekError) -> None:
        """Something that was to be sent in the transaction was not even queued: without it the transaction is
        not what the application meant.
        """
        if self.state is TxnState.IN_TRANSACTION:
            self.batch_failed(error)

    def sequences_lost(self, why: OdradekError) -> None:
        """It is not known whether some batches are in the log, and they cannot be repeated: only under a
        higher epoch can anything be sent.
        """
        if self.state is TxnState.FATAL_ERROR:
            return
        if not (self.can_bump or self.v2):
            self._fatal(None, why)
            return
        self._bump_required = True
        self._not_to_be_committed(why)

    def _not_to_be_committed(self, why: OdradekError) -> None:
        # While it is being aborted, a batch that fails is no news.
        if self.state in (TxnState.IN_TRANSACTION, TxnState.COMMITTING, TxnState.ABORTABLE_ERROR):
            self._move(TxnState.ABORTABLE_ERROR, mark(why, fatal=False))

    def close(self, error: OdradekError) -> None:
        """Nothing is answered any more."""
        if self.state is not TxnState.FATAL_ERROR:
            self._fatal(None, error)
