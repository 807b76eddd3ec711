"""What fails once is run again alone; what fails twice, or with many others, has failed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from again import MOST_S, Failure, kept, listed, seconds_in_vain

AGAIN = Path(__file__).with_name("again.py")

ONCE = """
from pathlib import Path
def test_one():
    seen = Path("seen")
    if not seen.exists():
        seen.touch()
        assert False, "the first time"
def test_other():
    pass
"""
ALWAYS = "def test_one():\n    assert False\n"
HANGS = """
import time, pytest
@pytest.mark.timeout(0.2)
def test_one():
    while True:
        time.sleep(0.01)  # for what never comes
"""


@pytest.mark.parametrize(
    ("tests", "files", "code", "runs"),
    [
        (ONCE, 1, 0, 2),
        (ALWAYS, 1, 1, 2),
        (ALWAYS, 4, 1, 1),
        (HANGS, 1, 1, 2),
        ("def test_one(): pass", 4, 0, 1),
    ],
)
def test_failures(tmp_path: Path, tests: str, files: int, code: int, runs: int) -> None:
    for number in range(files):
        (tmp_path / f"test_it{number or ''}.py").write_text(tests, encoding="utf-8")
    again = shutil.copy(AGAIN, tmp_path)  # the list is beside it
    done = subprocess.run(
        [sys.executable, again, "-q", "-c", "/dev/null", "--rootdir", ".", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert len(re.findall(r"(?:passed|failed) in [\d.]+s", done.stdout)) == runs, done.stdout
    _, once, end = done.stdout.partition("FAILED ONCE, PASSED ALONE")
    assert bool(once) == (tests == ONCE)
    # At the end stands what it was.
    assert ("--- test_it test_one (failure)" in end and "the first time" in end) == (tests == ONCE)
    assert done.stdout.count("test_it.py::test_one") >= (2 if runs == 2 else 0)
    noted = tmp_path / "passed_alone.txt"
    assert noted.exists() == (tests == ONCE)
    if noted.exists():
        line = r"\d{4}-\d\d-\d\d\ttest_it\.py::test_one\tAssertionError: the first time\n"
        assert re.fullmatch(line, noted.read_text(encoding="utf-8"))
    assert ("for what never comes" in done.stdout) == (tests == HANGS)


def test_what_waited_for_minutes_does_not_wait_again() -> None:
    one = Failure("test_it.py::test_one", "Failed", "E   Failed: Timeout (>120.0s) from pytest-timeout.")
    other = Failure("test_it.py::test_two", "Failed", "E   Failed: Timeout (>600s) from pytest-timeout.")
    wrong = Failure("test_it.py::test_three", "AssertionError", "E   assert 1 == 2")
    assert seconds_in_vain([one, one, wrong]) == 240 <= MOST_S
    assert seconds_in_vain([wrong, other]) == 600 > MOST_S


def test_the_page_of_what_clients_did_hears_of_the_second_run() -> None:
    words = ["tests", "-n", "3", "--compatibility", "page.md", "-q"]
    assert kept(words) == ["--compatibility", "page.md"]
    assert kept(["--compatibility", "page.md"]) == ["--compatibility", "page.md"]
    assert kept(["tests", "-q"]) == []


def test_the_second_run_chooses_by_the_same_marks() -> None:
    """A test that is run on demand alone was left out the second time."""
    assert kept(["tests/interop", "-n", "3", "-m", "interop", "-q"]) == ["-m", "interop"]


def test_what_is_listed_is_there() -> None:
    """Whoever renames or removes a test looks at its line, too."""
    root = AGAIN.parents[1]
    for test in listed():
        path, _, name = test.partition("::")
        assert (root / path).exists(), path
        # Some files have the tests of others, for another server.
        definition = f"def {name.partition('[')[0]}("
        files = AGAIN.parent.rglob("test_*.py")
        assert any(definition in file.read_text(encoding="utf-8") for file in files), test
