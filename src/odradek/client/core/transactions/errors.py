"""The meaning of an error code for a producer's transaction, by the request that it answers.

The tables say what Kafka's own client does (KIP-98, KIP-360, KIP-890, KIP-1050). A code that stands in none
of them is tried again if it is retriable, and is the request's own default otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from odradek.errors import ErrorCode, OdradekError
from odradek.wire.api import ApiKey


class ErrorReaction(Enum):
    """The consequence of an error."""

    RETRY = auto()
    """The same request again, after a pause."""
    FIND_COORDINATOR = auto()
    """The coordinator moved: find it, then the same request again."""
    ABORT = auto()
    """The transaction has to be aborted; the producer can go on then."""
    ABORT_AND_BUMP = auto()
    """As `ABORT`, but only under a higher epoch; fatal where the broker cannot raise it on request."""
    REFUSED = auto()
    """There is no producer id for this principal. Initialising may be tried again."""
    FENCED = auto()
    """Another producer has the transactional id now: fatal."""
    FATAL = auto()
    """The producer is of no use any more."""


_EVERYWHERE: dict[ErrorCode, ErrorReaction] = {
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorReaction.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorReaction.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: ErrorReaction.FIND_COORDINATOR,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorReaction.FENCED,
    ErrorCode.PRODUCER_FENCED: ErrorReaction.FENCED,
    ErrorCode.TRANSACTION_ABORTABLE: ErrorReaction.ABORT,
}
_FORGOTTEN: dict[ErrorCode, ErrorReaction] = {
    ErrorCode.UNKNOWN_PRODUCER_ID: ErrorReaction.ABORT_AND_BUMP,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ErrorReaction.ABORT_AND_BUMP,
}

REACTIONS: Mapping[ApiKey, Mapping[ErrorCode, ErrorReaction]] = {
    ApiKey.FIND_COORDINATOR: {
        ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorReaction.RETRY,
        ErrorCode.NOT_COORDINATOR: ErrorReaction.RETRY,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: ErrorReaction.ABORT,
        ErrorCode.TRANSACTION_ABORTABLE: ErrorReaction.ABORT,
    },
    ApiKey.INIT_PRODUCER_ID: {
        **_EVERYWHERE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ErrorReaction.REFUSED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorReaction.REFUSED,
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        **_EVERYWHERE,
        **_FORGOTTEN,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ErrorReaction.FATAL,
        ErrorCode.INVALID_TXN_STATE: ErrorReaction.FATAL,
    },
    ApiKey.ADD_OFFSETS_TO_TXN: {
        **_EVERYWHERE,
        **_FORGOTTEN,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: ErrorReaction.ABORT,
    },
    ApiKey.TXN_OFFSET_COMMIT: {
        **_EVERYWHERE,
        ErrorCode.REQUEST_TIMED_OUT: ErrorReaction.FIND_COORDINATOR,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: ErrorReaction.ABORT,
        ErrorCode.FENCED_INSTANCE_ID: ErrorReaction.ABORT,
        ErrorCode.UNKNOWN_MEMBER_ID: ErrorReaction.ABORT,
        ErrorCode.ILLEGAL_GENERATION: ErrorReaction.ABORT,
        ErrorCode.STALE_MEMBER_EPOCH: ErrorReaction.ABORT,
    },
    ApiKey.END_TXN: {**_EVERYWHERE, **_FORGOTTEN},
}

#: What is neither in the table nor retriable. Partitions that could not be added concern the transaction
#: only.
_OTHERWISE: Mapping[ApiKey, ErrorReaction] = {ApiKey.ADD_PARTITIONS_TO_TXN: ErrorReaction.ABORT}

#: Errors of a batch that end the producer. Every other one ends the transaction.
FATAL_IN_PRODUCE = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)

#: The members of a group that has moved on.
GROUP_MOVED_ON = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH}
)


def reaction_to(api: ApiKey, code: ErrorCode) -> ErrorReaction:
    """Return the consequence of `code` in an answer to `api`."""
    reaction = REACTIONS[api].get(code)
    if reaction is not None:
        return reaction
    return ErrorReaction.RETRY if code.retriable else _OTHERWISE.get(api, ErrorReaction.FATAL)


def mark(error: OdradekError, *, fatal: bool) -> OdradekError:
    """Say on an exception what the application can do after it."""
    error.fatal = fatal
    error.requires_abort = not fatal
    return error
