# compiled: mypyc
"""Before and after an append: what the producers of its batches may do, and what they have done."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from odradek.log.producers.producer_replay import read_marker
from odradek.log.producers.producer_state import Origin, ProducerState
from odradek.log.segments.segment import Segment
from odradek.log.segments.txn_index import AbortedTxn
from odradek.log.storage.files import Buffer
from odradek.records.batch import CONTROL_BIT, BatchHeader
from odradek.records.control import EndTransactionMarker

_CLIENT: Final = Origin.CLIENT

logger = logging.getLogger(__name__)

Markers = Sequence[EndTransactionMarker | None]
"""Of each batch the marker that it holds, if it is a control batch."""


class Duplicate(NamedTuple):
    """A batch that is here already: its offsets and the timestamp that it got."""

    first_offset: int
    last_offset: int
    timestamp: int


def check_producers(
    producers: ProducerState, headers: Sequence[BatchHeader], records: Buffer, origin: Origin
) -> Markers | Duplicate:
    """Return the marker of each batch, or what to answer for a batch that is here already.

    Raises:
        KafkaError: as `ProducerState.check` and `check_marker`.
    """
    markers: list[EndTransactionMarker | None] = []
    position = 0
    for header in headers:
        marker = None
        if header.producer_id >= 0:
            if header.attributes & CONTROL_BIT:
                marker = read_marker(header, memoryview(records)[position : position + header.size])
                if marker is not None:
                    producers.check_marker(header, marker)
            elif origin is not _CLIENT:
                producers.check(header, origin)
            else:
                seen = producers.find_duplicate(header)
                if seen is not None:
                    return Duplicate(seen.first_offset, seen.last_offset, seen.timestamp)
                producers.check(header, origin)
        markers.append(marker)
        position += header.size
    return markers


def note_producers(
    producers: ProducerState, segment: Segment, headers: Sequence[BatchHeader], markers: Markers
) -> None:
    """Take note of batches that were appended to a segment: sequences and ends of transactions."""
    for header, marker in zip(headers, markers, strict=True):
        if header.producer_id < 0:
            continue
        completed = producers.append(header, marker)
        if completed is None:
            continue
        last_stable_offset = producers.complete(completed)
        if completed.aborted:
            entry = AbortedTxn(
                completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
            )
            try:
                segment.txn_index.append(entry)
            except OSError as error:
                # It is known in memory, written with the next one, and found again by recovery.
                logger.warning("%s not yet in %s: %s", entry, segment.txn_index.path, error)
