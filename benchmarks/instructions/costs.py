"""What callgrind has counted: its file of costs, read.

The format is in valgrind's manual ("Callgrind Format Specification"): names are given once and are numbers
from then on; a line of costs belongs to the function named before it, unless it follows `calls=`, when it is
what that call has cost with all that it called.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_NAME = re.compile(r"\((\d+)\)(?: (.*))?")
_RECURSION = re.compile(r"'\d+$")
_VARIANT = re.compile(r"\.(part|constprop|isra|cold|lto_priv)\b.*$")


class ProfileError(Exception):
    """The file is none of callgrind's, or does not add up."""


@dataclass
class Profile:
    """One file of costs.

    Attributes:
        costs: by event (`Ir` are instructions, `I1mr` misses of the first-level instruction cache), in all.
        instructions: by the library, or program, that has them; by its path.
        calls: by function, how often it was called.
    """

    costs: dict[str, int] = field(default_factory=dict)
    instructions: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def less(self, other: Profile, times: float) -> Profile:
        """This without so many times the other, of which nothing becomes less than none."""

        def rest(own: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
            return {name: max(0, round(value - others.get(name, 0) * times)) for name, value in own.items()}

        return Profile(
            rest(self.costs, other.costs),
            Counter(rest(self.instructions, other.instructions)),
            Counter(rest(self.calls, other.calls)),
        )


def parse(lines: Iterable[str]) -> Profile:
    """Read callgrind's file.

    Raises:
        ProfileError: it has no events, or its functions have not the instructions that it says were counted.
    """
    profile = Profile()
    events: list[str] = []
    names: dict[str, dict[str, str]] = {"ob": {}, "fn": {}}
    library, callee, called = "", "", False

    def name_of(kind: str, text: str) -> str:
        found = _NAME.fullmatch(text)
        if found is None:
            return text
        number, name = found.groups()
        return names[kind].setdefault(number, name or "")

    for line in map(str.rstrip, lines):
        key, equals, value = line.partition("=")
        if line[:1].isdigit() or line[:1] in {"+", "-", "*"}:
            if not called:
                costs = line.split()[1:]
                profile.instructions[library] += int(costs[0]) if costs else 0
            called = False
        elif equals and key == "ob":
            library = name_of("ob", value)
        elif equals and key == "cob":
            name_of("ob", value)
        elif equals and key == "fn":
            name_of("fn", value)
        elif equals and key == "cfn":
            callee = name_of("fn", value)
        elif equals and key == "calls":
            profile.calls[_plain(callee)] += int(value.split()[0])
            called = True
        elif line.startswith("events:"):
            events = line.split()[1:]
        elif line.startswith("totals:"):
            profile.costs = dict(zip(events, map(int, line.split()[1:]), strict=False))
    if events[:1] != ["Ir"]:
        raise ProfileError("no file of callgrind's, or one that begins with another event than Ir")
    if profile.instructions.total() != profile.costs.get("Ir"):
        told = profile.costs.get("Ir")
        raise ProfileError(f"{profile.instructions.total()} instructions of functions, {told} in all")
    return profile


def _plain(function: str) -> str:
    """A function's name without the marks of a recursion and of what the compiler has split off it."""
    return _VARIANT.sub("", _RECURSION.sub("", function))
