"""Names in the messages of SASL (RFC 5801, section 4): `=` and `,` stand there as `=3D` and `=2C`."""

from __future__ import annotations

NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
"""A name as a pattern; by what is in it, since ranges up to the last of all characters compile slowly."""


def escaped(name: str) -> str:
    """A name as it goes into a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    """A name out of a message."""
    return name.replace("=2C", ",").replace("=3D", "=")
