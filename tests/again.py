"""Run pytest; run the few tests that failed once more, alone, and say which passed then.

A test that fails among thousands on a busy machine, and passes alone, is a fault of the test, or of what it
tests: it is named at the end, so that somebody mends it. It does not keep all the others from being believed
(docs/decisions/failed-once-run-again-alone.md).

python tests/again.py [ARGUMENTS OF PYTEST]
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MOST_FILES = 3
"""Failures in more files than this are no accident: nothing is run again. (A server that does not start fails
every test of a file.)"""

TESTS_FAILED = 1
_LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 if every test has passed in the end."""
    code = pytest([*arguments, "--cache-clear"])
    failed = last_failed() if code == TESTS_FAILED else []
    if not 0 < len({name.partition("::")[0] for name in failed}) <= MOST_FILES:
        return code
    say(f"failed, and run once more alone: {', '.join(failed)}")
    code = pytest([*failed, "-p", "no:cacheprovider", "-p", "no:xdist"])
    if code == 0:
        say("FAILED ONCE, PASSED ALONE. Somebody should find out why:", *(f"  {name}" for name in failed))
    return code


def pytest(arguments: Sequence[str]) -> int:
    """Run pytest in this Python; its exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def last_failed() -> list[str]:
    """The tests that the last run noted as failed."""
    if not _LAST_FAILED.exists():
        return []
    return sorted(json.loads(_LAST_FAILED.read_text()))


def say(*lines: str) -> None:
    """Tell whoever reads the log."""
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
