"""New segments take the place of old ones.

The order of the renames is what a start relies on (`odradek.log.folder`): all files of the new segment are
called `.swap` before the first old file goes, so that from then on there is only one way, forward. A failure
before that leaves the log as it was; one after it lets the log refuse to be written to until the broker is
started again, which finishes the swap.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.log import trimming
from odradek.log.cleaner.job import CleanJob, CleanResult, Replacement
from odradek.log.file_names import CLEANED_SUFFIX, SWAP_SUFFIX, with_marker
from odradek.log.recovery import open_segment

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog
    from odradek.log.segment import Segment

logger = logging.getLogger(__name__)


def swap_in(log: PartitionLog, job: CleanJob, result: CleanResult, now_ms: int) -> bool:
    """Put the new segments of a pass into the log.

    Returns:
        False when the log is not any more what the job was made for (truncated, or segments were dropped
        meanwhile): the new segments are removed then, as far as they were not yet swapped in.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    for number, replacement in enumerate(result.replacements):
        old = _still_there(log, job, replacement)
        if old is None:
            discard(log, result, number)
            return False
        _swap(log, replacement, old, now_ms)
    return True


def discard(log: PartitionLog, result: CleanResult, first: int = 0) -> None:
    """Remove the files of new segments that are not wanted, from the `first` on. Never raises `OSError`."""
    for replacement in result.replacements[first:]:
        for path in _new_paths(log, replacement, CLEANED_SUFFIX):
            _remove_quietly(log, path)


def _still_there(log: PartitionLog, job: CleanJob, replacement: Replacement) -> list[Segment] | None:
    sizes = {source.base_offset: source.size for source in job.sources}
    by_base = {segment.base_offset: segment for segment in log.segments}
    old = []
    for base in replacement.replaces:
        segment = by_base.get(base)
        if segment is None or segment is log.segments.active or segment.size != sizes[base]:
            return None
        old.append(segment)
    return old


def _new_paths(log: PartitionLog, replacement: Replacement, marker: str) -> list[Path]:
    segment = open_segment(log.files, log.directory, replacement.base_offset, log.config)
    return [with_marker(path, marker) for path in segment.paths()]


def _swap(log: PartitionLog, replacement: Replacement, old: list[Segment], now_ms: int) -> None:
    new = open_segment(log.files, log.directory, replacement.base_offset, log.config)
    present: list[Path] = []
    try:
        for path in new.paths():
            if log.files.exists(with_marker(path, CLEANED_SUFFIX)):
                log.files.rename(with_marker(path, CLEANED_SUFFIX), with_marker(path, SWAP_SUFFIX))
                present.append(path)
        log.files.fsync_dir(log.directory)
    except OSError as error:
        for path in new.paths():
            _remove_quietly(log, with_marker(path, SWAP_SUFFIX))
            _remove_quietly(log, with_marker(path, CLEANED_SUFFIX))
        raise log.storage_error("swapping in a cleaned segment", error) from error
    try:
        marked = old[0].mark_deleted()
        for segment in old[1:]:
            marked += trimming.mark_deleted(log, segment)
        # The old names are to be gone for good before the new ones come: they would overlap.
        log.files.fsync_dir(log.directory)
        for path in present:
            log.files.rename(with_marker(path, SWAP_SUFFIX), path)
        log.files.fsync_dir(log.directory)
        new.load(replacement.size, now_ms)
    except OSError as error:
        log.syncing.failed = True
        raise log.storage_error("swapping in a cleaned segment", error) from error
    log.segments.replace(old, new)
    log.syncing.names_made += 1
    log.remove_later(marked)
    logger.info(
        "%r: segment %d of %d bytes replaces %d segments of %d bytes",
        log,
        new.base_offset,
        new.size,
        len(old),
        sum(segment.size for segment in old),
    )


def _remove_quietly(log: PartitionLog, path: Path) -> None:
    try:
        log.files.remove(path)
    except OSError as error:
        logger.warning("%r: %s is left behind, the next start removes it: %s", log, path.name, error)
