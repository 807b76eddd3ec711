"""An authorizer with 10,000 ACLs beside none: small produce requests.

The ACLs are 7,000 of single topics, 1,000 of prefixes, and 2,000 of the very prefix that the load writes to,
of which one allows the load. Both brokers run, and one at a time has work.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import load
from benchmarks.peers import in_memory
from benchmarks.results import Measure
from benchmarks.sections import Context
from odradek.client import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    Admin,
    PatternType,
    ResourcePattern,
    ResourceType,
)

WITH, WITHOUT = "10,000 ACLs", "no authorizer"
CONTENDERS = (WITH, WITHOUT)
_PREFIX = "load-"
_AUTHORIZER = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"
_SMALL = {"records": 1, "record_bytes": 100}
CASES: list[tuple[str, dict[str, object]]] = [
    ("1 × 100 B, 1 connection, 5 in flight", _SMALL | {"in_flight": 5}),
    ("1 × 100 B, 100 connections, 1 in flight each", _SMALL | {"connections": 100}),
    (
        "50 partitions × 1 × 100 B, 4 connections, 5 in flight",
        _SMALL | {"connections": 4, "in_flight": 5, "partitions": 50, "per_request": 50},
    ),
]
_topics = count()


def acls() -> Iterator[AclBinding]:
    """10,000 ACLs, the first of which allows the load."""

    def acl(name: str, user: str, pattern: PatternType = PatternType.LITERAL, host: str = "*") -> AclBinding:
        what = AclOperation.ALL if user == "ANONYMOUS" else AclOperation.READ
        return AclBinding(
            ResourcePattern(ResourceType.TOPIC, name, pattern),
            AccessControlEntry(f"User:{user}", host, what, AclPermissionType.ALLOW),
        )

    yield acl(_PREFIX, "ANONYMOUS", PatternType.PREFIXED)
    for number in range(1_999):
        yield acl(_PREFIX, f"reader-{number}", PatternType.PREFIXED, f"10.0.{number % 200}.{number // 200}")
    for number in range(1_000):
        yield acl("p" * (number % 40 + 1) + f"{number}-", f"user-{number}", PatternType.PREFIXED)
    for number in range(7_000):
        yield acl(f"topic-{number}", f"user-{number % 500}")


class _Broker(NamedTuple):
    port: int
    pid: int


def measure(context: Context) -> list[Measure]:
    """Both brokers in turns, round by round."""
    measures: dict[tuple[str, str], Measure] = {}
    with ExitStack() as stack:
        brokers = {who: stack.enter_context(_running(who == WITH)) for who in CONTENDERS}
        for number in range(-1, context.rounds):
            for case, options in CASES:
                # The one that begins has the colder processor.
                for who in CONTENDERS if number % 2 else CONTENDERS[::-1]:
                    figures = _load(brokers[who], options, context)
                    if number < 0:
                        continue
                    for label, less, key in (
                        ("CPU µs per request", True, "cpu_us_per_request"),
                        ("requests/s", False, "requests_per_s"),
                    ):
                        bars = {WITHOUT: 1.05} if less else {}
                        one = measures.setdefault((case, label), Measure(case, label, {}, less, bars))
                        one.values.setdefault(who, []).append(figures[key])
                    context.say(
                        f"round {number + 1}: {who}: {case}: {figures['cpu_us_per_request']:.1f} CPU µs"
                    )
    return list(measures.values())


def _load(broker: _Broker, options: dict[str, object], context: Context) -> dict[str, Any]:
    at: dict[str, Any] = {"port": broker.port, "pid": broker.pid}
    topic = f"{_PREFIX}{next(_topics)}"
    return load.run("produce", **at | options, topic=topic, seconds=context.seconds, warmup=1.0, delete=1)


@contextmanager
def _running(with_acls: bool) -> Iterator[_Broker]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=in_memory()) as folder:
        data = Path(folder) / "data"
        words: list[str] = []
        if with_acls:
            words = ["--set", _AUTHORIZER]
            # ACLs are a super user's to add; whoever is one is not asked.
            with _server(data, [*words, "--set", "super.users=User:ANONYMOUS"]) as broker:
                _add_acls(broker)
        with _server(data, words) as broker:
            yield broker


def _add_acls(broker: _Broker) -> None:
    with Admin(bootstrap_servers=f"127.0.0.1:{broker.port}") as admin:
        wanted = list(acls())
        assert len(wanted) == 10_000
        for start in range(0, len(wanted), 2_000):
            admin.create_acls(wanted[start : start + 2_000])


@contextmanager
def _server(data: Path, words: list[str]) -> Iterator[_Broker]:
    command = [sys.executable, "-m", "odradek", "server", "--data", str(data), "--port", "0"]
    command += ["--log-level", "warning", "--set", "log.segment.delete.delay.ms=1000", *words]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        ready = child.stdout.readline()
        if not ready.startswith("ready "):
            raise RuntimeError("the broker did not become ready")
        time.sleep(0.2)
        yield _Broker(int(ready.rsplit(":", 1)[1]), child.pid)
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(60)
