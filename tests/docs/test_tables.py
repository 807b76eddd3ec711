"""The cells of our pages' tables are short: what needs a paragraph stands under its table."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from .blocks import ROOT, pages

LONGEST_CELL = 160
"""In characters that a reader sees: a link counts as its text."""

LONGER = {
    "docs/compatibility.md": "a cell lists the versions of all requests that one client sends",
    "docs/configuration.md": "made of the declarations of configs, whose notes are whole sentences",
    "docs/kafka_versions.md": "a cell tells the whole of one way in which releases differ",
    "docs/simulation.md": "a cell tells the whole of one mistake that the simulation found",
    "docs/tools.md": "a cell has all flags in which a tool differs from Kafka's",
}
"""Pages whose tables are not written anew yet, and why their cells are long."""

_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^()\s]+\)")
_BETWEEN = re.compile(r"(?<!\\)\|")
PAGES = [str(page.relative_to(ROOT)) for page in pages()]


def _cells(text: str) -> Iterator[str]:
    """Return the cells of a page's tables, as their readers see them."""
    for line in _FENCED.sub("", text).splitlines():
        if line.startswith("|"):
            yield from (cell.strip() for cell in _BETWEEN.split(_LINK.sub(r"\1", line))[1:-1])


def _too_long(text: str) -> list[str]:
    return [cell for cell in _cells(text) if len(cell) > LONGEST_CELL]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in LONGER])
def test_cells_of_tables_are_short(page: str) -> None:
    assert _too_long((ROOT / page).read_text(encoding="utf-8")) == [], "move the prose under the table"


@pytest.mark.parametrize("page", LONGER)
def test_a_page_that_may_have_longer_cells_has_some(page: str) -> None:
    assert _too_long((ROOT / page).read_text(encoding="utf-8")), "it is short now: take it out of LONGER"


def test_a_cell_that_is_too_long_is_found() -> None:
    longest = "x" * LONGEST_CELL
    assert _too_long(f"| a | {longest} |\n| [{longest}](page.md) | `a \\| b` |\n") == []
    assert _too_long(f"| a | {longest}y |\n") == [f"{longest}y"]
    assert _too_long(f"```text\n| {longest}y |\n```\n") == []
