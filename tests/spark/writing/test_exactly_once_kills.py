"""Kills of `exactly_once_kills`: each victim once, through Spark; `make kills` goes through every step."""

from pathlib import Path

import pytest

from spark.exactly_once_kills import run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

KILLS = [
    ("task has prepared", "self"),
    ("driver decides", "workers"),
    ("driver has decided", "driver"),
    ("one is committed", "broker"),
]


def test_each_row_is_there_once(tmp_path: Path) -> None:
    outcome = run(tmp_path, KILLS, ["twoPhaseCommit=true"])
    assert outcome.rows >= 20 * len(KILLS)
    assert outcome.starts >= 2
