"""`odradek mock` as a process: its lines, its control port, its ends, and what it cannot be started with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cli.conftest import RunTool
from odradek import Producer
from waiting import WITHIN_S

LIMIT_S = 60.0


@contextmanager
def mock(*words: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A process of it, with the addresses that it says: of the control port, and for clients."""
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek", "mock", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline().split() for _ in ("control", "ready")]
        assert [line[0] for line in lines] == ["control", "ready"]
        yield process, lines[0][1], lines[1][1]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=LIMIT_S)


def ask(url: str, path: str, body: Any = None, **more: Any) -> Any:
    """What a control port answers; of a refusal (status, content)."""
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, data, **more), timeout=60) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


FAULT = {"effect": "fail", "apis": ["Produce"], "error": "NOT_LEADER_OR_FOLLOWER", "times": 1}


def test_a_story_of_another_language() -> None:
    with mock("--set", "num.partitions=3", "--kafka-version", "2.2") as (process, control, servers):
        assert ask(control, "/topics", {"name": "orders", "partitions": 2}) == {}
        assert ask(control, "/faults", FAULT)["met"] == 0
        with Producer(bootstrap_servers=servers) as producer:
            assert len(producer.partitions_for("orders")) == 2
            producer.send("orders", b"tea").result(WITHIN_S)
        assert ask(control, "/verify") == {"unmet": []}
        assert ask(control, "/faults", b"", headers={"Content-Length": str(1 << 21)})[0] == 413
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out, err) == (0, "", "")


def test_what_is_between_two_tests_of_another_language() -> None:
    with mock("--clock", "--unready", "--seed", "7") as (process, control, servers):
        about = ask(control, "/")
        assert (about["unready_seed"], about["bootstrap_servers"]) == (7, servers)
        assert ask(control, "/seed", {"topic": "orders", "records": ["tea", ["alice", "milk"]]}) == {
            "sent": 2
        }
        wanted = {"topic": "orders", "count": 2, "timeout_s": WITHIN_S}
        records = ask(control, "/wait_for/records", wanted)["records"]
        assert [(record["key"], record["value"]) for record in records] == [(None, "tea"), ("alice", "milk")]
        assert ask(control, "/clock/advance", {"hours": 1})["now_ms"] == about["clock_ms"] + 3_600_000
        # Who is left open finds it again, and so does who was told the address at the start.
        assert ask(control, "/clean_up", {}) == {"bootstrap_servers": servers}
        assert ask(control, "/topics") == {}
        with Producer(bootstrap_servers=servers) as producer:
            producer.send("orders", b"tea").result(WITHIN_S)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out, err) == (0, "", "")


def test_its_end_tells_of_a_fault_that_was_not_met() -> None:
    with mock("--until-eof", "--brokers", "2") as (process, control, servers):
        assert len(servers.split(",")) == 2
        ask(control, "/faults", FAULT)
        assert process.stdin is not None
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (1, "")
    assert err.startswith(
        "Error: no request met this fault: fail with NOT_LEADER_OR_FOLLOWER: Produce times=1"
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--set", "num.partitons=3"), "did you mean num_partitions"),
        (("--set", "data=x"), "data"),
        (("--kafka-version", "1.9"), "1.9"),
        (("--brokers", "0"), "--brokers"),
        (("--set", "clock=x"), "clock"),
        (("--seed", "7"), "--seed: it is for --unready"),
    ],
)
def test_what_it_cannot_be_started_with_is_told(run: RunTool, words: tuple[str, ...], reason: str) -> None:
    result = run("mock", *words)
    assert result.exit_code == 1
    assert reason in result.stderr
    assert "Traceback" not in result.stderr


def test_a_seed_of_the_environment_that_is_none_is_told(
    run: RunTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_UNREADY_SEED", "x")
    result = run("mock", "--unready")
    assert result.exit_code == 1
    assert "a seed is a whole number" in result.stderr
    assert "Traceback" not in result.stderr
