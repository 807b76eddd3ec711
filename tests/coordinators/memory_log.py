"""The log of a coordinator under test, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.errors import KafkaError
from odradek.records.batch import Record, iter_batches, iter_records
from odradek.records.control import ControlType, end_marker_batch

START_MS = 1_700_000_000_000


class MemoryRecordLog:
    """The partitions of one topic as lists of batches; commits at once unless told to hold."""

    def __init__(self, max_batch_bytes: int = 1_048_588, topic: str = "__consumer_offsets") -> None:
        self.topic = topic
        self.batches: dict[int, list[bytes]] = {}
        self.next_offset: dict[int, int] = {}
        self.failure: KafkaError | None = None
        self.hold_commits = False
        self.limit = max_batch_bytes
        self.held: list[Callable[[], None]] = []

    def append(self, topic: str, partition: int, batches: bytes, on_committed: Callable[[], None]) -> int:
        assert topic == self.topic
        if self.failure is not None:
            raise self.failure
        base = self.next_offset.get(partition, 0)
        written = bytearray(batches)
        written[:8] = base.to_bytes(8, "big")
        ((header, _),) = iter_batches(written)
        self.batches.setdefault(partition, []).append(bytes(written))
        self.next_offset[partition] = header.next_offset
        if self.hold_commits:
            self.held.append(on_committed)
        else:
            on_committed()
        return base

    def when_committed(self, topic: str, partition: int, on_committed: Callable[[], None]) -> None:
        if self.hold_commits:
            self.held.append(on_committed)
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
        held, self.held = self.held, []
        for on_committed in held:
            on_committed()

    def max_batch_bytes(self, topic: str, partition: int) -> int:
        return self.limit

    def read_all(self, topic: str, partition: int) -> Iterator[bytes]:
        yield from list(self.batches.get(partition, ()))

    def records(self, partition: int) -> list[Record]:
        return list(iter_records(b"".join(self.batches.get(partition, ()))))
