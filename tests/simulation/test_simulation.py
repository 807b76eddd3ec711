"""A fixed sample of seeds; each mutant is found by one of them. `make simulate` runs others.

Each run is a process of its own: what is compiled is taken from its sources there, and the order of texts in
sets is fixed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from .mutants import MUTANTS
from .samples import BATCHES, FOUND_BY, SEEDS, SOUND

TESTS = Path(__file__).parents[1]


def _simulate(*options: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "simulation", *options],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


def _digests(output: str) -> Sequence[str]:
    found: list[str] = re.findall(r"events, ([0-9a-f]{32}),", output)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_seed_breaks_an_invariant(batch: int) -> None:
    size = SOUND // BATCHES
    done = _simulate("--seed", str(1 + batch * size), "--seeds", str(size))
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    assert len(_digests(done.stdout)) == size


def test_a_seed_is_one_trace_in_every_process() -> None:
    first = _simulate("--seed", "4", "--seeds", "2", hash_seed="1")
    alone = _simulate("--seed", "5", hash_seed="2")
    assert len(_digests(first.stdout)) == 2, first.stdout + first.stderr
    assert _digests(first.stdout)[1:] == _digests(alone.stdout), "of seed 5"


def test_a_replica_given_back_while_its_folder_is_away_is_there_once() -> None:
    """No seed of the sample comes to it. It was made anew elsewhere, and its broker refused to start."""
    faults = "7.551/recreate/0/2/1.781/3,9.359/folder/2/1/2.6/17,10.09/reassign/2/0/1.001/9"
    done = _simulate("--seed", "166", "--faults", faults)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]


ALL_DIE_AND_ONE_LOSES_POWER = {
    "comes back with the others": (
        "1.996/reset/0/1/8.515/14,3.032/isolate/0/2/2.808/51,6.026/isolate/0/2/7.775/16,9.662/stop/1/2/1.397/60,"
        "9.91/crash/1/2/0.532/56,10.935/crash/0/2/3.95/43,11.592/crash/2/1/1.318/20,13.849/reset/1/2/0.808/56,"
        "14.268/power/1/0/5.492/5,15.892/isolate/1/0/0.358/1,17.779/isolate/1/0/2.139/4"
    ),
    "has what was cut from its log again": (
        "3.032/isolate/0/2/2.808/51,6.026/isolate/0/2/7.775/16,9.662/stop/1/2/1.397/60,9.91/crash/1/2/0.532/56,"
        "10.935/crash/0/2/0.061/43,11.592/crash/2/1/0.083/20,13.849/reset/1/2/0.051/56,14.268/power/1/0/0.086/5"
    ),
}
"""No seed of the sample comes to it. The first was elected, and others cut their logs to its own; the second
took what had come back for records of the epoch that had come in their place."""


@pytest.mark.parametrize("what", ALL_DIE_AND_ONE_LOSES_POWER)
def test_all_die_and_one_loses_power_and(what: str) -> None:
    done = _simulate("--seed", "999", "--faults", ALL_DIE_AND_ONE_LOSES_POWER[what])
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", FOUND_BY)
def test_a_rule_left_out_is_found(mutant: str) -> None:
    done = _simulate("--mutant", mutant, "--seed", str(FOUND_BY[mutant]))
    if done.returncode == 0:
        # The broker has changed, and with it what a seed does.
        done = _simulate("--mutant", mutant, "--seeds", str(SEEDS), "--first")
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-3000:]
    assert "again: make simulate SEED=" in done.stdout


def test_the_page_names_each_mutant_and_what_finds_it() -> None:
    page = (TESTS.parent / "docs" / "simulation.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z-]+)` \|.*\| ([^|]*) \|$", page, re.MULTILINE))
    assert rows == {one: f"{seed}" for one, seed in FOUND_BY.items()}
    assert FOUND_BY.keys() == MUTANTS.keys()
    assert f"`make test` runs the seeds 1 to {SOUND}." in page
    assert f"seeds 1 to {SEEDS}" in page


def test_what_finds_a_mutant_is_in_the_sample() -> None:
    assert all(1 <= seed <= SEEDS for seed in FOUND_BY.values())
