"""One pass over a log's files: note the newest offset of each key, then write the segments anew.

Touches only new files, named `.cleaned`; what it leaves behind when it fails or is killed, a start removes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from odradek.errors import CorruptRecordError
from odradek.log.cleaner.batches import BatchFilter
from odradek.log.cleaner.job import CleanJob, CleanResult, Replacement, Source
from odradek.log.cleaner.key_map import KeyMap
from odradek.log.cleaner.messages import MessageFilter, index_messages
from odradek.log.cleaner.new_segment import NewSegment
from odradek.log.cleaner.transactions import TransactionReader
from odradek.log.producers.producer_replay import read_marker
from odradek.log.storage.file_names import LOG_SUFFIX, numbered
from odradek.log.storage.files import FileSystem
from odradek.records.batch import BatchHeader, records_section
from odradek.records.control import EndTransactionMarker
from odradek.records.message_sets.message_set import (
    Entry,
    MessageHeader,
    check_entry,
    iter_entries,
    parse_entry,
)
from odradek.records.problems import raise_for_problem


def run(files: FileSystem, job: CleanJob, throttle: Callable[[int], None] = lambda size: None) -> CleanResult:
    """Do a job.

    Args:
        files: where the folder is.
        job: what is to be done.
        throttle: called with the number of bytes before each read and after each write; may wait.

    Returns:
        The new segments, complete and synced; the log itself is untouched.

    Raises:
        KafkaError, ValueError: a batch is damaged; the log cannot be cleaned.
        OSError: a file could not be read or written.
    """
    return _Pass(files, job, throttle).run()


class _Pass:
    def __init__(self, files: FileSystem, job: CleanJob, throttle: Callable[[int], None]) -> None:
        self._files = files
        self._job = job
        self._throttle = throttle
        self._directory = Path(job.directory)
        self._keys = KeyMap(job.dedupe_bytes, job.load_factor)

    def run(self) -> CleanResult:
        job = self._job
        self._map_keys()
        # Where the map was full only what it has seen may be called clean.
        end_offset = max(self._keys.latest_offset + 1, job.first_dirty)
        result = CleanResult(end_offset, map_utilization=self._keys.utilization)
        rules = BatchFilter(
            self._keys,
            TransactionReader(job.aborted),
            job.producers,
            job.now_ms,
            job.delete_retention_ms,
            job.first_uncleanable,
        )
        sources = [source for source in job.sources if source.base_offset < end_offset]
        bound = job.first_uncleanable
        if len(sources) < len(job.sources):
            bound = job.sources[len(sources)].base_offset
        for group in group_segments(sources, job.segment_bytes, job.segment_index_bytes, bound):
            result.replacements.append(self._write(group, rules, result))
        result.keyless = rules.keyless
        self._files.fsync_dir(self._directory)
        return result

    def _path(self, source: Source) -> Path:
        return self._directory / numbered(source.base_offset, LOG_SUFFIX)

    def _map_keys(self) -> None:
        """Fill the map from the dirty part of the log, as far as it has room."""
        job, keys = self._job, self._keys
        # Those that had ended before are over: their markers are not met here.
        transactions = TransactionReader(txn for txn in job.aborted if txn.last_offset >= job.first_dirty)
        for number, source in enumerate(job.sources):
            following = job.first_uncleanable
            if number + 1 < len(job.sources):
                following = job.sources[number + 1].base_offset
            if following <= job.first_dirty:
                continue
            path = self._path(source)
            for header, batch in read_batches(self._files, path, source.size, job.io_bytes, self._throttle):
                if isinstance(header, MessageHeader):
                    if header.offset >= job.first_dirty and index_messages(
                        keys, header, batch, job.first_dirty
                    ):
                        return
                elif header.is_control:
                    transactions.on_marker(header, marker_of(header, batch))
                # An aborted record must not displace the committed one of the same key.
                elif not transactions.on_data(header) and header.last_offset >= job.first_dirty:
                    section = records_section(header, batch)
                    problem, index, full = keys.index(
                        section, header.record_count, header.base_offset, job.first_dirty
                    )
                    if problem:
                        raise_for_problem(problem, index, header.base_offset)
                    if full:
                        return
                if header.last_offset >= job.first_dirty:
                    keys.note_read(header.last_offset)
            # An earlier pass may have dropped the last offsets in front of the next segment.
            keys.note_read(following - 1)

    def _write(self, group: list[Source], rules: BatchFilter, result: CleanResult) -> Replacement:
        job = self._job
        segment = NewSegment(
            self._files,
            self._directory,
            group[0].base_offset,
            job.index_interval_bytes,
            job.segment_index_bytes,
            job.now_ms,
        )
        # An abort whose marker stays has to be in the new segment's index, for readers of committed records.
        rules.transactions.on_abort_kept = segment.add_aborted
        old_rules = MessageFilter(self._keys, job)
        try:
            for source in group:
                path = self._path(source)
                old_rules.enter(source)
                for header, batch in read_batches(
                    self._files, path, source.size, job.io_bytes, self._throttle
                ):
                    result.bytes_read += header.size
                    if isinstance(header, MessageHeader):
                        messages = old_rules.apply(header, batch)
                        result.records_read += messages.read
                        rules.keyless += messages.keyless
                        if messages.data is not None:
                            segment.add(messages.data, messages.last_offset, messages.max_timestamp)
                            result.records_kept += messages.records
                            result.bytes_kept += len(messages.data)
                        continue
                    kept = rules.apply(header, batch, marker_of(header, batch))
                    result.records_read += header.record_count
                    if kept is not None:
                        segment.add(kept.data, header.last_offset, kept.max_timestamp)
                        result.records_kept += kept.records
                        result.bytes_kept += len(kept.data)
            segment.complete(group[-1].modified_ms)
        except BaseException:
            segment.remove()
            raise
        self._throttle(segment.size)
        return Replacement(group[0].base_offset, segment.size, [source.base_offset for source in group])


MAX_OFFSETS = 2**31 - 1
"""How far offsets may be from a segment's base offset."""


