"""A producer's batch: the records of one partition that are sent, retried and acknowledged together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.client.core.batch_splitting import split_batch
from odradek.client.core.delivery import BatchOutcome, DeliveryFuture
from odradek.client.core.kernel import OpenBatch
from odradek.client.types import RecordMetadata, TopicPartition
from odradek.records.batch import (
    CRC_AT,
    FLAGS_AT,
    NO_SEQUENCE,
    PRODUCER_ID_AT,
    PRODUCER_STRUCT,
    TRANSACTIONAL_BIT,
    compute_crc,
)
from odradek.records.builder import MAX_RECORD_OVERHEAD, compress_records, finish_batch
from odradek.records.compression import Codec

Callback = Callable[[RecordMetadata | None, Exception | None], object]


class ProducerBatch(OpenBatch):
    """Records on their way to one partition.

    Life: appended to while it is the last of its queue; closed when it is full or drained; `encode` gives its
    bytes, the same for every try unless its sequence was rewritten. Times are monotonic milliseconds.

    Attributes:
        created_ms: `delivery.timeout.ms` counts from here; the parts of a split batch have that of the whole.
        last_attempt_ms: when the last try began or failed; the pause before the next counts from here.
        attempts: the tries that have failed.
        leader_epoch: of the leader to which the last try went; -1: not known.
        producer_id, producer_epoch, base_sequence: the batch's place among the producer's records, the same
            for all tries.
        data: the bytes to be sent; None while records are appended, or when they have to be made again.
        built: of a batch that was whole before it had a sequence, the bytes; `data` is these with the
            producer's place written into them.
        number: in the order in which batches of the partition left first; 0 before.
        in_flight: a try is under way.
        in_doubt: a try may have been appended, though no broker has said so.
        part_in_doubt: the batch is part of one that was in doubt: it may be in the log within that one.
    """

    __slots__ = (
        "attempts",
        "base_sequence",
        "built",
        "codec",
        "created_ms",
        "data",
        "in_doubt",
        "in_flight",
        "last_attempt_ms",
        "leader_epoch",
        "level",
        "number",
        "part_in_doubt",
        "producer_epoch",
        "producer_id",
        "tp",
        "transactional",
    )

    outcome: BatchOutcome

    def __init__(
        self, tp: TopicPartition, codec: Codec, level: int | None, now_ms: float, transactional: bool = False
    ) -> None:
        super().__init__(BatchOutcome(tp.topic, tp.partition), DeliveryFuture)
        self.tp = tp
        self.codec = codec
        self.level = level
        self.created_ms = now_ms
        self.last_attempt_ms = now_ms
        self.attempts = 0
        self.leader_epoch = -1
        self.in_flight = False
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        self.number = 0
        self.in_doubt = False
        self.part_in_doubt = False
        self.data: bytes | bytearray | memoryview | None = None
        self.built: bytes | bytearray | None = None
        self.transactional = transactional

    @property
    def size(self) -> int:
        """Bytes so far; before compression unless encoded."""
        return len(self.data) if self.data is not None else self.records_size

    @property
    def has_sequence(self) -> bool:
        """Return whether a sequence was given; such a batch may be in the log already."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; 0 follows 2^31-1."""
        return (self.base_sequence + self.count - 1) & 0x7FFF_FFFF

    def set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Give the batch its place among the producer's records of the partition."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        built = self.built
        if built is None:
            self.data = None
        elif self.data is built and self.attempts == 0 and isinstance(built, bytearray):
            # Nobody has these bytes yet.
            stamp_in_place(built, producer_id, producer_epoch, base_sequence)
            self.data = memoryview(built).toreadonly()
        else:
            self.data = stamp(built, producer_id, producer_epoch, base_sequence)

    def adopt(self, data: bytes | bytearray, count: int) -> None:
        """Be a batch that was built elsewhere, of `count` records. A transactional one must be a bytearray,
        and gets its checksum with its sequence.
        """
        if self.transactional:
            assert isinstance(data, bytearray)
            data[FLAGS_AT] |= TRANSACTIONAL_BIT
        self.built = self.data = data
        self.count = count
        self.append_closed = True

    def encode(self) -> bytes | bytearray | memoryview:
        """The bytes of the record batch."""
        if self.data is None:
            self.append_closed = True
            batch = self.records
            if self.codec is not Codec.NONE:
                batch = compress_records(batch, self.codec, self.level)
            finish_batch(
                batch,
                base_offset=0,
                partition_leader_epoch=-1,
                attributes=int(self.codec) | (TRANSACTIONAL_BIT if self.transactional else 0),
                last_offset_delta=self.count - 1,
                base_timestamp=self.base_timestamp,
                max_timestamp=self.max_timestamp,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.base_sequence,
                record_count=self.count,
            )
            # What was handed out may still be on its way when the sequence is rewritten.
            self.data = bytes(batch)
        return self.data

    def drained(self, now_ms: float, leader_epoch: int = -1) -> None:
        """A try begins, at the leader of this epoch (-1: not known)."""
        self.append_closed = True
        self.in_flight = True
        self.last_attempt_ms = now_ms
        self.leader_epoch = leader_epoch

    def returned(self, now_ms: float) -> None:
        """A try failed and another will follow."""
        self.in_flight = False
        self.attempts += 1
        self.last_attempt_ms = now_ms

    def build(self) -> int:
        """Close the batch before it has a sequence. Returns its bytes as they will be sent."""
        if self.built is None:
            self.append_closed = True
            self.built = self.data = bytearray(self.encode())
        return len(self.built)

    def split(self, max_bytes: int) -> list[ProducerBatch]:
        """Smaller batches, without sequences, with the same records in the same order.

        Args:
            max_bytes: what a part may measure as it is sent; a single record may exceed it.
        """
        parts: list[ProducerBatch] = []
        moved: list[tuple[BatchOutcome, int]] = []
        for data, count in split_batch(self.encode(), max_bytes, self.level):
            # As old as the whole: `delivery.timeout.ms` counts from `send` (Kafka's ProducerBatch.split).
            part = ProducerBatch(self.tp, self.codec, self.level, self.created_ms, self.transactional)
            part.adopt(data, count)
            part.attempts = self.attempts
            part.memory = len(data)
            parts.append(part)
            moved += [(part.outcome, index) for index in range(count)]
        by_outcome = {id(part.outcome): part for part in parts}
        for future in self.callbacks:
            future._final()  # this batch may itself be part of one that was split
            by_outcome[id(moved[future._index][0])].callbacks.append(future)
        self.callbacks = []
        self.outcome.move(moved)
        return parts


def stamp(data: bytes | bytearray, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """A copy of a whole record batch with another producer id, epoch and sequence, and the CRC that goes
    with it.
    """
    batch = bytearray(data)
    stamp_in_place(batch, producer_id, producer_epoch, base_sequence)
    return bytes(batch)


def stamp_in_place(batch: bytearray, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """As `stamp`, without a copy."""
    PRODUCER_STRUCT.pack_into(batch, PRODUCER_ID_AT, producer_id, producer_epoch, base_sequence)
    with memoryview(batch) as view:
        crc = compute_crc(view)
    batch[CRC_AT : CRC_AT + 4] = crc.to_bytes(4, "big")


def record_size(key: Any, value: Any, headers: Any) -> int:
    """At most how many bytes a record takes, before compression: Kafka's estimate for `max.request.size`."""
    size = MAX_RECORD_OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, payload in headers:
        size += 10 + len(name.encode()) + (len(payload) if payload is not None else 0)
    return size


class SerializedRecord(NamedTuple):
    """A record in bytes, between its serializers and its batch. `partition` is None until it is chosen."""

    topic: str
    partition: int | None
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    size: int
    callback: Callback | None
