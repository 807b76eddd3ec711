"""Kills of `exactly_once_kills`: every step, without Spark."""

from pathlib import Path

import pytest

from spark.exactly_once_kills import plan, run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_every_step_is_killed_without_spark(tmp_path: Path) -> None:
    assert run(tmp_path, plan(27, seed=1, spark=False), spark=False).rows >= 80
