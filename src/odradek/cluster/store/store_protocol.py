"""The protocol between the workers of one machine and the store that they share: frames, without I/O.

A frame is a length (4 bytes, unsigned, big-endian) and so many bytes of JSON, an array. Data of nodes is
base64 in it. Three kinds of arrays:

- a request, client to server: `[number, method, argument, ...]`, numbers from 1;
- its answer: `[number, true, result]`, or `[number, false, error, path, message, op_index]`;
- a notice: `[0, "event", type, path]` and `[0, "ping"]` from the server, `[0, "pong"]` from the client.

The first request is `connect` with `PROTOCOL_VERSION`; its result is the session's id and after how many
milliseconds of silence either side gives the other up. Everything after it is done in the order in which it
came, and answers and events leave in the order in which they happened.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

from odradek.cluster.store.store import (
    BadArguments,
    BadVersion,
    Check,
    Create,
    Delete,
    EventType,
    NoChildrenForEphemerals,
    NodeContent,
    NodeExists,
    NoNode,
    NotEmpty,
    NotPermitted,
    Op,
    OpResult,
    SessionExpired,
    SetData,
    Stat,
    StoreError,
    StoreUnavailable,
    WatchEvent,
)
from odradek.errors import OdradekError

PROTOCOL_VERSION = 1
MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Room for a transaction of some 200,000 nodes; what is larger is refused before it is sent."""
MAX_GREETING_BYTES = 1024
"""The most that a peer may send before it has a session."""
BATCH_BYTES = 1024 * 1024
"""About how much data one answer to `get_many` carries; the client asks for the rest."""

_LENGTH = struct.Struct(">I")

_ERRORS: dict[str, type[StoreError]] = {
    kind.__name__: kind
    for kind in (
        StoreError,
        NoNode,
        NodeExists,
        BadVersion,
        NotEmpty,
        NoChildrenForEphemerals,
        BadArguments,
        NotPermitted,
        SessionExpired,
        StoreUnavailable,
    )
}


class StoreProtocolError(OdradekError):
    """The peer does not keep to the protocol; its connection is of no use any more."""


class FrameReader:
    """Takes whole messages out of bytes as they come.

    Attributes:
        max_bytes: the most that a frame may have.
    """

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_bytes = max_bytes
        self._held = bytearray()

    def feed(self, received: bytes) -> None:
        """Take in what has been received."""
        self._held += received

    def next_message(self) -> list[Any] | None:
        """Return the next whole message; None until it is there.

        Raises:
            StoreProtocolError: the frame is too large, or no array in JSON.
        """
        if len(self._held) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._held)
        if length > self.max_bytes:
            raise StoreProtocolError(f"a frame of {length} bytes; at most {self.max_bytes} are allowed")
        end = _LENGTH.size + length
        if len(self._held) < end:
            return None
        body = bytes(self._held[_LENGTH.size : end])
        del self._held[:end]
        try:
            message = json.loads(body)
        # Brackets that are nested deeply enough exhaust the stack of json's parser.
        except (ValueError, RecursionError) as error:
            raise StoreProtocolError(f"a frame that is no JSON: {error}") from None
        if not isinstance(message, list) or not message:
            raise StoreProtocolError("a frame that is no message")
        return message


def frame(message: Sequence[Any]) -> bytes:
    """Return a message as it is sent.

    Raises:
        StoreProtocolError: it is too large.
    """
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MAX_FRAME_BYTES:
        raise StoreProtocolError(f"a message of {len(body)} bytes; at most {MAX_FRAME_BYTES} can be sent")
    return _LENGTH.pack(len(body)) + body


# ---------------------------------------------------------------------- what stands in messages


def text(value: object) -> str:
    """Return a path or a name out of a message.

    Raises:
        StoreProtocolError: it is none. So do all functions here that read.
    """
    if not isinstance(value, str):
        raise StoreProtocolError(f"not a text: {value!r:.100}")
    return value


def number(value: object) -> int:
    """Return a number out of a message."""
    # By `type`, as True is an int, too; the bounds are SQLite's and ZooKeeper's.
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise StoreProtocolError(f"not a number: {value!r:.100}")
    return value


def flag(value: object) -> bool:
    """Return a truth value out of a message."""
    if not isinstance(value, bool):
        raise StoreProtocolError(f"neither true nor false: {value!r:.100}")
    return value


