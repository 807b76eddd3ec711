"""The garbage collector of a broker's process: how it is set, and what it costs.

Objects of a request die by their reference counts; the collector is there for cycles, which are rare. The
settings and the measurements behind them are in docs/performance.md.
"""

from __future__ import annotations

import gc
import time
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.broker.metrics.metrics import Metrics

THRESHOLDS = (1_000, 10, 50)
"""New objects that outlive their request before the youngest generation is looked at; how many such looks
before the middle one is, and how many of those before all is. A pause grows with what is looked at: 0.4 ms
for a thousand objects, 30 ms for fifty thousand."""


def settle() -> None:
    """After the start: what there is lives as long as the process, and is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def keep() -> None:
    """Leave out what has been imported since, too. Nothing is collected: it takes microseconds."""
    gc.freeze()


def hold_full_rounds_back(held: bool) -> None:
    """Look at all objects no more, or again: a large request in work has a million of them, which live until
    it is answered, and looking at them would take half a second."""
    youngest, middle, full = THRESHOLDS
    gc.set_threshold(youngest, middle, 2**31 - 1 if held else full)


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
