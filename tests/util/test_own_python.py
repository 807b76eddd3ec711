"""Further processes of this Python, started in a folder where others can put modules."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.process.workers import WorkerOptions, worker_command
from odradek.util.own_python import module_command, module_environment

PLANTED = "raise SystemExit('planted')"


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    for name in ("odradek", "json", "asyncio", "click", "subprocess"):
        (tmp_path / f"{name}.py").write_text(PLANTED, encoding="utf-8")
    (tmp_path / "sitecustomize.py").write_text(PLANTED, encoding="utf-8")
    return tmp_path


def test_nothing_is_imported_from_the_working_folder(planted: Path) -> None:
    done = subprocess.run(
        module_command("odradek", "--version"),
        env=module_environment(),
        cwd=planted,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "planted" not in done.stdout + done.stderr
    assert "version" in done.stdout


def test_what_the_broker_starts_is_started_so() -> None:
    options = WorkerOptions(BrokerConfig({"log.dirs": "/data"}))
    command = worker_command(options, 0, Path("/store"))(None)
    assert list(command)[1:3] == ["-P", "-m"]
