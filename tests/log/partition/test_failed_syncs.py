"""A sync that fails: what was written before it may be lost, although the next sync succeeds.

Linux marks the pages that it could not write as clean, and tells of it once.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.errors import KafkaStorageError
from odradek.log import LogConfig, LogManager, PartitionLog
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch
from ..following import flush_dirty

DATA = Path("/a")
TOPIC_ID = bytes(range(1, 17))
KEY = ("t", 0)


def start(files: MemoryFileSystem, **config: int) -> LogManager:
    manager = LogManager([DATA], files, ManualClock(NOW_MS), LogConfig(flush_ms=0, **config))
    manager.identity.check(1, "cluster")
    manager.load()
    if manager.get(*KEY) is None:
        manager.create(*KEY, manager.defaults, TOPIC_ID)
    manager.directories.note_boot()
    return manager


def log_of(manager: LogManager) -> PartitionLog:
    log = manager.get(*KEY)
    assert log is not None
    return log


def append(log: PartitionLog, epoch: int = 0, now_ms: int = NOW_MS) -> None:
    log.append(batch([b"v" * 100]), leader_epoch=epoch, now_ms=now_ms)
    log.commit_all()


def flush(manager: LogManager) -> None:
    flush_dirty(manager, NOW_MS + 1)


def cut(manager: LogManager) -> None:
    log_of(manager).truncate_to(2)


def cut_within_a_segment(manager: LogManager) -> None:
    log_of(manager).truncate_to(3)


def restart(manager: LogManager) -> None:
    log_of(manager).truncate_fully_and_start_at(100)


def roll(manager: LogManager) -> None:
    for _ in range(5):
        append(log_of(manager))


SYNCS: dict[str, tuple[str, Callable[[LogManager], None]]] = {
    "flush": ("fsync", flush),
    "names of a flush": ("fsync_dir", flush),
    "cut": ("fsync", cut_within_a_segment),
    "names of a cut": ("fsync_dir", cut),
    "cut to nothing": ("fsync_dir", restart),
    "roll": ("fsync_dir", roll),
}


def with_records(files: MemoryFileSystem) -> LogManager:
    manager = start(files, segment_bytes=400)
    for _ in range(5):
        append(log_of(manager))
    return manager


def fail(files: MemoryFileSystem, manager: LogManager, name: str, error: int) -> None:
    """Have one sync fail, and all later ones succeed."""
    operation, act = SYNCS[name]
    here = log_of(manager).directory
    files.failing_with = error
    files.failing[operation] = lambda path: path == here or path.parent == here
    try:
        act(manager)
    except KafkaStorageError:
        pass
    finally:
        files.failing.clear()


@pytest.mark.parametrize("name", SYNCS)
def test_after_a_failed_sync_nothing_counts_as_synced(name: str) -> None:
    files = MemoryFileSystem()
    manager = with_records(files)
    log = log_of(manager)
    before = log.recovery_point
    fail(files, manager, name, errno.ENOSPC)
    assert log.syncing.failed
    assert log.recovery_point <= before
    assert flush_dirty(manager, NOW_MS + 2) == 0
    with pytest.raises(KafkaStorageError, match="started again"):
        append(log)
    with pytest.raises(KafkaStorageError, match="started again"):
        log.truncate_to(1)
    with pytest.raises(KafkaStorageError, match="started again"):
        log.truncate_fully_and_start_at(7)
    assert not manager.close()
    assert DATA / ".kafka_cleanshutdown" not in files.files


@pytest.mark.parametrize("suffix", [".log", ".index", ".snapshot", "leader-epoch-checkpoint"])
def test_a_stop_is_not_clean_after_a_failed_sync(suffix: str) -> None:
    files = MemoryFileSystem()
    manager = with_records(files)
    files.failing_with = errno.ENOSPC
    files.failing["fsync"] = lambda path: path.name.endswith(suffix)
    assert not manager.close()
    files.failing.clear()
    assert DATA / ".kafka_cleanshutdown" not in files.files
    files.restart()
    assert KEY not in start(files).stopped_cleanly


def test_a_sync_beside_one_that_failed_moves_no_recovery_point() -> None:
    files = MemoryFileSystem()
    manager = with_records(files)
    log = log_of(manager)
    failing, other = log.begin_flush(), log.begin_flush()
    assert failing is not None and other is not None
    files.failing["fsync"] = lambda path: path.suffix == ".log"
    failing.run()
    files.failing.clear()
    other.run()
    with pytest.raises(KafkaStorageError):
        failing.finish()
    other.finish()
    assert log.recovery_point == 0


@pytest.mark.parametrize("name", SYNCS)
@pytest.mark.parametrize("gives_up", [False, True])
def test_a_failed_sync_fails_its_folder_where_others_have_copies(name: str, gives_up: bool) -> None:
    files = MemoryFileSystem()
    manager = with_records(files)
    manager.directories.gives_up_failed_syncs = gives_up
    fail(files, manager, name, errno.ENOSPC)
    assert (manager.directories.failure_of(DATA) is not None) is gives_up


@pytest.mark.parametrize("name", SYNCS)
def test_after_a_failed_sync_a_start_does_not_count_on_the_boot(name: str) -> None:
    files = MemoryFileSystem()
    manager = with_records(files)
    fail(files, manager, name, errno.ENOSPC)
    # Others know by now what may be lost, and so does this broker until its next start.
    manager.directories.note_boot()
    files.restart()
    manager = start(files)
    assert KEY not in manager.unlost | manager.stopped_cleanly
    files.restart()
    assert KEY in start(files).unlost
