"""Fetched bytes: which batches of them the reader may see."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from odradek.records.batch import BatchHeader, batch_records, iter_batches
from odradek.records.control import ControlType, parse_control_type


class AbortedFilter:
    """Which batches belong to aborted transactions, while a fetch answer is walked in offset order (KIP-98).

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
        """Whether the batch must not be seen; to be asked for every batch, control batches included."""
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


def visible_batches(
    records: Any, from_offset: int, aborted: Iterable[Any] | None
) -> tuple[list[tuple[BatchHeader, memoryview]], int]:
    """The data batches of an answer that end at or after `from_offset`, and the offset after the last batch.

    The second is `from_offset` if there is no whole batch. Raises `KafkaError` as `iter_batches` does.
    """
    out: list[tuple[BatchHeader, memoryview]] = []
    next_offset = from_offset
    rule = AbortedFilter(aborted)
    for header, batch in iter_batches(records):
        if header.next_offset > next_offset:
            next_offset = header.next_offset
        if rule.active and rule.drops(header, batch):
            continue
        if not header.is_control and header.last_offset >= from_offset and header.record_count:
            out.append((header, batch))
    return out, next_offset
