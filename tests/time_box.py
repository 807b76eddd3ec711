"""A run that has to end in time: tests that would begin too late are skipped, and say so.

A run that is ended from outside tells nothing, not even of what has passed
(docs/decisions/a-run-that-ends.md).
"""

from collections.abc import Mapping

import pytest

VARIABLE = "ODRADEK_BEGIN_NO_TEST_AFTER_S"
"""The last moment at which a test may begin, in seconds since 1970; without it every test may."""


def skip_late(environment: Mapping[str, str], now_s: float) -> None:
    """Skip the test that is about to begin, if it is too late for it."""
    last = environment.get(VARIABLE)
    if last is not None and now_s > float(last):
        pytest.skip("the time of this run is over: a run that is given more goes through it")
