"""`odradek console` as a process: its lines, its login, its end, and what it cannot be started with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request

import pytest

pytest.importorskip("starlette")

from cli.conftest import RunTool

LIMIT_S = 120.0


def test_it_says_where_it_is_and_ends_in_good_order(servers: str) -> None:
    words = [sys.executable, "-m", "odradek", "console", "--bootstrap-server", servers, "--port", "0"]
    token = "a token from outside"
    child = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ODRADEK_CONSOLE_TOKEN": token},
    )
    try:
        assert child.stdout is not None
        ready, url = child.stdout.readline().split()
        assert ready == "ready"
        assert child.stdout.readline() == f"login {url}/login#{token}\n"
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.url == f"{url}/login"
            assert servers in answer.read().decode()
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=LIMIT_S)
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate(timeout=LIMIT_S)
    assert (child.returncode, out) == (0, ""), err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "--bootstrap-server"),
        (["--bootstrap-server", "h:1", "--login", "sasl"], "security.protocol=SASL_SSL"),
    ],
)
def test_what_it_cannot_be_started_with(run: RunTool, words: list[str], reason: str) -> None:
    result = run("console", *words)
    assert result.exit_code == 1
    assert reason in result.stderr


def test_a_short_token_is_refused(run: RunTool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_CONSOLE_TOKEN", "short")
    result = run("console", "--bootstrap-server", "h:1")
    assert result.exit_code == 1
    assert "shorter than 16 signs" in result.stderr
