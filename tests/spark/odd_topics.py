"""Topics with all that a partition can hold, written straight into a broker's log: what no producer could.

Formats 0, 1 and 2 one behind the other, timestamps out of order, by the broker, or none, gaps as compaction
leaves them, transactions that were committed, aborted, or are open, nulls, headers of the same name.
"""

import random
from dataclasses import dataclass, replace
from typing import Any

from log.following import append_follower
from odradek.records.batch import TimestampType
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec
from odradek.records.control import ControlType, end_marker_batch
from records.message_set_builder import MessageSetBuilder

START_MS = 1_700_000_000_000
SPAN_MS = 7 * 24 * 3_600_000
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


@dataclass
class Manner:
    """How a partition is written.

    Attributes:
        formats: of the stretches of the log, in order: 0, 1 or 2.
        by_broker: whether timestamps are the broker's, and go up.
        gaps: whether offsets are missing.
        transactions: whether there are some.
        without_time: the share of records of formats 1 and 2 that have no timestamp.
    """

    formats: tuple[int, ...] = (2,)
    by_broker: bool = False
    gaps: bool = False
    transactions: bool = False
    without_time: float = 0.0


class PartitionWriter:
    """Writes batches to one partition of a broker in this process (`odradek.testing.Broker`)."""

    def __init__(self, broker: Any, topic: str, partition: int, rng: random.Random, manner: Manner) -> None:
        self._broker = broker
        self._place = (topic, partition)
        self._rng = rng
        self._manner = manner
        self.offset = 0
        self._time_ms = START_MS
        self._producers = 1000 * partition
        self._open: list[int] = []
        broker.call(lambda b: self._prepare(b.replicas.get(*self._place).log))

    @staticmethod
    def _prepare(log: Any) -> None:
        # So small that even a short partition has several files.
        log.config = replace(log.config, segment_bytes=3_000)

    def fill(self, batches: int) -> None:
        """Write so many batches, formats in their order."""
        formats = self._manner.formats
        for number in range(batches):
            magic = formats[number * len(formats) // batches]
            self.write(self._batch(magic))
            if magic == 2 and self._manner.transactions and self._rng.random() < 0.5:
                self._transaction_step()

    def write(self, data: bytes) -> None:
        def append(broker: Any) -> None:
            partition = broker.replicas.get(*self._place)
            append_follower(partition.log, data)
            partition.log.update_high_watermark(partition.log.log_end_offset)

        self._broker.call(append)
        self.offset = self._broker.call(lambda b: b.replicas.get(*self._place).log.log_end_offset)

    def _transaction_step(self) -> None:
        if self._open and self._rng.random() < 0.7:
            self.end(self._rng.choice((ControlType.ABORT, ControlType.COMMIT)))
        else:
            self._producers += 1
            self._open.append(self._producers)
            self.write(self._batch(2, producer=self._producers))

    def end(self, how: ControlType) -> None:
        """End the oldest open transaction."""
        producer = self._open.pop(0)
        self.write(
            end_marker_batch(
                how,
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=self._time_ms,
                partition_leader_epoch=0,
                base_offset=self.offset,
            )
        )

    def _batch(self, magic: int, producer: int | None = None) -> bytes:
        rng, manner = self._rng, self._manner
        # None right before what is open: a read that is to end there waits for it, the connector's too.
        gap = manner.gaps and producer is None and rng.random() < 0.4
        base = self.offset + (rng.randrange(1, 9) if gap else 0)
        kind = TimestampType.LOG_APPEND_TIME if manner.by_broker else TimestampType.CREATE_TIME
        self._time_ms += rng.randrange(SPAN_MS // 40)
        how: dict[str, Any] = {"base_offset": base}
        if magic > 0 and manner.by_broker:
            how |= {"timestamp_type": kind, "append_time": self._time_ms}
        if producer is not None:
            how |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        codec = rng.choice(CODECS)
        if magic < 2:
            messages = MessageSetBuilder(magic, codec, **how)
            offset = base
            for _ in range(rng.randrange(1, 6)):
                messages.append(self._timestamp(), self._key(), self._value(), offset=offset)
                offset += 1 if not manner.gaps else rng.randrange(1, 4)
            return bytes(messages.build())
        batch = BatchBuilder(codec, partition_leader_epoch=0, **how)
        delta = 0
        for _ in range(rng.randrange(1, 6)):
            # Sequences of a producer have no gaps when it writes them.
            batch.append(self._timestamp(), self._key(), self._value(), self._headers(), offset_delta=delta)
            delta += 1 if not manner.gaps or producer is not None else rng.randrange(1, 4)
        return bytes(batch.build())

    def _timestamp(self) -> int:
        if self._manner.by_broker:
            return self._time_ms
        if self._rng.random() < self._manner.without_time:
            return -1
        return START_MS + self._rng.randrange(SPAN_MS)

    def _key(self) -> bytes | None:
        return self._rng.choice((None, b"", b"key-%d" % self._rng.randrange(5)))

    def _value(self) -> bytes | None:
        if self._rng.random() < 0.2:
            return self._rng.choice((None, b""))
        return self._rng.randbytes(self._rng.randrange(1, 200))

    def _headers(self) -> list[tuple[str, bytes | None]]:
        names = ("h", "h", "héader", "")
        values = (None, b"", b"one", b"\xff\x00")
        return [(self._rng.choice(names), self._rng.choice(values)) for _ in range(self._rng.randrange(4))]
