"""A process under valgrind's callgrind: the words that start it, and the switch that has it count.

Nothing is counted, and little slowed down, until the switch is on. The caches are given, as valgrind would
take this machine's own; so is the seed of hashes.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.instructions.costs import Profile, parse

CACHES = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64")
"""Bytes, ways, bytes of a line."""

COMMAND_TIMEOUT_S = 120

TIMER = "CPyDef_timers___Periodic____run"
"""What runs for all that a broker does by the clock, as mypyc has called it."""

REST_S, RESTS = 3.0, 2
"""How long it is looked at at rest, at least, and how often: some turns of what it does every second."""


def missing() -> str | None:
    """Why nothing can be counted on this machine, or None where it can."""
    absent = [name for name in ("valgrind", "vgdb") if shutil.which(name) is None]
    return f"not on this machine: {', '.join(absent)}" if absent else None


def version() -> str:
    """Valgrind's version."""
    done = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip().removeprefix("valgrind-")


class Callgrind:
    """One process.

    Attributes:
        words: stand before the words that start the process.
        profile: what the last use of `counting` has found.
    """

    def __init__(self, folder: Path, *, with_caches: bool, from_start: bool = False) -> None:
        """
        Args:
            folder: there, and of this process alone: where callgrind writes.
            with_caches: count what misses the caches, too, which takes twice as long.
            from_start: count from the process's first instruction to its last.
        """
        self._out = folder / "callgrind.out"
        self._prefix = f"--vgdb-prefix={folder}/vgdb"
        self.profile = Profile()
        self.words: Sequence[str] = (
            "env",
            "PYTHONHASHSEED=0",
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            f"--instr-atstart={'yes' if from_start else 'no'}",
            *(("--cache-sim=yes", *CACHES) if with_caches else ()),
            "--dump-line=no",
            f"--callgrind-out-file={self._out}",
            self._prefix,
        )

    @contextmanager
    def counting(self, pid: int) -> Iterator[None]:
        """Count what a process does, into `profile`, less what it does by the clock, as it is seen at rest.

        A slow machine sees more of that; how much, its timers tell.
        """
        began = self._begin(pid)
        yield
        whole, seconds = self._end(pid, began)
        found = []
        for _ in range(RESTS):
            began = self._begin(pid)
            time.sleep(max(REST_S, seconds / 3))
            rest, rest_s = self._end(pid, began)
            turns, at_rest = whole.calls[TIMER], rest.calls[TIMER]
            times = turns / at_rest if at_rest else seconds / rest_s
            found.append((rest.costs["Ir"] * times, times, rest))
        # What came once is no work by the clock.
        _, times, rest = min(found, key=lambda one: one[0])
        self.profile = whole.less(rest, times)

    def _begin(self, pid: int) -> float:
        self._command(pid, "instrumentation on")
        return time.monotonic()

    def _end(self, pid: int, began: float) -> tuple[Profile, float]:
        """What was counted since, and in how many seconds."""
        self._command(pid, "instrumentation off")
        seconds = time.monotonic() - began
        self._command(pid, "dump")
        # Each dump is numbered; the counters are zero afterwards.
        (written,) = self._out.parent.glob(f"{self._out.name}.*")
        return self._take(written), seconds

    def whole_life(self) -> Profile:
        """What was counted of a process that has ended."""
        return self._take(self._out)

    def _command(self, pid: int, words: str) -> None:
        command = ["vgdb", f"--pid={pid}", self._prefix, *words.split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")

    @staticmethod
    def _take(path: Path) -> Profile:
        with path.open(encoding="utf-8", errors="replace") as lines:
            profile = parse(lines)
        path.unlink()
        return profile
