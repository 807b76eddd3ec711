"""A port is given to one run of the tests at a time, whether a server listens there already or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ports
from waiting import WITHIN_S

RANGE = range(19_000, 19_900)
OTHER_RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import ports
ports._own = lambda: range(19_000, 19_900)
print(ports.free_port(), flush=True)
sys.stdin.read()
"""


def test_what_another_run_has_taken_is_given_when_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_own", lambda: RANGE)
    command = [sys.executable, "-c", OTHER_RUN, str(Path(ports.__file__).parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        taken = int(child.stdout.readline())
        assert taken in RANGE
        assert not ports.is_ours(taken)
        assert taken not in {ports.free_port() for _ in range(50)}
        child.communicate("", WITHIN_S)
    assert ports.is_ours(taken)
