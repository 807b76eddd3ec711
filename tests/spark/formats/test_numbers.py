"""Numbers that compiled parts and Python both have: each name means the same in both."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

import odradek
from odradek.spark.formats import avro_steps, kinds, protobuf_types

SOURCES = Path(odradek.__file__).parent
#: Names that only the compiled side has.
OF_C = {"OUT_OF_MEMORY": -1}


def in_c(name: str) -> dict[str, int]:
    """The names and numbers of a source's enums."""
    text = (SOURCES / name).read_text(encoding="utf-8")
    found: dict[str, int] = {}
    for block in re.findall(r"^cdef enum:\n((?:    .*\n)+)", text, re.MULTILINE):
        for constant, value in re.findall(r"^    (\w+) = (\S+)", block, re.MULTILINE):
            assert constant not in found
            found[constant] = int(value, 0)
    return found


def in_python(module: ModuleType) -> dict[str, int]:
    return {name: value for name, value in vars(module).items() if isinstance(value, int)}


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("spark/formats/_tree.pxd", kinds),
        ("spark/formats/_avro.pyx", avro_steps),
        ("spark/formats/_protobuf.pyx", protobuf_types),
    ],
)
def test_both_sides_number_alike(source: str, module: ModuleType) -> None:
    compiled = in_c(source)
    assert {name: OF_C.get(name, value) for name, value in compiled.items()} == compiled
    assert {name: value for name, value in compiled.items() if name not in OF_C} == in_python(module)
