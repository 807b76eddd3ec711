"""The meaning of an error code for a producer's transaction, by the request that it answers.

The tables say what Kafka's own client does (KIP-98, KIP-360, KIP-890, KIP-1050). A code that stands in none
of them is tried again if it is retriable, and is the request's own default otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from odradek.errors import ErrorCode, OdradekError
from odradek.wire.api import ApiKey


class Reaction(Enum):
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


_EVERYWHERE: dict[ErrorCode, Reaction] = {
    ErrorCode.CONCURRENT_TRANSACTIONS: Reaction.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    ErrorCode.INVALID_PRODUCER_EPOCH: Reaction.FENCED,
    ErrorCode.PRODUCER_FENCED: Reaction.FENCED,
    ErrorCode.TRANSACTION_ABORTABLE: Reaction.ABORT,
}
_FORGOTTEN: dict[ErrorCode, Reaction] = {
    ErrorCode.UNKNOWN_PRODUCER_ID: Reaction.ABORT_AND_BUMP,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Reaction.ABORT_AND_BUMP,
}

REACTIONS: Mapping[ApiKey, Mapping[ErrorCode, Reaction]] = {
    ApiKey.FIND_COORDINATOR: {
        ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.RETRY,
        ErrorCode.NOT_COORDINATOR: Reaction.RETRY,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Reaction.ABORT,
        ErrorCode.TRANSACTION_ABORTABLE: Reaction.ABORT,
    },
    ApiKey.INIT_PRODUCER_ID: {
        **_EVERYWHERE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Reaction.REFUSED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Reaction.REFUSED,
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        **_EVERYWHERE,
        **_FORGOTTEN,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Reaction.FATAL,
        ErrorCode.INVALID_TXN_STATE: Reaction.FATAL,
    },
    ApiKey.ADD_OFFSETS_TO_TXN: {
        **_EVERYWHERE,
        **_FORGOTTEN,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Reaction.ABORT,
    },
    ApiKey.TXN_OFFSET_COMMIT: {
        **_EVERYWHERE,
        ErrorCode.REQUEST_TIMED_OUT: Reaction.FIND_COORDINATOR,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Reaction.ABORT,
        ErrorCode.FENCED_INSTANCE_ID: Reaction.ABORT,
        ErrorCode.UNKNOWN_MEMBER_ID: Reaction.ABORT,
        ErrorCode.ILLEGAL_GENERATION: Reaction.ABORT,
        ErrorCode.STALE_MEMBER_EPOCH: Reaction.ABORT,
    },
    ApiKey.END_TXN: {**_EVERYWHERE, **_FORGOTTEN},
}

#: What is neither in the table nor retriable. Partitions that could not be added concern the transaction
#: only.
_OTHERWISE: Mapping[ApiKey, Reaction] = {ApiKey.ADD_PARTITIONS_TO_TXN: Reaction.ABORT}

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


def reaction_to(api: ApiKey, code: ErrorCode) -> Reaction:
    """Return the consequence of `code` in an answer to `api`."""
    found = REACTIONS[api].get(code)
    if found is not None:
        return found
    return Reaction.RETRY if code.retriable else _OTHERWISE.get(api, Reaction.FATAL)


def mark(error: OdradekError, *, fatal: bool) -> OdradekError:
    """Say on an exception what the application can do after it."""
    error.fatal = fatal
    error.requires_abort = not fatal
    return error
