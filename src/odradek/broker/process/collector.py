"""The garbage collector of a broker's process: how it is set, and what it costs.

Objects of a request, and of a connection, die by their reference counts; the collector is there for cycles,
which are rare (`tests/broker/apis/test_no_cycles.py`). It looks at young objects often, which takes one
or two milliseconds; at all of them, which with thousands of connections takes a tenth of a second and more,
only when something has stayed that nothing explains. The settings and the measurements behind them are in
benchmarks/BROKER.md and docs/decisions/what-lives-long-is-not-looked-at.md.
"""

from __future__ import annotations

import gc
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.broker.metrics.metrics import Metrics

logger = logging.getLogger(__name__)

_NEVER = 2**31 - 1
THRESHOLDS = (1_000, 10, _NEVER)
"""New objects that outlive their request before the youngest generation is looked at; how many such looks
before the middle one is, and how many of those before all is. A pause grows with what is looked at: 0.4 ms
for a thousand objects, 30 ms for fifty thousand."""

LOOK_MS = 60_000
"""How often `LongLived.look` is called."""

_MIDDLE = 1
_MORE = 100_000
_LASTING = 2


class LongLived:
    """The objects that outlived a look at the middle generation: not looked at again until many have stayed.

    Taking it out costs microseconds. It dies by its reference counts like anything else; only a cycle among
    it would stay. So it is counted now and then, and when there was half as much again as after the last look
    at everything, and 100,000 objects more, at several counts in a row, everything is looked at once. What
    comes with a storm of connections goes with it, before that.
    """

    def __init__(self) -> None:
        self._kept = 0
        self._seen_more = 0
        self._held_back = False
        self._thresholds_before = gc.get_threshold()

    def start(self) -> None:
        """After the start: what there is lives as long as the process, and so does all that outlives a
        middle round from now on."""
        gc.callbacks.append(self._on_collection)
        gc.set_threshold(*THRESHOLDS)
        self._look_at_all()

    def stop(self) -> None:
        """Leave the collector as it was before."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)
            gc.set_threshold(*self._thresholds_before)
            gc.unfreeze()

    def hold_back(self, held: bool) -> None:
        """Look at all objects no more, or again: a large request in work has a million of them, which live
        until it is answered, and looking at them would take half a second."""
        self._held_back = held

    def look(self) -> None:
        """Count what has been taken out; look at everything if too much of it stays. Counting takes some
        nanoseconds for each object."""
        if gc.get_freeze_count() <= max(self._kept * 3 // 2, self._kept + _MORE):
            self._seen_more = 0
            return
        self._seen_more += 1
        if self._seen_more < _LASTING or self._held_back:
            return
        began = time.monotonic()
        collected = self._look_at_all()
        logger.info(
            "looked at all objects: collected=%d kept=%d took_ms=%d",
            collected,
            self._kept,
            (time.monotonic() - began) * 1000,
        )

    def _look_at_all(self) -> int:
        gc.unfreeze()
        collected = gc.collect()
        gc.freeze()
        self._kept = gc.get_freeze_count()
        self._seen_more = 0
        return collected

    @staticmethod
    def _on_collection(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == _MIDDLE:
            gc.freeze()


def keep() -> None:
    """Leave out what has been imported since, too. Nothing is collected: it takes microseconds."""
    gc.freeze()


class Pauses:
    """Counts the collector's pauses, per generation; everything waits while one lasts.

    Attributes:
        count, total_ms, max_ms: by generation, 0 to 2.
        collected: objects that only the collector could free: members of cycles.
    """

    def __init__(self) -> None:
        self.count = [0, 0, 0]
        self.total_ms = [0.0, 0.0, 0.0]
        self.max_ms = [0.0, 0.0, 0.0]
        self.collected = 0
        self._started_ns = 0

    def start(self) -> None:
        """Count from now on."""
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        """Count no more."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._started_ns = time.perf_counter_ns()
            return
        pause_ms = (time.perf_counter_ns() - self._started_ns) / 1e6
        generation = info["generation"]
        self.count[generation] += 1
        self.total_ms[generation] += pause_ms
        self.max_ms[generation] = max(self.max_ms[generation], pause_ms)
        self.collected += info["collected"]

    def register(self, metrics: Metrics) -> None:
        """Show them among a broker's metrics."""
        kind = "odradek.server:GarbageCollector"
        metrics.gauge(kind, "CollectedObjects", lambda: self.collected)
        for name, of_generations in (
            ("Count", self.count),
            ("TimeMs", self.total_ms),
            ("TimeMsMax", self.max_ms),
        ):
            for generation in range(3):
                read = partial(_entry, of_generations, generation)
                metrics.gauge(kind, name, read, generation=str(generation))


def _entry(values: list[int] | list[float], position: int) -> float:
    return values[position]
