"""Version ranges as they are written in declarations: ``"0+"``, ``"3-7"``, ``"4"``, ``"none"``."""

from __future__ import annotations

#: Stands for "no upper end" in a range.
OPEN_END = 0x7FFF


class Versions:
    """An inclusive range of versions; empty when `lowest` is above `highest`."""

    __slots__ = ("highest", "lowest")

    def __init__(self, lowest: int, highest: int) -> None:
        self.lowest = lowest
        self.highest = highest

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __bool__(self) -> bool:
        return self.lowest <= self.highest

    def __repr__(self) -> str:
        if not self:
            return "none"
        if self.highest == OPEN_END:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


NO_VERSIONS = Versions(0, -1)
ALL_VERSIONS = Versions(0, OPEN_END)
_parsed: dict[str, Versions] = {"none": NO_VERSIONS, "0+": ALL_VERSIONS}


def parse_versions(text: str) -> Versions:
    """Read a range.

    Args:
        text: ``"3+"``, ``"3-7"``, ``"3"`` or ``"none"``.

    Raises:
        ValueError: the text is none of these.
    """
    known = _parsed.get(text)
    if known is not None:
        return known
    low, dash, high = text.partition("-")
    if dash:
        result = Versions(int(low), int(high))
    elif text.endswith("+"):
        result = Versions(int(text[:-1]), OPEN_END)
    else:
        result = Versions(int(text), int(text))
    _parsed[text] = result
    return result
