"""Long tables in pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

PAGE_ROWS = 100


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some rows of a table.

    Attributes:
        rows: those of this page.
        number: which page this is, from 1.
        pages: how many there are, at least 1.
        total: how many rows the whole table has.
        first: the position of the page's first row in the table, from 1; 0 in an empty table.
    """

    rows: Sequence[T]
    number: int
    pages: int
    total: int
    first: int

    @property
    def last(self) -> int:
        """The position of the page's last row in the table."""
        return self.first + len(self.rows) - 1 if self.rows else 0


def page_of(rows: Sequence[T], number: int, size: int = PAGE_ROWS) -> Page[T]:
    """Return a page of a table; the nearest where there is none with this number.

    Args:
        rows: the whole table.
        number: from 1.
        size: rows of a page.
    """
    pages = max(1, -(-len(rows) // size))
    number = min(max(1, number), pages)
    start = (number - 1) * size
    part = rows[start : start + size]
    return Page(part, number, pages, len(rows), start + 1 if part else 0)


def page_number(text: str) -> int:
    """Return the page that a query asks for; the first where it does not say."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 1
