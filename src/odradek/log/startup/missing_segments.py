"""Segments that are not there any more, or have lost their content: never served over in silence.

What is known of a log's segments, from the surest to the least sure:

- After a clean stop of ours, the sizes of all of them (`clean_stop`), whatever the topic's cleanup.policy.
- In a log that was never compacted, segments follow one another without a gap: each begins where the one
  before it ends. Retention and DeleteRecords take away at the head only, truncations at the end.
- Where a log has gaps (it was compacted once, or follows a leader that was: the file `offset-gaps` says so,
  the cleaner's checkpoint, or gaps inside of segments), an index without its segment, or with entries beside
  an empty one, tells.
- What was synced is there: no log ends before its recovery point.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from odradek.log.errors import LogDamagedError
from odradek.log.segments.batch_walk import BrokenBatchError
from odradek.log.segments.offset_index import OffsetIndex
from odradek.log.segments.segment import Segment
from odradek.log.segments.time_index import TimeIndex
from odradek.log.startup.clean_stop import Known
from odradek.log.storage.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    OFFSET_GAPS,
    RECOVERY_POINTS,
    SEGMENTS,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    numbered,
    with_marker,
)
from odradek.records.batch import CODEC_MASK, MAGIC_AT, MAGIC_V2

if TYPE_CHECKING:
    from odradek.log.segments.segment_scan import SegmentScan
    from odradek.log.startup.partition_folder import FolderContents
    from odradek.log.storage.files import FileSystem

logger = logging.getLogger(__name__)

MOST_LOOKED_THROUGH = 4 * 1024**3
"""Bytes of the segments in which signs of a cleaner are looked for; two of Kafka's largest fit."""


def changed_segments(contents: FolderContents, known_sizes: Known) -> list[int]:
    """The segments that are to be read through, as they are not what the last clean stop has left.

    Raises:
        LogDamagedError: records are gone.
    """
    changed = []
    sizes = contents.sizes
    for base, (size, txn_size) in known_sizes.items():
        name = contents.segments.get(base)
        if name is None and base == size == 0:
            # An empty log is made anew: its name may not have been on the disk when the power failed.
            continue
        path = contents.directory / (name or numbered(base, LOG_SUFFIX))
        if name is None or sizes[name] < size:
            has = "the file is gone" if name is None else f"it has {sizes[name]} bytes"
            _refuse(
                path,
                f"{has}; it had {size} bytes when the broker stopped",
                f"remove {contents.directory.parent / SEGMENTS} and create the empty file "
                f"{contents.directory / OFFSET_GAPS}",
                position=0 if name is None else sizes[name],
            )
        # More than was written: somebody else has appended, or a copy went wrong. No record is lost by that.
        if sizes[name] > size:
            logger.warning("%s has %d bytes, and had %d when the broker stopped", path, sizes[name], size)
            changed.append(base)
        elif max(0, sizes.get(numbered(base, TXN_INDEX_SUFFIX), 0)) != txn_size:
            logger.warning("building the indexes of %s again: its transaction index has changed", path)
            changed.append(base)
    return changed


def check_gaps(
    files: FileSystem, contents: FolderContents, bases: list[int], ends: Mapping[int, int], *, gapless: bool
) -> None:
    """Look for gaps between segments.

    Args:
        files: where they are.
        contents: the partition's folder.
        bases: of the segments that stay.
        ends: by base offset, the offset after a segment's last batch; of all but the last.
        gapless: whether the log can have no gaps of its own.

    Raises:
        LogDamagedError: there is one that means lost records.
    """
    for base, following in pairwise(bases):
        end, path = ends[base], contents.path(base)
        if end > following:
            remedy = "Nothing was changed. Move one of the two away."
            raise LogDamagedError(path, 0, f"it goes on to offset {end}, where a later segment is", remedy)
        # Looked for only at a gap, since it reads segments: nearly all logs have none.
        if gapless and end < following:
            gapless = not _was_compacted(files, contents, [base, following, *bases])
        if gapless and end < following:
            ending = "it is empty" if end == base else f"it ends at offset {end}"
            _refuse(
                path,
                f"{ending}, and the next segment begins at offset {following}: what was between is gone",
                f"create the empty file {contents.directory / OFFSET_GAPS}",
                position=contents.sizes[path.name],
            )
        if end == base and not contents.renames and _has_entries(files, contents, base):
            _refuse(path, "it is empty, and its indexes are not", "remove the segment and its indexes")
    if not gapless and not contents.renames:
        _check_lone_indexes(contents, bases)


