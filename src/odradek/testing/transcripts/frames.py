"""Frames of a transcript, and the lines that they are in a file: tests/golden/README.md."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from odradek.errors import OdradekError

REQUEST, RESPONSE = "request", "response"
TOKEN = -1
"""The key of a frame that is no request of Kafka's nor an answer to one: a token of SASL (KIP-43)."""

MOST_BYTES = 256 << 20
"""So many bytes has a frame at most: no broker sends more by its own defaults."""


class TranscriptError(OdradekError):
    """A file that is no transcript, or bytes that are no frame."""


class Frame(NamedTuple):
    """A request or a response.

    Attributes:
        t_ms: when, in milliseconds since the begin of the recording.
        conn: the number of the client's connection.
        direction: `REQUEST` or `RESPONSE`.
        key, version, correlation: of a response, those of the request that it answers.
        data: the bytes, without their size.
        note: what is odd about it; empty for most.
    """

    t_ms: float
    conn: int
    direction: str
    key: int
    version: int
    correlation: int
    data: bytes
    note: str = ""

    def to_line(self) -> str:
        """Return the line of a file, with its end."""
        line: dict[str, Any] = {
            "t_ms": round(self.t_ms, 1),
            "conn": self.conn,
            "dir": self.direction,
            "key": self.key,
            "version": self.version,
            "correlation": self.correlation,
            "hex": self.data.hex(),
        }
        if self.note:
            line["note"] = self.note
        return json.dumps(line) + "\n"

    @classmethod
    def from_line(cls, text: str) -> Frame:
        """Return the frame of a line.

        Raises:
            ValueError: it is none.
        """
        line = json.loads(text)
        try:
            direction = line["dir"]
            numbers = [int(line[name]) for name in ("conn", "key", "version", "correlation")]
            data, t_ms = bytes.fromhex(line["hex"]), float(line.get("t_ms", 0))
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
        if direction not in (REQUEST, RESPONSE):
            raise ValueError(f"dir is {direction!r}")
        conn, key, version, correlation = numbers
        return cls(t_ms, conn, direction, key, version, correlation, data, str(line.get("note", "")))


def open_transcript(path: Path, mode: str) -> IO[str]:
    """Open the file of a transcript, `.gz` or not."""
    if path.suffix == ".gz":
        return cast("IO[str]", gzip.open(path, f"{mode}t", encoding="utf-8"))
    return path.open(mode, encoding="utf-8")


def read_transcript(path: Path) -> Iterator[Frame]:
    """Read a transcript.

    Raises:
        TranscriptError: a line is no frame; the message has its number.
        OSError: it cannot be read.
    """
    number = 1
    try:
        with open_transcript(path, "r") as file:
            for line in file:
                yield Frame.from_line(line)
                number += 1
    except (ValueError, EOFError, RecursionError) as error:
        raise TranscriptError(f"{path}, line {number}: not a transcript: {error}") from None


class Frames:
    """Takes the bytes of one direction of a connection apart into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that are whole now, without their sizes.

        Raises:
            TranscriptError: a size that no frame has.
        """
        rest = self._rest
        rest += data
        frames, at = [], 0
        while len(rest) - at >= 4:
            size = int.from_bytes(rest[at : at + 4], "big", signed=True)
            if not 0 <= size <= MOST_BYTES:
                raise TranscriptError(
                    f"{size} is no size of a frame: this is not Kafka's protocol in the clear"
                )
            if len(rest) - at - 4 < size:
                break
            frames.append(bytes(rest[at + 4 : at + 4 + size]))
            at += 4 + size
        del rest[:at]
        return frames


def with_size(data: bytes) -> bytes:
    """Return a frame as it goes over a connection."""
    return len(data).to_bytes(4, "big") + data
