"""The brokers whose instructions are counted: one alone, or one of a cluster; and the start of one.

Work by the clock is put off where that can be: a slow machine sees more of it in the time of a request.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.clusters import Odradek as OdradekCluster
from benchmarks.instructions.callgrind import Callgrind
from benchmarks.instructions.costs import Profile
from benchmarks.peers import ROOT, Odradek

_NEVER_MS = str(24 * 3600 * 1000)
SETTINGS = {
    "odradek.event.loop.stall.ms": "0",
    "replica.high.watermark.checkpoint.interval.ms": _NEVER_MS,
    "log.retention.check.interval.ms": _NEVER_MS,
    "log.cleaner.backoff.ms": _NEVER_MS,
    "offsets.retention.check.interval.ms": _NEVER_MS,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": _NEVER_MS,
    # Every second each log is looked at, whatever it is for.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
IN_CLUSTER = {
    # A follower that has all is answered when there is more: not by the clock.
    "replica.fetch.wait.max.ms": "20000",
    "replica.lag.time.max.ms": "600000",
}
READY_WITHIN_S = 600.0
SESSION_MS = 60_000
"""The longest that ZooKeeper grants."""

_LOOK_S = 0.5
_QUIET_LOOKS = 4
_QUIET_SHARE = 0.1


def interpreted() -> str | None:
    """Why a broker of this checkout is not what is counted, or None where what requests pass is compiled."""
    spec = importlib.util.find_spec("odradek.broker.network.connection")
    if spec is None or (spec.origin or "").endswith(".py"):
        return "what requests pass is not compiled here (`make .venv/.dev` compiles it)"
    return None


class CountedBroker(Odradek):
    """A broker under callgrind."""

    def __init__(self, directory: Path, *, with_caches: bool) -> None:
        super().__init__("counted", directory, ready_within_s=READY_WITHIN_S)
        self.callgrind = Callgrind(directory, with_caches=with_caches)

    def settings(self) -> dict[str, str]:
        """See `Odradek.settings`."""
        return {**super().settings(), **SETTINGS}

    def _spawn(self, words: list[str]) -> None:
        super()._spawn([*self.callgrind.words, *words])


class CountedCluster(OdradekCluster):
    """Three brokers, of which one is under callgrind."""

    def __init__(self, directory: Path, counted: int, *, with_caches: bool) -> None:
        """
        Args:
            directory: theirs, and ZooKeeper's.
            counted: the broker's id.
            with_caches: see `Callgrind`.
        """
        super().__init__("counted", directory, SESSION_MS)
        self.ready_within_s = READY_WITHIN_S
        self.counted = counted
        self.callgrind = Callgrind(directory, with_caches=with_caches)

    def _write(self, broker_id: int, settings: dict[str, str]) -> None:
        super()._write(broker_id, {**settings, **SETTINGS, **IN_CLUSTER})

    def _command(self, broker_id: int) -> Sequence[str]:
        words = super()._command(broker_id)
        return [*self.callgrind.words, *words] if broker_id == self.counted else words


def await_quiet(pid: int) -> None:
    """Wait until a broker has imported what it may need, and rests.

    Raises:
        RuntimeError: it does not.
    """
    deadline = time.monotonic() + READY_WITHIN_S
    quiet, before = 0, _wanted_s(pid)
    while quiet < _QUIET_LOOKS:
        if time.monotonic() > deadline:
            raise RuntimeError("the broker does not come to rest")
        time.sleep(_LOOK_S)
        now = _wanted_s(pid)
        quiet = quiet + 1 if now - before < _QUIET_SHARE * _LOOK_S else 0
        before = now


def _wanted_s(pid: int) -> float:
    """Seconds that all threads ran, and that they waited for a processor: a machine may be busy."""
    threads = [
        one.read_text(encoding="utf-8").split() for one in Path(f"/proc/{pid}/task").glob("*/schedstat")
    ]
    return sum(int(ran) + int(waited) for ran, waited, *_ in threads) / 1e9


class Start(NamedTuple):
    """What an empty broker has done until it was ready."""

    profile: Profile
    modules: int


_UNTIL_READY = "import sys; from benchmarks.instructions.until_ready import run; run(sys.argv[1:])"


def count_start(folder: Path, *, with_caches: bool) -> Start:
    """Count from a broker's first instruction until it says that it is ready.

    It starts twice: the first start has Python compile what it imports, as that of an installed package has.

    Args:
        folder: an empty one.
        with_caches: see `Callgrind`.

    Raises:
        RuntimeError: it was not ready.
    """
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": str(folder / "code"),
    }
    callgrind = Callgrind(folder, with_caches=with_caches, from_start=True)
    modules = 0
    for number, before in enumerate(((), callgrind.words)):
        words = [*before, sys.executable, "-c", _UNTIL_READY, "server", "--port", "0"]
        words += ["--data", str(folder / f"data-{number}"), "--log-level", "warning"]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=READY_WITHIN_S, env=environment, cwd=folder
        )
        if done.returncode or not done.stdout.startswith("modules "):
            raise RuntimeError(f"the broker did not become ready: {done.stdout}{done.stderr}")
        modules = int(done.stdout.split()[1])
    return Start(callgrind.whole_life(), modules)
