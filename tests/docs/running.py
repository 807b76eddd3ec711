"""The programs of our pages, run as their reader would."""

from __future__ import annotations

import os
import signal
import subprocess
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import IO

from waiting import WITHIN_S

LIMIT_S = 120


def script(name: str) -> str:
    """The path of a command of the environment."""
    return str(Path(sysconfig.get_path("scripts")) / name)


def _started(words: list[str], where: Path, errors: IO[str] | int) -> subprocess.Popen[str]:
    """A process as somebody who has activated the environment would start it."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    return subprocess.Popen(
        words,
        cwd=where,
        env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,  # a terminal's Ctrl-C reaches all of them
        text=True,
    )


def _signal(child: subprocess.Popen[str], number: signal.Signals) -> None:
    """To a process and its children, if they still run."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, number)


def run(words: list[str], where: Path, prints: str | None, errors: IO[str] | int = subprocess.STDOUT) -> str:
    """Run a program to its end, or until it has printed that, and then Ctrl-C.

    Args:
        where: the folder that it runs in.
        prints: what it has to print; None: it ends by itself.
        errors: where its standard error goes; without, into what it printed.

    Returns:
        What it printed.

    Raises:
        AssertionError: it failed, or has not printed that.
    """
    child = _started(words, where, errors)
    assert child.stdout is not None
    printed = ""
    try:
        for line in child.stdout:
            printed += line
            if prints is not None and prints in printed:
                break
        else:
            assert child.wait(LIMIT_S) == 0, printed
            assert prints is None, f"it has not printed {prints}:\n{printed}"
            return printed
        _signal(child, signal.SIGINT)
        printed += child.stdout.read()
        assert child.wait(LIMIT_S) in (0, 128 + signal.SIGINT, -signal.SIGINT), printed
        return printed
    finally:
        _signal(child, signal.SIGKILL)
        child.wait(WITHIN_S)
        child.stdout.close()
