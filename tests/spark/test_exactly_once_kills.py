"""Kills of `exactly_once_kills`: every step without Spark, and a few through Spark where asked for."""

import os
from pathlib import Path

import pytest

from spark.exactly_once_kills import plan, run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

KILLS = [
    ("task has prepared", "self"),
    ("one is committed", "self"),
    ("decision is sent", "broker"),
    ("driver has decided", "driver"),
]


@pytest.mark.skipif(
    "ODRADEK_SPARK_KILLS" not in os.environ,
    reason="kills through Spark take many minutes and have not come to their end yet (ODRADEK_SPARK_KILLS=1)",
)
def test_each_row_is_there_once(tmp_path: Path) -> None:
    rows = run(tmp_path, KILLS, ["twoPhaseCommit=true"])
    assert rows >= 400 * len(KILLS)


def test_every_step_is_killed_without_spark(tmp_path: Path) -> None:
    assert run(tmp_path, plan(27, seed=1), spark=False) >= 80
