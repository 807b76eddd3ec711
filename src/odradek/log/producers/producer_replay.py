"""Producer state from the log: batches are read again from where a snapshot ends, and a little before."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator

from odradek.errors import KafkaError
from odradek.log.producers.producer_state import BATCHES_KEPT, BatchMetadata, ProducerState, replay
from odradek.log.segments.batch_walk import SMALLEST_ENTRY
from odradek.log.segments.segment import Segment
from odradek.log.segments.segment_scan import SCAN_BLOCK, SegmentScan
from odradek.log.segments.txn_index import AbortedTxn
from odradek.records.batch import (
    HEADER_BYTES,
    HEADER_STRUCT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    BatchHeader,
    batch_records,
)
from odradek.records.control import EndTransactionMarker, parse_end_marker
from odradek.records.message_sets.message_set import INT32

logger = logging.getLogger(__name__)

_LENGTH = BatchHeader._fields.index("length")
_PRODUCER_ID = BatchHeader._fields.index("producer_id")

RECALLED_BYTES = 1024 * 1024
"""How far back from a snapshot's offset batches are looked for that its producers may send again."""


def iter_producer_batches(
    segment: Segment, position: int, end: int
) -> Iterator[tuple[BatchHeader, EndTransactionMarker | None]]:
    """The batches of producers, with the marker of each control batch that has one; and no others.

    They have been checked before.

    Raises:
        OSError: the segment cannot be read.
    """
    block_at, block = position, b""
    unpack = HEADER_STRUCT.unpack_from
    while end - position >= SMALLEST_ENTRY:
        start = position - block_at
        if start + HEADER_BYTES > len(block) and block_at + len(block) < end:
            block_at, start = position, 0
            block = segment.pread(min(SCAN_BLOCK, end - position), position)
        if block[start + MAGIC_AT] < MAGIC_V2:
            # Messages have no producers.
            (length,) = INT32.unpack_from(block, start + 8)
            position += length + LOG_OVERHEAD
            continue
        if len(block) - start < HEADER_BYTES:
            return
        fields = unpack(block, start)
        if fields[_PRODUCER_ID] >= 0:
            header = BatchHeader._make(fields)
            marker = None
            if header.is_control and header.record_count:
                marker = read_marker(header, segment.pread(header.size, position))
            yield header, marker
        position += fields[_LENGTH] + LOG_OVERHEAD


def read_marker(header: BatchHeader, batch: bytes | memoryview) -> EndTransactionMarker | None:
    """The marker in a control batch; None where it holds something else."""
    try:
        record = batch_records(header, batch)[0]
        return parse_end_marker(record.key, record.value)
    except (KafkaError, IndexError) as error:
        logger.warning("the control batch at offset %d ends no transaction: %s", header.base_offset, error)
        return None


def recall_recent_batches(state: ProducerState, segments: list[Segment]) -> None:
    """Add to a state from a snapshot the batches before each producer's last, from the end of the log so far.

    A snapshot has only the last batch of each producer. With the few before it, batches that were written but
    not answered before a stop are duplicates after it.

    Raises:
        OSError: a segment cannot be read.
    """
    if not state.entries or not segments:
        return
    segment = next((s for s in reversed(segments) if s.base_offset < state.end_offset), segments[0])
    end = segment.translate(state.end_offset)
    end_position = end.position if end is not None else segment.size
    start = segment.boundary_at_or_below(max(0, end_position - RECALLED_BYTES), 0)
    recent: dict[int, deque[BatchMetadata]] = {}
    for header, _ in iter_producer_batches(segment, start, end_position):
        entry = state.entries.get(header.producer_id)
        if entry is not None and entry.epoch == header.producer_epoch and not header.is_control:
            batches = recent.setdefault(header.producer_id, deque(maxlen=BATCHES_KEPT))
            batches.append(BatchMetadata.of(header))
    for producer_id, batches in recent.items():
        last = state.entries[producer_id].last_batch
        if last is not None and batches[-1].is_same(last):
            batches[-1] = last
            state.entries[producer_id].batches = tuple(batches)


def replay_producers(
    state: ProducerState, segments: list[Segment], up_to: int, scans: dict[int, SegmentScan]
) -> dict[int, list[AbortedTxn]]:
    """Bring a state from its end offset to the log's, from the records in between.

    Returns the aborted transactions that ended on the way, by the base offset of their marker's segment.

    Raises:
        OSError: a segment cannot be read.
    """
    aborted: dict[int, list[AbortedTxn]] = {}
    for number, segment in enumerate(segments):
        next_base = segments[number + 1].base_offset if number + 1 < len(segments) else up_to
        if next_base <= state.end_offset and number + 1 < len(segments):
            continue
        scan = scans.get(segment.base_offset)
        start = segment.translate(max(state.end_offset, segment.base_offset))
        if start is not None and (scan.has_producers if scan is not None else segment.holds_batches()):
            for header, marker in iter_producer_batches(segment, start.position, segment.size):
                ended = replay(state, header, marker)
                if ended is not None and ended[0].aborted:
                    txn, last_stable_offset = ended
                    entry = AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, last_stable_offset)
                    aborted.setdefault(segment.base_offset, []).append(entry)
        segment.release()
        state.end_offset = max(state.end_offset, next_base)
    state.end_offset = up_to
    return aborted
