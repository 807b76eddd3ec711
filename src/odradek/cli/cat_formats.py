r"""The little languages of `odradek cat`, as kcat has them: delimiters, formats, deserializers, offsets.

A format has text, `\n`-like signs (`\xNN` hexadecimal, `\NN` decimal), and tokens:

| token | meaning |
|---|---|
| `%s` `%S` `%R` | value; its length, -1 for null; the length as a big-endian int32 |
| `%k` `%K` | key; its length, -1 for null |
| `%t` `%p` `%o` | topic, partition, offset |
| `%T` `%h` | timestamp in milliseconds; headers as `a=1,b=NULL` |
| `%%` | a percent sign |
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from odradek.client.types import ConsumerRecord
from odradek.errors import OdradekError

NULL = b"NULL"
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|([0-9]{1,3})|(.))", re.DOTALL)
_SIGNS = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_TIMESTAMP_TYPES = {0: "create", 1: "logappend"}

Printer = Callable[[ConsumerRecord], bytes]
Deserialize = Callable[[bytes], bytes]


class CatFormatError(OdradekError):
    """A word of one of these languages is not understood, or a record is not what it says."""


def unescape(text: str) -> bytes:
    r"""Return a delimiter or the text of a format: `\n` → a newline."""

    def sign(match: re.Match[bytes]) -> bytes:
        if match[1] is not None:
            return bytes([int(match[1], 16)])
        if match[2] is not None:
            return bytes([int(match[2]) & 0xFF])
        return _SIGNS.get(match[3], match[3])

    return _ESCAPE.sub(sign, text.encode("utf-8", "surrogateescape"))


def parse_format(text: str, null: bytes) -> Printer:
    """Return what prints records by a format.

    Args:
        null: what is printed for a key or value that is null or empty, as kcat does; empty without `-Z`.

    Raises:
        CatFormatError: it has a token that there is not.
    """
    tokens = _tokens(null)
    parts: list[Printer] = []
    for piece in re.findall(r"%.|[^%]+|%$", text, re.DOTALL):
        if not piece.startswith("%"):
            parts.append(_constant(unescape(piece)))
        elif piece == "%":
            raise CatFormatError("Empty formatter")
        elif piece[1] not in tokens:
            raise CatFormatError(f"Unsupported formatter: {piece}")
        else:
            parts.append(tokens[piece[1]])
    return lambda record: b"".join(part(record) for part in parts)


def _constant(data: bytes) -> Printer:
    return lambda _: data


def _tokens(null: bytes) -> dict[str, Printer]:
    return {
        "s": lambda r: r.value or null,
        "S": lambda r: b"%d" % _length(r.value),
        "R": lambda r: struct.pack(">i", _length(r.value)),
        "k": lambda r: r.key or null,
        "K": lambda r: b"%d" % _length(r.key),
        "t": lambda r: r.topic.encode(),
        "p": lambda r: b"%d" % r.partition,
        "o": lambda r: b"%d" % r.offset,
        "T": lambda r: b"%d" % r.timestamp,
        "h": lambda r: b",".join(n.encode() + b"=" + (NULL if v is None else v) for n, v in r.headers),
        "%": lambda _: b"%",
    }


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def json_object(record: ConsumerRecord, broker: int | None, more: dict[str, Any]) -> bytes:
    """Return kcat's envelope of a record. Bytes that are not UTF-8 are replaced, since JSON has no bytes.

    Args:
        broker: the leader of the partition, -1 if unknown.
        more: keys and values in place of the record's, and further ones.
    """
    headers = [None if part is None else _text(part) for pair in record.headers for part in pair]
    document = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "tstype": _TIMESTAMP_TYPES.get(record.timestamp_type, "unknown"),
        "ts": record.timestamp,
        "broker": -1 if broker is None else broker,
        **({"headers": headers} if headers else {}),
        "key": _text(record.key),
        "payload": _text(record.value),
    }
    return json.dumps(document | more, ensure_ascii=False, separators=(",", ":")).encode()


def _text(data: bytes | str | None) -> str | None:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data


def pack_deserializer(text: str) -> Deserialize:
    """Return what unpacks bytes by a pack string of kcat's: `>`, `<`, `b B h H i I q Q c s $`.

    Raises:
        CatFormatError: it has another letter; when called, bytes that are too short or, with `$`, too long.
    """
    if not text or re.fullmatch(r"[<>bBhHiIqQcs$ ]*", text) is None:
        raise CatFormatError(f"no deserializer {text!r}: give avro, or a string of < > b B h H i I q Q c s $")

    def unpack(data: bytes) -> bytes:
        order, at, out = ">", 0, []
        for letter in text.replace(" ", ""):
            if letter in "<>":
                order = letter
            elif letter == "s":
                out.append(data[at:])
                at = len(data)
            elif letter == "$":
                if at < len(data):
                    raise CatFormatError(f"expected end of data, {len(data) - at} bytes remain")
            else:
                size = struct.calcsize(letter)
                if len(data) - at < size:
                    raise CatFormatError(
                        f"truncated, expected {size} bytes to unpack {letter} but only {len(data) - at} "
                        "bytes remaining"
                    )
                (field,) = struct.unpack_from(order + letter, data, at)
                out.append(field if isinstance(field, bytes) else b"%d" % field)
                at += size
        return b"".join(out)

    return unpack


class Range(NamedTuple):
    """The part of partitions to read.

    Attributes:
        start: `beginning`, `end`, `stored`, or an offset; negative: so many before the end.
        start_ms, stop_ms: timestamps instead.
    """

    start: str | int = "beginning"
    start_ms: int | None = None
    stop_ms: int | None = None


def parse_offsets(words: Sequence[str]) -> Range:
    """Read the `-o` words.

    Raises:
        CatFormatError: one of them is none.
    """
    chosen = Range()
    for word in words:
        match = re.fullmatch(r"([se])@(\d+)", word)
        if match is not None:
            key = "start_ms" if match[1] == "s" else "stop_ms"
            chosen = chosen._replace(**{key: int(match[2])})
        elif word in ("beginning", "end", "stored"):
            chosen = chosen._replace(start=word)
        elif re.fullmatch(r"-?\d+", word):
            chosen = chosen._replace(start=int(word))
        else:
            raise CatFormatError(f"-o {word}: expected beginning, end, stored, an offset, s@MS or e@MS")
    return chosen
