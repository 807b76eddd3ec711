"""An append that fails for whatever reason, not only the disk's, has not happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compiled_walk import only_interpreted
from odradek.errors import KafkaStorageError
from odradek.log import LogConfig, Origin, PartitionLog
from odradek.log.producers.producer_state import ProducerState
from odradek.log.segments.index_file import IndexFile
from odradek.log.segments.segment import Segment
from odradek.log.segments.time_index import TimeIndex
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import MemoryFile, MemoryFileSystem
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch, marker, values_of
from ..following import append_follower
from ..writer import DATA, start

pytestmark = only_interpreted

PRODUCER = 7
CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=0, segment_index_bytes=240)

Append = Callable[[PartitionLog, int], Any]


def _open(files: MemoryFileSystem, config: LogConfig = CONFIG, **more: Any) -> PartitionLog:
    return open_partition_log(Path("/data/t-0"), "t", 0, config, files, ManualClock(NOW_MS), **more)


def _data(number: int, **more: Any) -> bytes:
    value = b"%d" % number + b"." * 100
    time = NOW_MS + number
    return batch([value], producer_id=PRODUCER, epoch=0, sequence=number, timestamp=time, **more)


def _as_leader(log: PartitionLog, number: int) -> Any:
    """A batch that is stored as it was sent."""
    return log.append(_data(number), leader_epoch=3, now_ms=NOW_MS)


def _stamped(log: PartitionLog, number: int) -> Any:
    """A batch that is copied first."""
    log.config = LogConfig(segment_bytes=900, index_interval_bytes=0, message_timestamp_type="LogAppendTime")
    return log.append(_data(number), leader_epoch=3, now_ms=NOW_MS + number)


def _as_follower(log: PartitionLog, number: int) -> Any:
    return append_follower(log, _data(number, base_offset=log.log_end_offset, leader_epoch=3))


WAYS = [_as_leader, _stamped, _as_follower]


def _torn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the bytes is written."""
    write = MemoryFile.pwrite

    def pwrite(file: MemoryFile, parts: Any, position: int) -> int:
        content = b"".join(parts)
        if file.path.suffix != ".log":
            return write(file, parts, position)
        write(file, [content[: len(content) // 2]], position)
        raise MemoryError("torn")

    monkeypatch.setattr(MemoryFile, "pwrite", pwrite)


def _in(
    owner: type, name: str, error: Exception, *, done: bool, times: int = 1
) -> Callable[[pytest.MonkeyPatch], None]:
    """A function raises an error so many times, before it does its work or behind it."""
    original = getattr(owner, name)

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        left = times

        def failing(*args: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                return original(*args, **more)
            if done:
                original(*args, **more)
            raise error

        monkeypatch.setattr(owner, name, failing)

    return patch


FAILURES = {
    "half of the bytes": _torn,
    "an index entry": _in(IndexFile, "add", ValueError("full"), done=False),
    "an index entry that is there": _in(IndexFile, "add", ValueError("full"), done=True),
    "the time index": _in(TimeIndex, "maybe_append", MemoryError("time"), done=True),
    "the tail": _in(Segment, "_remember", MemoryError("tail"), done=False),
    "the tail that knows": _in(Segment, "_remember", MemoryError("tail"), done=True),
    "the producer": _in(ProducerState, "_append_data", MemoryError("producer"), done=False),
    "the producer that is known": _in(ProducerState, "_append_data", MemoryError("producer"), done=True),
}


def _check(log: PartitionLog, count: int) -> None:
    assert log.log_end_offset == count == log.producers.end_offset
    assert [offset for offset, _ in values_of(log)] == list(range(count))
    active = log.segments.active
    assert log.files.size(active.path) == active.size
    for segment in log.segments:
        assert all(
            segment.offset_index.at(slot).offset < count for slot in range(segment.offset_index.entries)
        )
        assert all(segment.time_index.at(slot).offset < count for slot in range(segment.time_index.entries))
    if count:
        newest = log.max_timestamp()
        assert (newest.timestamp, newest.offset) == (NOW_MS + count - 1, count - 1)


@pytest.mark.parametrize("append", WAYS)
@pytest.mark.parametrize(
    ("failure", "before"),
    # The first batch of a segment has no index entry, and no new segment is begun at the others.
    [(one, before) for one in FAILURES for before in (0, 1, 3, 5) if before in (1, 3) or "index" not in one],
)
def test_it_leaves_the_log_as_it_was(
    failure: str, before: int, append: Append, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = MemoryFileSystem()
    log = _open(files)
    for number in range(before):
        append(log, number)
    _check(log, before)
    for _ in range(2):
        with monkeypatch.context() as patched:
            FAILURES[failure](patched)
            with pytest.raises((ValueError, MemoryError)):
                append(log, before)
        _check(log, before)
    # What could not be appended is sent again, and the log goes on.
    for number in range(before, before + 8):
        append(log, number)
        _check(log, number + 1)
    assert log.producers.entries[PRODUCER].last_sequence == before + 7
    again = _open(files)
    _check(again, before + 8)


def test_a_marker_that_is_not_taken_note_of_has_ended_no_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = _open(MemoryFileSystem())
    log.append(_data(0, transactional=True), leader_epoch=3, now_ms=NOW_MS)
    abort = marker(PRODUCER, 0, commit=False)
    with monkeypatch.context() as patched:
        _in(ProducerState, "complete", MemoryError("complete"), done=True)(patched)
        with pytest.raises(MemoryError):
            log.append(abort, leader_epoch=3, origin=Origin.COORDINATOR, now_ms=NOW_MS)
    log.commit_all()
    assert (log.log_end_offset, log.last_stable_offset) == (1, 0)
    assert log.segments.active.txn_index.entries == []
    log.append(abort, leader_epoch=3, origin=Origin.COORDINATOR, now_ms=NOW_MS)
    log.commit_all()
    assert (log.log_end_offset, log.last_stable_offset) == (2, 2)
    assert len(log.segments.active.txn_index.entries) == 1


@pytest.mark.parametrize("append", WAYS)
@pytest.mark.parametrize("failure", ["half of the bytes", "an index entry that is there", "the tail"])
def test_what_cannot_be_undone_at_once_is_undone_by_the_next_append(
    failure: str, append: Append, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = MemoryFileSystem()
    log = _open(files)
    for number in range(3):
        append(log, number)
    with monkeypatch.context() as patched:
        FAILURES[failure](patched)
        _in(MemoryFile, "truncate", MemoryError("truncate"), done=False, times=9)(patched)
        with pytest.raises((ValueError, MemoryError)):
            append(log, 3)
    assert log.log_end_offset == 3
    assert [offset for offset, _ in values_of(log)] == [0, 1, 2]
    append(log, 3)
    _check(log, 4)
    _check(_open(files), 4)


@pytest.mark.parametrize("append", WAYS)
def test_a_log_whose_producers_cannot_be_recalled_takes_no_more(
    append: Append, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = MemoryFileSystem()
    files.make_dirs(DATA)
    clock = ManualClock(NOW_MS)
    manager, log = start(files, clock)
    append(log, 0)
    with monkeypatch.context() as patched:
        _in(ProducerState, "_append_data", MemoryError("producer"), done=False, times=9)(patched)
        with pytest.raises(MemoryError):
            append(log, 1)
    with pytest.raises(KafkaStorageError, match="the broker must be started again"):
        append(log, 1)
    assert not manager.close(), "the stop is not a clean one: the next start reads the log through"
    _, log = start(files, clock)
    for number in range(log.log_end_offset, 4):
        append(log, number)
    assert [offset for offset, _ in values_of(log)] == list(range(4))
    assert log.producers.entries[PRODUCER].last_sequence == 3


@pytest.mark.parametrize("append", WAYS)
def test_a_segment_that_cannot_be_begun_leaves_the_one_before(
    append: Append, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = MemoryFileSystem()
    log = _open(files)
    failed = 0
    for number in range(12):
        with monkeypatch.context() as patched:
            _in(Segment, "create", MemoryError("create"), done=True)(patched)
            try:
                append(log, number)
            except MemoryError:
                failed += 1
                _check(log, number)
        if log.log_end_offset == number:
            append(log, number)
        _check(log, number + 1)
    assert failed
    _check(_open(files), 12)
