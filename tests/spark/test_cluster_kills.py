"""Kills of `exactly_once_kills` on a Spark cluster: an executor, and a machine with all that runs there.

`make kills CLUSTER=1` goes through every step.
"""

from pathlib import Path

import pytest

from spark.exactly_once_kills import run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

KILLS = [
    ("driver decides", "machine"),
    ("one is committed", "executor"),
]


def test_each_row_is_there_once(tmp_path: Path) -> None:
    outcome = run(tmp_path, KILLS, ["twoPhaseCommit=true"], on_cluster=True)
    assert outcome.rows >= 20 * len(KILLS)
