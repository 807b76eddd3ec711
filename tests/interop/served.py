"""Programs that run until they are ended or killed: services of others that live on a Kafka."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import waiting
from interop import kafka_peer

T = TypeVar("T")

LIMIT_S = kafka_peer.TOOL_LIMIT_S
"""Bounds what never comes: within it programs start, sessions and transactions end, on a busy machine too."""
TOLD_CHARACTERS = 6000
"""So much of a log's end a failed test tells."""


def until(what: str, look: Callable[[], T]) -> T:
    """Wait until what a look gives is true, and return it; fail by name after the limit."""
    return waiting.until(look, what, within_s=LIMIT_S, every_s=0.1)


class Served:
    """One such program; what it prints and logs goes to a file, whose end a failed test tells.

    Used as a context, which starts it, and kills it at the end.
    """

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """
        Args:
            command: its words.
            log: of all of its lives; the program works in the folder of this file.
            environment: what has to be in it beside that of the tests.
        """
        self._command = command
        self._log = log
        self._environment = {**os.environ, **(environment or {})}
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Served:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(signal.SIGKILL)
        if error is not None:
            error.add_note(f"{self._log.name}:\n{self._text()[-TOLD_CHARACTERS:]}")

    def _text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def lines(self) -> list[str]:
        """What it has printed and logged, over all of its lives."""
        return self._text().splitlines()

    def start(self) -> None:
        """Start it, again where it has ended."""
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._log.parent,
                env=self._environment,
            )

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, where it runs, and wait until it has."""
        if self._child is None:
            return
        self._child.send_signal(how)
        self._child.wait(LIMIT_S)
        self._child = None
