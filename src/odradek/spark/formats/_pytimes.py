"""Dates and times of day as text, in pure Python: the twin of `_times`. Pure."""

from __future__ import annotations

import datetime
import re

_DATE = re.compile(rb"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(
    rb"[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)? ?(Z|([+-])(\d\d)(?::?(\d\d))?)?", re.ASCII
)
_EPOCH = datetime.date(1970, 1, 1).toordinal()


def read_date(data: bytes) -> int | None:
    """Days since 1970-01-01 of `yyyy-MM-dd`; None where it is not that."""
    match = _DATE.fullmatch(data)
    if match is None:
        return None
    try:
        return datetime.date(*(int(part) for part in match.groups())).toordinal() - _EPOCH
    except ValueError:
        return None


def read_timestamp(data: bytes) -> int | None:
    """Microseconds since the epoch of `yyyy-MM-dd[(T| )HH:mm[:ss[.fraction]][ ][Z|±HH[[:]mm]]]`; None else.

    Without a zone it is UTC; digits after the sixth of a second are cut.
    """
    days = read_date(data[:10])
    if days is None:
        return None
    if len(data) == 10:
        return days * 86_400_000_000
    match = _TIME.fullmatch(data[10:])
    if match is None or (data[-1:] == b" "):
        return None
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    zone_hours, zone_minutes = int(match[7] or 0), int(match[8] or 0)
    if hour > 23 or minute > 59 or second > 59 or zone_hours > 18 or zone_minutes > 59:
        return None
    zone = (zone_hours * 60 + zone_minutes) * (-1 if match[6] == b"-" else 1)
    micros = int((match[4] or b"0").ljust(6, b"0")[:6])
    return (((days * 24 + hour) * 60 + minute - zone) * 60 + second) * 1_000_000 + micros