def check_last_batch(
    files: FileSystem, contents: FolderContents, bases: list[int], scan: SegmentScan
) -> None:
    """Look for a gap before the last batch of a log that can have none of its own.

    A batch's CRC does not cover its offset. One that is too large and has others behind it is found by these;
    the last would have the log go on with offsets that nobody was told.

    Args:
        files, contents, bases: see `check_gaps`.
        scan: of the last segment.

    Raises:
        LogDamagedError: there is one, and no other.
    """
    if not scan.tail:
        return
    last = scan.tail[-1]
    expected = scan.tail[-2].last_offset + 1 if len(scan.tail) > 1 else scan.base_offset
    if last.base_offset == expected or _has_gaps(files, contents, bases[-1], last.position):
        return
    segment = Segment(files, contents.directory, bases[-1], 0, 0)
    segment.path = contents.path(bases[-1])
    try:
        if _is_wrapper(segment, last.position):
            return
    finally:
        segment.release()
    if not _was_compacted(files, contents, bases[-2::-1]):
        _refuse(
            scan.path,
            f"its last batch has offset {last.base_offset}, and what is before it ends at {expected}",
            f"create the empty file {contents.directory / OFFSET_GAPS}",
            position=last.position,
        )


def _was_compacted(files: FileSystem, contents: FolderContents, bases: list[int]) -> bool:
    """Return whether segments, the nearest first, lack batches between others: only a cleaner leaves these
    out.

    A topic's own configs are not known yet, and a replica of Kafka's that was copied from a compacted one has
    no cleaner's checkpoint.
    """
    # Bounded, as a start must not read a log of terabytes: a cleaner leaves gaps in nearly every segment.
    left = MOST_LOOKED_THROUGH
    for base in bases:
        left -= contents.sizes[contents.segments[base]]
        if left < 0:
            break
        if _has_gaps(files, contents, base):
            logger.info("%s was compacted once: batches are missing inside of segments", contents.directory)
            return True
    return False


def _has_gaps(files: FileSystem, contents: FolderContents, base: int, until: int | None = None) -> bool:
    """Return whether batches are missing in a segment, or in its first `until` bytes."""
    segment = Segment(files, contents.directory, base, 0, 0)
    segment.path = contents.path(base)
    expected = base
    try:
        for step in segment.walk(0, contents.sizes[segment.path.name] if until is None else until):
            if step.base_offset > expected and not _is_wrapper(segment, step.position):
                return True
            expected = step.last_offset + 1
    except BrokenBatchError:
        # The batches before it tell as much.
        pass
    finally:
        segment.release()
    return False


def _is_wrapper(segment: Segment, position: int) -> bool:
    """Return whether messages are wrapped there; which is the first is not known."""
    magic, attributes = segment.pread(2, position + MAGIC_AT)
    return magic < MAGIC_V2 and bool(attributes & CODEC_MASK)


def _check_lone_indexes(contents: FolderContents, bases: list[int]) -> None:
    """Look for indexes without a segment between others.

    Retention renames files from the head on, a truncation from the end on, and a cleaner leaves `.swap` files
    until it is through: no stop leaves such an index.
    """
    there = set(bases)
    for name in sorted(contents.sizes):
        if not name.endswith(INDEX_SUFFIX) or not name[:20].isdecimal():
            continue
        offset = int(name[:20])
        if name == numbered(offset, INDEX_SUFFIX) and bases[0] < offset < bases[-1] and offset not in there:
            path = contents.directory / numbered(offset, LOG_SUFFIX)
            if with_marker(path, DELETED_SUFFIX).name in contents.sizes:
                # It was dropped, and the power failed before all of its names were on the disk.
                continue
            _refuse(path, "the file is gone, and its index is there", "remove the index")


def check_end(contents: FolderContents, end_offset: int | None, recovery_point: int) -> None:
    """See that a log from which nothing was cut goes on to its recovery point.

    Raises:
        LogDamagedError: it ends before that.
    """
    end = end_offset or 0
    if end < recovery_point:
        there = contents.segments.get(end)
        path = contents.directory / (there or numbered(end, LOG_SUFFIX))
        has = "the file is gone" if there is None else "it is empty"
        _refuse(
            path,
            f"{has}; the log ends at offset {end}, and what was before {recovery_point} had been synced",
            f"put {end} in the place of {recovery_point} in {contents.directory.parent / RECOVERY_POINTS}",
        )


def _has_entries(files: FileSystem, contents: FolderContents, base: int) -> bool:
    for suffix, layout in ((INDEX_SUFFIX, OffsetIndex.layout), (TIME_INDEX_SUFFIX, TimeIndex.layout)):
        name = numbered(base, suffix)
        # Without a segment's bytes an index can only be reserved, or have lost its segment.
        if contents.sizes.get(name, 0) >= layout.size:
            index = files.open(contents.directory / name)
            try:
                if any(index.pread(layout.size, 0)):
                    return True
            finally:
                index.close()
    return False


def _refuse(path: Path, reason: str, how_to_go_on: str, *, position: int = 0) -> NoReturn:
    raise LogDamagedError(
        path,
        position,
        reason,
        f"Nothing was changed. Restore the file from a copy or a replica; or, to give up what is gone and "
        f"keep the rest, {how_to_go_on}.",
    )
