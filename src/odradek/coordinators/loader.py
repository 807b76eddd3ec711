"""Replays a coordinator's partition, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from odradek.records.batch import NO_PRODUCER_ID, batch_records, check_crc
from odradek.records.compression import Buffer
from odradek.records.control import ControlType, parse_control_type
from odradek.records.message_sets.message_set import MessageHeader, iter_entries, message_records


class Replayable(Protocol):
    """A shard that a partition is replayed into."""

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
        for header, batch in iter_entries(chunk):
            if isinstance(header, MessageHeader):
                # From before Kafka 0.11, or where the topic's format is that old.
                for record in message_records(header, batch):
                    count += 1
                    shard.replay_bytes(record.offset, NO_PRODUCER_ID, record.key, record.value)
                continue
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
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            for record in records:
                shard.replay_bytes(record.offset, producer_id, record.key, record.value)
        yield count
