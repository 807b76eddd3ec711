"""The records of a partition as its log has them, with what no consumer sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from odradek.records.batch import NO_PRODUCER_ID, BatchHeader, Header, batch_records
from odradek.records.control import ControlType, parse_control_type
from odradek.records.message_sets.message_set import iter_entries, message_records

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices

    T = TypeVar("T")
    Call = Callable[[Callable[[BrokerServices], T]], T]

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"
MARKERS = {ControlType.COMMIT: "commit marker", ControlType.ABORT: "abort marker"}

_READ_BYTES = 1024 * 1024
"""So much is read at once in the broker's loop, where others wait meanwhile."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as it stands in the log of its partition.

    Attributes:
        value, key: its bytes; None for none.
        headers: names and values.
        topic, partition, offset: where it is.
        timestamp_ms: since the epoch; -1 for none.
        producer_id, producer_epoch: of an idempotent producer, -1 for none.
        state: of the transaction that it is in: "committed", "aborted" or "open"; "commit marker" or "abort
            marker" where it is the end of one, "control record" where it is another control record; None
            outside of transactions.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    topic: str = ""
    partition: int = 0
    offset: int = -1
    timestamp_ms: int = -1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    state: str | None = None

    @property
    def is_control(self) -> bool:
        """True if the broker has written it, and no consumer is given it: a marker."""
        return self.state is not None and self.state not in (COMMITTED, ABORTED, OPEN)


class _Piece(NamedTuple):
    """A part of a log, read at once.

    Attributes:
        entries: batches and messages.
        start, end: the log's.
        last_stable_offset: where a read_committed consumer stops.
        open_from: the producers with an open transaction, with its first offset.
    """

    entries: bytes
    start: int
    end: int
    last_stable_offset: int
    open_from: dict[int, int]


def read_records(call: Call[_Piece], topic: str, index: int, *, committed: bool) -> list[StoredRecord]:
    """Return the records of a partition, markers included.

    Args:
        call: runs a function in the loop of the broker that leads the partition.
        topic, index: the partition.
        committed: leave out what a read_committed consumer is not given.

    Raises:
        KafkaError: there is no such partition, or it cannot be read.
    """
    records: list[StoredRecord] = []
    in_transaction: dict[int, list[int]] = {}
    """By producer id: where in `records` those are whose transaction has not ended."""
    position = 0
    while True:
        piece = call(lambda broker, at=position: _read(broker, topic, index, at))  # type: ignore[misc]
        if not piece.entries:
            break
        for producer_id, record in _decoded(piece.entries, topic, index):
            position = record.offset + 1
            if record.offset < piece.start:
                continue  # the start may be within a batch (DeleteRecords)
            if record.is_control:
                _end(records, in_transaction.pop(producer_id, ()), record)
            elif record.state == OPEN:
                in_transaction.setdefault(producer_id, []).append(len(records))
            records.append(record)
        last = _last_offset(piece.entries)
        position = max(position, last + 1)
    for producer_id, places in in_transaction.items():
        # The cleaner may have taken a marker whose transaction has ended.
        open_from = piece.open_from.get(producer_id, piece.end)
        for place in places:
            if records[place].offset < open_from:
                records[place] = replace(records[place], state=COMMITTED)
    if committed:
        records = [
            record
            for record in records
            if record.offset < piece.last_stable_offset and record.state in (None, COMMITTED)
        ]
    return records


def _read(broker: BrokerServices, topic: str, index: int, position: int) -> _Piece:
    log = broker.replicas.get(topic, index).log
    at = min(max(position, log.log_start_offset), log.log_end_offset)
    return _Piece(
        log.read(at, _READ_BYTES, upper_bound=log.log_end_offset, min_one_batch=True).records,
        log.log_start_offset,
        log.log_end_offset,
        log.last_stable_offset,
        {
            entry.producer_id: entry.txn_first_offset
            for entry in log.producers.entries.values()
            if entry.txn_first_offset >= 0
        },
    )


def _decoded(entries: bytes, topic: str, index: int) -> Iterator[tuple[int, StoredRecord]]:
    for header, entry in iter_entries(entries):
        if not isinstance(header, BatchHeader):
            for record in message_records(header, entry):
                yield (
                    NO_PRODUCER_ID,
                    StoredRecord(
                        record.value,
                        record.key,
                        topic=topic,
                        partition=index,
                        offset=record.offset,
                        timestamp_ms=record.timestamp,
                    ),
                )
            continue
        for record in batch_records(header, entry):
            state = OPEN if header.is_transactional else None
            if header.is_control:
                state = MARKERS.get(parse_control_type(record.key), "control record")
            yield (
                header.producer_id,
                StoredRecord(
                    record.value,
                    record.key,
                    record.headers,
                    topic,
                    index,
                    record.offset,
                    record.timestamp,
                    header.producer_id,
                    header.producer_epoch,
                    state,
                ),
            )


def _last_offset(entries: bytes) -> int:
    last = -1
    for header, _ in iter_entries(entries):
        last = header.last_offset
    return last


def _end(records: list[StoredRecord], places: list[int] | tuple[()], marker: StoredRecord) -> None:
    """Say of a transaction's records how it has ended."""
    state = COMMITTED if marker.state == MARKERS[ControlType.COMMIT] else ABORTED
    for place in places:
        records[place] = replace(records[place], state=state)
