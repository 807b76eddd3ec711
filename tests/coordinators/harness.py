"""A group coordinator over a log in memory, with time that stands still until the test moves it."""

from __future__ import annotations

from odradek.coordinators.groups.config import GroupConfig
from odradek.coordinators.groups.coordinator import GroupCoordinator
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers

from .memory_log import START_MS, MemoryRecordLog


class World:
    """A coordinator that can be restarted over the same log."""

    def __init__(self, partitions: int = 1, log: MemoryRecordLog | None = None, **config: int) -> None:
        self.clock = ManualClock(START_MS)
        self.timers = ManualTimers(self.clock)
        self.log = log or MemoryRecordLog()
        self.config = GroupConfig(**config)
        self.partitions = partitions
        self._ids = 0
        self.epoch = -1
        self.coordinator = self.start()

    def _new_uuid(self) -> str:
        self._ids += 1
        return str(self._ids)

    def start(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            config=self.config,
            log=self.log,
            clock=self.clock,
            timers=self.timers,
            pauses=self.timers,
            new_uuid=self._new_uuid,
            partition_count=self.partitions,
        )
        self.epoch += 1
        for partition in range(self.partitions):
            coordinator.runtime.load(partition, self.epoch)
        return coordinator

    def restart(self, *, graceful: bool = False, **config: int) -> None:
        """Stop the coordinator, gracefully or by just forgetting it, and load another one."""
        if graceful:
            self.coordinator.runtime.unload_all()
        else:
            # Its timers must not fire into the new one's time.
            self.timers = ManualTimers(self.clock)
        if config:
            self.config = GroupConfig(**config)
        self.coordinator = self.start()
        self.timers.advance(0)

    def end_transaction(self, partition: int, producer_id: int, epoch: int, *, commit: bool) -> None:
        """Append a marker, and tell the coordinator, as the broker does."""
        self.log.append_marker(partition, producer_id, epoch, commit=commit)
        self.coordinator.transaction_ended(partition, producer_id, committed=commit)

    def advance(self, ms: int) -> None:
        self.timers.advance(ms)
