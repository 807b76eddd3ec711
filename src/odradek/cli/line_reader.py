"""Lines of text into records: Kafka's LineMessageReader (KIP-798, KIP-810)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, BinaryIO

import click

from odradek.errors import OdradekError

FLAGS = {"parse_key", "parse_headers", "ignore_error"}
#: Properties of which no two may be equal while headers are parsed.
SEPARATORS = ("headers_delimiter", "headers_separator", "headers_key_separator")


class LineError(OdradekError):
    """A line that is not what the reader's properties promise."""


def read_lines(stream: BinaryIO, longest: int) -> Iterator[bytes | None]:
    """Lines without their ends (`\\n`, `\\r\\n`); None for one longer than `longest`, which is skipped.

    Args:
        stream: where they come from; a line is had as soon as it ends.
        longest: bytes; no more than about that is held in memory.
    """
    while True:
        line = stream.readline(longest + 2)
        if not line:
            return
        whole = line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
        if len(whole) <= longest:
            yield whole
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(1 << 20)
        yield None


@dataclass(frozen=True)
class LineReader:
    """Lines into records, by the properties of Kafka's reader, `parse.key` being `parse_key`."""

    parse_key: bool = False
    parse_headers: bool = False
    key_separator: bytes = b"\t"
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    ignore_error: bool = False
    null_marker: bytes | None = None

    @classmethod
    def from_properties(cls, properties: dict[str, str]) -> LineReader:
        """From `parse.key=true` and the like.

        Raises:
            click.BadParameter: a property that the reader does not have, an empty separator, or one that is
                another's.
        """
        settings: dict[str, Any] = {}
        for name, text in properties.items():
            attribute = name.replace(".", "_")
            if attribute not in cls.__dataclass_fields__:
                names = ", ".join(field.replace("_", ".") for field in cls.__dataclass_fields__)
                raise click.BadParameter(f"{name!r} is not one of {names}", param_hint="--reader-property")
            flag = attribute in FLAGS
            settings[attribute] = text.strip().lower() == "true" if flag else text.encode()
        reader = cls(**settings)
        reader._check_separators()
        return reader

    def _check_separators(self) -> None:
        names = ("key_separator", *SEPARATORS)
        for name in names:
            if not getattr(self, name):
                raise click.BadParameter(f"{name.replace('_', '.')} may not be empty")
            if getattr(self, name) == self.null_marker:
                raise click.BadParameter(f"null.marker and {name.replace('_', '.')} may not be equal")
        for name, other in combinations(SEPARATORS, 2) if self.parse_headers else ():
            if getattr(self, name) == getattr(self, other):
                raise click.BadParameter(
                    f"{name.replace('_', '.')} and {other.replace('_', '.')} may not be equal"
                )

    def records(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        """Keyword arguments for `Producer.send`: key, value, headers.

        Raises:
            LineError: a line without an announced separator, unless `ignore.error`.
        """
        for number, line in enumerate(lines, 1):
            yield self.record(line.rstrip(b"\n").removesuffix(b"\r"), number)

    def record(self, line: bytes, number: int) -> dict[str, Any]:
        """The record of one line, which is told by its number in errors.

        Raises:
            LineError: a delimiter is missing, or a header's key is none.
        """
        rest = line
        headers: list[tuple[str, bytes | None]] = []
        key: bytes | None = None
        if self.parse_headers:
            part, rest = self._cut(rest, self.headers_delimiter, number, "headers delimiter")
            if part is not None and not self._is_null(part):
                headers = [self._header(pair, number) for pair in part.split(self.headers_separator)]
        if self.parse_key:
            key, rest = self._cut(rest, self.key_separator, number, "key separator")
        return {
            "key": None if key is None or self._is_null(key) else key,
            "value": None if self._is_null(rest) else rest,
            "headers": headers,
        }

    def _cut(self, line: bytes, by: bytes, number: int, separator_name: str) -> tuple[bytes | None, bytes]:
        before, separator, after = line.partition(by)
        if separator:
            return before, after
        if self.ignore_error:
            return None, line
        raise LineError(
            f"No {separator_name} found on line number {number}: '{line[:1000].decode(errors='replace')}'"
        )

    def _header(self, pair: bytes, number: int) -> tuple[str, bytes | None]:
        name, value = self._cut(pair, self.headers_key_separator, number, "header key separator")
        if name is None:
            # With ignore.error, as Kafka's reader: a name without a value.
            return pair.decode(errors="replace"), None
        if self._is_null(name):
            raise LineError(f"Header keys should not be equal to the null marker: line number {number}")
        try:
            return name.decode(), None if self._is_null(value) else value
        except UnicodeDecodeError as error:
            raise LineError(f"The header's key is not UTF-8 on line number {number}: {error}") from error

    def _is_null(self, text: bytes) -> bool:
        return self.null_marker is not None and text == self.null_marker
