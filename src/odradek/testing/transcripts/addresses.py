"""Addresses of brokers in their answers: of Metadata, FindCoordinator, DescribeCluster, and others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from odradek.testing.transcripts.conversation import Spoken
from odradek.testing.transcripts.frames import RESPONSE
from odradek.wire.structs import Struct


class Address(NamedTuple):
    """The place where a broker listens."""

    host: str
    port: int


def addresses(spoken: Spoken) -> set[Address]:
    """Return the addresses that an answer tells."""
    return {Address(struct.host, struct.port) for struct in _with_address(spoken)}  # type: ignore[attr-defined]


def rewritten(spoken: Spoken, new: Callable[[Address], Address]) -> bytes:
    """Return the bytes of a frame with other addresses; as they are where it tells none.

    Args:
        spoken: the frame, whose message is changed.
        new: gives the address in place of another.
    """
    structs = list(_with_address(spoken))
    if not structs or spoken.message is None:
        return spoken.data
    for struct in structs:
        address = new(Address(struct.host, struct.port))  # type: ignore[attr-defined]
        struct.host, struct.port = address  # type: ignore[attr-defined]
    return spoken.saying(spoken.message)


def _with_address(spoken: Spoken) -> Iterator[Struct]:
    if spoken.direction == RESPONSE and spoken.message is not None:
        for struct in structs_in(spoken.message):
            # Nobody coordinates, or leads, where the host is empty.
            if {"host", "port"} <= {field.name for field in struct.FIELDS} and getattr(struct, "host", None):
                yield struct


def structs_in(struct: Struct) -> Iterator[Struct]:
    """Return a struct and all that are in it."""
    yield struct
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Struct):
                yield from structs_in(inner)
