"""A log that is truncated ends before what was its recovery point: no start takes that for damage."""

from __future__ import annotations

import contextlib
import itertools
import random

import pytest

from odradek.log import LogManager, PartitionLog
from odradek.log.storage.file_names import LEADER_EPOCHS
from odradek.log.storage.memory_files import Killed, MemoryFileSystem
from odradek.util.clock import ManualClock
from seeds import each_seed

from ..batches import NOW_MS, batch, records_of
from ..following import append_follower, flush_dirty
from ..startup.test_missing_segments import DATA, manager_of

pytestmark = pytest.mark.model

COUNT = 12


def fill(files: MemoryFileSystem) -> PartitionLog:
    """A follower's log of batches of three records, all of it synced."""
    manager = manager_of(files)
    log = manager.create("t", 0)
    for number in range(COUNT):
        values = [b"%d" % number * 10] * 3
        append_follower(log, batch(values, base_offset=3 * number, leader_epoch=0))
    log.commit_all()
    log.flush()
    manager.checkpoint()
    assert len(log.segments) > 4
    return log


@pytest.mark.parametrize("offset", [0, 6, 7, 20, 35])
@pytest.mark.parametrize("fully", [False, True], ids=["truncated", "begun anew"])
def test_whenever_the_process_dies(offset: int, fully: bool) -> None:
    for number in itertools.count():
        files = MemoryFileSystem(random.Random(number))
        log = fill(files)
        kill_at = files.kill_at = files.operations + number
        with contextlib.suppress(Killed):
            if fully:
                log.truncate_fully_and_start_at(offset)
            else:
                log.truncate_to(offset)
        killed = files.operations > kill_at
        files.restart()
        found = manager_of(files).get("t", 0)
        assert found is not None
        assert found.log_end_offset <= 3 * COUNT
        if not killed:
            assert found.log_end_offset == offset
            break
    assert number > 3


def test_a_log_that_goes_on_within_a_batch_ends_there() -> None:
    """Also after a flush, which says that everything before its end is on the disk."""
    files = MemoryFileSystem()
    log = fill(files)
    log.truncate_to(7)
    append_follower(log, batch([b"x"], base_offset=7, leader_epoch=0))
    log.truncate_to(7)
    assert log.log_end_offset == 7
    log.flush()
    manager = manager_of(files)
    manager.checkpoint()
    files.restart()
    found = manager_of(files).get("t", 0)
    assert found is not None
    assert found.log_end_offset == 7
    assert len(records_of(found)) == 6


@each_seed(20)
@pytest.mark.parametrize("offset", [6, 7, 20, 50])
@pytest.mark.parametrize("fully", [False, True], ids=["truncated", "begun anew"])
def test_the_power_fails_after_it(offset: int, fully: bool, seed: int) -> None:
    files = MemoryFileSystem(random.Random(seed))
    log = fill(files)
    if fully:
        log.truncate_fully_and_start_at(offset)
    else:
        log.truncate_to(offset)
    append_follower(log, batch([b"new"], base_offset=log.log_end_offset, leader_epoch=1))
    if seed % 2:
        log.flush()
    files.lose_power()
    found = manager_of(files).get("t", 0)
    assert found is not None
    if seed % 2:
        assert found.log_end_offset == log.log_end_offset


@each_seed(40)
@pytest.mark.parametrize("offset", [6, 20, 33])
def test_what_was_cut_does_not_come_back_under_the_epoch_that_came_in_its_place(
    offset: int, seed: int
) -> None:
    """The leader would be told that the log goes on from its own last epoch, and what was cut would stay."""
    files = MemoryFileSystem(random.Random(seed))
    log = fill(files)
    log.truncate_to(offset)
    end = log.log_end_offset
    for number in range(4):
        append_follower(log, batch([b"new"], base_offset=end + number, leader_epoch=1))
    # As at the beginning of a flush that comes no further.
    files.fsync(log.directory / LEADER_EPOCHS)
    files.fsync_dir(log.directory)
    files.lose_power()
    found = manager_of(files).get("t", 0)
    assert found is not None
    began = {one.epoch: one.start_offset for one in found.epochs.entries}
    if 1 in began:
        assert began[1] == end
        for entry in records_of(found):
            assert (entry.offset < end) is (entry.value != b"new"), seed


@each_seed(20)
def test_deleted_records_do_not_come_back_with_a_later_checkpoint(seed: int) -> None:
    """High watermarks are synced where log starts rely on them, whoever writes them."""
    files = MemoryFileSystem(random.Random(seed))

    def start() -> LogManager:
        manager = LogManager([DATA], files, ManualClock(NOW_MS))
        manager.load()
        return manager

    manager = start()
    log = manager.create("t", 0)
    for number in range(COUNT):
        log.append(batch([b"%d" % number * 10]), leader_epoch=0, now_ms=NOW_MS)
        if number == 5:
            log.flush()
    log.commit_all()
    log.delete_records_before(10)
    job = manager.checkpoints.begin_log_starts()
    job.run()
    assert manager.checkpoints.finish(job)
    log.append(batch([b"more"]), leader_epoch=0, now_ms=NOW_MS)
    log.commit_all()
    manager.checkpoint()
    files.lose_power()
    found = start().get("t", 0)
    assert found is not None
    assert found.log_start_offset == 10


@each_seed(20)
@pytest.mark.parametrize("closes", [True, False], ids=["closed", "synced in time"])
def test_the_end_of_a_log_that_retention_has_emptied(seed: int, closes: bool) -> None:
    files = MemoryFileSystem(random.Random(seed))
    log = fill(files)
    manager = manager_of(files)
    log = manager.get("t", 0)  # type: ignore[assignment]
    assert manager.apply_retention(NOW_MS + 10**12) > 4
    assert log.segments.bases == [3 * COUNT]
    if closes:
        manager.close()
    else:
        flush_dirty(manager, NOW_MS)
    files.lose_power()
    found = manager_of(files).get("t", 0)
    assert found is not None
    assert found.log_end_offset == 3 * COUNT


@each_seed(20)
def test_the_power_fails_after_a_clean_stop_with_an_empty_log(seed: int) -> None:
    files = MemoryFileSystem(random.Random(seed))
    manager = manager_of(files)
    manager.create("t", 0)
    assert manager.close()
    files.lose_power()
    manager_of(files)
