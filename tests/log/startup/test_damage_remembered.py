"""What a start knows of a damaged log outlives a kill of the broker that left it offline."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.errors import KafkaStorageError
from odradek.log import LogConfig, LogManager
from odradek.log.storage.memory_files import Killed, MemoryFileSystem
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch, records_of
from .test_missing_segments import COMPACTED, CONFIG, DATA, Harm, empty, remove, shorten, write

Topics = dict[str, dict[str, str]] | None


def start(files: MemoryFileSystem, configs: Topics = None) -> LogManager:
    """Go on with what is damaged offline."""
    files.restart()
    manager = LogManager([DATA], files, ManualClock(NOW_MS), CONFIG, refuses_damage=False)
    manager.load(configs)
    return manager


def tear(files: MemoryFileSystem, path: Path) -> None:
    """Cut in the middle of the last batch: after a kill this would be a torn tail."""
    del files.files[path].data[-5:]


@pytest.mark.parametrize("configs", [None, COMPACTED], ids=["deleted", "compacted"])
@pytest.mark.parametrize("number", [0, 2, -1])
@pytest.mark.parametrize("harm", [remove, empty, shorten, tear])
def test_a_damaged_log_stays_offline_after_kills(harm: Harm, number: int, configs: Topics) -> None:
    files = MemoryFileSystem()
    log = write(files, clean=True)
    path = log.segments[number].path
    inode = files.files[path]
    whole = bytes(inode.data)
    left = {one: files.files.pop(one) for one in log.segments[number].paths()[1:] if one in files.files}
    harm(files, path)
    for _ in range(3):
        assert list(start(files, configs).damaged) == [("t", 0)]
    assert start(files, configs).close()
    assert list(start(files, configs).damaged) == [("t", 0)]
    inode.data[:] = whole
    files.files[path] = inode
    files.files.update(left)
    manager = start(files, configs)
    found = manager.get("t", 0)
    assert found is not None
    assert len(records_of(found)) == 12
    assert not files.exists(DATA / "segments-checkpoint")


def test_at_whatever_instruction_the_start_or_the_stop_is_killed() -> None:
    sound = MemoryFileSystem()
    log = write(sound, clean=True)
    path = log.segments[0].path
    number = 0
    while True:
        files = MemoryFileSystem()
        write(files, clean=True)
        for one in log.segments[0].paths():
            files.files.pop(one, None)
        files.kill_at = files.operations + number
        try:
            manager = start_at(files)
            manager.close()
        except Killed:
            pass
        else:
            break
        again = start(files)
        assert list(again.damaged) == [("t", 0)], number
        assert path.name in again.damaged["t", 0].reason
        number += 1
    assert number > 5


def start_at(files: MemoryFileSystem) -> LogManager:
    """As `start`, with the kill still to come."""
    files.locked.clear()
    manager = LogManager([DATA], files, ManualClock(NOW_MS), CONFIG, refuses_damage=False)
    manager.load()
    return manager


def test_a_folder_that_is_gone_is_missed_though_nothing_was_synced() -> None:
    """A short log, as those of the coordinators are, may never have been synced when the broker is killed."""
    files = MemoryFileSystem()
    manager = start(files)
    log = manager.create("t", 0)
    log.append(batch([b"commit"]), leader_epoch=0, now_ms=NOW_MS)
    log.commit_all()
    manager.checkpoint()
    assert log.recovery_point == 0
    log.delete()
    for _ in range(2):
        manager = start(files)
        with pytest.raises(KafkaStorageError, match="t-0 is gone; the log went on to offset 1"):
            manager.create("t", 0, is_new=False)


def test_a_deleted_topic_of_the_same_name_is_forgotten() -> None:
    files = MemoryFileSystem()
    log = write(files, clean=True)
    remove(files, log.segments[0].path)
    manager = start(files)
    manager.delete("t", 0)
    new = manager.create("t", 0, LogConfig())
    new.append(batch([b"new"]), leader_epoch=0, now_ms=NOW_MS)
    manager = start(files)
    assert not manager.damaged
    found = manager.get("t", 0)
    assert found is not None
    assert len(records_of(found)) == 1
