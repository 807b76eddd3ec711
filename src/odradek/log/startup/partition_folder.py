"""The contents of a partition's folder, and what was left over by work that a stop interrupted.

Looking changes nothing: what is to be removed or renamed is listed, to be done once the whole start is known
to succeed. The rules for `.cleaned` and `.swap` are Kafka's (LogLoader): the cleaner writes new segments as
`.cleaned`, renames them to `.swap` when they are complete, then removes what they replace. So a `.swap` is
finished, a `.cleaned` is thrown away, and with it the `.swap` files at or above its offset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from odradek.log.errors import LogDamagedError
from odradek.log.segments.batch_walk import BrokenBatchError
from odradek.log.segments.segment import Segment
from odradek.log.storage.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCHS,
    LOG_SUFFIX,
    OFFSET_GAPS,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    numbered,
    parse_numbered,
)
from odradek.log.storage.files import FileSystem

_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_SIZED = (LOG_SUFFIX, *_INDEX_SUFFIXES, SWAP_SUFFIX)
_OTHER_FILES = frozenset((LEADER_EPOCHS, OFFSET_GAPS, PARTITION_METADATA))
_AS_IT_SHALL_BE = frozenset((LOG_SUFFIX, SNAPSHOT_SUFFIX, *_INDEX_SUFFIXES))
"""The endings of names that mean no work for a start: nearly all that there are."""


@dataclass
class FolderContents:
    """`segments`: base offset to the name that the `.log` file has now. `removals` and `renames` (from, to),
    in their order, make the folder tidy. `sizes`: of segments and indexes, by their names now; 0 for other
    files."""

    directory: Path
    segments: dict[int, str] = field(default_factory=dict)
    removals: list[Path] = field(default_factory=list)
    renames: list[tuple[Path, Path]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    def path(self, base_offset: int) -> Path:
        """A segment's `.log` file as it is named now."""
        return self.directory / self.segments[base_offset]

    def tidy(self, files: FileSystem) -> None:
        """Do what is to be done.

        Raises:
            OSError: a file cannot be renamed or removed; doing it again later is harmless.
        """
        for path in self.removals:
            files.remove(path)
        if self.removals and self.renames:
            # What a new segment replaces is to be gone for good before the new one has its name.
            files.fsync_dir(self.renames[0][0].parent)
        for source, target in self.renames:
            files.rename(source, target)


def read_folder(files: FileSystem, directory: Path) -> FolderContents:
    """Look at a partition's folder.

    Raises:
        LogDamagedError: a folder is in a file's place.
        OSError: the folder cannot be read.
    """
    contents = FolderContents(directory, sizes=files.entries(directory, _SIZED))
    _refuse_folders(contents)
    plain: set[tuple[int, str]] = set()
    cleaned: list[int] = []
    swaps: list[tuple[int, str, Path]] = []
    bases: list[int] = []
    for name in contents.sizes:
        suffix = name[20:]
        # The usual names, without the work for the others.
        if suffix in _AS_IT_SHALL_BE and name[:20].isdecimal() and name.isascii():
            offset = int(name[:20])
            plain.add((offset, suffix))
            if suffix == LOG_SUFFIX:
                bases.append(offset)
            continue
        if name.endswith(TEMPORARY_SUFFIX):
            contents.removals.append(directory / name)
            continue
        parsed = parse_numbered(name)
        if parsed is None:
            continue
        offset, suffix, marker = parsed
        if marker == DELETED_SUFFIX:
            contents.removals.append(directory / name)
        elif marker == CLEANED_SUFFIX:
            contents.removals.append(directory / name)
            cleaned.append(offset)
        elif marker == SWAP_SUFFIX:
            swaps.append((offset, suffix, directory / name))
    if not swaps:
        contents.segments = {offset: numbered(offset, LOG_SUFFIX) for offset in sorted(bases)}
        segment_bases = set(bases)
        for offset, suffix in sorted(entry for entry in plain if entry[0] not in segment_bases):
            if suffix in _INDEX_SUFFIXES:
                contents.removals.append(directory / numbered(offset, suffix))
        return contents
    swapped = _finish_swaps(files, directory, contents, plain, swaps, min(cleaned, default=None))
    there = plain | swapped.keys()
    for offset, suffix in sorted(there):
        if suffix == LOG_SUFFIX:
            path = swapped.get((offset, suffix))
            contents.segments[offset] = numbered(offset, suffix) if path is None else path.name
        elif suffix in _INDEX_SUFFIXES and (offset, LOG_SUFFIX) not in there:
            contents.removals.append(swapped.get((offset, suffix), directory / numbered(offset, suffix)))
    return contents


def _refuse_folders(contents: FolderContents) -> None:
    for name, size in contents.sizes.items():
        if size < 0 and (parse_numbered(name) is not None or name in _OTHER_FILES):
            raise LogDamagedError(
                contents.directory / name,
                0,
                "it is a folder in the place of a file",
                "Nothing was changed. Move it away, or put the file there that belongs there.",
            )


def _finish_swaps(
    files: FileSystem,
    directory: Path,
    contents: FolderContents,
    plain: set[tuple[int, str]],
    swaps: list[tuple[int, str, Path]],
    lowest_cleaned: int | None,
) -> dict[tuple[int, str], Path]:
    """Takes out of `plain` what a swap replaces; returns the files that are to be renamed."""
    valid = []
    for offset, suffix, path in swaps:
        # All files are called `.swap` before the first old one goes. Where one is still `.cleaned`, the old
        # segments are whole, and the new one is dropped.
        if lowest_cleaned is not None and offset >= lowest_cleaned:
            contents.removals.append(path)
        else:
            valid.append((offset, suffix, path))
    logs = [(offset, path) for offset, suffix, path in valid if suffix == LOG_SUFFIX]
    if logs:
        low = min(offset for offset, _ in logs)
        high = max(_end_of_swap(files, offset, path) for offset, path in logs)
        for offset, suffix in sorted(plain):
            # A snapshot tells of producers at an offset, which cleaning does not change.
            if low <= offset < high and suffix != SNAPSHOT_SUFFIX:
                plain.discard((offset, suffix))
                contents.removals.append(directory / numbered(offset, suffix))
    for offset, suffix, path in valid:
        contents.renames.append((path, directory / numbered(offset, suffix)))
    return {(offset, suffix): path for offset, suffix, path in valid}


def _end_of_swap(files: FileSystem, base_offset: int, path: Path) -> int:
    """The offset after the last batch of a complete but not yet renamed segment."""
    segment = Segment(files, path.parent, base_offset, 0, 0)
    segment.path = path
    end = base_offset
    try:
        for step in segment.walk(0, files.size(path)):
            end = step.last_offset + 1
    except BrokenBatchError:
        pass
    finally:
        segment.release()
    return end
