"""`time_box`, in a run of pytest's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import time_box

PORTS = str(Path(__file__).with_name("test_ports.py"))


@pytest.mark.parametrize(("last_s", "outcome"), [(0, "skipped"), (1e12, "passed")])
def test_what_would_begin_too_late_is_skipped_and_named(last_s: float, outcome: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", PORTS, "-q", "-n", "0", "-rs", "-p", "no:cacheprovider"],
        env={**os.environ, time_box.VARIABLE: str(last_s)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    counts = done.stdout.splitlines()[-1]
    assert outcome in counts and ("skipped" in counts) == (outcome == "skipped")
    assert ("the time of this run is over" in done.stdout) == (outcome == "skipped")
