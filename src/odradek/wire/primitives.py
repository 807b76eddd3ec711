"""The encodings that `struct` does not know: unsigned varints, tagged fields, UUIDs in text.

Sources: protocol guide, "Protocol Primitive Types"; KIP-482 for tagged fields.
"""

from __future__ import annotations

import binascii

from odradek.errors.base import ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Buffer = bytes | bytearray | memoryview

#: The uuid that means "none".
ZERO_UUID = bytes(16)


def encode_uvarint(value: int) -> bytes:
    """Encode 0 … 2^32-1 in one to five bytes, seven bits each, lowest first."""
    if value < 0x80:
        return UVARINT[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


#: The one-byte varints.
UVARINT: tuple[bytes, ...] = tuple(bytes((value,)) for value in range(128))


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Decode an unsigned varint of at most 32 bits.

    Returns:
        The value and the position behind it.

    Raises:
        ProtocolError: more than five bytes, or more than 32 bits.
        IndexError: the buffer ends first (the compiled decoders turn it into a ProtocolError).
    """
    byte = buffer[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        # Bounded, or a frame of 0x80 bytes would make a number of any size.
        if shift > 28:
            raise ProtocolError(f"varint at byte {position - 5} is longer than 5 bytes")
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    if value > 0xFFFFFFFF:
        raise ProtocolError(f"varint before byte {position} does not fit into 32 bits")
    return value, position


#: The largest tag and the largest size that Kafka's reader can hold.
_INT32_MAX = 0x7FFFFFFF


def read_tag_header(buffer: Buffer, position: int, end: int, previous: int) -> tuple[int, int, int]:
    """Read one tagged field's number and size.

    Args:
        previous: The tag before it, -1 for the first.

    Returns:
        The tag, the position of its content, and the position behind its content.

    Raises:
        ProtocolError: tags not strictly ascending, or a size beyond the buffer.
    """
    tag, position = read_uvarint(buffer, position)
    size, position = read_uvarint(buffer, position)
    # KIP-482 wants them in rising order; so none comes twice, and which of the two counts is no question.
    if tag <= previous or tag > _INT32_MAX:
        raise ProtocolError(f"tag {tag} after tag {previous}: tags must ascend")
    limit = position + size
    if limit > end:
        raise ProtocolError(f"tag {tag} claims {size} bytes, {end - position} are left")
    return tag, position, limit


def read_unknown_tags(buffer: Buffer, position: int, end: int) -> tuple[dict[int, bytes] | None, int]:
    """Read the tagged fields of a struct that declares none.

    Returns:
        The tags with their content, or None if there are none, and the position behind them.

    Raises:
        ProtocolError: as `read_tag_header`.
    """
    count, position = read_uvarint(buffer, position)
    if not count:
        return None, position
    tags: dict[int, bytes] = {}
    previous = -1
    for _ in range(count):  # each turn consumes two bytes at least, or runs off the end
        previous, position, limit = read_tag_header(buffer, position, end, previous)
        tags[previous] = bytes(buffer[position:limit])
        position = limit
    return tags, position


def join_tags(
    known: Iterable[tuple[int, bytes]], unknown: dict[int, bytes] | None, declared: tuple[int, ...] = ()
) -> bytes:
    """Encode a struct's tagged fields.

    Args:
        known: number and content of the declared ones that are not at their default.
        unknown: those that were kept from decoding.
        declared: every number that some version declares.

    Raises:
        ValueError: an unknown tag has the number of a declared one.
    """
    tags = dict(known)
    for tag, content in (unknown or {}).items():
        # A peer of that version would take the bytes for the declared field.
        if tag in declared:
            raise ValueError(f"unknown tag {tag} is one of the declared tags")
        tags[tag] = content
    parts = [encode_uvarint(len(tags))]
    for tag in sorted(tags):
        content = tags[tag]
        parts += (encode_uvarint(tag), encode_uvarint(len(content)), content)
    return b"".join(parts)


def uuid_to_text(uuid: bytes) -> str:
    """Kafka's text form of a uuid: 22 characters of URL-safe base64.

    Args:
        uuid: 16 bytes.
    """
    return binascii.b2a_base64(uuid, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def uuid_from_text(text: str) -> bytes:
    """Read Kafka's text form of a uuid.

    Raises:
        ValueError: the text is not URL-safe base64 of 16 bytes.
    """
    try:
        uuid = binascii.a2b_base64(text.replace("-", "+").replace("_", "/") + "==")
    except ValueError:
        uuid = b""
    # Written again and compared: the decoder takes other letters, and bits that no text of Kafka's has.
    if len(uuid) != 16 or uuid_to_text(uuid) != text:
        raise ValueError(f"{text!r} is not a uuid of 22 characters")
    return uuid
