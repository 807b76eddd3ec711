"""Replays a coordinator's partition, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from odradek.records.batch import batch_records, check_crc, iter_batches
from odradek.records.compression import Buffer
from odradek.records.control import ControlType, parse_control_type


class Replayable(Protocol):
    """What a partition is replayed into."""

    def replay_bytes(self, offset: int, producer_id: int, key: bytes | None, value: bytes | None) -> None:
        """Apply one record; `producer_id` is that of its transaction, -1 outside of transactions."""
        ...

    def replay_end_of_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply the end of a producer's transaction."""
        ...


def replay_chunks(shard: Replayable, chunks: Iterator[Buffer]) -> Iterator[int]:
    """Replay the partition's batches in order, yielding after every chunk how many records it had.

    Args:
        shard: what is loaded.
        chunks: whole batches, in offset order.

    Raises:
        KafkaError: a batch is damaged.
        ProtocolError: a record is not what its type says.
    """
    for chunk in chunks:
        count = 0
        for header, batch in iter_batches(chunk):
            check_crc(header, batch)
            records = batch_records(header, batch)
            count += len(records)
            if header.is_control:
                for record in records:
                    kind = parse_control_type(record.key)
                    if kind in (ControlType.ABORT, ControlType.COMMIT):
                        shard.replay_end_of_transaction(
                            header.producer_id, committed=kind is ControlType.COMMIT
                        )
                continue
            producer_id = header.producer_id if header.is_transactional else -1
            for record in records:
                shard.replay_bytes(record.offset, producer_id, record.key, record.value)
        yield count
