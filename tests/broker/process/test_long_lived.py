"""What lives long is not looked at by the collector again, unless too much of it stays."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

SETTING = """
    import gc, logging
    from odradek.broker.process import collector

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    long_lived = collector.LongLived()
    before = gc.get_threshold()
    long_lived.start()

    class Node:
        def __init__(self):
            self.other = None

    def full_rounds():
        return gc.get_stats()[2]["collections"]

    def cycles(count):
        made = []
        for _ in range(count):
            one, two = Node(), Node()
            one.other, two.other = two, one
            made.append(one)
        return made

    def nodes():
        gc.unfreeze()
        found = sum(1 for one in gc.get_objects() if type(one) is Node)
        gc.freeze()
        return found

    rounds = full_rounds()
"""


def run(words: str) -> list[str]:
    """In a process of its own, whose collector nobody else sets; returns its lines."""
    script = textwrap.dedent(SETTING) + textwrap.dedent(words)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).splitlines()


def test_a_storm_of_connections_causes_no_full_round() -> None:
    run(
        """
        alive = [Node() for _ in range(400_000)]
        long_lived.look()
        assert gc.get_freeze_count() > 400_000, "they are not taken out"
        alive.clear()
        long_lived.look()
        alive = [Node() for _ in range(400_000)]
        long_lived.look()
        assert full_rounds() == rounds
        assert nodes() == 400_000
        alive.clear()
        assert nodes() == 0, "what is taken out dies by its count"
        """
    )


def test_cycles_that_die_young_are_collected_without_a_full_round() -> None:
    run(
        """
        for _ in range(500_000):
            cycles(1)
        assert full_rounds() == rounds
        assert nodes() < 25_000
        """
    )


def test_cycles_that_die_old_are_found_when_they_stay_and_are_many() -> None:
    lines = run(
        """
        made = cycles(200_000)
        long_lived.look()
        made.clear()
        assert nodes() == 400_000, "they were expected to hang in their cycles"
        long_lived.look()
        assert nodes() == 0 and full_rounds() == rounds + 1
        long_lived.look()
        long_lived.look()
        assert full_rounds() == rounds + 1, "nothing has been added since"
        """
    )
    (line,) = [line for line in lines if line.startswith("looked at all objects: collected=400000 ")]
    assert " kept=" in line and " took_ms=" in line


def test_what_stays_for_good_is_looked_at_once() -> None:
    run(
        """
        alive = [Node() for _ in range(400_000)]
        for _ in range(10):
            long_lived.look()
        assert full_rounds() == rounds + 1
        """
    )


def test_nothing_is_looked_at_while_a_large_request_is_in_work() -> None:
    run(
        """
        long_lived.hold_back(True)
        alive = [Node() for _ in range(400_000)]
        for _ in range(10):
            long_lived.look()
        assert full_rounds() == rounds
        long_lived.hold_back(False)
        long_lived.look()
        assert full_rounds() == rounds + 1
        """
    )


@pytest.mark.parametrize("times", [1, 2])
def test_it_leaves_the_collector_as_it_was(times: int) -> None:
    run(
        f"""
        for _ in range({times}):
            long_lived.stop()
        assert gc.get_threshold() == before and gc.get_freeze_count() == 0
        assert long_lived._on_collection not in gc.callbacks
        """
    )
