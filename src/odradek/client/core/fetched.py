"""Fetched bytes: which batches of them the reader may see."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from odradek.client.types import TopicPartition
from odradek.errors import KafkaError, RecordTooLargeError, UnsupportedForMessageFormatError
from odradek.records.batch import BatchHeader, batch_records, iter_batches
from odradek.records.control import ControlType, parse_control_type
from odradek.records.message_sets.message_kernel import message_kernel
from odradek.records.message_sets.message_set import iter_entries


class AbortedFilter:
    """The batches of aborted transactions, told while a fetch answer is walked in offset order (KIP-98).

    Args:
        aborted: (producer id, first offset) pairs from the answer; None or empty: nothing is filtered.
    """

    def __init__(self, aborted: Iterable[Any] | None) -> None:
        self._pending = deque(
            sorted(((a.first_offset, a.producer_id) for a in aborted or ()), key=lambda pair: pair[0])
        )
        self._open: set[int] = set()
        self.active = bool(self._pending)

    def drops(self, header: BatchHeader, batch: memoryview) -> bool:
        """Return whether the batch must not be seen. Ask for every batch, control batches included."""
        while self._pending and self._pending[0][0] <= header.last_offset:
            self._open.add(self._pending.popleft()[1])
        if header.producer_id not in self._open or not header.is_transactional:
            return False
        if header.is_control:
            marker = batch_records(header, batch)
            if marker and parse_control_type(marker[0].key) is ControlType.ABORT:
                self._open.discard(header.producer_id)
            return False
        return True


def end_of_fetched(records: Any, from_offset: int) -> int:
    """The offset after the last whole batch or message; `from_offset` if there is none at or after it.

    Raises:
        KafkaError: as `iter_entries`, unless what precedes the damage gets the reader on.
    """
    next_offset = from_offset
    try:
        try:
            for header, _ in iter_batches(records):
                if header.next_offset > next_offset:
                    next_offset = header.next_offset
        except UnsupportedForMessageFormatError:
            next_offset = _end_of_entries(records, next_offset)
    except KafkaError:
        if next_offset == from_offset:
            raise
    return next_offset


def _end_of_entries(records: Any, from_offset: int) -> int:
    """As `end_of_fetched`, where there are messages among the batches."""
    next_offset = from_offset
    position = 0
    while True:
        position, last = message_kernel.skim_messages(records, position)
        next_offset = max(next_offset, int(last) + 1)
        try:
            entry_and_bytes = next(iter_entries(records, position), None)
        except KafkaError:
            if next_offset == from_offset:
                raise
            return next_offset
        if entry_and_bytes is None:
            return next_offset
        entry, raw = entry_and_bytes
        position += len(raw)
        next_offset = max(next_offset, entry.next_offset)


def batch_too_large(tp: TopicPartition, offset: int) -> RecordTooLargeError:
    """For an answer without one whole batch: brokers since 0.10.1 (KIP-74) do not give such."""
    return RecordTooLargeError(
        f"{tp}: the batch at offset {offset} exceeds max.partition.fetch.bytes, and a broker before Kafka "
        "0.10.1 does not send it then: raise max.partition.fetch.bytes (to the broker's message.max.bytes)"
    )
