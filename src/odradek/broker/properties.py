"""Java's properties format, in which `server.properties` is written.

Lines of `key=value`, `key: value` or `key value`; `#` and `!` open comments; a backslash at the end of a line
continues it; `\\t`, `\\n`, `\\r`, `\\f`, `\\uXXXX` stand for characters, a backslash before anything else for
that. Where a key comes twice, the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.cluster.config_def import ConfigError

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Read a properties file.

    Raises:
        ConfigError: a `\\u` that is not followed by four hexadecimal digits; the line is named.
    """
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            properties[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise ConfigError(f"line {number}: {error}") from error
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined where they continue, without blanks in front, comments and empty lines left out."""
    pending: str | None = None
    start = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANK)
        if pending is None:
            if not line or line[0] in "#!":
                continue
            start = number
        joined = (pending or "") + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2 == 1:
            pending = joined[:-1]
            continue
        pending = None
        yield start, joined
    if pending is not None:
        yield start, pending


def _split(line: str) -> tuple[str, str]:
    """The key and the value, still escaped."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANK:
        at += 2 if line[at] == "\\" else 1
    key, rest = line[:at], line[at:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char != "\\":
            out.append(char)
            at += 1
            continue
        escaped = text[at + 1 : at + 2]
        at += 2
        if escaped == "u":
            digits = text[at : at + 4]
            if len(digits) < 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise ValueError(f"malformed \\u escape: \\u{digits}")
            out.append(chr(int(digits, 16)))
            at += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    joined = "".join(out)
    # Characters beyond the BMP come as two escapes.
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
