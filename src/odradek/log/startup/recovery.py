"""The recovery of a log's folder at a start: first a plan that only reads, then its execution (LogLoader).

After a clean stop the files are trusted; only the end of the last segment is walked over. After any other
stop every segment from the recovery point on is read through, its indexes are built again, and what is torn
off at the end is cut. An index that is missing or cannot be right is built again in both cases.

The line between a torn tail and damage: nothing valid follows a torn tail, neither in its segment nor in a
later one. Where valid batches follow, acknowledged records would be lost by cutting, so the start is refused
(`LogDamagedError`) and nothing is changed. Kafka cuts there too, trusting replicas to have the records.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from odradek.log.config import LogConfig
from odradek.log.errors import LogDamagedError
from odradek.log.segments.batch_walk import BrokenBatchError
from odradek.log.segments.index_file import CorruptIndexError
from odradek.log.segments.segment import Segment
from odradek.log.segments.segment_entry import SegmentEntry
from odradek.log.segments.segment_files import check_index_sizes
from odradek.log.segments.segment_list import open_segment
from odradek.log.segments.segment_scan import TAIL_KEPT, SegmentScan, scan_segment
from odradek.log.startup.clean_stop import Known
from odradek.log.startup.damage import find_batch_after
from odradek.log.startup.missing_segments import changed_segments, check_end, check_gaps, check_last_batch
from odradek.log.startup.partition_folder import FolderContents, read_folder
from odradek.log.startup.txn_index_check import txn_index_is_true
from odradek.log.storage.file_names import OFFSET_GAPS
from odradek.log.storage.files import FileSystem

logger = logging.getLogger(__name__)


@dataclass
class RecoveryPlan:
    """The work that is to be done on a folder.

    Attributes: `scans`: by base offset, the segments that were read through, to be cut to their valid bytes
    and to get new indexes. `dropped`: base offsets of segments behind a cut, without a valid batch. `tail`:
    the last batches of the last segment where it was not scanned; `last`: that segment then, its indexes
    looked at. `end_offset`: of the log, None without segments. `cuts_tail`: whether the log's end is cut off.
    """

    directory: Path
    clean: bool
    contents: FolderContents
    scans: dict[int, SegmentScan] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)
    tail: list[SegmentEntry] = field(default_factory=list)
    last: Segment | None = None
    end_offset: int | None = None
    cuts_tail: bool = False

    @property
    def kept(self) -> list[int]:
        """The base offsets of the segments that stay."""
        dropped = set(self.dropped)
        return [base for base in self.contents.segments if base not in dropped]


def plan_recovery(
    files: FileSystem,
    directory: Path,
    config: LogConfig,
    *,
    clean: bool,
    recovery_point: int,
    known_sizes: Known | None = None,
    was_compacted: bool = False,
) -> RecoveryPlan:
    """Read a folder and decide. Changes nothing.

    Args:
        clean: whether the last stop was.
        recovery_point: what the checkpoint says.
        known_sizes: of the segments as a clean stop has left them, None where that is not known.
        was_compacted: whether the cleaner has ever been at work here.

    Raises:
        LogDamagedError: valid batches follow damaged ones, or segments are gone.
        OSError: reading failed.
    """
    contents = read_folder(files, directory)
    plan = RecoveryPlan(directory, clean, contents)
    bases = list(contents.segments)
    if contents.renames:
        # A new segment of the cleaner's takes the place of those that were there.
        known_sizes = None
    to_scan = set(changed_segments(contents, known_sizes)) if known_sizes is not None else set()
    if not bases:
        # A recovery point above 0 says that there were segments.
        check_end(contents, None, recovery_point)
        return plan
    to_scan.update(_bases_to_scan(files, plan, config, recovery_point))
    for base in sorted(to_scan):
        plan.scans[base] = scan_segment(files, contents.path(base), base, config.index_interval_bytes)
    if bases[-1] not in plan.scans:
        plan.end_offset = _walk_tail(files, plan, config, bases[-1])
    # Where all segments are as a clean stop has left them, none is gone, and none has to be opened to learn
    # where it ends.
    listed = known_sizes is not None and known_sizes.keys() == contents.segments.keys()
    # Before `_judge`, which judges the scans that this adds as well.
    ends = _find_ends(files, plan, config) if not listed else {}
    _judge(files, plan, recovery_point, known_sizes)
    kept = plan.kept
    if kept[-1] in plan.scans:
        plan.end_offset = plan.scans[kept[-1]].next_offset
    if not listed:
        ends.update((base, scan.next_offset) for base, scan in plan.scans.items())
        # A file that is called .swap was written by a cleaner. The config may be of another time than the
        # log: the other three signs lie beside it.
        may_have_gaps = config.compact or was_compacted or OFFSET_GAPS in contents.sizes or contents.renames
        gapless = not may_have_gaps
        check_gaps(files, contents, kept, ends, gapless=gapless)
        if gapless and kept[-1] in plan.scans:
            check_last_batch(files, contents, kept, plan.scans[kept[-1]])
        # Of a tail that is cut `_judge` has said whether it had been flushed.
        if not plan.cuts_tail:
            check_end(contents, plan.end_offset, recovery_point)
    return plan


def _find_ends(files: FileSystem, plan: RecoveryPlan, config: LogConfig) -> dict[int, int]:
    """By base offset, where the complete segments end that are not read through.

    A segment whose end cannot be told so is read through, and added to the plan's scans.
    """
    ends = {}
    for base in list(plan.contents.segments)[:-1]:
        if base in plan.scans:
            continue
        end = _end_of(files, plan, config, base)
        if end is None:
            path = plan.contents.path(base)
            logger.warning(
                "reading %s through: it does not end with a whole batch, or its index is bad", path
            )
            plan.scans[base] = scan_segment(files, path, base, config.index_interval_bytes)
        else:
            ends[base] = end
    return ends


def _end_of(files: FileSystem, plan: RecoveryPlan, config: LogConfig, base: int) -> int | None:
    """The offset after the last batch, by walking from the last index entry on; None where that fails."""
    contents = plan.contents
    size = contents.sizes[contents.segments[base]]
    if not size:
        return base
    segment = open_segment(files, contents.directory, base, config)
    segment.size = size
    # A plan changes nothing: an index that is wrong is to be told here, not built again.
    segment.looks_only = True
    position, end = 0, base
    try:
        segment.offset_index.load(size)
        position = segment.seek(segment.offset_index.last_offset)
        for step in segment.walk(position, size):
            position, end = step.position + step.size, step.last_offset + 1
    except (BrokenBatchError, CorruptIndexError):
        return None
    finally:
        segment.release()
    # Bytes behind the last whole batch: only a scan tells whether they are damage.
    return end if position == size else None


def _bases_to_scan(
    files: FileSystem, plan: RecoveryPlan, config: LogConfig, recovery_point: int
) -> list[int]:
    bases = list(plan.contents.segments)
    first_unflushed = len(bases)
    if not plan.clean:
        # The segment that holds the recovery point was synced up to there, not to its end.
        first_unflushed = max(0, sum(base <= recovery_point for base in bases) - 1)
    renamed = {source.name for source, _ in plan.contents.renames}
    to_scan = []
    for number, base in enumerate(bases):
        name = plan.contents.segments[base]
        is_last = number == len(bases) - 1
        if (
            number >= first_unflushed
            # The swap of a cleaned segment has no indexes under their final names yet.
            or name in renamed
            or not _indexes_are_sane(files, plan, base, config, look=is_last)
            or not txn_index_is_true(files, plan.contents, base, config, look=not plan.clean)
        ):
            to_scan.append(base)
    return to_scan


def _indexes_are_sane(
    files: FileSystem, plan: RecoveryPlan, base: int, config: LogConfig, *, look: bool
) -> bool:
    """Return whether a segment's indexes can be what they should be; with `look` also by their content.

    The indexes of complete segments are looked at when they are first used (`Segment.take_up`).
    """
    contents = plan.contents
    try:
        if not look:
            check_index_sizes(contents.sizes, base)
            return True
        segment = open_segment(files, contents.directory, base, config)
        try:
            segment.load(contents.sizes[contents.segments[base]], 0)
            plan.last = segment
        finally:
            segment.release()
    except CorruptIndexError as error:
        logger.warning("building the indexes of %s again: %s", contents.path(base), error)
        return False
    return True


def _walk_tail(files: FileSystem, plan: RecoveryPlan, config: LogConfig, base: int) -> int | None:
    """The log's end offset by walking from the last index entry on; scans the segment if that fails."""
    path = plan.contents.path(base)
    size = plan.contents.sizes[path.name]
    segment = plan.last
    assert segment is not None, "it was not scanned, so its indexes are sane"
    try:
        # No more than `index.interval.bytes` and an append lie behind it: a start reads little of each log.
        start = segment.offset_index.lookup(segment.offset_index.last_offset).position
        plan.tail = list(deque(segment.walk(start, size), TAIL_KEPT))
    except BrokenBatchError:
        plan.tail = []
    finally:
        segment.release()
    end = plan.tail[-1].position + plan.tail[-1].size if plan.tail else 0
    if end == size:
        return plan.tail[-1].last_offset + 1 if plan.tail else base
    logger.warning("%s does not end with a whole batch although the last stop was clean", path)
    plan.tail = []
    plan.scans[base] = scan_segment(files, path, base, config.index_interval_bytes)
    return None


