"""What TLS, logins, ACLs and quotas cost who uses none of them: plain connections, before them and now.

Before is the last commit without them, from this checkout's history, compiled as today's is (once, into
`build/`). Both brokers run, and one at a time has work. Where valgrind is on the machine the instructions of
a request are counted as well: those of a broker's whole life with many requests, less those with fewer.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

from benchmarks import load
from benchmarks.clusters import own_version
from benchmarks.peers import OURS, ROOT, SkippedError, in_memory
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context

BEFORE = "before security"
COMMIT = "33c084c"
"""The last one before clients had TLS (e5943f5), and brokers ACLs and logins."""

CONTENDERS = (OURS, BEFORE)
SMALL = {"records": 1, "record_bytes": 100}
CASES: list[tuple[str, dict[str, object]]] = [
    ("1 × 100 B, 1 connection, 5 in flight", SMALL | {"in_flight": 5}),
    ("1 × 100 B, 100 connections, 1 in flight each", SMALL | {"connections": 100}),
]
COUNTED = "1 × 100 B, 1 connection, 1 in flight"
"""With one request at a time the count does not depend on what else the machine does: none shares a read."""

MANY, FEW = 36_000, 12_000
"""Requests of the two lives whose instructions are compared."""

BAR = 1.05
_INSTRUCTIONS = "1,000 instructions of user space per request"
_REFS = re.compile(r"I\s+refs:\s+([\d,]+)")
_topics = count()


class _Broker(NamedTuple):
    port: int
    pid: int


def sources_before() -> Path:
    """The folder of sources of `COMMIT`, compiled.

    Raises:
        SkippedError: it is not in the history, or does not compile; the message says why.
    """
    home = ROOT / "build" / f"before-{COMMIT}"
    stamp = home / "complete"
    if not stamp.exists():
        shutil.rmtree(home, ignore_errors=True)
        for words, where in (
            (["git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(home)], ROOT),
            (["git", "checkout", "--quiet", COMMIT], home),
            ([sys.executable, "setup.py", "build_ext", "--inplace"], home),
        ):
            done = subprocess.run(words, cwd=where, capture_output=True, text=True)
            if done.returncode:
                raise SkippedError(f"{' '.join(words)}: {done.stderr[-500:]}")
        stamp.touch()
    return home / "src"


@contextmanager
def _running(sources: Path, before: tuple[str, ...] = ()) -> Iterator[tuple[_Broker, subprocess.Popen[str]]]:
    """A broker of these sources; `before` stands in front of its words."""
    environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory(prefix="bench-", dir=in_memory()) as folder:
        words = [*before, sys.executable, "-m", "odradek", "server", "--data", str(Path(folder) / "data")]
        words += ["--port", "0", "--log-level", "warning", "--set", "log.segment.delete.delay.ms=1000"]
        with (Path(folder) / "log").open("w+", encoding="utf-8") as log:
            child = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=folder
            )
            try:
                assert child.stdout is not None
                ready = child.stdout.readline()
                if not ready.startswith("ready "):
                    told = Path(log.name).read_text(encoding="utf-8")
                    raise RuntimeError(f"the broker did not become ready: {told[-1000:]}")
                time.sleep(0.2)
                yield _Broker(int(ready.rsplit(":", 1)[1]), child.pid), child
            finally:
                child.send_signal(signal.SIGTERM)
                child.wait(120)


def _instructions(sources: Path, requests: int) -> int:
    """Instructions of a broker's whole life in which it answers so many requests."""
    with tempfile.NamedTemporaryFile("r", suffix=".valgrind", encoding="utf-8") as told:
        valgrind = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
        with _running(sources, (*valgrind, f"--log-file={told.name}")) as (broker, _):
            options = {"in_flight": 1, "requests": requests, "warmup": 0, "seconds": 300}
            load.run("produce", timeout_s=600, port=broker.port, topic="load", **SMALL, **options)
        found = _REFS.search(Path(told.name).read_text(encoding="utf-8"))
    if found is None:
        raise RuntimeError("valgrind told no instructions")
    return int(found[1].replace(",", ""))


def _counted(sources: dict[str, Path], context: Context) -> Measure | None:
    if shutil.which("valgrind") is None:
        context.say("not on this machine: valgrind")
        return None
    many, few = (MANY // 10, FEW // 10) if context.quick else (MANY, FEW)
    values = {}
    for who, folder in sources.items():
        each = (_instructions(folder, many) - _instructions(folder, few)) / (many - few)
        context.say(f"{who}: {each:,.0f} instructions per request")
        values[who] = [each / 1000]
    return Measure(COUNTED, _INSTRUCTIONS, values, True, {BEFORE: BAR})


def _timed(sources: dict[str, Path], context: Context) -> list[Measure]:
    measures: dict[tuple[str, str], Measure] = {}
    with ExitStack() as stack:
        brokers = {who: stack.enter_context(_running(folder))[0] for who, folder in sources.items()}
        for number in range(-1, context.rounds):
            for case, options in CASES:
                # The one that begins has the colder processor.
                for who in list(brokers)[:: 1 if number % 2 else -1]:
                    broker, topic = brokers[who], f"load-{next(_topics)}"
                    at: dict[str, object] = {
                        "port": broker.port,
                        "pid": broker.pid,
                        "topic": topic,
                        "delete": 1,
                    }
                    seconds = context.seconds
                    figures = load.run("produce", **at | options, seconds=seconds, warmup=1.0)
                    words = f"{figures['cpu_us_per_request']:.2f} CPU µs"
                    context.say(f"round {number + 1}: {who}: {case}: {words}")
                    if number < 0:
                        continue
                    for label, less, key in (
                        ("CPU µs per request", True, "cpu_us_per_request"),
                        ("requests/s", False, "requests_per_s"),
                    ):
                        bars = {BEFORE: BAR} if less else {}
                        one = measures.setdefault((case, label), Measure(case, label, {}, less, bars))
                        one.values.setdefault(who, []).append(figures[key])
    return list(measures.values())


def run(name: str, context: Context) -> Outcome:
    """Both, in turns; then their instructions."""
    skipped: dict[str, str] = {}
    sources = {OURS: ROOT / "src"}
    try:
        sources[BEFORE] = sources_before()
    except SkippedError as why:
        skipped[BEFORE] = str(why)
    measures = _timed(sources, context)
    counted = _counted(sources, context)
    if counted is not None:
        measures.append(counted)
    settings = {"rounds": context.rounds, "seconds each": context.seconds}
    notes = [
        f"Before security is {COMMIT}, the last commit without TLS, logins, ACLs and quotas, compiled by the "
        "same compilers; what else has changed since is in the figures, too. Neither broker is configured "
        "for any of it.",
        f"Instructions: valgrind’s cachegrind over a broker’s whole life with {MANY:,} requests, less one "
        f"with {FEW:,}. Other work took turns on the machine: compare CPU per request, not rates.",
    ]
    title = "Plain connections, before there was security and now"
    versions = {OURS: own_version(), BEFORE: COMMIT}
    return Outcome(name, title, list(CONTENDERS), versions, measures, settings, notes, skipped)
