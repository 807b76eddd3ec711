"""`odradek server --console-port`: a console beside the broker, which ends with it, however it ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest

from odradek.util.own_python import module_command, module_environment
from waiting import until

pytest.importorskip("starlette")

LIMIT_S = 120.0


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 10).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_console_lives_as_long_as_its_broker(tmp_path: Path, end: signal.Signals) -> None:
    words = ["--data", str(tmp_path / "data"), "--port", "0", "--console-port", "0"]
    log = tmp_path / "log"
    # What others put into the working folder is not run.
    (tmp_path / "odradek.py").write_text("raise SystemExit('not the console')\n", encoding="utf-8")
    with log.open("w", encoding="utf-8") as stderr:
        child = subprocess.Popen(
            module_command("odradek", "server", *words),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=tmp_path,
            env=module_environment(),
        )
    try:
        assert child.stdout is not None
        address = child.stdout.readline().split()[1]

        def urls() -> list[str]:
            lines = log.read_text("utf-8").splitlines()
            return [line.split()[1] for line in lines if line.startswith(("ready ", "login "))]

        until(urls, "the lines of the console", holds=lambda lines: len(lines) == 2)
        with urllib.request.urlopen(urls()[0], timeout=60) as answer:
            assert address in answer.read().decode()
        port = int(urls()[0].rpartition(":")[2])
        child.send_signal(end)
        out, _ = child.communicate(timeout=LIMIT_S)
        assert out == ""
        until(lambda: not is_open(port), "the end of the console")
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate(timeout=LIMIT_S)
    assert child.returncode == (0 if end == signal.SIGTERM else -signal.SIGKILL)