def items(value: object) -> list[Any]:
    """Return an array out of a message."""
    if not isinstance(value, list):
        raise StoreProtocolError(f"not an array: {value!r:.100}")
    return value


def data_to_json(data: bytes | None) -> str | None:
    """Return a node's data as it stands in a message."""
    return None if data is None else base64.b64encode(data).decode("ascii")


def data_from_json(value: object) -> bytes | None:
    """Return a node's data out of a message."""
    if value is None:
        return None
    try:
        return base64.b64decode(text(value), validate=True)
    except (binascii.Error, ValueError):
        raise StoreProtocolError("data that is no base64") from None


def stat_from_json(value: object) -> Stat:
    """Return a stat out of a message."""
    fields = [number(field) for field in items(value)]
    if len(fields) != len(Stat._fields):
        raise StoreProtocolError(f"a stat of {len(fields)} numbers")
    return Stat(*fields)


def node_to_json(node: NodeContent | None) -> list[Any] | None:
    """Return what was read of a node as it stands in a message."""
    return None if node is None else [data_to_json(node.data), node.stat]


def node_from_json(value: object) -> NodeContent | None:
    """Return what was read of a node, None for "not there", out of a message."""
    if value is None:
        return None
    data, stat = _fields(value, 2)
    return NodeContent(data_from_json(data), stat_from_json(stat))


def op_to_json(op: Op) -> list[Any]:
    """Return an operation of a transaction as it stands in a message.

    Raises:
        BadArguments: it is no operation.
    """
    if isinstance(op, Check):
        return ["check", op.path, op.version]
    if isinstance(op, Create):
        return ["create", op.path, data_to_json(op.data), op.ephemeral, op.sequence]
    if isinstance(op, SetData):
        return ["set", op.path, data_to_json(op.data), op.version]
    if isinstance(op, Delete):
        return ["delete", op.path, op.version]
    raise BadArguments(str(op), f"not an operation: {op!r}")


def op_from_json(value: object) -> Op:
    """Return an operation of a transaction out of a message."""
    kind = (items(value) or [None])[0]
    if kind == "check":
        _, path, version = _fields(value, 3)
        return Check(text(path), number(version))
    if kind == "create":
        _, path, data, ephemeral, sequence = _fields(value, 5)
        return Create(text(path), data_from_json(data), flag(ephemeral), flag(sequence))
    if kind == "set":
        _, path, data, version = _fields(value, 4)
        return SetData(text(path), data_from_json(data), number(version))
    if kind == "delete":
        _, path, version = _fields(value, 3)
        return Delete(text(path), number(version))
    raise StoreProtocolError(f"not an operation: {kind!r:.100}")


def op_result_from_json(value: object) -> OpResult:
    """Return an operation's result out of a message: a path, a stat, or None."""
    if value is None or isinstance(value, str):
        return value
    return stat_from_json(value)


def event_message(event: WatchEvent) -> list[Any]:
    """Return the notice of an event."""
    return [0, "event", event.type.value, event.path]


def event_from_message(message: list[Any]) -> WatchEvent:
    """Return the event of a notice."""
    _, _, kind, path = _fields(message, 4)
    try:
        return WatchEvent(EventType(kind), text(path))
    except ValueError:
        raise StoreProtocolError(f"not an event: {kind!r:.100}") from None


def error_message(request: int, error: StoreError) -> list[Any]:
    """Return the answer to a request that was refused."""
    # A subclass, such as `StoreFileError`, is told as the error that both sides know.
    kind = next(base.__name__ for base in type(error).__mro__ if base.__name__ in _ERRORS)
    return [request, False, kind, error.path, str(error), error.op_index]


def error_from_message(message: list[Any]) -> StoreError:
    """Return the refusal that an answer says."""
    _, _, kind, path, reason, op_index = _fields(message, 6)
    # The server may be newer, and know an error that the client does not.
    make: Callable[[str, str], StoreError] = _ERRORS.get(text(kind), StoreError)
    error = make(text(path), text(reason))
    error.op_index = None if op_index is None else number(op_index)
    return error


def _fields(value: object, count: int) -> list[Any]:
    fields = items(value)
    if len(fields) != count:
        raise StoreProtocolError(f"{len(fields)} fields where {count} are expected")
    return fields
