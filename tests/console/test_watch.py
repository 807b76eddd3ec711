"""The task that looks again and again: what it survives, and when it rests and ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.console import watch
from odradek.console.watch import IDLE_MS, Watch
from odradek.util.clock import ManualClock
from waiting import until_async


class Asked:
    """An admin client of which each question fails as nobody has foreseen."""

    def __init__(self) -> None:
        self.times = 0

    async def describe_topics(self, _: object) -> Any:
        """Fail."""
        self.times += 1
        raise RuntimeError("unforeseen")


def tasks() -> int:
    return sum(task.get_name() == "odradek-console-watch" for task in asyncio.all_tasks())


def test_the_task_goes_on_rests_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "EVERY_S", 0.001)

    async def run() -> None:
        clock, admin = ManualClock(0), Asked()
        watched = Watch(admin, clock)  # type: ignore[arg-type]
        watched.topic_seen("t", [watch.TOTAL], None)
        await until_async(lambda: admin.times > 2, "looks after one that failed")
        clock.advance(IDLE_MS)
        await until_async(lambda: tasks() == 0, "the rest")
        watched.topic_seen("t", [watch.TOTAL], None)
        assert tasks() == 1
        await watched.close()
        assert tasks() == 0
        watched.topic_seen("t", [watch.TOTAL], None)
        assert tasks() == 0

    asyncio.run(run())
