"""How segments begin and end: room taken in advance, deletion with its delay, retention switched off."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.log import LogConfig, LogManager, PartitionLog
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.records.builder import build_batch
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch, values_of
from ..following import remove_deleted

DATA = Path("/data")
DAY_MS = 24 * 3_600_000


def start(files: MemoryFileSystem, clock: ManualClock, config: LogConfig) -> tuple[LogManager, PartitionLog]:
    files.restart()
    manager = LogManager([DATA], files, clock, config)
    manager.load()
    return manager, manager.create("t", 0, config)


def fill(log: PartitionLog, count: int = 30, *, timestamp: int = NOW_MS) -> None:
    for number in range(count):
        data = batch([b"%d" % number + b"." * 80], timestamp=timestamp)
        log.append(data, leader_epoch=0, now_ms=timestamp)
    log.commit_all()


def names(files: MemoryFileSystem, suffix: str) -> list[str]:
    return sorted(path.name for path in files.files if path.name.endswith(suffix))


@pytest.mark.parametrize("how", ["close", "kill", "power"])
def test_room_taken_in_advance_is_given_back(how: str) -> None:
    files, clock = MemoryFileSystem(), ManualClock(NOW_MS)
    config = LogConfig(segment_bytes=1000, preallocate=True, retention_ms=-1)
    manager, log = start(files, clock, config)
    fill(log)
    values, active = values_of(log), log.segments.active
    assert len(log.segments) > 2
    assert len(files.files[active.path].data) == 1000
    for segment in list(log.segments)[:-1]:
        assert len(files.files[segment.path].data) == segment.size
    if how == "close":
        assert manager.close()
        assert len(files.files[active.path].data) == active.size
    elif how == "power":
        log.flush()
        files.lose_power()
    _, log = start(files, clock, config)
    assert values_of(log) == values
    fill(log, 3)
    assert len(values_of(log)) == len(values) + 3


def test_files_of_dropped_segments_wait_under_another_name() -> None:
    files, clock = MemoryFileSystem(), ManualClock(NOW_MS)
    config = LogConfig(segment_bytes=1000, retention_ms=DAY_MS, file_delete_delay_ms=60_000)
    manager, log = start(files, clock, config)
    fill(log)
    before = len(log.segments)
    clock.advance(2 * DAY_MS)
    now_ms = clock.now_ms()
    assert manager.apply_retention(now_ms) == before
    assert (log.log_start_offset, log.log_end_offset) == (30, 30)
    waiting = names(files, ".deleted")
    assert len([name for name in waiting if ".log" in name]) == before
    assert names(files, ".log") == ["00000000000000000030.log"]
    assert remove_deleted(manager, now_ms + 59_999) == 0
    assert names(files, ".deleted") == waiting
    assert remove_deleted(manager, now_ms + 60_000) == len(waiting)
    assert names(files, ".deleted") == []


def test_files_that_wait_are_removed_by_the_next_start() -> None:
    files, clock = MemoryFileSystem(), ManualClock(NOW_MS)
    config = LogConfig(segment_bytes=1000, retention_bytes=2500, retention_ms=-1)
    manager, log = start(files, clock, config)
    fill(log)
    assert manager.apply_retention(NOW_MS) > 0
    # As large as may be, and less than another segment above it.
    assert 2500 <= log.size_bytes < 2500 + 1000
    values = values_of(log)
    assert names(files, ".deleted")
    _, log = start(files, clock, config)
    assert names(files, ".deleted") == []
    assert values_of(log) == values
    assert log.log_start_offset == values[0][0]


@pytest.mark.parametrize(
    "topic",
    [
        {"retention.ms": "-1"},
        {"retention.ms": "-1", "local.retention.ms": "1", "local.retention.bytes": "1"},
        {"cleanup.policy": "compact", "retention.ms": "1", "retention.bytes": "1"},
    ],
)
def test_what_has_no_limit_stays(topic: dict[str, str]) -> None:
    files, clock = MemoryFileSystem(), ManualClock(NOW_MS)
    config = LogConfig.from_topic({"segment.bytes": "1000", **topic})
    manager = LogManager([DATA], files, clock, config)
    manager.load()
    log = manager.create("t", 0, config)
    for number in range(30):
        data = build_batch([(NOW_MS, b"k%d" % number, b"." * 80, ())])
        log.append(data, leader_epoch=0, now_ms=NOW_MS)
    log.commit_all()
    clock.advance(1000 * DAY_MS)
    assert manager.apply_retention(clock.now_ms()) == 0
    assert log.log_start_offset == 0
    # Records that were deleted go whatever the policy says.
    log.delete_records_before(20)
    assert manager.apply_retention(clock.now_ms()) > 0
    assert log.log_start_offset == 20


def test_nothing_above_the_high_watermark_goes() -> None:
    files, clock = MemoryFileSystem(), ManualClock(NOW_MS)
    config = LogConfig(segment_bytes=1000, retention_ms=1, retention_bytes=1)
    manager, log = start(files, clock, config)
    fill(log, 10)
    kept = log.high_watermark
    for _ in range(20):
        log.append(batch([b"." * 80], timestamp=NOW_MS), leader_epoch=0, now_ms=NOW_MS)
    clock.advance(DAY_MS)
    manager.apply_retention(clock.now_ms())
    assert log.log_start_offset <= kept
    assert log.log_end_offset == 30
