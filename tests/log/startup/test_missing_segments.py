"""Segments and indexes that are gone, empty or shorter: a start tells, and changes nothing."""

from __future__ import annotations

import contextlib
import copy
import errno
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.log import LogConfig, LogDamagedError, LogManager, PartitionLog
from odradek.log.producers.producer_state import Origin
from odradek.log.storage.checkpoint_file import write_offsets
from odradek.log.storage.memory_files import Killed, MemoryFileSystem
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch, marker, records_of, values_of
from ..following import append_follower, flush_dirty

DATA = Path("/data")
FOLDER = DATA / "t-0"
CONFIG = LogConfig(
    segment_bytes=300, segment_index_bytes=240, index_interval_bytes=50, file_delete_delay_ms=0
)
COMPACTED = {"t": {"cleanup.policy": "compact"}}


def manager_of(files: MemoryFileSystem, configs: dict[str, dict[str, str]] | None = None) -> LogManager:
    files.locked.clear()
    manager = LogManager([DATA], files, ManualClock(NOW_MS), CONFIG)
    manager.load(configs)
    return manager


def write(files: MemoryFileSystem, *, clean: bool, transactional: bool = False) -> PartitionLog:
    """A log of several segments, stopped or killed."""
    manager = manager_of(files)
    log = manager.create("t", 0)
    for number in range(12):
        for last in (False, True) if transactional else (True,):
            data = batch(
                [b"%d" % number * 30],
                producer_id=7 if transactional else -1,
                epoch=0 if transactional else -1,
                sequence=2 * number + last if transactional else -1,
                transactional=transactional,
            )
            log.append(data, leader_epoch=0, now_ms=NOW_MS)
        if transactional:
            end = marker(7, 0, commit=number % 2 == 0)
            log.append(end, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    log.commit_all()
    flush_dirty(manager, NOW_MS)
    manager.checkpoint()
    if clean:
        assert manager.close()
    else:
        files.restart()
    assert len(log.segments) > 4
    return log


def tree(files: MemoryFileSystem) -> dict[Path, bytes]:
    return {path: bytes(inode.data) for path, inode in files.files.items() if path.name != ".lock"}


def refused(files: MemoryFileSystem, configs: dict[str, dict[str, str]] | None = None) -> LogDamagedError:
    """What a start says that is refused."""
    before = tree(files)
    with pytest.raises(LogDamagedError) as error:
        manager_of(files, configs)
    assert tree(files) == before
    assert "Nothing was changed" in str(error.value)
    return error.value


def remove(files: MemoryFileSystem, path: Path) -> None:
    del files.files[path]


def empty(files: MemoryFileSystem, path: Path) -> None:
    files.files[path].data.clear()


def shorten(files: MemoryFileSystem, path: Path) -> None:
    """Cut at a boundary: nothing in the file itself tells."""
    data = files.files[path].data
    del data[int.from_bytes(data[8:12], "big") + 12 :]


Harm = Callable[[MemoryFileSystem, Path], None]


@pytest.mark.parametrize("harm", [remove, empty, shorten])
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_middle_segment(harm: Harm, clean: bool) -> None:
    files = MemoryFileSystem()
    log = write(files, clean=clean)
    for segment in log.segments.bases[1:-1]:
        path = FOLDER / f"{segment:020d}.log"
        inode = files.files[path]
        saved = bytes(inode.data)
        harm(files, path)
        error = refused(files)
        assert error.file.parent == FOLDER
        if harm is not remove or clean:
            assert error.file == path
        files.files[path] = inode
        inode.data[:] = saved
    # All of it is back.
    log = manager_of(files).get("t", 0)  # type: ignore[assignment]
    assert len(values_of(log)) == 12


@pytest.mark.parametrize("name", ["first", "last"])
def test_the_first_and_the_last_segment(name: str) -> None:
    files = MemoryFileSystem()
    log = write(files, clean=True)
    path = log.segments[0 if name == "first" else -1].path
    remove(files, path)
    assert refused(files).file == path


def test_the_last_segment_after_a_kill() -> None:
    files = MemoryFileSystem()
    manager = manager_of(files)
    log = manager.create("t", 0)
    for _ in range(12):
        log.append(batch([b"x" * 30]), leader_epoch=0, now_ms=NOW_MS)
    log.flush()
    manager.checkpoint()
    files.restart()
    path = log.segments.active.path
    remove(files, path)
    error = refused(files)
    assert error.file == path
    assert "had been synced" in str(error)
    for left in list(files.files):
        if left.suffix == ".log":
            remove(files, left)
    assert refused(files).file.parent == FOLDER


def test_the_head_may_go_after_a_kill() -> None:
    """Retention takes segments away at the head, and the next checkpoint may not come."""
    files = MemoryFileSystem()
    log = write(files, clean=False)
    first = log.segments[1].base_offset
    for path in log.segments[0].paths():
        files.files.pop(path, None)
    found = manager_of(files).get("t", 0)
    assert found is not None
    assert found.log_start_offset == first


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_junk_behind_a_middle_segment_is_cut_and_said(clean: bool, caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFileSystem()
    log = write(files, clean=clean)
    segment = log.segments[2]
    whole = bytes(files.files[segment.path].data)
    for junk in (bytes(40), b"\xff junk" * 20):
        caplog.clear()
        files.files[segment.path].data[:] = whole + junk
        manager = manager_of(files)
        assert bytes(files.files[segment.path].data) == whole
        assert f"cutting {segment.path} at position {len(whole)}" in caplog.text
        found = manager.get("t", 0)
        assert found is not None
        assert [offset for offset, _ in values_of(found)] == list(range(12))
        assert manager.close()
    # Records that belong nowhere are not cut, somebody has to look at them.
    files.files[segment.path].data += batch([b"what"], base_offset=segment.base_offset + 50)
    assert refused(files).file == segment.path


@pytest.mark.parametrize("harm", [remove, empty])
def test_aborted_transactions_are_found_again_after_a_clean_stop(harm: Harm) -> None:
    files = MemoryFileSystem()
    log = write(files, clean=True, transactional=True)
    before = {segment.path: list(segment.txn_index.entries) for segment in log.segments}
    assert sum(map(len, before.values())) == 6
    for path, entries in before.items():
        index = path.with_suffix(".txnindex")
        if not entries:
            continue
        harm(files, index)
        manager = manager_of(files)
        found = manager.get("t", 0)
        assert found is not None
        assert {one.path: list(one.txn_index.entries) for one in found.segments} == before
        assert len(files.files[index].data) == 34 * len(entries)
        assert manager.close()


def gone(files: MemoryFileSystem, segment: Path) -> Iterator[Path]:
    for suffix in (".index", ".timeindex"):
        yield segment.with_suffix(suffix)


def test_compacted_logs_after_a_kill() -> None:
    """Offsets prove nothing there; an index without its segment does, or with entries beside an empty one."""
    files = MemoryFileSystem()
    log = write(files, clean=False)
    path = log.segments[2].path
    whole = files.files[path]
    remove(files, path)
    assert refused(files, COMPACTED).file == path
    files.files[path] = whole
    whole.data.clear()
    assert refused(files, COMPACTED).file == path
    # As a cleaner leaves what has nothing left.
    for index in gone(files, path):
        files.files[index].data.clear()
    found = manager_of(files, COMPACTED).get("t", 0)
    assert found is not None
    assert len(records_of(found)) < 12


@pytest.mark.parametrize("harm", [remove, empty, shorten])
def test_compacted_logs_after_a_clean_stop(harm: Harm) -> None:
    files = MemoryFileSystem()
    log = write(files, clean=True)
    path = log.segments[2].path
    harm(files, path)
    for index in gone(files, path):
        files.files.pop(index, None)
    assert refused(files, COMPACTED).file == path


def drop(files: MemoryFileSystem, log: PartitionLog, number: int) -> None:
    for path in log.segments[number].paths():
        files.files.pop(path, None)


@pytest.mark.parametrize("more", [1, 0x8000])
@pytest.mark.parametrize("batches", [1, 2])
def test_the_offset_of_the_last_batch_after_a_kill(more: int, batches: int) -> None:
    """No CRC covers it, and nothing comes behind it that would tell."""
    files = MemoryFileSystem()
    log = write(files, clean=False)
    path, data = log.segments.active.path, files.files[log.segments.active.path].data
    (first, second, *_) = [*_positions(data), len(data)]
    del data[second:]
    if batches == 2:
        following = batch([b"x"])
        data += (log.segments.active.base_offset + 1).to_bytes(8, "big") + following[8:]
        first = second
    whole = bytes(data)
    manager_of(copied(files)).unlock()
    data[first : first + 8] = (int.from_bytes(data[first : first + 8], "big") + more).to_bytes(8, "big")
    error = refused(files)
    assert (error.file, error.position) == (path, first)
    manager_of(copied(files), COMPACTED).unlock()
    files.write_atomically(FOLDER / "offset-gaps", b"")
    manager_of(files).unlock()
    assert len(files.files[path].data) == len(whole)


def _positions(data: bytes) -> list[int]:
    """The positions of batches."""
    found, position = [], 0
    while position < len(data):
        found.append(position)
        position += int.from_bytes(data[position + 8 : position + 12], "big") + 12
    return found


def copied(files: MemoryFileSystem) -> MemoryFileSystem:
    """The same files, to be started on without changing these."""
    return copy.deepcopy(files)


def test_gaps_that_may_be() -> None:
    """The topic is not compacted any more, but once was; or the operator has accepted what is gone."""
    files = MemoryFileSystem()
    log = write(files, clean=False)
    drop(files, log, 2)
    refused(files)
    write_offsets(files, DATA / "cleaner-offset-checkpoint", {("t", 0): 3})
    found = manager_of(files).get("t", 0)
    assert found is not None
    assert len(records_of(found)) < 12
    remove(files, DATA / "cleaner-offset-checkpoint")
    files.restart()
    refused(files)
    files.write_atomically(FOLDER / "offset-gaps", b"")
    manager = manager_of(files)
    assert manager.close()
    assert manager_of(files).get("t", 0) is not None


def test_the_remedy_after_a_clean_stop_is_one() -> None:
    files = MemoryFileSystem()
    log = write(files, clean=True)
    drop(files, log, 2)
    text = str(refused(files))
    assert str(DATA / "segments-checkpoint") in text
    assert str(FOLDER / "offset-gaps") in text
    remove(files, DATA / "segments-checkpoint")
    refused(files)
    files.write_atomically(FOLDER / "offset-gaps", b"")
    manager = manager_of(files)
    assert manager.close()
    manager_of(files)


def test_a_follower_writes_down_that_there_are_gaps() -> None:
    files = MemoryFileSystem()
    manager = manager_of(files)
    log = manager.create("t", 0)
    for number in range(12):
        append_follower(log, batch([b"x" * 30], base_offset=5 * number, leader_epoch=0))
    log.flush()
    manager.checkpoint()
    assert len(log.segments) > 4
    files.restart()
    found = manager_of(files).get("t", 0)
    assert found is not None
    assert len(records_of(found)) == 12


def test_another_broker_has_had_the_folder() -> None:
    """What is written down is believed only beside the mark of the stop that it was written at."""
    files = MemoryFileSystem()
    log = write(files, clean=True)
    drop(files, log, 0)
    assert refused(files).file == log.segments[0].path
    files.files[DATA / ".kafka_cleanshutdown"].modified_ms += 1
    found = manager_of(files).get("t", 0)
    assert found is not None
    assert found.log_start_offset == log.segments[1].base_offset


def test_a_clean_stop_is_none_without_its_checkpoints() -> None:
    files = MemoryFileSystem()
    manager = manager_of(files)
    manager.create("t", 0)
    files.failing["pwrite"] = lambda path: path.name == "recovery-point-offset-checkpoint.tmp"
    files.failing_with = errno.ENOSPC
    assert manager.close() is False
    assert not files.exists(DATA / ".kafka_cleanshutdown")


@pytest.mark.parametrize("content", [b"", b"garbage\n" * 5, b"0\n2\n1\nt 0\n", b"0\n1\nt 0 0 0 0\n"])
def test_a_damaged_list_is_done_without(content: bytes) -> None:
    files = MemoryFileSystem()
    log = write(files, clean=True)
    files.write_atomically(DATA / "segments-checkpoint", content)
    manager = manager_of(files)
    found = manager.get("t", 0)
    assert found is not None
    assert len(records_of(found)) == 12
    assert manager.close()
    drop(files, log, 2)
    refused(files)


@pytest.mark.parametrize("harm", [remove, empty])
def test_deleted_records_stay_deleted_without_the_checkpoint_of_log_starts(harm: Harm) -> None:
    files = MemoryFileSystem()
    write(files, clean=True)
    manager = manager_of(files)
    log = manager.get("t", 0)
    assert log is not None
    log.delete_records_before(log.log_end_offset - 1)
    assert manager.close()
    harm(files, DATA / "log-start-offset-checkpoint")
    found = manager_of(files).get("t", 0)
    assert found is not None
    assert found.log_start_offset == 11


def test_a_tail_is_cut_once() -> None:
    """The recovery point goes down before the file does, or a kill would leave a log that ends before it."""
    for number in itertools.count():
        files = MemoryFileSystem()
        log = write(files, clean=False)
        write_offsets(files, DATA / "recovery-point-offset-checkpoint", {("t", 0): 12, ("gone", 0): 5})
        del files.files[log.segments.active.path].data[-5:]
        files.kill_at = files.operations + number
        with contextlib.suppress(Killed):
            manager_of(files)
        killed, files.kill_at = files.kill_at < files.operations, None
        files.restart()
        found = manager_of(files).get("t", 0)
        assert found is not None
        assert found.log_end_offset == 11
        if not killed:
            break
    assert number > 5


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_the_copy_of_a_compacted_log(clean: bool) -> None:
    """Kafka's followers copy the gaps, and no checkpoint of theirs tells: other segments' gaps do."""
    files = MemoryFileSystem()
    manager = manager_of(files)
    log = manager.create("t", 0)
    for number in (0, 1, 3, 4, 5, 8, 10, 12, 17, 18, 19, 22, 25):
        append_follower(log, batch([b"x" * 30], base_offset=number, leader_epoch=0))
    log.flush()
    manager.checkpoint()
    assert len(log.segments) > 4
    if clean:
        assert manager.close()
        remove(files, DATA / "segments-checkpoint")
    remove(files, FOLDER / "offset-gaps")
    files.restart()
    found = manager_of(files).get("t", 0)
    assert found is not None
    assert len(records_of(found)) == 13
