"""A group coordinator over a log in memory, with time that stands still until the test moves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.coordinators.groups.config import GroupConfig
from odradek.coordinators.groups.coordinator import GROUP_METADATA_TOPIC, GroupCoordinator
from odradek.errors import KafkaError
from odradek.records.batch import Record, iter_batches, iter_records
from odradek.records.control import ControlType, end_marker_batch
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers

START_MS = 1_700_000_000_000


class MemoryRecordLog:
    """The partitions of one topic as lists of batches; commits at once unless told to hold."""

    def __init__(self, max_batch_bytes: int = 1_048_588) -> None:
        self.batches: dict[int, list[bytes]] = {}
        self.next_offset: dict[int, int] = {}
        self.failure: KafkaError | None = None
        self.hold_commits = False
        self.limit = max_batch_bytes
        self._held: list[Callable[[], None]] = []

    def append(self, topic: str, partition: int, batches: bytes, on_committed: Callable[[], None]) -> int:
        assert topic == GROUP_METADATA_TOPIC
        if self.failure is not None:
            raise self.failure
        base = self.next_offset.get(partition, 0)
        written = bytearray(batches)
        written[:8] = base.to_bytes(8, "big")
        ((header, _),) = iter_batches(written)
        self.batches.setdefault(partition, []).append(bytes(written))
        self.next_offset[partition] = header.next_offset
        if self.hold_commits:
            self._held.append(on_committed)
        else:
            on_committed()
        return base

    def when_committed(self, topic: str, partition: int, on_committed: Callable[[], None]) -> None:
        if self.hold_commits:
            self._held.append(on_committed)
        else:
            on_committed()

    def append_marker(
        self, partition: int, producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0
    ) -> None:
        """What the leader does with a marker of WriteTxnMarkers."""
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        batch = end_marker_batch(
            kind,
            coordinator_epoch=coordinator_epoch,
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=START_MS,
            base_offset=self.next_offset.get(partition, 0),
        )
        self.batches.setdefault(partition, []).append(bytes(batch))
        self.next_offset[partition] = self.next_offset.get(partition, 0) + 1

    def commit_held(self) -> None:
        held, self._held = self._held, []
        for on_committed in held:
            on_committed()

    def max_batch_bytes(self, topic: str, partition: int) -> int:
        return self.limit

    def read_all(self, topic: str, partition: int) -> Iterator[bytes]:
        yield from list(self.batches.get(partition, ()))

    def records(self, partition: int) -> list[Record]:
        return list(iter_records(b"".join(self.batches.get(partition, ()))))


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
        self.coordinator = self._start()

    def _new_uuid(self) -> str:
        self._ids += 1
        return str(self._ids)

    def _start(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            config=self.config,
            log=self.log,
            clock=self.clock,
            timers=self.timers,
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
        self.coordinator = self._start()
        self.timers.advance(0)

    def end_transaction(self, partition: int, producer_id: int, epoch: int, *, commit: bool) -> None:
        """Append a marker, and tell the coordinator, as the broker does."""
        self.log.append_marker(partition, producer_id, epoch, commit=commit)
        self.coordinator.transaction_ended(partition, producer_id, committed=commit)

    def advance(self, ms: int) -> None:
        self.timers.advance(ms)
