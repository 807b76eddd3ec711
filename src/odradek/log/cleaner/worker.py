"""The process that cleans: a job on standard input, its outcome on standard output, one line of JSON each.

It touches new files in the log's folder only, and may be killed at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

from odradek.errors import KafkaError
from odradek.log.cleaner.job import CleanJob, CleanResult
from odradek.log.cleaner.rewriting import run
from odradek.log.storage.real_files import RealFileSystem

NICENESS = 5
"""Whoever waits for an answer comes first."""


class CleanFailedError(Exception):
    """A pass came to nothing. `for_good`: it would again."""

    def __init__(self, reason: str, *, for_good: bool) -> None:
        super().__init__(reason)
        self.for_good = for_good


class Throttle:
    """Waits so that at most a given number of bytes a second passes, on average since the last pause."""

    def __init__(
        self,
        bytes_per_second: float,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._now_s = now_s
        self._sleep = sleep
        self._free_at_s = now_s()

    def __call__(self, size: int) -> None:
        """Wait until what went before is within the rate, and count these bytes."""
        now_s = self._now_s()
        if self._free_at_s > now_s:
            self._sleep(self._free_at_s - now_s)
            now_s = self._now_s()
        self._free_at_s = max(self._free_at_s, now_s) + size / self._rate


class BrokerGoneError(Exception):
    """The broker has died: nobody waits for the result, and the next one may have the folder."""


class WhileAlive(Throttle):
    """A throttle that gives up when the broker has died.

    Raises:
        BrokerGoneError: by a call, when the broker has died.
    """

    def __init__(self, bytes_per_second: float, parent: Callable[[], int] = os.getppid) -> None:
        super().__init__(bytes_per_second)
        self._parent = parent
        self._broker = parent()

    def __call__(self, size: int) -> None:
        """See `Throttle`."""
        if self._parent() != self._broker:
            raise BrokerGoneError
        super().__call__(size)


def serve(read: TextIO, write: TextIO) -> None:
    """Do the job of one line, and tell what came of it.

    Raises:
        BrokerGoneError: the broker has died.
        BrokenPipeError: nobody reads the answer, as the broker has died meanwhile.
    """
    line = read.readline()
    if not line:
        raise BrokerGoneError
    job = CleanJob.from_json(line)
    try:
        result = run(RealFileSystem(), job, WhileAlive(job.io_bytes_per_second))
    except (KafkaError, ValueError) as error:
        json.dump({"failed": str(error), "for_good": True}, write)
    except (OSError, MemoryError) as error:
        json.dump({"failed": f"{type(error).__name__}: {error}", "for_good": False}, write)
    else:
        write.write(result.to_json())
    write.flush()


def outcome(line: str, exit_code: int) -> CleanResult:
    """Return what a worker's output says.

    Raises:
        CleanFailedError: it says that the job failed, or nothing that can be understood.
    """
    try:
        report = json.loads(line)
    except ValueError:
        raise CleanFailedError(f"the worker ended with exit code {exit_code}", for_good=False) from None
    if "failed" in report:
        raise CleanFailedError(report["failed"], for_good=report["for_good"])
    return CleanResult.from_json(line)


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    try:
        serve(sys.stdin, sys.stdout)
    except (BrokerGoneError, BrokenPipeError):
        # What is still in the buffer is for nobody: without this the interpreter complains at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
