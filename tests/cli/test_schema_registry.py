"""`odradek schema-registry` as a process: its line, its end, and what it cannot be started with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastavro")

from cli.conftest import RunTool

LIMIT_S = 120.0


def ask(url: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=60) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_and_ends_in_good_order(
    servers: str, tmp_path: Path, how: signal.Signals
) -> None:
    properties = tmp_path / "schema-registry.properties"
    topic = f"_schemas-{how.name.lower()}"
    properties.write_text(
        f"listeners=http://127.0.0.1:0\nkafkastore.bootstrap.servers=PLAINTEXT://{servers}\n"
        f"schema.compatibility.level=full\nkafkastore.topic={topic}\n",
        encoding="utf-8",
    )
    words = [sys.executable, "-m", "odradek", "schema-registry", "--config", str(properties)]
    for versions in ([1], [1]):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            word, url = process.stdout.readline().split()
            assert word == "ready"
            assert ask(url, "/config") == {"compatibilityLevel": "FULL"}
            assert ask(url, "/subjects/s/versions", {"schema": '"int"'}) == {"id": 1}
            assert ask(url, "/subjects/s/versions") == versions
            process.send_signal(how)
            out, err = process.communicate(timeout=LIMIT_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate(timeout=LIMIT_S)
        assert (process.returncode, out) == (0, ""), err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--listeners", "nowhere"), "listeners: http://HOST:PORT"),
        (("--set", "schema.compatibility.level=some"), "schema.compatibility.level: not 'some'"),
        (
            ("--set", "kafkastore.topik=x"),
            "kafkastore.topik is no config of a schema registry; kafkastore.topic?",
        ),
        (("--listeners", "https://127.0.0.1:0"), "ssl.keystore"),
    ],
)
def test_what_it_cannot_be_started_with_is_one_line(
    run: RunTool, words: tuple[str, ...], reason: str
) -> None:
    result = run("schema-registry", *words)
    assert result.exit_code == 1
    assert reason in result.stderr
    assert "Traceback" not in result.stderr
