"""mypy over right and wrong programs: it finds what is wrong, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).with_name("programs.py")

_WRONG = re.compile(r"# wrong: (\S+)$")
_ERROR = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: .* \[(?P<code>[a-z-]+)\]$")


def expected() -> dict[int, str]:
    """The line of each error, and mypy's code of it."""
    lines = PROGRAMS.read_text(encoding="utf-8").splitlines()
    return {at: found[1] for at, line in enumerate(lines, 1) if (found := _WRONG.search(line))}


def test_mypy_finds_what_is_wrong_and_nothing_else() -> None:
    pytest.importorskip("mypy")
    # The project's configs, and so what it has cached of our modules.
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", str(PROGRAMS)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    found = [match for line in ran.stdout.splitlines() if (match := _ERROR.match(line))]
    assert found, ran.stdout + ran.stderr
    assert {int(match["line"]): match["code"] for match in found} == expected(), ran.stdout
    assert {Path(match["file"]).name for match in found} == {PROGRAMS.name}
