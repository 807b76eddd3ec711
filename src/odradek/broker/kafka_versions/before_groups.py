"""JoinGroup and Heartbeat as Kafka 0.8.2 answers them: it reads both, does neither, and says UNKNOWN (-1).

Their version 0 was another one then (`Protocol` of 0.8.2.2), and as that a request of any version is read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from odradek.errors import ProtocolError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey

Buffer = bytes | bytearray | memoryview

_UNKNOWN = int(ErrorCode.UNKNOWN_SERVER_ERROR)


def _skip_string(body: Buffer, position: int) -> int:
    (size,) = struct.unpack_from(">h", body, position)
    end = position + 2 + int(size)
    if size < 0 or end > len(body):
        raise ProtocolError(f"a string of {size} bytes at {position} of {len(body)}")
    return end


def _read_heartbeat(body: Buffer) -> None:
    """The group, its generation, the consumer."""
    _skip_string(body, _skip_string(body, 0) + 4)


def _read_join_group(body: Buffer) -> None:
    """The group, its session timeout, topics, the consumer, its strategy."""
    position = _skip_string(body, 0) + 4
    (count,) = struct.unpack_from(">i", body, position)
    if count < 0:
        raise ProtocolError(f"{count} topics")
    position += 4
    for _ in range(count + 2):
        position = _skip_string(body, position)


_REQUESTS: dict[int, tuple[Callable[[Buffer], None], bytes]] = {
    ApiKey.HEARTBEAT: (_read_heartbeat, struct.pack(">h", _UNKNOWN)),
    # No generation (-1), no consumer id (an empty string), no partitions.
    ApiKey.JOIN_GROUP: (_read_join_group, struct.pack(">hihi", _UNKNOWN, -1, 0, 0)),
}


def answer(api_key: int, body: Buffer) -> bytes | None:
    """The body of the answer; None for any other request.

    Args:
        api_key: of the request.
        body: what follows its header.

    Raises:
        ProtocolError: it cannot be read; the connection is closed.
    """
    shape = _REQUESTS.get(api_key)
    if shape is None:
        return None
    read, answered = shape
    try:
        read(body)
    except struct.error as error:
        raise ProtocolError(f"the request breaks off: {error}") from error
    return answered
