"""What is counted of a load, per request; from a process's costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from benchmarks.instructions.costs import Profile

LIBRARIES = ("libpython", "walk", "parts", "uvloop", "libc", "others")
"""Whose instructions they are: Python itself; what mypyc and what Cython have compiled of this package; the
loop; the C library and its loader."""


@dataclass(frozen=True)
class Counts:
    """Of one request, on average.

    Attributes:
        instructions: in user space.
        libraries: of these, by the names of `LIBRARIES`.
        i1_misses: instructions that the first-level cache did not have; None where caches were not counted.
        attribute_lookups, type_lookups, dict_lookups: calls of Python's `_PyObject_GenericGetAttrWithDict`,
            `_PyType_Lookup` and `_Py_dict_lookup`.
        objects: of its `_Py_NewReference`.
        modules: imported; of a start only.
    """

    instructions: int
    libraries: dict[str, int]
    i1_misses: int | None
    attribute_lookups: float
    type_lookups: float
    dict_lookups: float
    objects: float
    modules: int | None = None

    @classmethod
    def of(cls, profile: Profile, requests: int, modules: int | None = None) -> Counts:
        """Divide what was counted of so many requests."""

        def calls(function: str) -> float:
            return round(profile.calls[function] / requests, 1)

        libraries: Counter[str] = Counter()
        for path, instructions in profile.instructions.items():
            libraries[library_of(path)] += instructions
        misses = profile.costs.get("I1mr")
        return cls(
            instructions=round(profile.costs["Ir"] / requests),
            libraries={name: round(libraries[name] / requests) for name in LIBRARIES},
            i1_misses=None if misses is None else round(misses / requests),
            attribute_lookups=calls("_PyObject_GenericGetAttrWithDict"),
            type_lookups=calls("_PyType_Lookup"),
            dict_lookups=calls("_Py_dict_lookup"),
            objects=calls("_Py_NewReference"),
            modules=modules,
        )

    def to_json(self) -> dict[str, Any]:
        """As a document of JSON, without what was not counted."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Counts:
        """Read what `to_json` gave."""
        return cls(**{"i1_misses": None, **document})


def library_of(path: str) -> str:
    """One of `LIBRARIES`.

    Args:
        path: of a file that has instructions; `???` is code of no file.
    """
    name = PurePath(path).name
    if name.startswith(("libpython", "python")):
        return "libpython"
    if name.startswith("odradek__mypyc"):
        return "walk"
    if "/odradek/" in path:
        return "parts"
    if "/uvloop/" in path:
        return "uvloop"
    if name.startswith(("libc.so", "libc-", "ld-linux", "ld-2")):
        return "libc"
    return "others"
