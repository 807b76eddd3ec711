"""Java's `.properties` text, the format of `server.properties` and of the tools' config files.

Rules as in `java.util.Properties.load`: `#` and `!` open a comment line; key and value are parted by the
first unescaped `=`, `:` or blank; a line that ends in an odd number of backslashes goes on in the next,
whose leading blanks are dropped; `\\t \\n \\r \\f \\uXXXX` are escapes, any other character escaped
is itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {ord(character): f"\\{letter}" for letter, character in (*_ESCAPES.items(), ("\\", "\\"))}


def parse_properties(text: str) -> dict[str, str]:
    """Key → value, in the order of the text; of a key given twice the last value counts.

    Raises:
        ValueError: a `\\u` that four hexadecimal digits do not follow; names the line.
    """
    return dict(_split(line, number) for number, line in _logical_lines(text))


def load_properties(path: Path | str) -> dict[str, str]:
    """`parse_properties` of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: as `parse_properties`.
    """
    return parse_properties(Path(path).read_text(encoding="utf-8"))


def escaped_value(text: str) -> str:
    """Return how a value is written that is to be read as it is: line ends, backslashes, a leading blank."""
    written = text.translate(_WRITTEN)
    return f"\\{written}" if written[:1] == " " else written


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations joined, without comments and empty lines; numbered from 1."""
    pending = ""
    began = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANKS)
        if not pending:
            if not line or line[0] in "#!":
                continue
            began = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending += line[:-1]
            continue
        yield began, pending + line
        pending = ""
    if pending:
        yield began, pending


def _split(line: str, number: int) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    value = line[end:].lstrip(_BLANKS)
    if value[:1] in {"=", ":"}:
        value = value[1:].lstrip(_BLANKS)
    return _unescape(line[:end], number), _unescape(value, number)


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\" or at == len(text):
            out.append(char)
            continue
        escaped = text[at]
        at += 1
        if escaped == "u":
            digits = text[at : at + 4]
            try:
                out.append(chr(int(digits.ljust(4, "?"), 16)))
            except ValueError:
                raise ValueError(
                    f"line {number}: \\u{digits} is not \\u and four hexadecimal digits"
                ) from None
            at += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    # A character beyond the BMP is written as two escapes, a surrogate pair.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
