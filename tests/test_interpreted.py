"""Tests that follow Python from call to call, let functions fail, or copy a whole log, run on the sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compiled_walk import is_compiled

TESTS = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.skipif(not is_compiled(), reason="nothing is compiled: they run by themselves")
@pytest.mark.parametrize(
    "name",
    [
        "broker/network/test_connection_bounds.py",
        "broker/apis/test_no_long_stretch.py",
        "docs/test_walks.py",
        "log/cleaner/test_cleaner_model.py",
        "log/partition/test_failed_appends.py",
    ],
)
def test_what_is_compiled_is_tested_in_its_sources(name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "interpreted", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(TESTS / name)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout
