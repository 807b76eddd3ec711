"""Has nothing in the process be left to chance, and what is compiled taken from its sources.

To be imported before anything of the broker's or the clients'.
"""

from __future__ import annotations

import gc
import itertools
import os
import random
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import interpreted

interpreted.pytest_load_initial_conftests()
# The producer's compiled part reads the system's clock itself.
os.environ.pop("ODRADEK_KERNEL", None)
# What a collection ends does so whenever it comes: `run` has one between two simulations.
gc.disable()
sys.modules["odradek.client.core._client"] = None  # type: ignore[assignment]


class SeededRandom(random.Random):
    """Takes its seed from the simulation where none is given."""

    def __init__(self, x: Any = None) -> None:
        super().__init__(chance.getrandbits(64) if x is None else x)


chance = random.Random(0)
"""What code under test gets that asks the system for randomness."""


def use(seed: int, now_s: Any) -> None:
    """Begin a simulation.

    Args:
        seed: of everything that code under test leaves to the system.
        now_s: tells the virtual time, in seconds.
    """
    import odradek.broker.event_loop.slices
    import odradek.client.aio.consumer_engine
    import odradek.client.aio.producer_engine
    import odradek.client.config
    import odradek.client.core._pyappend
    from odradek.util import repeats

    chance.seed(seed)
    random.seed(seed)
    os.urandom = chance.randbytes  # type: ignore[assignment]
    random.Random = SeededRandom  # type: ignore[misc]
    virtual: Any = SimpleNamespace(
        monotonic=now_s, time_ns=lambda: 1_700_000_000_000_000_000 + int(now_s() * 1e9)
    )
    for module in (
        odradek.client.aio.consumer_engine,
        odradek.client.aio.producer_engine,
        odradek.client.core._pyappend,
    ):
        module.time = virtual  # type: ignore[attr-defined]
    # Clients without a name are numbered.
    for numbers in ("_producer_ids", "_consumer_ids", "_admin_ids"):
        setattr(odradek.client.config, numbers, itertools.count(1))
    # Long work pauses where the seed says.
    worked = [0.0]

    def perf_counter() -> float:
        worked[0] += chance.choice((0.0, 0.0, 0.0, 0.004, 0.02))
        return worked[0]

    # It is an argument's default by now.
    odradek.broker.event_loop.slices.Slicer.__init__.__defaults__ = (perf_counter,)
    repeats.forget()


real_time = time.perf_counter
