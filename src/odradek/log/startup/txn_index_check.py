"""The check whether the transaction index of a segment tells of transactions that its log has."""

from __future__ import annotations

import logging

from odradek.log.config import LogConfig
from odradek.log.producers.producer_replay import read_marker
from odradek.log.segments.batch_walk import BrokenBatchError
from odradek.log.segments.index_file import CorruptIndexError
from odradek.log.segments.segment import Segment
from odradek.log.segments.segment_list import open_segment
from odradek.log.segments.txn_index import AbortedTxn
from odradek.log.startup.partition_folder import FolderContents
from odradek.log.storage.file_names import TXN_INDEX_SUFFIX, numbered
from odradek.log.storage.files import FileSystem
from odradek.records.batch import (
    HEADER_BYTES,
    MAGIC_AT,
    MAGIC_V2,
    BatchHeader,
)
from odradek.records.control import ControlType

logger = logging.getLogger(__name__)


def txn_index_is_true(
    files: FileSystem, contents: FolderContents, base: int, config: LogConfig, *, look: bool
) -> bool:
    """Return whether a segment's transaction index can be read; with `look` also whether the log agrees with
    each entry, as after an unclean stop nobody knows which of the two was written last.
    """
    if numbered(base, TXN_INDEX_SUFFIX) not in contents.sizes:
        return True
    path = contents.path(base)
    segment = open_segment(files, path.parent, base, config)
    segment.looks_only = True
    try:
        segment.txn_index.load()
        if not look:
            return True
        segment.load(contents.sizes[path.name], 0)
        wrong = next(
            (aborted for aborted in segment.txn_index.entries if not _is_aborted(segment, aborted)), None
        )
        if wrong is not None:
            raise CorruptIndexError(f"{segment.txn_index.path} has {wrong}, the log has no such transaction")
    except (CorruptIndexError, BrokenBatchError) as error:
        logger.warning("building the indexes of %s again: %s", path, error)
        return False
    finally:
        segment.release()
    return True


def _is_aborted(segment: Segment, entry: AbortedTxn) -> bool:
    """Return whether the entry's last offset is a marker that aborts, its first one the producer's if it is
    in this segment.
    """
    if not entry.first_offset <= entry.last_offset or entry.last_stable_offset > entry.last_offset + 1:
        return False
    at_end = _batch_at(segment, entry.last_offset)
    if at_end is None or not at_end[0].is_control or at_end[0].producer_id != entry.producer_id:
        return False
    marker = read_marker(at_end[0], segment.pread(at_end[0].size, at_end[1]))
    if marker is None or marker.control_type is not ControlType.ABORT:
        return False
    if entry.first_offset < segment.base_offset:
        return True
    first = _batch_at(segment, entry.first_offset)
    # A cleaner may have taken the first records away, never the marker alone.
    if first is None or first[0].base_offset > entry.first_offset:
        return True
    return first[0].producer_id == entry.producer_id


def _batch_at(segment: Segment, offset: int) -> tuple[BatchHeader, int] | None:
    """The first batch that reaches an offset, and its position; None without one that has producers."""
    step = segment.translate(offset)
    if step is None or segment.pread(1, step.position + MAGIC_AT) != bytes([MAGIC_V2]):
        return None
    return BatchHeader.parse(segment.pread(HEADER_BYTES, step.position)), step.position
