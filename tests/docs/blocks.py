"""The blocks of code of our pages, and what stands before them.

A block is fenced and names its language. It runs in the tests, unless it is `text`: a picture, a message, a
tree; or a directive of the site's builder, such as `{eval-rst}`. A comment of HTML on the line before the
fence says what else has to be known of it:

    <!-- excerpt: WHY -->    it does not run; WHY may be the file that it was taken from
    <!-- prints: TEXT -->    it has to print that; if it goes on then, it gets a Ctrl-C
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LANGUAGES = ("python", "console", "java", "go")

_FENCE = re.compile(r" *(`{3,}|~{3,}) *([^\s`]*)")
_MARK = re.compile(r" *<!-- (excerpt|prints): *(.*?) *-->$")
_ITEM = re.compile(r" *([-*+]|\d+[.)]) ")


@dataclass(frozen=True)
class Block:
    """One block of a page.

    Attributes:
        page: the path of its file from the root of the checkout.
        line: where its fence is, from 1.
        excerpt: why it does not run, or None.
        prints: what it has to print, or None.
    """

    page: str
    line: int
    language: str
    code: str
    excerpt: str | None = None
    prints: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """README.md and every page of `docs`."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: str, text: str) -> Iterator[Block]:
    """The fenced blocks of a page.

    Raises:
        ValueError: a fence is not closed, or code is indented instead of fenced.
    """
    lines = text.splitlines()
    at = 0
    in_list = False
    while at < len(lines):
        line = lines[at]
        fence = _FENCE.match(line)
        if fence is None:
            if line and not line.startswith(" "):
                in_list = _ITEM.match(line) is not None or (in_list and bool(lines[at - 1]))
            elif line.startswith("    ") and not in_list and not lines[at - 1]:
                raise ValueError(f"{page}:{at + 1}: indented code: put it between fences, with its language")
            at += 1
            continue
        begin = at
        at += 1
        while at < len(lines) and not lines[at].strip().startswith(fence[1]):
            at += 1
        if at == len(lines):
            raise ValueError(f"{page}:{begin + 1}: the fence is not closed")
        code = "".join(f"{one}\n" for one in lines[begin + 1 : at])
        mark = _MARK.match(lines[begin - 1]) if begin else None
        marks = {mark[1]: mark[2]} if mark else {}
        yield Block(page, begin + 1, fence[2], code, **marks)
        at += 1


def every() -> list[Block]:
    """The blocks of all pages."""
    found: list[Block] = []
    for page in pages():
        found += blocks(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))
    return found


def fault(block: Block) -> str:
    """What is wrong with how a block is marked, or nothing."""
    if block.excerpt is not None:
        return "" if block.excerpt else "say why it is an excerpt"
    if block.language == "text" or block.language.startswith("{"):
        return ""
    if block.language not in LANGUAGES:
        return (
            f"a block of {block.language or 'no language'!r}: it has to be one of {', '.join(LANGUAGES)}, "
            "which run, or `text`, or have `<!-- excerpt: WHY -->` on the line before it"
        )
    if block.language == "console" and not block.code.startswith("$ "):
        return "a block of console begins with a command: `$ …`"
    return ""


def commands(code: str) -> Iterator[tuple[str, str]]:
    """Each command of a block of console, and what it prints there."""
    command, printed, open_end = "", "", False
    for line in code.splitlines():
        if line.startswith("$ ") and not open_end:
            if command:
                yield command, printed
            command, printed = line[2:], ""
        elif open_end:
            command += f"\n{line}"
        else:
            printed += f"{line}\n"
            continue
        open_end = line.endswith("\\")
    yield command, printed


def as_printed(shown: str) -> re.Pattern[str]:
    """What a page shows as printed; `…` stands for anything."""
    return re.compile(".*".join(map(re.escape, shown.rstrip().split("…"))), re.DOTALL)
