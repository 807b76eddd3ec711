"""Worlds that tests run in: what each changes, and what is told where it cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import elsewhere
from elsewhere import Absent, Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    checkout = tmp_path / "odradek"
    checkout.mkdir()
    return Run(checkout)


def told(run: Run, expression: str) -> str:
    """What a Python in this world says."""
    environment = {**os.environ, **run.environment}
    return subprocess.run(
        [*run.command, sys.executable, "-c", f"print({expression})"],
        cwd=run.checkout,
        env={name: value for name, value in environment.items() if value is not None},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout.strip()


def test_every_world_is_in_one_run_of_those_that_have_several() -> None:
    together = [world for worlds in elsewhere.TOGETHER for world in worlds]
    assert sorted(map(elsewhere.name_of, together)) == sorted(map(elsewhere.name_of, elsewhere.WORLDS))
    assert {elsewhere.with_a_read_only_home, elsewhere.as_somebody_else} <= set(elsewhere.TOGETHER[1])


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc/uptime to hold the clock against")
def test_the_clock_is_ahead_and_time_passes_as_ever(run: Run) -> None:
    try:
        elsewhere.in_eight_days(run)
    except Absent as absent:
        pytest.skip(str(absent))
    read = "__import__('time').time() - float(open('/proc/uptime').read().split()[0])"
    plain = float(told(Run(run.checkout), read))
    assert float(told(run, read)) - plain == pytest.approx(8 * elsewhere.DAY_S, abs=60)


def test_a_month_ends_soon(run: Run) -> None:
    try:
        elsewhere.as_a_month_ends(run)
    except Absent as absent:
        pytest.skip(str(absent))
    day_in_a_minute = "__import__('time').localtime(__import__('time').time() + 60).tm_mday"
    assert told(run, day_in_a_minute) == "1"


def test_a_folder_and_a_locale_that_are_not_of_ascii_and_only_of_it(run: Run) -> None:
    elsewhere.in_another_folder(run)
    elsewhere.in_another_locale(run)
    assert run.checkout.is_dir() and run.checkout.name == "odradek"
    assert not str(run.checkout).isascii() and " " in str(run.checkout)
    assert told(run, "__import__('locale').getpreferredencoding(False)") == "ANSI_X3.4-1968"


def test_nobody_writes_to_the_home(run: Run) -> None:
    elsewhere.with_a_read_only_home(run)
    try:
        elsewhere.as_somebody_else(run)
    except Absent as absent:
        pytest.skip(str(absent))
    home = str(run.environment["HOME"])
    assert told(run, "__import__('os').access(__import__('os').environ['HOME'], 2)") == "False"
    assert told(run, "__import__('os').getuid()") != "0"
    Path(home).chmod(0o700)


def test_what_is_not_to_be_had_is_told_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(run: Run) -> None:
        raise Absent("no such thing here")

    monkeypatch.setattr(elsewhere, "WORLDS", (absent,))
    assert elsewhere.main(["--worlds", "absent", "tests"]) == 0
    assert "absent is left out: no such thing here" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        elsewhere.main(["--worlds", "nowhere"])