def _judge(files: FileSystem, plan: RecoveryPlan, recovery_point: int, known_sizes: Known | None) -> None:
    """Tell a torn tail from damage; see the module's docstring."""
    bases = list(plan.contents.segments)
    for number, base in enumerate(bases):
        scan = plan.scans.get(base)
        if scan is None:
            continue
        following = bases[number + 1 :]
        if scan.problem is None:
            # Two segments with records at one offset: whichever is cut, a reader would miss the other's.
            if following and scan.next_offset > following[0]:
                _refuse(scan, f"it goes on to offset {scan.next_offset}, where a later segment is", "")
            continue
        # No tail can be torn below what a clean stop has synced: these are bytes that went bad on the disk.
        if known_sizes is not None and base in known_sizes and scan.valid_bytes < known_sizes[base].log:
            _refuse(
                scan,
                scan.problem,
                f"{known_sizes[base].log} bytes of it had been synced when the broker stopped",
            )
        # Nothing is torn by a clean stop.
        torn = scan.torn and not plan.clean
        after = find_batch_after(files, scan.path, scan.valid_bytes, scan.next_offset, to_the_end=torn)
        if after is not None:
            _refuse(scan, scan.problem, f"valid batches go on at position {after}")
        if following and scan.next_offset == following[0]:
            # No offset is left for what is there: these are no records.
            _say_what_is_cut(
                scan, f"no records of this log, which goes on in {plan.contents.path(following[0]).name}"
            )
            continue
        for later in following:
            path = plan.contents.path(later)
            if files.size(path) and _has_valid_batch(files, plan, later):
                _refuse(scan, scan.problem, f"valid batches go on in {path.name}")
        # Nothing valid is in them, and behind the cut they would leave a hole.
        plan.dropped = following
        plan.cuts_tail = True
        if scan.next_offset < recovery_point:
            _say_what_is_cut(scan, "below the recovery point, they had been flushed")
        else:
            _say_what_is_cut(scan, "not flushed before the stop")
        return


