"""Numbers and times as a page shows them. What is not known is shown as such, and never as 0."""

from __future__ import annotations

from datetime import UTC, datetime

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


def rate_text(rate: float | None) -> str:
    """Return a number that need not be whole, with one digit more for small ones; None is not known."""
    if rate is None:
        return UNKNOWN
    return count_text(round(rate)) if rate == int(rate) or rate >= 100 else f"{rate:.1f}"


def time_text(time_ms: int) -> str:
    """Return a time in UTC, to the millisecond; 'none' for -1."""
    if time_ms < 0:
        return "none"
    try:
        at = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1000:03d}"
