"""Schedules as text, and how they are shrunk."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from .faults import AMBUSHES, KINDS, LATER, Fault, parse, schedule
from .shrinking import shrink_schedule


@pytest.mark.parametrize("seed", range(20))
def test_a_schedule_is_read_as_it_was_written(seed: int) -> None:
    faults = schedule(seed)
    assert parse(",".join(one.text() for one in faults)) == faults == schedule(seed)


def test_all_kinds_come() -> None:
    assert {one.kind for seed in range(200) for one in schedule(seed)} == {*KINDS, *AMBUSHES, *LATER}


def test_what_does_not_matter_is_left_out() -> None:
    faults = [Fault(float(at), kind, 0, 1, 8.0, 0) for at, kind in enumerate(["cut", "kill", "cut", "power"])]
    tried = 0

    def is_broken(some: Sequence[Fault]) -> bool:
        nonlocal tried
        tried += 1
        return {one.kind for one in some if one.lasts_s >= 1} >= {"kill", "power"}

    shrunken = shrink_schedule(faults, is_broken)
    assert [(one.kind, one.lasts_s) for one in shrunken] == [("kill", 1.0), ("power", 1.0)]
    assert tried < 30
