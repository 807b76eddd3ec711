"""Kills of `exactly_once_kills`: every step without Spark, and some through Spark."""

from pathlib import Path

import pytest

from spark.exactly_once_kills import plan, run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

KILLS = [
    ("task has written", "broker"),
    ("task has prepared", "self"),
    ("driver decides", "workers"),
    ("decision is sent", "broker"),
    ("driver has decided", "self"),
    ("driver has decided", "driver"),
    ("one is committed", "broker"),
    ("all are committed", "self"),
]


def test_each_row_is_there_once(tmp_path: Path) -> None:
    outcome = run(tmp_path, KILLS, ["twoPhaseCommit=true"])
    assert outcome.rows >= 20 * len(KILLS)
    assert outcome.starts >= 2


def test_every_step_is_killed_without_spark(tmp_path: Path) -> None:
    assert run(tmp_path, plan(27, seed=1, spark=False), spark=False).rows >= 80
