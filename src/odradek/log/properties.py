"""Java's properties text, as `meta.properties` and `server.properties` are written in it."""

from __future__ import annotations

import re
from collections.abc import Mapping

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """The pairs, in their order; `#` and `!` begin a comment, a backslash at a line's end goes on with it."""
    pairs: dict[str, str] = {}
    logical = ""
    for line in text.splitlines():
        stripped = line.lstrip()
        if not logical and (not stripped or stripped[0] in "#!"):
            continue
        logical += stripped
        if (len(logical) - len(logical.rstrip("\\"))) % 2:
            logical = logical[:-1]
            continue
        _add(pairs, logical)
        logical = ""
    if logical:
        _add(pairs, logical)
    return pairs


def _add(pairs: dict[str, str], line: str) -> None:
    match = _PAIR.match(line)
    if match:
        pairs[_unescape(match[1])] = _unescape(match[2])


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)

    return _ESCAPE.sub(replace, text)


def format_properties(pairs: Mapping[str, str], comment: str) -> str:
    """The text for these pairs, under an empty comment line and one with `comment`, as Kafka writes it."""
    lines = ["#", f"#{comment}"]
    for key, value in pairs.items():
        escaped = re.sub(r"([\\=:#!])", r"\\\1", value)
        lines.append(f"{key}={escaped}")
    return "".join(f"{line}\n" for line in lines)
