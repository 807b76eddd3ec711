"""The broker of a soak: `odradek server`'s process, and questions to it on standard input.

    python -m benchmarks.soak.broker DATA NAME=VALUE…

`gc=700,10,10` stands for other thresholds of the collector than the broker's own, `gc=off` for none. Prints
`ready HOST:PORT`, then answers each line of its input with a line of JSON: `sample` what its metrics and its
garbage collector say, `types` how many objects there are of the commonest types, `memory` what tracemalloc
finds to have grown since the question before (where PYTHONTRACEMALLOC is set), `cycles` what only the garbage
collector could free, and `stacks` what its thread did, since the question before. SIGTERM ends it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import tracemalloc
from collections import Counter
from typing import Any

from benchmarks.profiling.sampler import Sampler
from odradek.broker.app import Broker
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.process.logging import configure
from odradek.broker.process.main import run

MOST_TYPES = 60
MOST_LINES = 25


def _look_at_all() -> None:
    """Have the collector look at everything, what a broker has taken out of its sight as well."""
    gc.unfreeze()
    gc.collect()


class Answers:
    """Answers questions in the loop's thread."""

    def __init__(self) -> None:
        self._snapshot: tracemalloc.Snapshot | None = None
        self._sampler: Sampler | None = None

    def sample(self, broker: Broker) -> dict[str, Any]:
        """What the metrics say, by a readable name."""
        values = {}
        for (kind, name, tags), value in broker.metrics.snapshot().items():
            if "topic" not in dict(tags):
                values[".".join([kind.partition(":")[2], name, *(text for _, text in tags)])] = value
        values["gc.frozen"] = gc.get_freeze_count()
        return values

    def types(self, broker: Broker) -> dict[str, Any]:
        """Objects that the collector knows, by type; those of before the start are among them."""
        _look_at_all()
        counts = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
        return dict(counts.most_common(MOST_TYPES))

    def memory(self, broker: Broker) -> dict[str, Any]:
        """Where memory has been taken since the question before: bytes by file and line."""
        _look_at_all()
        if not tracemalloc.is_tracing():
            return {}
        snapshot = tracemalloc.take_snapshot()
        before, self._snapshot = self._snapshot, snapshot
        if before is None:
            return {}
        found = snapshot.compare_to(before, "lineno")[:MOST_LINES]
        return {str(one.traceback): [one.size_diff, one.count_diff] for one in found}

    def cycles(self, broker: Broker) -> dict[str, Any]:
        """Members of cycles by type, and who holds one of each; the question before turned the watch on."""
        _look_at_all()
        found = [one for one in gc.garbage if one is not gc.garbage]
        gc.garbage.clear()
        gc.set_debug(0 if found else gc.DEBUG_SAVEALL)
        counts = Counter(map(_name, found))
        holders: dict[str, Counter[str]] = {name: Counter() for name in counts}
        for one in found:
            for held in gc.get_referents(one):
                if _name(held) in holders:
                    holders[_name(held)][_name(one)] += 1
        return {
            name: [number, holders[name].most_common(4)] for name, number in counts.most_common(MOST_LINES)
        }

    def stacks(self, broker: Broker) -> dict[str, Any]:
        """Folded stacks; the first question begins."""
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            return sampler.stop()
        self._sampler = Sampler()
        return {}


def _name(one: object) -> str:
    if callable(one) and hasattr(one, "__qualname__") and hasattr(one, "__module__"):
        return f"{type(one).__name__} {one.__module__}.{one.__qualname__}"
    return f"{type(one).__module__}.{type(one).__qualname__}"


def answer_questions(broker: Broker) -> None:
    """Read questions in a thread of their own."""
    answers = Answers()
    loop = asyncio.get_running_loop()

    def answer(question: str) -> None:
        print(json.dumps(getattr(answers, question)(broker)), flush=True)

    def read() -> None:
        for line in sys.stdin:
            try:
                loop.call_soon_threadsafe(answer, line.strip())
            except RuntimeError:
                return

    threading.Thread(target=read, name="soak-questions", daemon=True).start()


def main() -> int:
    """Run it."""
    data, *settings = sys.argv[1:]
    configure("text", "INFO")
    properties = dict(one.split("=", 1) for one in settings)
    thresholds = properties.pop("gc", "")

    def observe(broker: Broker) -> None:
        if thresholds == "off":
            gc.disable()
        elif thresholds:
            gc.set_threshold(*map(int, thresholds.split(",")))
        answer_questions(broker)

    properties |= {"log.dirs": data, "listeners": "PLAINTEXT://127.0.0.1:0"}
    return run(
        BrokerConfig(properties),
        on_ready=lambda address: print("ready", address, flush=True),
        observe=observe,
    )


if __name__ == "__main__":
    sys.exit(main())
