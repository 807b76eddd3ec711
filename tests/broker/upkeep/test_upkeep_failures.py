"""Failures that nobody foresaw in the threads of the upkeep: who waits hears of them, the work goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.upkeep.housekeeping import Housekeeping
from odradek.broker.upkeep.log_starts import Errors, LogStarts
from odradek.broker.upkeep.moving import Moving
from odradek.broker.upkeep.removing import Removing
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from odradek.util.topic_partition import TopicPartition
from waiting import until_async

FOLDER = Path("/data")


class Job:
    """Work of the logs; `fails` fails as no disk does."""

    def __init__(self, fails: bool = True) -> None:
        self.entries = [(FOLDER / "log-start-offset-checkpoint", {})]
        self.errors: dict[Path, OSError] = {}
        self.fails = fails

    def __len__(self) -> int:
        return 1

    def run(self) -> None:
        if self.fails:
            raise RuntimeError("a fault of ours")


async def until(condition: Callable[[], bool]) -> None:
    await until_async(condition, every_s=0.001)


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(main(), 120)

    asyncio.run(bounded())


def test_log_starts_that_were_not_written_are_not_acknowledged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        finished: list[Any] = []
        checkpoints = SimpleNamespace(begin_log_starts=Job, finish=finished.append)
        logs: Any = SimpleNamespace(checkpoints=checkpoints)
        told: list[Errors] = []
        LogStarts(asyncio.get_running_loop(), logs).write(told.append)
        await until(lambda: bool(told))
        assert list(told[0]) == [FOLDER]
        assert finished == []

    run(main)
    assert "a fault of ours" in caplog.text


def test_who_waits_for_log_starts_is_told_whatever_becomes_of_another() -> None:
    async def main() -> None:
        checkpoints = SimpleNamespace(begin_log_starts=lambda: Job(fails=False), finish=lambda job: True)
        logs: Any = SimpleNamespace(checkpoints=checkpoints)
        starts = LogStarts(asyncio.get_running_loop(), logs)
        told: list[Errors] = []

        def fail(errors: Errors) -> None:
            raise RuntimeError("a fault of ours")

        starts.write(told.append)
        # These two share the next write.
        starts.write(fail)
        starts.write(told.append)
        await until(lambda: len(told) == 2)
        assert told == [{}, {}]

    run(main)


def housekeeping(**logs: Any) -> Housekeeping:
    manager: Any = SimpleNamespace(**logs)
    clock = ManualClock(0)
    return Housekeeping(
        asyncio.get_running_loop(), manager, MemoryFileSystem(), clock, ManualTimers(clock), BrokerConfig()
    )


def test_what_was_not_synced_moves_no_recovery_point(caplog: pytest.LogCaptureFixture) -> None:
    """The job behind the one that failed has not been run at all."""

    async def main() -> None:
        finished: list[Any] = []
        jobs = [Job(), Job(fails=False)]
        work = housekeeping(begin_flushes=lambda now_ms: jobs, finish_flushes=finished.append)
        work.flush()
        await until(lambda: not work.is_flushing)
        assert finished == []
        jobs.pop(0)
        work.flush()
        await until(lambda: not work.is_flushing)
        assert finished == [jobs]

    run(main)
    assert "a fault of ours" in caplog.text


def test_checkpoints_that_were_not_written_are_written_next_time() -> None:
    async def main() -> None:
        finished: list[Any] = []
        jobs = [Job(fails=False), Job()]
        log = SimpleNamespace(high_watermark=1, recovery_point=1, log_start_offset=0, directory=FOLDER)

        def finish(job: Job) -> bool:
            finished.append(job)
            return True

        checkpoints = SimpleNamespace(begin=jobs.pop, finish=finish)
        work = housekeeping(all=lambda: [log], checkpoints=checkpoints)
        work.checkpoint()
        await until(lambda: not work.is_checkpointing)
        assert finished == []
        work.checkpoint()
        await until(lambda: not work.is_checkpointing)
        assert len(finished) == 1
        # Nothing has changed since.
        work.checkpoint()
        assert not work.is_checkpointing

    run(main)


@pytest.mark.parametrize("where", ["in the thread", "behind it"])
def test_a_removal_that_fails_is_not_the_last_one(where: str) -> None:
    async def main() -> None:
        begun: list[Job] = []

        def begin(now_ms: int, most: int) -> Job:
            begun.append(Job(fails=where == "in the thread"))
            return begun[-1]

        def finish(job: Job, now_ms: int) -> None:
            if where == "behind it":
                raise RuntimeError("a fault of ours")

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: None)
        logs: Any = SimpleNamespace(removals=SimpleNamespace(begin=begin, finish=finish))
        removing = Removing(loop, logs, ManualClock(0))
        removing.check()
        await until(lambda: len(begun) > 2)
        removing.stop()

    run(main)


def test_a_move_that_fails_gives_its_place_to_the_next(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        ended: list[Any] = []

        def steps() -> Any:
            raise RuntimeError("a fault of ours")
            yield

        def begin(key: TopicPartition, parent: Path) -> Any:
            source = parent / "t-0"
            return SimpleNamespace(
                key=key, parent=parent, source=source, bytes_copied=0, is_over=False, steps=steps
            )

        logs: Any = SimpleNamespace(moves=SimpleNamespace(begin=begin, end=ended.append), data_dirs=[FOLDER])
        config: Any = SimpleNamespace(num_replica_alter_log_dirs_threads=1)
        copied: Any = None
        moving = Moving(asyncio.get_running_loop(), logs, config, copied)
        both = [("t", 0), ("t", 1)]
        for key in both:
            moving.begin(key, FOLDER)
        assert [move.key for move in ended] == both
        moving.stop()

    run(main)
    assert "a fault of ours" in caplog.text
    assert logging.ERROR in {record.levelno for record in caplog.records}
