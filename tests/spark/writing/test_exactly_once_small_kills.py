"""Kills of `exactly_once_kills`: every step, without Spark."""

import itertools
from pathlib import Path

import pytest

from spark.exactly_once_kills import run
from spark.killed_job import STEPS

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]


VICTIMS = ("broker", "self", "driver")


def test_every_step_is_killed_without_spark(tmp_path: Path) -> None:
    kills = list(zip(STEPS, itertools.cycle(VICTIMS), strict=False))
    assert run(tmp_path, kills, spark=False).rows >= 20
