"""Errors on the client's side, beside the broker's own codes (`odradek.errors`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from odradek.errors import (
    BrokerNotAvailableError,
    ErrorCode,
    KafkaError,
    NetworkError,
    OdradekError,
    RecordTooLargeError,
    RequestTimedOutError,
    UnsupportedVersionError,
    error_for,
)

K = TypeVar("K")

# Where Kafka's own client raises the exception of a code, the class here is a subclass of that code's class,
# so that `except` clauses written for codes work. None takes `code=`: `error_for` keeps giving the code's
# own.


class ConfigError(OdradekError, ValueError):
    """A config that cannot be used; the message names the key."""


class ClientTimeoutError(RequestTimedOutError):
    """The time allowed for a call ran out on the client's side; the message tells what was awaited."""


class BufferExhaustedError(ClientTimeoutError):
    """`buffer_memory` stayed full for `max_block_ms`."""


class DeliveryTimeoutError(ClientTimeoutError):
    """A record was not acknowledged within `delivery_timeout_ms`."""


class UndeliveredError(KafkaError):
    """Sends failed of which the application had not heard; raised where a producer is closed.

    Attributes:
        counts: the name of an error → how many sends failed with it.
    """

    def __init__(self, message: str, counts: Mapping[str, int]) -> None:
        super().__init__(message)
        self.counts = dict(counts)


class NoBrokersAvailableError(BrokerNotAvailableError):
    """No broker could be reached; the message lists each server that was tried, and why it failed."""

    @property
    def retriable(self) -> bool:
        """True: brokers come back. (As an answer of a broker, the code means something else.)"""
        return True


class ConnectionFailedError(NetworkError):
    """One broker could not be reached or hung up; retriable."""


class AuthenticationError(ConnectionFailedError):
    """Broker and client did not accept each other: trying again as before would not help."""

    @property
    def retriable(self) -> bool:
        """False: somebody has to change configs or certificates first."""
        return False


def nobody_reached(problems: Sequence[OdradekError]) -> OdradekError:
    """Return what is raised when no broker could be reached, for these reasons.

    A refused login or handshake is told as such, the last one where there are several: waiting for brokers
    would not help.
    """
    for problem in reversed(problems):
        if isinstance(problem, AuthenticationError):
            return problem
    return NoBrokersAvailableError(f"no broker could be reached: {'; '.join(map(str, problems))}")


def left_out(expected: Iterable[K], answered: Collection[K]) -> dict[K, KafkaError]:
    """Return errors for what an answer says nothing of: nobody has said that it is done, or what it is
    (Kafka's KafkaAdminClient.completeUnrealizedFutures).
    """
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    return {
        key: error_for(code, f"{key}: the broker did not answer for it")
        for key in expected
        if key not in answered
    }


class SslAuthenticationError(AuthenticationError):
    """The TLS handshake failed; the message tells why (Kafka's SslAuthenticationException)."""


class SaslAuthenticationError(AuthenticationError):
    """The broker refused the login, or could not prove who it is; the message tells what it said of it
    (Kafka's SaslAuthenticationException, UnsupportedSaslMechanismException, IllegalSaslStateException)."""


class UnsupportedByBrokerError(UnsupportedVersionError):
    """The broker has no version of the API, or none that can say what was asked."""


class MessageTooLargeError(RecordTooLargeError):
    """A record is larger than `max_request_size` or `buffer_memory`."""


class NoOffsetForPartitionError(OdradekError):
    """No position, none committed, and `auto_offset_reset` is 'none'."""


class LogTruncationError(OdradekError):
    """The log was cut below the position (KIP-320) and `auto_offset_reset` is 'none'."""


class CommitFailedError(OdradekError):
    """The group has moved on: the partitions belong to someone else, nothing was committed."""


class TransactionAbortedError(OdradekError):
    """The record was not sent, because its transaction was aborted before that."""


class PurgedError(OdradekError):
    """The record was not sent, because `purge` gave it up before that."""


class PurgedInFlightError(PurgedError):
    """The record was given up by `purge` after it had been sent: nobody knows whether it is in the log."""


class SerializationError(OdradekError):
    """A serializer or deserializer refused; the cause is chained."""


class ClosedError(OdradekError, RuntimeError):
    """The client was closed."""


class IllegalStateError(OdradekError, RuntimeError):
    """The call does not fit what was called before it, or a partition is not assigned."""


class ConcurrentModificationError(IllegalStateError):
    """A client for one thread (or task) at a time was called by a second one (in Kafka's consumer, Java's
    ConcurrentModificationException).
    """


class WakeupError(OdradekError):
    """`Consumer.wakeup` ended a call, or kept one from waiting (Kafka's WakeupException)."""


class IllegalArgumentError(OdradekError, ValueError):
    """An argument of a call cannot be used; the message names it."""


class ArgumentTypeError(IllegalArgumentError, TypeError):
    """An argument of a call is of another type than is asked for; the message says what to write instead."""


class PartitionLostError(OdradekError):
    """Offsets asked for are no longer there (deleted by retention, or the topic was recreated)."""


class TopicRecreatedError(PartitionLostError):
    """The topic has another id than the one asked for: it was deleted, and made again under its name.

    Attributes:
        topic_id: the one that it has now, 16 bytes.
        rows_in_doubt: rows were handed out that may be the new topic's.
    """

    def __init__(self, message: str, topic_id: bytes) -> None:
        super().__init__(message)
        self.topic_id = topic_id
        self.rows_in_doubt = False
