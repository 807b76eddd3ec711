"""Programs of the JVM that run until they are ended or killed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import waiting
from interop import kafka_peer

T = TypeVar("T")

LIMIT_S = 240.0
"""Bounds what never comes: within it JVMs start, sessions and transactions end, on a busy machine too."""

CONNECT = ("connect-runtime", "connect-file", "connect-json", "connect-mirror")
"""The artifacts of Kafka Connect, and of MirrorMaker 2, which is made of it."""


def until(what: str, look: Callable[[], T]) -> T:
    """Wait until what a look gives is true, and return it; fail by name after the limit."""
    return waiting.until(look, what, within_s=LIMIT_S, every_s=0.1)


class Jvm:
    """One such program; what it prints and logs goes to a file, whose end a failed test tells.

    Used as a context, which starts it, and kills it at the end.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Jvm:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(signal.SIGKILL)
        if error is not None:
            error.add_note(f"{self._log.name}:\n{self._log.read_text(encoding='utf-8')[-6000:]}")

    @property
    def lines(self) -> list[str]:
        """What it has printed and logged, over all of its lives."""
        return self._log.read_text(encoding="utf-8").splitlines()

    def start(self) -> None:
        """Start it, again where it has ended."""
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, where it runs, and wait until it has."""
        if self._child is None:
            return
        self._child.send_signal(how)
        self._child.wait(kafka_peer.TOOL_LIMIT_S)
        self._child = None
