"""Values as Java reads and writes them, where tools or other clients do."""

from __future__ import annotations

import math

_BLANKS = "".join(map(chr, range(33)))


def java_trim(text: str) -> str:
    """Text without what Java's `String.trim` takes off both ends: blanks and control characters, no others.

    Kafka's `ConfigDef.parseType` does so with every value that is text, whatever its type: passwords, too.
    """
    return text.strip(_BLANKS)


def java_double(value: float) -> str:
    """A double as Java prints it: `0.5`, `100.0`, `1.0E7`, `1.7976931348623157E308`."""
    if not math.isfinite(value):
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    mantissa, _, exponent = repr(float(value)).partition("e")
    power = int(exponent or 0)
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    fraction = fraction.rstrip("0")
    number = (whole + fraction).lstrip("0")
    power += len(whole) - 1 if whole != "0" else -(len(fraction) - len(number)) - 1
    number = number.rstrip("0")
    return f"{sign}{number[0]}.{number[1:] or '0'}E{power}"
