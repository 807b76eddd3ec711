"""Durations as Spark writes them: `15m`, `200ms`, `1h`."""

import re

_MS_PER_UNIT = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def duration_ms(text: str) -> int:
    """Milliseconds in `text`; a bare number is milliseconds. Raises `ValueError` if it is no duration."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if not match or match[2] not in _MS_PER_UNIT:
        raise ValueError(
            f"Time must be specified as a number of microseconds (us), milliseconds (ms), seconds (s), "
            f"minutes (m or min), hours (h), or days (d), e.g. 50s, 100ms, 15m; got {text!r}"
        )
    return int(int(match[1]) * _MS_PER_UNIT[match[2]])
