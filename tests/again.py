"""Run pytest; run the few tests that failed once more, alone, and say which passed then.

A test that fails among thousands on a busy machine, and passes alone, is a fault of the test, or of what it
tests: it is named at the end and in `passed_alone.txt`, until somebody has mended it. It does not keep all
the others from being believed (docs/decisions/failed-once-run-again-alone.md).

python tests/again.py [ARGUMENTS OF PYTEST]
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

LIST = Path(__file__).with_name("passed_alone.txt")
"""A line for each such failure: its day, the test, and what it said."""

MOST_FILES = 3
"""Failures in more files than this are no accident: nothing is run again. (A server that does not start fails
every test of a file.)"""

TIMED_OUT = re.compile(r"Timeout \(>([\d.]+)s\) from pytest-timeout")
MOST_S = 300
"""Nor is anything where tests waited in vain for longer than this until their time was over: they would wait
as long once more. (Where a machine stands still for two minutes, a test fails so that hangs nowhere.)"""

TESTS_FAILED = 1
KEPT = {"--compatibility", "-m"}
"""Options that hold the second time, too: where what tests have told is written, and which are chosen by
their marks (the configuration's choice leaves out some of what a run was asked for)."""

LAST_LINES = 40
"""Of a failure's text."""


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 if every test has passed in the end."""
    # A cache of its own: several runs go on beside each other in one checkout.
    with tempfile.TemporaryDirectory(prefix="odradek-again-") as cache:
        told = Path(cache) / "first.xml"
        code = pytest([f"--junitxml={told}", *arguments, "-o", f"cache_dir={cache}"])
        failed = last_failed(Path(cache)) if code == TESTS_FAILED else []
        failures = list(failures_of(told))
    if seconds_in_vain(failures) > MOST_S:
        in_vain = [failure.end for failure in failures if TIMED_OUT.search(failure.end)]
        say("TESTS WAITED IN VAIN. Nothing is run again:", *in_vain)
        return code
    if not 0 < len({name.partition("::")[0] for name in failed}) <= MOST_FILES:
        return code
    say(f"failed, and run once more alone: {', '.join(failed)}")
    code = pytest([*failed, "-p", "no:cacheprovider", "-p", "no:xdist", *kept(arguments)])
    if code == 0:
        say("FAILED ONCE, PASSED ALONE. Somebody should find out why:", *(f"  {name}" for name in failed))
        # Thousands of lines above they would be looked for in vain, and the next run has others.
        say(*(failure.end for failure in failures))
        say(f"Noted in {LIST.name}; whoever mends it takes the line out:", *note(failed, failures))
    return code


def pytest(arguments: Sequence[str]) -> int:
    """Run pytest in this Python; its exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def kept(arguments: Sequence[str]) -> list[str]:
    """The options that hold for the tests that are run alone, too, with their values."""
    return [word for at, word in enumerate(arguments) if {word, *arguments[at - 1 : at]} & KEPT]


def last_failed(cache: Path) -> list[str]:
    """The tests that the run with this cache noted as failed."""
    noted = cache / "v/cache/lastfailed"
    return sorted(json.loads(noted.read_text(encoding="utf-8"))) if noted.exists() else []


class Failure(NamedTuple):
    """Why a test failed.

    Attributes:
        test: its name, as pytest takes it.
        message: the first line of what it said.
        end: the last lines of the traceback, below a title.
    """

    test: str
    message: str
    end: str


def failures_of(told: Path) -> Iterator[Failure]:
    """The failures of a run, from pytest's JUnit file; a test has two where its fixture failed as well."""
    for case in ElementTree.parse(told).iter("testcase") if told.exists() else ():
        module, name = case.get("classname", ""), case.get("name", "")
        for problem in (*case.iter("failure"), *case.iter("error")):
            lines = (problem.text or "").splitlines()[-LAST_LINES:]
            yield Failure(
                f"{module.replace('.', '/')}.py::{name}",
                (problem.get("message") or "").partition("\n")[0],
                "\n".join([f"--- {module} {name} ({problem.tag})", *lines]),
            )


def seconds_in_vain(failures: Sequence[Failure]) -> float:
    """How long tests waited that were ended because their time was over."""
    return sum(float(found[1]) for failure in failures if (found := TIMED_OUT.search(failure.end)))


def note(failed: Sequence[str], failures: Sequence[Failure]) -> list[str]:
    """Add these tests to the list; the lines that were added."""
    today = datetime.now(UTC).date().isoformat()
    said = {failure.test: failure.message for failure in reversed(failures)}
    lines = [f"{today}\t{test}\t{said.get(test, '')}" for test in failed]
    with LIST.open("a", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))
    return lines


def listed() -> list[str]:
    """The tests that the list names."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[1] for line in lines if line and not line.startswith("#")]


def say(*lines: str) -> None:
    """Tell whoever reads the log."""
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
