"""The counts that are kept, in `counts.json`; their table, in `INSTRUCTIONS.md`; and what has grown since."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.instructions.counts import LIBRARIES, Counts

HOME = Path(__file__).parent
GROWTH = 1.05
"""What has grown by more than this is told of."""

_INTRODUCTION = """# Instructions of a request

Written by `make instructions RENEW=1`; what is counted, and how, is in
[README.md](../README.md#instructions-of-a-request). In user space, of one request on average. The cache is
valgrind's model of one with 32 KiB; look-ups and objects are calls of Python's `_PyType_Lookup`,
`_PyObject_GenericGetAttrWithDict`, `_Py_dict_lookup` and `_Py_NewReference`.
"""
_LIBRARY_TITLES = {
    "libpython": "libpython",
    "walk": "compiled by mypyc",
    "parts": "compiled by Cython",
    "uvloop": "uvloop",
    "libc": "libc",
    "others": "others",
}


@dataclass(frozen=True)
class Kept:
    """Counts, and what they depend on.

    Attributes:
        place: see `place.here`.
        loads: by the name of the load.
    """

    place: Mapping[str, str]
    loads: Mapping[str, Counts]

    @classmethod
    def read(cls, home: Path = HOME) -> Kept | None:
        """What is kept, None: nothing."""
        path = home / "counts.json"
        if not path.exists():
            return None
        document = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            document["place"], {name: Counts.from_json(one) for name, one in document["loads"].items()}
        )

    def write(self, titles: Mapping[str, str], home: Path = HOME) -> None:
        """Keep it, and write the table; both in the order of `titles`."""
        loads = {name: self.loads[name] for name in titles if name in self.loads}
        document = {
            "place": dict(self.place),
            "loads": {name: counts.to_json() for name, counts in loads.items()},
        }
        (home / "counts.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        place = "; ".join(f"{name}: {value}" for name, value in self.place.items())
        text = f"{_INTRODUCTION}\nCounted on: {place}.\n\n{table(loads, titles)}\n{shares(loads, titles)}"
        (home / "INSTRUCTIONS.md").write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Growth:
    """A load that takes more than is kept of it."""

    name: str
    what: str
    before: int
    now: int

    def __str__(self) -> str:
        more = self.now / self.before - 1
        return f"{self.name}: {self.before:,} → {self.now:,} {self.what}, {more:.1%} more"


def grown(before: Mapping[str, Counts], now: Mapping[str, Counts]) -> list[Growth]:
    """The loads that take more than `GROWTH` times the instructions, or that import so many more modules.

    A load of which nothing is kept has not grown.
    """
    found = []
    for name, counts in now.items():
        if name not in before:
            continue
        for what, old, new in (
            ("instructions", before[name].instructions, counts.instructions),
            ("modules", before[name].modules or 0, counts.modules or 0),
        ):
            if new > old * GROWTH:
                found.append(Growth(name, what, old, new))
    return found


def table(loads: Mapping[str, Counts], titles: Mapping[str, str]) -> str:
    """A row of each load in Markdown: what was counted."""
    lines = [
        "| load | instructions | of these in libpython | I1 misses | attribute look-ups, generic | "
        "type look-ups | dict look-ups | objects made |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, one in loads.items():
        title = titles[name] + (f" ({one.modules} modules)" if one.modules else "")
        misses = "" if one.i1_misses is None else f"{one.i1_misses:,}"
        calls = (one.attribute_lookups, one.type_lookups, one.dict_lookups, one.objects)
        cells = [
            title,
            f"{one.instructions:,}",
            _share(one, "libpython"),
            misses,
            *(f"{n:,.0f}" for n in calls),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def shares(loads: Mapping[str, Counts], titles: Mapping[str, str]) -> str:
    """A row of each load in Markdown: whose instructions they are."""
    lines = [
        f"| of the instructions | {' | '.join(_LIBRARY_TITLES[one] for one in LIBRARIES)} |",
        f"|---|{'--:|' * len(LIBRARIES)}",
    ]
    for name, one in loads.items():
        lines.append(f"| {titles[name]} | {' | '.join(_share(one, library) for library in LIBRARIES)} |")
    return "\n".join([*lines, ""])


def _share(counts: Counts, library: str) -> str:
    return f"{counts.libraries[library] / counts.instructions:.0%}"
