"""A fetch of many partitions, read in steps, is answered as one of few would be."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.conversion.lazy_records import LazyRecords
from odradek.broker.event_loop.slices import Slicer
from odradek.broker.handlers import fetch as fetch_handler
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.requests.answer import Answer
from odradek.log.storage.files import FileRange
from odradek.util.clock import ManualClock, SystemClock
from odradek.util.timers import ManualTimers
from seeds import each_seed
from waiting import until_async

from ..dispatching import Later, dispatch
from ..fetch_frames import Shape, fill
from ..live import running
from ..net import run

WAYS: dict[str, tuple[int, Callable[[], Callable[[], float]]]] = {
    "at once": (64, lambda: lambda: 0.0),
    "in steps": (1, lambda: lambda: 0.0),
    # Every look at the clock ends a slice.
    "in slices": (1, lambda: itertools.count().__next__),
}
"""By name: so many partitions are read without a pause, and what makes the slicer's clock."""


def told(answer: Any) -> Any:
    """An answer, to be compared: its bytes, where records are still to be converted that many zeros."""
    if not isinstance(answer, Answer) or answer.buffers is None:
        return answer
    return b"".join(
        part.read()
        if isinstance(part, FileRange)
        else bytes(len(part))
        if isinstance(part, LazyRecords)
        else part
        for part in answer.buffers
    )


@each_seed(4)
def test_steps_answer_what_is_answered_at_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        clock = ManualClock(SystemClock().now_ms())
        timers = ManualTimers(clock)
        async with running(tmp_path, clock=clock, pauses=timers) as broker:
            ids = await fill(broker, chance)
            logs = {one.key: one.log for one in broker.replicas if one.topic in ids}
            bounds = {key: (log.log_start_offset, log.log_end_offset) for key, log in logs.items()}
            shape = Shape(seed, ids, bounds)
            how = {"at once": 0, "later": 0}
            for _ in range(150):
                frame = shape.frame(chance.randrange(19), odd=chance.choice((0, 0.2)))
                answers = {}
                for way, (at_once, clock_of) in WAYS.items():
                    monkeypatch.setattr(fetch_handler, "AT_ONCE", at_once)
                    broker.slicer = Slicer(clock_of())
                    later = Later()
                    answer = dispatch(Dispatcher(broker, broker.handlers, broker.slicer), frame, later)
                    if answer is None:
                        await until_async(
                            lambda later=later: later.answer is not None or len(broker.purgatory) > 0,
                            "the answer, or that the fetch waits for more",
                            every_s=0,
                        )
                        timers.advance(100)
                        await until_async(
                            lambda later=later: later.answer is not None, "the answer", every_s=0
                        )
                        answer = later.answer
                    if way == "at once":
                        how["later" if later.answer is not None else "at once"] += 1
                    answers[way] = told(answer)
                assert answers["in steps"] == answers["in slices"] == answers["at once"]
            assert min(how.values()) > 5, how

    run(main)
