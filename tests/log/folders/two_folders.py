"""A log that moves from one data folder to another."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

from odradek.log import LogConfig, LogManager, PartitionLog
from odradek.log.folders.moving import Move
from odradek.log.steps import Wait
from odradek.log.storage.file_names import MOVED_FROM, marker_of_dir, partition_dir
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch, values_of
from ..following import remove_deleted

A, B, C = Path("/a"), Path("/b"), Path("/c")
KEY = ("t", 0)
TOPIC_ID = bytes(range(1, 17))
CONFIG = LogConfig(
    segment_bytes=350, index_interval_bytes=100, segment_index_bytes=240, file_delete_delay_ms=0, flush_ms=0
)


def start(files: MemoryFileSystem, *folders: Path, config: LogConfig = CONFIG) -> LogManager:
    files.restart()
    manager = LogManager(list(folders or (A, B)), files, ManualClock(NOW_MS), config)
    manager.identity.check(1, "cluster")
    manager.load()
    return manager


class World:
    """A log in A with several segments, to move to B."""

    def __init__(
        self, files: MemoryFileSystem | None = None, config: LogConfig = CONFIG, count: int = 14
    ) -> None:
        self.files = files or MemoryFileSystem(random.Random(7))
        self.config = config
        self.epoch = 0
        self.manager = start(self.files, config=config)
        self.log = self.manager.create(*KEY, config, TOPIC_ID)
        self.acknowledged: list[bytes] = []
        for _ in range(count):
            self.put()

    def put(self) -> None:
        value = b"v%d" % len(self.acknowledged)
        self.log.append(batch([value]), leader_epoch=self.epoch, now_ms=NOW_MS)
        self.log.commit_all()
        self.acknowledged.append(value)

    def put_now_and_then(self, number: int) -> None:
        if number % 4 == 0:
            self.put()

    def begin(self, parent: Path = B) -> Move:
        move = self.manager.moves.begin(KEY, parent)
        assert move is not None
        return move

    def through(self, move: Move, between: Callable[[int], object] = lambda number: None) -> int:
        """All steps, with something done before and after each; how many there were."""
        steps, number = move.steps(), 0
        try:
            wait = next(steps)
            while True:
                between(number)
                number += 1
                wait = advance(steps, wait)
        except StopIteration:
            self.manager.moves.end(move)
        return number

    def check(self, log: PartitionLog | None = None, start_offset: int = 0) -> None:
        log = self.log if log is None else log
        expected = list(enumerate(self.acknowledged))[start_offset:]
        assert values_of(log) == expected
        assert log.log_end_offset == log.high_watermark == len(self.acknowledged)

    def again(self, *folders: Path) -> LogManager:
        """Started anew; its folders hold the log once."""
        self.manager = start(self.files, *folders, config=self.config)
        log = self.manager.get(*KEY)
        assert log is not None
        self.log = log
        log.commit_all()
        remove_deleted(self.manager, NOW_MS + 1)
        plain = [path for path in self.files.dirs if path.name == partition_dir(*KEY)]
        assert plain == [log.directory]
        assert log.directory / MOVED_FROM not in self.files.files
        return self.manager


def advance(steps: Iterator[Wait], wait: Wait) -> Wait:
    try:
        wait()
    except OSError as error:
        return steps.throw(error)  # type: ignore[attr-defined, no-any-return]
    return next(steps)


def advance_to_the_swap(move: Move) -> tuple[Iterator[Wait], Wait]:
    """The steps behind it, and what is to be waited for before the first of them."""
    steps = move.steps()
    wait = next(steps)
    while not move.has_swapped:
        wait = advance(steps, wait)
    return steps, wait


def files_of(files: MemoryFileSystem, directory: Path) -> dict[str, bytes]:
    return {
        path.name: bytes(inode.data).rstrip(b"\0")
        for path, inode in files.files.items()
        if path.parent == directory and path.name != MOVED_FROM
    }


def folders_marked(files: MemoryFileSystem, marker: str) -> list[Path]:
    return sorted(path for path in files.dirs if marker_of_dir(path.name) == marker)
