"""The first bytes of other protocols, taken for the size of a frame."""

from __future__ import annotations

from typing import Final

_BY_PREFIX: Final = (
    (16, 0x1603, "the peer speaks TLS, and this side does not"),
    (16, 0x1503, "the peer speaks TLS, and this side does not (it answers with an alert)"),
    (0, 0x48545450, "the peer speaks HTTP"),
    (0, 0x5353482D, "the peer speaks SSH"),
)


def foreign(size: int) -> str:
    """Return a hint for an error that tells of an impossible size; "" if there is none."""
    for shift, first, hint in _BY_PREFIX:
        if size >> shift == first:
            return f": {hint}"
    return ""
