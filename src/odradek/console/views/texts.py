"""Numbers as a page shows them. What is not known is shown as such, and never as 0."""

from __future__ import annotations

UNKNOWN = "not known"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(size: int | None) -> str:
    """Return a size in bytes for people: `1.5 MiB`; None is not known."""
    if size is None or size < 0:
        return UNKNOWN
    value = float(size)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes all")


def count_text(count: int | None) -> str:
    """Return a count for people: `12 345`, with narrow blanks that do not break; None is not known."""
    return UNKNOWN if count is None else f"{count:,}".replace(",", "\u202f")
