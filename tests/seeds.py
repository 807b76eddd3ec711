"""Seeds of tests that make their inputs by chance: the same in every run, and new ones in `make fuzz`.

`make fuzz` sets `ODRADEK_FUZZ_SEED` to a new number and prints it; with that number they are made again:

    ODRADEK_FUZZ_SEED=123 pytest tests/records/test_fuzz.py
"""

from __future__ import annotations

import os
import random

import pytest

_GIVEN = os.environ.get("ODRADEK_FUZZ_SEED")


def seed(fixed: int) -> int:
    """The seed of a test marked `fuzz`: `fixed`, unless new inputs are wanted."""
    return fixed if _GIVEN is None else random.Random(f"{_GIVEN} {fixed}").randrange(2**32)


def each_seed(count: int) -> pytest.MarkDecorator:
    """Run a test with so many seeds, as its argument `seed`."""
    return pytest.mark.parametrize(
        "seed", [pytest.param(seed(number), marks=pytest.mark.fuzz) for number in range(count)]
    )