def group_segments(
    sources: Sequence[Source], max_bytes: int, max_index_bytes: int, end_offset: int
) -> list[list[Source]]:
    """The segments, in runs that become one segment each (Kafka: Cleaner.groupSegmentsBySize).

    Args:
        sources: in the order of their offsets.
        max_bytes: of a segment; a larger one stays alone.
        max_index_bytes: of each of its indexes.
        end_offset: where the segment after the last one begins.
    """
    groups: list[list[Source]] = []
    for number, source in enumerate(sources):
        following = sources[number + 1].base_offset if number + 1 < len(sources) else end_offset
        if groups and _fits(groups[-1], source, following - 1, max_bytes, max_index_bytes):
            groups[-1].append(source)
        else:
            groups.append([source])
    return groups


def _fits(
    group: list[Source], source: Source, last_offset: int, max_bytes: int, max_index_bytes: int
) -> bool:
    return (
        sum(segment.size for segment in group) + source.size <= max_bytes
        and sum(segment.index_bytes for segment in group) + source.index_bytes <= max_index_bytes
        and sum(segment.time_index_bytes for segment in group) + source.time_index_bytes <= max_index_bytes
        and (source.size == 0 or last_offset - group[0].base_offset <= MAX_OFFSETS)
    )


def read_batches(
    files: FileSystem,
    path: Path,
    size: int,
    io_bytes: int,
    on_read: Callable[[int], None],
    position: int = 0,
) -> Iterator[tuple[Entry, memoryview]]:
    """Every batch, and message of magic 0 or 1, of a segment from a batch boundary on.

    They are read in pieces and checked: damage is never copied on.

    Args:
        path, size: the segment; what stands behind `size` bytes does not count.
        io_bytes: how much is read at once; more for a batch that is larger.
        on_read: called with the number of bytes of each read, before it.

    Raises:
        KafkaError: CORRUPT_MESSAGE for a batch that is damaged or not whole.
        OSError: reading failed.
    """
    file = files.open(path)
    try:
        while position < size:
            block_bytes = min(io_bytes, size - position)
            on_read(block_bytes)
            block = file.pread(block_bytes, position)
            consumed = 0
            for header, batch in iter_entries(block):
                check_entry(header, batch)
                yield header, batch
                consumed += header.size
            if not consumed:
                header, batch = _large_batch(file.pread, path, position, size, block, on_read)
                yield header, batch
                consumed = header.size
            position += consumed
    finally:
        file.close()


def _large_batch(
    pread: Callable[[int, int], bytes],
    path: Path,
    position: int,
    size: int,
    block: bytes,
    on_read: Callable[[int], None],
) -> tuple[Entry, memoryview]:
    try:
        header = parse_entry(block)
    except CorruptRecordError:
        raise CorruptRecordError(f"{path} has no whole batch at position {position}") from None
    if header.size > size - position:
        raise CorruptRecordError(f"{path} has no whole batch at position {position}")
    on_read(header.size)
    batch = memoryview(pread(header.size, position))
    if len(batch) < header.size:
        raise CorruptRecordError(f"{path} ends within the batch at position {position}")
    check_entry(header, batch)
    return header, batch


def marker_of(header: BatchHeader, batch: memoryview) -> EndTransactionMarker | None:
    """The marker of a control batch; None for other batches, empty ones and other control records."""
    return read_marker(header, batch) if header.is_control and header.record_count else None
