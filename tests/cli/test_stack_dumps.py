"""SIGQUIT and the other signals that are no reason to end, sent to each kind of process that serves."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.util.stack_dumps import PASSED_OVER
from waiting import WITHIN_S, until

END = "stacks are told"
WITHOUT_UVLOOP = "import sys; sys.modules['uvloop'] = None; from odradek.cli.main import main; main()"
STUCK = """
import ctypes
from odradek.util.stack_dumps import dumps_on_sigquit
with dumps_on_sigquit():
    import logging
    logging.basicConfig()
    print("ready", flush=True)
    lock = (ctypes.c_long * 16)()
    libc = ctypes.CDLL(None)
    libc.pthread_mutex_lock(lock)
    libc.pthread_mutex_lock(lock)  # for ever, and no signal's handler gets at it
"""


@contextmanager
def serving(log: Path, *command: str, ignoring: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ready, as a script's background starts it where it is `ignoring` SIGQUIT."""

    def ignore() -> None:
        signal.signal(signal.SIGQUIT, signal.SIG_IGN if ignoring else signal.SIG_DFL)

    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, preexec_fn=ignore)
    try:
        assert process.stdout is not None
        while not process.stdout.readline().startswith(b"ready"):
            assert process.poll() is None, log.read_text(encoding="utf-8")
        yield process
    finally:
        process.kill()
        process.communicate(timeout=WITHIN_S)


def dumps(log: Path, at_least: int) -> list[str]:
    """The dumps in a log, once there are so many."""

    def look() -> list[str]:
        return log.read_text(encoding="utf-8").split(END)[:-1]

    return until(look, "dumps", holds=lambda found: len(found) >= at_least, instead=log.read_bytes)


def odradek(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "odradek", *words)


def server(folder: Path) -> tuple[str, ...]:
    return odradek("server", "--data", str(folder), "--port", "0", "--log-level", "error")


def server_without_uvloop(folder: Path) -> tuple[str, ...]:
    words = ("server", "--data", str(folder), "--port", "0", "--log-format", "json")
    return (sys.executable, "-c", WITHOUT_UVLOOP, *words)


def mock(_: Path) -> tuple[str, ...]:
    return odradek("mock")


def schema_registry(_: Path) -> tuple[str, ...]:
    pytest.importorskip("fastavro")
    return odradek("schema-registry", "--listeners", "http://127.0.0.1:0")


@pytest.mark.parametrize(
    ("command", "thread", "task"),
    [
        (server, r"broker/process/main\.py:\d+ run", r"broker/process/main\.py:\d+ _main"),
        (server_without_uvloop, r"broker/process/main\.py:\d+ run", r"broker/process/main\.py:\d+ _main"),
        (mock, r"cli/mock\.py:\d+ ", r"testing/broker\.py:\d+ Broker\._main"),
        (schema_registry, r"cli/schema_registry\.py:\d+ command", ""),
    ],
)
def test_sigquit_tells_where_all_are_and_only_the_signals_of_an_end_end_it(
    command: Callable[[Path], tuple[str, ...]], thread: str, task: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with serving(log, *command(tmp_path / "data"), ignoring=True) as process:
        for name in PASSED_OVER:
            process.send_signal(getattr(signal, name))
        process.send_signal(signal.SIGRTMIN + 1)
        process.send_signal(signal.SIGQUIT)
        first = dumps(log, 1)[0]
        process.send_signal(signal.SIGQUIT)
        second = dumps(log, 2)[1]
        process.send_signal(signal.SIGTERM)
        process.wait(WITHIN_S)
    for dump in (first, second):
        assert re.search(rf"thread name=MainThread stack=.*{thread}", dump), dump
        assert re.search(rf"tasks count=\d+ names=.* stack=.*{task}", dump) or not task, dump
    assert "Traceback" not in log.read_text(encoding="utf-8")
    assert process.returncode in (0, 143)


def test_a_main_thread_that_is_stuck_outside_python_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving(log, sys.executable, "-c", STUCK) as process:
        process.send_signal(signal.SIGQUIT)
        assert re.search(r"thread name=MainThread stack=\S*<string>:\d+", dumps(log, 1)[0])


def test_what_was_there_before_is_put_back() -> None:
    from odradek.util.stack_dumps import dumps_on_sigquit

    numbers = [signal.SIGQUIT, *(getattr(signal, name) for name in PASSED_OVER)]

    def now() -> object:
        return [signal.getsignal(number) for number in numbers], signal.pthread_sigmask(signal.SIG_BLOCK, ())

    before = now()
    with dumps_on_sigquit():
        assert now() != before
    assert now() == before
