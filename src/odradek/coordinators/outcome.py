"""The outcome of a command: records to write, the response, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from odradek.errors import ErrorCode


class PrefixedMessage(Protocol):
    """A schema of `odradek.wire.schemas`: knows the two bytes that stand in front of it."""

    def encode_prefixed(self, version: int) -> bytes:
        """The prefix and the message."""
        ...


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """One record for the coordinator's topic.

    Attributes:
        key: what the record is about.
        key_version: the version that the key is written in.
        value: its new value; `None` is a tombstone.
        value_version: the version that the value is written in.
    """

    key: PrefixedMessage
    key_version: int
    value: PrefixedMessage | None
    value_version: int

    def encode(self) -> tuple[bytes, bytes | None]:
        """The record's key and value as they stand in the log."""
        value = self.value
        return (
            self.key.encode_prefixed(self.key_version),
            None if value is None else value.encode_prefixed(self.value_version),
        )


class Producer(NamedTuple):
    """The producer whose transaction records are part of."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The decision of a command.

    Attributes:
        records: appended together, as one batch, or not at all.
        response: for the request that the command answers; `None` when the answer comes later, or when
            nobody asked. It leaves when everything appended so far is committed.
        on_appended: applies to the volatile state what the records have decided; called after `replay`.
            Until then the command has changed nothing that the records depend on.
        on_failed: called instead when the append failed, with the error as the client is to see it. A
            response that it does not give is the error.
        atomic: whether the records must stand in one batch; if not they may be spread over several, of which
            the first may be written and the rest fail.
        producer: writes the records as part of its transaction; they count when that is committed. `None`:
            outside of transactions.
    """

    records: Sequence[CoordinatorRecord] = ()
    response: object | None = None
    on_appended: Callable[[], Outcome | None] | None = None
    on_failed: Callable[[ErrorCode], Outcome | None] | None = None
    atomic: bool = True
    producer: Producer | None = None