def _say_what_is_cut(scan: SegmentScan, flush_state: str) -> None:
    logger.warning(
        "cutting %s at position %d, offset %d (%d bytes, %s): %s",
        scan.path,
        scan.valid_bytes,
        scan.next_offset,
        scan.size - scan.valid_bytes,
        flush_state,
        scan.problem,
    )


def _has_valid_batch(files: FileSystem, plan: RecoveryPlan, base: int) -> bool:
    scan = plan.scans.get(base)
    if scan is not None and scan.batches:
        return True
    # Behind -1: from the first byte on.
    return find_batch_after(files, plan.contents.path(base), -1, base) is not None


def _refuse(scan: SegmentScan, problem: str, consequence: str) -> None:
    reason = f"{problem}, and {consequence}" if consequence else problem
    raise LogDamagedError(
        scan.path,
        scan.valid_bytes,
        reason,
        f"Nothing was changed. Restore the file from a copy or a replica; or give up the records from offset "
        f"{scan.next_offset} on: cut the file to {scan.valid_bytes} bytes and move later segments of its "
        f"folder away.",
    )


def apply_scan(segment: Segment, scan: SegmentScan, files: FileSystem) -> None:
    """Cut a segment to its valid bytes and give it new indexes.

    Raises:
        OSError: the files cannot be written.
    """
    if scan.valid_bytes != scan.size:
        file = files.open(segment.path)
        try:
            file.truncate(scan.valid_bytes)
        finally:
            file.close()
    segment.size = scan.valid_bytes
    segment.offset_index.replace_all(bytes(scan.offset_entries))
    segment.time_index.replace_all(bytes(scan.time_entries))
    segment.max_timestamp = scan.max_timestamp
    segment.learn_tail(scan.tail)
