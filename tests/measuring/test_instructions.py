"""Counted instructions: callgrind's file, whose they are, what is kept of them, and what has grown."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from benchmarks.instructions import place
from benchmarks.instructions.costs import Profile, ProfileError, parse
from benchmarks.instructions.counts import Counts, library_of
from benchmarks.instructions.kept import Growth, Kept, grown, shares, table
from benchmarks.instructions.loads import LOADS, START, TITLES

# Two functions of Python's, one of which calls itself and a part of the other, and one of ours.
FILE = """# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 7
cmd:  python -m odradek server

positions: line
events: Ir Dr Dw I1mr

ob=(1) /opt/lib/libpython3.11.so.1.0
fl=(1) ???
fn=(1) _PyType_Lookup
0 100 10 5 3
cfn=(2) _PyEval_EvalFrameDefault'2
calls=3 0
0 9000 1 1 1

fn=(2)
0 250
cob=(2) /src/odradek/wire/_codec.so
cfi=(2) _codec.c
cfn=(3) encode
calls=2 0
0 8000
cfn=(4) _PyType_Lookup.part.0
calls=4 +5
+3 600

ob=(2)
fn=(3)
* 50 0 0 2
cob=(1)
cfn=(1)
calls=6 0
0 600

totals: 400 10 5 5
"""


def test_costs_belong_to_the_function_that_has_them() -> None:
    profile = parse(FILE.splitlines(keepends=True))
    assert profile.costs == {"Ir": 400, "Dr": 10, "Dw": 5, "I1mr": 5}
    assert profile.instructions == {"/opt/lib/libpython3.11.so.1.0": 350, "/src/odradek/wire/_codec.so": 50}
    assert profile.calls == {"_PyType_Lookup": 10, "_PyEval_EvalFrameDefault": 3, "encode": 2}


def test_what_is_done_at_rest_is_taken_off() -> None:
    whole = Profile({"Ir": 100, "I1mr": 1}, Counter(a=60, b=40), Counter(f=8, g=1))
    rest = Profile({"Ir": 10, "I1mr": 1, "Dr": 1}, Counter(a=10), Counter(f=2, h=3))
    found = whole.less(rest, 2.5)
    assert found == Profile({"Ir": 75, "I1mr": 0}, Counter(a=35, b=40), Counter(f=3, g=1))


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        FILE.replace("0 250", "0 251"),
        FILE.replace("0 100 10 5 3\n", ""),
        FILE.replace("totals: 400 10 5 5\n", ""),
        FILE.replace("events: Ir", "events: Dr"),
    ],
    ids=["empty", "more", "less", "no totals", "other events"],
)
def test_a_file_that_does_not_add_up(damaged: str) -> None:
    with pytest.raises(ProfileError):
        parse(damaged.splitlines())


@pytest.mark.parametrize(
    ("path", "library"),
    [
        ("/opt/lib/libpython3.11.so.1.0", "libpython"),
        ("/usr/bin/python3.13", "libpython"),
        ("/src/odradek__mypyc.cpython-311-x86_64-linux-gnu.so", "walk"),
        ("/src/odradek/wire/_codec.cpython-311-x86_64-linux-gnu.so", "parts"),
        ("/lib/python3.11/site-packages/uvloop/loop.cpython-311-x86_64-linux-gnu.so", "uvloop"),
        ("/lib/x86_64-linux-gnu/libc.so.6", "libc"),
        ("/lib/python3.11/lib-dynload/_struct.cpython-311-x86_64-linux-gnu.so", "others"),
        ("???", "others"),
    ],
)
def test_whose_instructions_they_are(path: str, library: str) -> None:
    assert library_of(path) == library


def counts(instructions: int = 50_000, modules: int | None = None, misses: int | None = 2400) -> Counts:
    libraries = dict.fromkeys(("walk", "parts", "uvloop", "libc", "others"), 0)
    libraries |= {"libpython": instructions * 3 // 5, "walk": instructions * 2 // 5}
    return Counts(instructions, libraries, misses, 39.5, 52.5, 32.1, 55.0, modules)


def test_counts_are_those_of_one_request() -> None:
    profile = parse(FILE.splitlines())
    found = Counts.of(profile, 4)
    assert (found.instructions, found.i1_misses, found.type_lookups, found.objects) == (100, 1, 2.5, 0)
    assert found.libraries["libpython"] == 88
    assert found.libraries["parts"] == 12
    assert Counts.of(Profile({"Ir": 8}), 4).i1_misses is None


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    assert Kept.read(tmp_path) is None
    loads = {START: counts(modules=575), "commit": counts(misses=None)}
    Kept({"Python": "CPython 3.11.7"}, loads).write(TITLES, tmp_path)
    kept = Kept.read(tmp_path)
    assert kept == Kept({"Python": "CPython 3.11.7"}, loads)
    assert list(kept.loads) == ["commit", START]
    page = (tmp_path / "INSTRUCTIONS.md").read_text(encoding="utf-8")
    assert "Counted on: Python: CPython 3.11.7." in page
    assert table(kept.loads, TITLES) in page
    assert shares(kept.loads, TITLES) in page


def test_a_row_of_the_table() -> None:
    row = table({START: counts(modules=575)}, {START: "a start"}).splitlines()[-1]
    assert row == "| a start (575 modules) | 50,000 | 60% | 2,400 | 40 | 52 | 32 | 55 |"


def test_what_has_grown_by_more_than_a_twentieth() -> None:
    before = {"commit": counts(100_000), START: counts(100_000, 600)}
    assert grown(before, {"commit": counts(105_000), START: counts(20, 630), "long-poll": counts()}) == []
    found = grown(before, {"commit": counts(105_001), START: counts(105_001, 631)})
    assert found == [
        Growth("commit", "instructions", 100_000, 105_001),
        Growth(START, "instructions", 100_000, 105_001),
        Growth(START, "modules", 600, 631),
    ]
    assert str(found[2]) == "start: 600 → 631 modules, 5.2% more"


def test_another_place_is_told_by_what_differs() -> None:
    there = {"Python": "CPython 3.11.7", "C library": "glibc 2.36"}
    assert place.differences(there, dict(there)) == []
    assert place.differences(there, {"Python": "CPython 3.12.1", "valgrind": "3.19.0"}) == [
        "Python: CPython 3.12.1, not CPython 3.11.7",
        "C library: none, not glibc 2.36",
        "valgrind: 3.19.0, not none",
    ]


def test_every_load_is_kept() -> None:
    kept = Kept.read()
    assert kept is not None
    assert list(kept.loads) == [*LOADS, START]
