# compiled: mypyc
"""The bytes in front of a message on a connection: the size, and the request or response header.

Source: protocol guide, "Request and Response Headers"; KIP-482 for header versions.
"""

from __future__ import annotations

import struct

from odradek.errors.base import ProtocolError
from odradek.wire.api import request_header_version, response_header_version
from odradek.wire.errors import frame_size
from odradek.wire.fields import int16, int32, string
from odradek.wire.message import Message, header
from odradek.wire.messages import response_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

    from odradek.wire.primitives import Buffer


@header(versions="0-2", flexible="2+")
class RequestHeader(Message):
    """The header of a request. Its client id has a two-byte length even where the header is flexible."""

    api_key: int = int16(json="requestApiKey")
    api_version: int = int16(json="requestApiVersion")
    correlation_id: int = int32()
    client_id: str | None = string("1+", nullable="1+", default=None, ignorable=True, never_compact=True)


@header(versions="0-1", flexible="1+")
class ResponseHeader(Message):
    """The header of a response."""

    correlation_id: int = int32()


MOST_UNKNOWN_TAGS = 256
"""Tagged fields of a request's header that nobody here knows; Kafka has none so far."""

_KEY_AND_VERSION = struct.Struct(">hh")
_REQUEST = struct.Struct(">ihhi")
_REQUEST_WITH_CLIENT = struct.Struct(">ihhih")
_RESPONSE = struct.Struct(">ii")


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Read the header of a request.

    Args:
        frame: a frame without its size.

    Returns:
        The header, and the position in the frame where the request itself begins.

    Raises:
        ProtocolError: too short, malformed, of an API key that is not known (so that the header's own
            version is not known either), or with more than `MOST_UNKNOWN_TAGS`.
    """
    if len(frame) < 4:
        raise ProtocolError(f"a request of {len(frame)} bytes is too short for its header")
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    try:
        header_version = request_header_version(key, version)
    except ValueError:
        raise ProtocolError(f"API key {key} is not known") from None
    return RequestHeader.decode_received(frame, header_version, 0, MOST_UNKNOWN_TAGS)


def encode_request(
    key: int, version: int, correlation_id: int, client_id: str | None, message: Message
) -> list[Buffer]:
    """Make a whole request, size included, as a list of buffers; records are not copied.

    Raises:
        InvalidMessageError: as `Message.encode`.
        ValueError: no such key or version.
    """
    header_version = request_header_version(key, version)
    if header_version == 0:
        head = _REQUEST.pack(0, key, version, correlation_id)
    else:
        client = b"" if client_id is None else client_id.encode()
        length = -1 if client_id is None else len(client)
        tags = b"\0" if header_version == 2 else b""
        head = _REQUEST_WITH_CLIENT.pack(0, key, version, correlation_id, length) + client + tags
    return message.encode_behind(head, version)


def encode_response(key: int, version: int, correlation_id: int, message: Message) -> list[Buffer]:
    """Make a whole response, size included, as a list of buffers; records are not copied.

    Raises:
        InvalidMessageError: as `Message.encode`.
        ValueError: no such key or version.
    """
    head = response_head(correlation_id, response_header_version(key, version))
    return message.encode_behind(head, version)


def encode_response_in_steps(
    key: int, version: int, correlation_id: int, message: Message
) -> Generator[None, None, list[Buffer]]:
    """As `encode_response`, with pauses."""
    parts = yield from message.encode_in_steps(version)
    head = response_head(correlation_id, response_header_version(key, version))
    size = frame_size(type(message), len(head) - 4 + sum(map(len, parts)))
    return [size.to_bytes(4, "big") + head[4:], *parts]


def response_head(correlation_id: int, header_version: int) -> bytes:
    """Make what stands in front of a response: the size, still 0, and the header (see `encode_behind`)."""
    head = _RESPONSE.pack(0, correlation_id)
    return head + b"\0" if header_version else head


def decode_response(frame: Buffer, key: int, version: int) -> tuple[int, Message]:
    """Read a response.

    Args:
        frame: a frame without its size.
        key, version: those of the request that it answers.

    Returns:
        The correlation id and the message.

    Raises:
        ProtocolError: the bytes are not such a response.
        ValueError: no such key or version.
    """
    head, position = ResponseHeader.decode_received(frame, response_header_version(key, version))
    cls = response_class(key)
    message, end = cls.decode_received(frame, version, position)
    if end != len(frame):
        raise ProtocolError(f"{cls.__name__} v{version}: {len(frame) - end} bytes left over")
    return head.correlation_id, message
