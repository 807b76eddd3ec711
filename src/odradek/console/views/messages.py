"""Records as a page shows them: decoded as JSON, text or hex, and filtered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from odradek.console.views.texts import time_text

if TYPE_CHECKING:
    from odradek.client.types import ConsumerRecord

STARTS = ("latest", "earliest", "offset", "time")
MOST_SIGNS = 10_000


@dataclass(frozen=True)
class Decoded:
    """Bytes for people.

    Attributes:
        kind: 'json', 'text', 'hex', or 'null' where there are none; or a type of schemas.
        text: cut after `MOST_SIGNS`.
        is_cut: whether it is.
        size: bytes.
        note: by which schema it was read, or why not; '' where there is none.
    """

    kind: str
    text: str
    is_cut: bool
    size: int
    note: str = ""


def decode(data: bytes | None) -> Decoded:
    """Return bytes as JSON if they are an object or an array, as text if they are printable, else in hex."""
    if data is None:
        return Decoded("null", "null", False, 0)
    kind, text = _decoded(data)
    return shown(kind, text, len(data))


def shown(kind: str, text: str, size: int, note: str = "") -> Decoded:
    """Return a text as it is shown: not too much of it."""
    return Decoded(kind, text[:MOST_SIGNS], len(text) > MOST_SIGNS, size, note)


def _decoded(data: bytes) -> tuple[str, str]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return "hex", _hex(data)
    if text.lstrip()[:1] in ("{", "["):
        try:
            return "json", json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    if all(sign.isprintable() or sign in "\n\r\t" for sign in text):
        return "text", text
    return "hex", _hex(data)


def _hex(data: bytes) -> str:
    # No more than may be shown, and some more, so that it is seen to be cut.
    return data[:MOST_SIGNS].hex(" ")


@dataclass(frozen=True)
class MessageFilter:
    """The records that are wanted: those that contain all that is given.

    Attributes:
        key, value: a part of it, as UTF-8; '' for any.
        header: a part of the name or the value of a header.
    """

    key: str = ""
    value: str = ""
    header: str = ""

    @property
    def is_set(self) -> bool:
        """Return whether it leaves anything out."""
        return bool(self.key or self.value or self.header)

    def wants(self, record: ConsumerRecord[bytes, bytes]) -> bool:
        """Return whether a record is wanted."""
        key, value, header = (text.encode("utf-8") for text in (self.key, self.value, self.header))
        return (
            key in (record.key or b"")
            and value in (record.value or b"")
            and (not header or any(header in part for part in _header_parts(record)))
        )


def _header_parts(record: ConsumerRecord[bytes, bytes]) -> list[bytes]:
    return [part for name, data in record.headers for part in (name.encode("utf-8"), data or b"")]


@dataclass(frozen=True)
class MessageRow:
    """A record in a table."""

    partition: int
    offset: int
    time: str
    key: Decoded
    value: Decoded
    headers: Sequence[tuple[str, Decoded]]


def message_row(record: ConsumerRecord[bytes, bytes]) -> MessageRow:
    """Return the row of a record."""
    return MessageRow(
        record.partition,
        record.offset,
        time_text(record.timestamp),
        decode(record.key),
        decode(record.value),
        [(name, decode(data)) for name, data in record.headers],
    )


def parse_time(text: str) -> int:
    """Return the milliseconds of a time as a form has it; without a zone it is in UTC.

    Raises:
        ValueError: it is none.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"Time: {text!r} is not like 2026-11-30 09:15:00.") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
