"""Data folders that are missing, or have come in another's place, and what may have been in them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from odradek.errors import KafkaStorageError
from odradek.log.config import LogConfig
from odradek.log.errors import LogDamagedError
from odradek.log.folders.log_manager import LogManager
from odradek.log.storage.file_names import LOG_DIRS, META_PROPERTIES
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch

FIRST, SECOND, THIRD = Path("/first"), Path("/second"), Path("/third")
KEY = ("t", 0)
TOPIC_ID = bytes(range(16))


def start(files: MemoryFileSystem, folders: Sequence[Path] = (FIRST, SECOND)) -> LogManager:
    """Start as a broker does: nobody says yet what is lost."""
    manager = LogManager(folders, files, ManualClock(NOW_MS), LogConfig())
    if manager.identity.stored_broker_id() is not None:
        manager.identity.check(1, None)
    manager.load()
    manager.identity.check(1, "GFx7YXRITPSTrH9Doceb3g")
    return manager


def stop(manager: LogManager) -> None:
    assert manager.close()


@pytest.fixture
def files() -> MemoryFileSystem:
    """Of a broker that has run once, with a partition in each of two folders."""
    files = MemoryFileSystem()
    manager = start(files)
    assert manager.offline.lacks(*KEY), "whoever comes as the first of its id may have been here before"
    manager.offline.note_lost([])
    assert not manager.offline.lacks(*KEY)
    for partition in range(2):
        manager.create("t", partition, topic_id=TOPIC_ID)
    stop(manager)
    return files


def folder_of(files: MemoryFileSystem, partition: int) -> Path:
    return next(one for one in (FIRST, SECOND) if files.is_dir(one / f"t-{partition}"))


def test_where_all_folders_are_there_nothing_is_lacking(files: MemoryFileSystem) -> None:
    manager = start(files)
    assert not manager.offline.lacks(*KEY)
    assert not manager.offline.lacks("never-made", 0)
    manager.create("never-made", 0, topic_id=TOPIC_ID, is_new=False)
    stop(manager)


def test_a_disk_that_was_replaced(files: MemoryFileSystem) -> None:
    replaced = folder_of(files, 0)
    files.replace_disk(replaced)
    manager = start(files)
    assert manager.offline.lacks(*KEY)
    assert not manager.offline.lacks("t", 1)
    manager.offline.note_lost([KEY])
    with pytest.raises(KafkaStorageError, match=f"its log is lost, as {replaced} had nothing in it"):
        manager.create(*KEY, topic_id=TOPIC_ID, is_new=False)
    stop(manager)

    manager = start(files)
    assert manager.offline.lacks(*KEY), "it is not forgotten"
    manager.offline.note_lost([KEY])
    with pytest.raises(KafkaStorageError, match="its log is lost, as at an earlier start"):
        manager.create(*KEY, topic_id=TOPIC_ID, is_new=False)
    manager.create("another", 0, is_new=True)
    manager.create(*KEY, topic_id=TOPIC_ID, is_new=False, may_be_lost=True)
    assert manager.offline.lost == set()
    stop(manager)

    manager = start(files)
    manager.offline.note_lost([])
    assert not manager.offline.lacks("never-made", 0)
    stop(manager)


def test_a_folder_that_is_not_in_log_dirs_any_more(files: MemoryFileSystem) -> None:
    gone = folder_of(files, 0)
    left = [one for one in (FIRST, SECOND) if one != gone]
    manager = start(files, left)
    assert manager.offline.lacks(*KEY)
    manager.offline.note_lost([KEY])
    with pytest.raises(KafkaStorageError, match=r"as log\.dirs has 1 data folders less than before"):
        manager.create(*KEY, topic_id=TOPIC_ID, is_new=False)
    stop(manager)
    manager = start(files)
    assert not manager.offline.lacks(*KEY), "it is back"
    stop(manager)


def test_a_folder_that_is_not_asked_for_may_go(files: MemoryFileSystem) -> None:
    manager = start(files, [folder_of(files, 1)])
    manager.offline.note_lost([])
    stop(manager)
    manager = start(files, [folder_of(files, 1)])
    assert not manager.offline.lacks(*KEY)
    stop(manager)


def test_one_more_folder_lacks_nothing_of_what_is_there(files: MemoryFileSystem) -> None:
    manager = start(files, (FIRST, SECOND, THIRD))
    assert not manager.offline.lacks(*KEY)
    assert not manager.offline.lacks("t", 1)
    manager.offline.note_lost([])
    stop(manager)
    manager = start(files, (FIRST, SECOND, THIRD))
    assert not manager.offline.lacks("never-made", 0)
    stop(manager)


@pytest.mark.parametrize("at", range(40))
def test_a_crash_at_any_write_of_the_first_start_forgets_nothing(files: MemoryFileSystem, at: int) -> None:
    """Until somebody has said that nothing is lost, every start finds that it may be."""
    replaced = folder_of(files, 0)
    files.replace_disk(replaced)
    files.fail_at = files.operations + at
    try:
        start(files).unlock()
    except OSError:
        pass
    except Exception as error:
        assert "cannot" in str(error), repr(error)
    files.lose_power()
    manager = start(files)
    assert manager.offline.lacks(*KEY) or not manager.online_dirs
    manager.unlock()


def test_folders_of_kafka_and_of_earlier_releases_are_all_there_were(files: MemoryFileSystem) -> None:
    for folder in (FIRST, SECOND):
        files.remove(folder / LOG_DIRS)
    manager = start(files)
    assert not manager.offline.lacks("never-made", 0)
    stop(manager)
    files.replace_disk(folder_of(files, 0))
    manager = start(files)
    assert manager.offline.lacks(*KEY)
    stop(manager)


def test_a_file_that_cannot_be_read(files: MemoryFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    files.write_atomically(FIRST / LOG_DIRS, b"{")
    with caplog.at_level(logging.WARNING):
        manager = start(files)
    assert "as if a data folder were missing" in caplog.text
    assert manager.offline.lacks("never-made", 0)
    stop(manager)


def contents(files: MemoryFileSystem) -> dict[Path, bytes]:
    return {path: bytes(inode.data) for path, inode in files.files.items() if path.name != ".lock"}


def test_a_refused_start_rewrites_nothing(files: MemoryFileSystem) -> None:
    """What the roster said, and that a folder came empty, is there for whoever looks into it."""
    kept = folder_of(files, 1)
    log = start(files).get("t", 1)
    assert log is not None
    for value in (b"a", b"b"):
        log.append(batch([value]), leader_epoch=0, now_ms=NOW_MS)
    segment = log.segments.active.path
    files.restart()
    files.files[segment].data[70] ^= 1
    files.write_atomically(kept / LOG_DIRS, b"{")
    files.replace_disk(folder_of(files, 0))
    before = contents(files)
    with pytest.raises(LogDamagedError, match="valid batches go on"):
        start(files)
    assert contents(files) == before


def test_an_empty_folder_has_no_meta_properties(files: MemoryFileSystem) -> None:
    """The sign by which Kafka's tools tell one, too."""
    files.remove(FIRST / META_PROPERTIES)
    manager = start(files)
    assert manager.offline.lacks("never-made", 0)
    stop(manager)
