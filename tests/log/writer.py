"""A producer that remembers what was acknowledged, and the start of a log for it."""

from __future__ import annotations

import random
from pathlib import Path

from odradek.log import LogConfig, LogManager, PartitionLog
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.util.clock import ManualClock

from .batches import NOW_MS, batch, values_of

DATA = Path("/data")
CONFIG = LogConfig(
    segment_bytes=900,
    segment_index_bytes=240,
    index_interval_bytes=150,
    file_delete_delay_ms=0,
    retention_ms=-1,
)
TOPIC_ID = bytes(range(16))
PRODUCER = 7


class Writer:
    """Writes with an idempotent producer and remembers what was acknowledged.

    A batch that failed or whose answer never came is sent again first, as a client does.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.acknowledged: list[tuple[int, bytes]] = []
        self.sequence = 0
        self.unanswered: list[bytes] | None = None
        self.deleted_below = 0
        self.counter = 0

    def next_values(self) -> list[bytes]:
        """The batch to send now."""
        if self.unanswered is None:
            count = self.rng.randint(1, 3)
            size = self.rng.choice((3, 30, 120))
            self.unanswered = []
            for _ in range(count):
                self.unanswered.append(b"%d" % self.counter + b"." * size)
                self.counter += 1
        return self.unanswered

    def send(self, log: PartitionLog, leader_epoch: int = 0) -> None:
        """Append, and note the answer."""
        values = self.next_values()
        data = batch(values, producer_id=PRODUCER, epoch=0, sequence=self.sequence)
        info = log.append(data, leader_epoch=leader_epoch, now_ms=NOW_MS)
        assert info.last_offset - info.first_offset + 1 == len(values)
        self.acknowledged += [(info.first_offset + n, value) for n, value in enumerate(values)]
        self.sequence += len(values)
        self.unanswered = None

    def check(self, log: PartitionLog) -> None:
        """All that was acknowledged is there once and in order; at most the unanswered batch beside it."""
        expected = [entry for entry in self.acknowledged if entry[0] >= log.log_start_offset]
        found = values_of(log)
        assert found[: len(expected)] == expected
        extra = [value for _, value in found[len(expected) :]]
        assert extra in ([], self.unanswered)
        assert log.log_start_offset <= self.deleted_below or log.log_start_offset == 0


def start(files: MemoryFileSystem, clock: ManualClock) -> tuple[LogManager, PartitionLog]:
    """What a broker does when it starts."""
    manager = LogManager([DATA], files, clock, CONFIG)
    manager.identity.check(1, "cluster")
    manager.load()
    return manager, manager.create("t", 0, CONFIG, TOPIC_ID)


def restarted(files: MemoryFileSystem, clock: ManualClock, writer: Writer) -> tuple[LogManager, PartitionLog]:
    """Started again: what was acknowledged is there, and the writer goes on."""
    manager, log = start(files, clock)
    writer.check(log)
    writer.send(log)
    return manager, log
