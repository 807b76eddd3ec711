"""A swap in steps: between any two of them the log is read, written to, closed, deleted and cut."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.log import LogConfig, LogManager, PartitionLog
from odradek.log.cleaner import CleanJob, clean_range, make_job, run
from odradek.log.cleaner.manager import CLEANER_OFFSETS, CleanTask, LogCleaner
from odradek.log.storage.memory_files import Killed, MemoryFileSystem
from odradek.records.builder import build_batch
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, records_of
from ..following import remove_deleted

DATA = Path("/data")
CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=150,
    segment_index_bytes=240,
    file_delete_delay_ms=0,
    cleanup_policy=("compact",),
    min_cleanable_dirty_ratio=0.0,
)

UNKNOWN = replace(CONFIG, cleanup_policy=("delete",))
"""As a start has it, which does not know the topic's configs."""


class World:
    """A log that is worth cleaning, and the pass over it, done but for the swap."""

    def __init__(self) -> None:
        self.files = MemoryFileSystem()
        self.manager = self.start()
        self.log = self.manager.create("t", 0, CONFIG)
        self.cleaner = LogCleaner(self.manager, self.files, ManualClock(NOW_MS))
        for number in range(60):
            self.put(number)
        extent = clean_range(self.log, 0, NOW_MS)
        self.job = CleanJob.from_json(make_job(self.log, extent, NOW_MS).to_json())
        self.state = self.newest(self.log)
        result = run(self.files, self.job)
        assert len(result.replacements) > 0
        self.steps = self.cleaner.finishing(CleanTask(("t", 0), self.log, self.job), result)
        self.waits = 0

    def start(self) -> LogManager:
        self.files.restart()
        manager = LogManager([DATA], self.files, ManualClock(NOW_MS), CONFIG)
        manager.load()
        return manager

    def put(self, number: int) -> None:
        data = build_batch([(NOW_MS, b"k%d" % (number % 7), b"v%d" % number, ())])
        self.log.append(data, leader_epoch=0, now_ms=NOW_MS)
        self.log.commit_all()

    def newest(self, log: PartitionLog) -> dict[bytes | None, bytes | None]:
        return {record.key: record.value for record in records_of(log)}

    def go(self, count: int) -> bool:
        """So many steps; false when there were fewer."""
        try:
            for _ in range(count):
                wait = next(self.steps)
                wait()
                self.waits += 1
        except StopIteration:
            return False
        return True


def read_and_write(world: World) -> None:
    assert world.newest(world.log) == world.state
    world.put(0)
    world.state[b"k0"] = b"v0"


def retain(world: World) -> None:
    world.manager.apply_retention(NOW_MS)
    remove_deleted(world.manager, NOW_MS)


def cut(world: World) -> None:
    world.log.truncate_to(world.log.log_end_offset - 1)
    world.state = world.newest(world.log)


def flush(world: World) -> None:
    world.log.flush()
    world.manager.checkpoint()


STEPS = 10


@pytest.mark.parametrize("act", [read_and_write, retain, cut, flush])
@pytest.mark.parametrize("after", range(STEPS))
def test_between_two_steps(after: int, act: Callable[[World], None]) -> None:
    world = World()
    if not world.go(after):
        pytest.skip("fewer steps")
    act(world)
    assert world.newest(world.log) == world.state
    while world.go(1):
        assert world.newest(world.log) == world.state
    assert world.log.syncing.swap is None
    # The files have their names, and a start finds the same.
    world.manager.close()
    assert not [path for path in world.files.files if path.name.endswith((".swap", ".cleaned"))]
    manager = world.start()
    log = manager.get("t", 0)
    assert log is not None
    assert world.newest(log) == world.state


@pytest.mark.parametrize("after", range(STEPS))
@pytest.mark.parametrize("how", ["close", "kill", "power"])
def test_the_end_comes_between_two_steps(after: int, how: str) -> None:
    world = World()
    if not world.go(after):
        pytest.skip("fewer steps")
    if how == "close":
        assert world.manager.close()
    elif how == "power":
        world.log.flush()
        world.files.lose_power()
    manager = world.start()
    log = manager.get("t", 0)
    assert log is not None
    assert world.newest(log) == world.state
    assert not [path for path in world.files.files if path.name.endswith((".swap", ".cleaned"))]


@pytest.mark.parametrize("after", range(STEPS))
def test_a_log_deleted_between_two_steps_is_gone(after: int) -> None:
    world = World()
    if not world.go(after):
        pytest.skip("fewer steps")
    assert world.manager.delete("t", 0)
    again = world.manager.create("t", 0, CONFIG)
    assert again.log_end_offset == 0
    try:
        while True:
            wait = next(world.steps)
            try:
                wait()
            except OSError as error:
                world.steps.throw(error)
    except StopIteration:
        pass
    assert again.log_end_offset == 0
    assert [path.name for path in world.files.files if path.parent == again.directory] != []
    assert not [
        path
        for path in world.files.files
        if path.parent == again.directory and path.name.endswith((".swap", ".cleaned", ".deleted"))
    ]
    assert DATA / CLEANER_OFFSETS not in world.files.files


def test_steps_are_many_enough() -> None:
    world = World()
    while world.go(1):
        pass
    assert world.waits >= 4


def test_a_kill_at_any_instruction_leaves_a_log_that_opens() -> None:
    """Also of a topic whose configs a start does not know yet: the gaps are noted before there are any."""
    number = 0
    while True:
        world = World()
        world.log.flush()
        world.manager.checkpoint()
        world.files.kill_at = kill_at = world.files.operations + number
        with contextlib.suppress(Killed):
            world.go(100)
        killed = world.files.operations > kill_at
        world.files.restart()
        manager = LogManager([DATA], world.files, ManualClock(NOW_MS), UNKNOWN)
        world.files.remove(DATA / "cleaner-offset-checkpoint")
        manager.load()
        log = manager.get("t", 0)
        assert log is not None
        assert world.newest(log) == world.state
        if not killed:
            break
        number += 1
    assert number > 10


def test_a_swap_that_another_broker_was_killed_in_is_a_cleaners() -> None:
    world = World()
    world.log.flush()
    world.manager.checkpoint()
    assert world.go(2)
    world.files.restart()
    world.files.remove(DATA / "t-0" / "offset-gaps")
    for _ in range(2):
        world.files.restart()
        manager = LogManager([DATA], world.files, ManualClock(NOW_MS), UNKNOWN)
        manager.load()
        log = manager.get("t", 0)
        assert log is not None
        assert world.newest(log) == world.state
