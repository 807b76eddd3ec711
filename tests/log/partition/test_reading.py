"""Reads against a list of batches, wherever positions come from: memory, what searches kept, the index."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from odradek.log import LogConfig, PartitionLog, RealFileSystem
from odradek.log.segments import batch_walk, found_places, index_file, segment
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.files import FileRange, FileSystem
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.util.clock import ManualClock
from seeds import each_seed

from ..batches import NOW_MS, batch


class Model:
    """What the log holds: `(first offset, last offset, size)` of each batch, and where segments begin."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.batches: list[tuple[int, int, int]] = []

    def append(self, chance: random.Random) -> None:
        data = batch([b"x" * chance.randrange(60) for _ in range(chance.randint(1, 3))])
        info = self.log.append(data, leader_epoch=0, now_ms=NOW_MS)
        self.batches.append((info.first_offset, info.last_offset, len(data)))

    def expected(self, offset: int, max_bytes: int, upper_bound: int, min_one: bool) -> tuple[int, int, int]:
        """The first offset, the last one, and the bytes that a read gives."""
        # A truncation within a batch leaves a hole, behind which a new segment begins.
        found = next((base for base, last, _ in self.batches if last >= offset), offset)
        later = [base for base in self.log.segments.bases if base > max(offset, found)]
        size = 0
        first = end = -1
        for base, last, length in self.batches:
            if last < offset:
                continue
            if last >= upper_bound or (later and base >= later[0]):
                break
            if size + length > max_bytes and not (min_one and size == 0):
                break
            first = base if first < 0 else first
            end = last
            size += length
        return first, end, size


@each_seed(12)
def test_any_read_gives_the_whole_batches_that_fit(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(segment, "TAIL_BATCHES", chance.choice((1, 2, 1024)))
    monkeypatch.setattr(segment, "FOUND_ENTRIES", 3)
    monkeypatch.setattr(found_places, "TABLES", chance.choice((1, 3, 2048)))
    block = chance.choice((61, 200, 16_384))
    monkeypatch.setattr(segment, "WALK_BLOCK", block)
    monkeypatch.setattr(batch_walk, "WALK_BLOCK", block)
    monkeypatch.setattr(index_file, "SEARCH_BLOCK", chance.choice((1, 2, 256)))
    files: FileSystem = RealFileSystem() if seed % 2 else MemoryFileSystem(chance)
    config = LogConfig(
        segment_bytes=chance.choice((3000, 10**6)), index_interval_bytes=chance.choice((0, 300))
    )
    directory = tmp_path / "t-0"
    log = open_partition_log(directory, "t", 0, config, files, ManualClock(NOW_MS))
    model = Model(log)
    ranges = 0
    for _ in range(100):
        model.append(chance)
    for step in range(3000):
        what = chance.random()
        if what < 0.05:
            model.append(chance)
        elif what < 0.055 and model.batches:
            at = chance.randint(log.log_end_offset // 2, log.log_end_offset)
            log.truncate_to(at)
            model.batches = [one for one in model.batches if one[1] < at]
        elif what < 0.06:
            log.close()
            log = open_partition_log(
                directory, "t", 0, config, files, ManualClock(NOW_MS), clean_shutdown=True
            )
            model.log = log
        end = log.log_end_offset
        # The same few places again and again, and where one read ended the next begins.
        offset = chance.choice((chance.randint(0, end), min(end, 7), min(end, 40), max(0, end - 3)))
        for _ in range(chance.randint(1, 4)):
            max_bytes = chance.choice((0, 100, 150, 300, 1000, 5000))
            upper_bound = chance.choice((end, end, chance.randint(0, end)))
            min_one = chance.random() < 0.5
            range_from = chance.choice((2**63, 1, 500))
            got = log.slice(offset, max_bytes, upper_bound, min_one, range_from)
            first, last, size = -1, -1, 0
            if offset < upper_bound:
                first, last, size = model.expected(offset, max_bytes, upper_bound, min_one)
            assert len(got) == size, (step, offset, max_bytes, upper_bound, min_one)
            if isinstance(got, FileRange):
                ranges += 1
                assert len(got) >= range_from
                data = got.read()
            else:
                assert len(got) < range_from or not seed % 2
                data = got
            assert data == log.read(offset, max_bytes, upper_bound=upper_bound, min_one_batch=min_one).records
            if not size:
                break
            assert int.from_bytes(data[:8], "big") == first
            offset = last + 1
    assert bool(ranges) == bool(seed % 2)
    log.close()


def test_a_damaged_header_behind_a_read_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "TAIL_BATCHES", 1)
    log = open_partition_log(tmp_path / "t-0", "t", 0, LogConfig(), RealFileSystem(), ManualClock(NOW_MS))
    sent = batch([b"x"])
    for _ in range(20):
        log.append(sent, leader_epoch=0, now_ms=NOW_MS)
    with log.segments.active.path.open("r+b") as file:
        file.seek(5 * len(sent) + 8)
        file.write((2**31 - 100).to_bytes(4, "big"))
    most = 2 * len(sent)
    unread = log.slice(5, most, 20, True)
    assert len(log.slice(3, most, 20, True)) == most
    assert len(log.slice(5, most, 20, True)) == len(unread) <= most
    log.close()


class Begun(deque[dict[Any, Any]]):
    """Remembers each table of answers that was begun."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[int, dict[Any, Any]] = {}

    def append(self, table: dict[Any, Any]) -> None:
        self.tables[id(table)] = table
        super().append(table)


def test_a_read_of_many_segments_leaves_bounded_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found_places, "TABLES", 4)
    begun = Begun()
    monkeypatch.setattr(found_places, "_begun", begun)
    monkeypatch.setattr(segment, "FOUND_ENTRIES", 8)
    config = LogConfig(segment_bytes=4_000, index_interval_bytes=300)
    log = open_partition_log(tmp_path / "t-0", "t", 0, config, RealFileSystem(), ManualClock(NOW_MS))
    sent = batch([b"x"])
    for _ in range(1_000):
        log.append(sent, leader_epoch=0, now_ms=NOW_MS)
    assert len(log.segments) > 15
    for range_from in (2**63, 1):
        for offset in range(0, 1_000, 2):
            got = log.slice(offset, 2 * len(sent), 1_000, True, range_from)
            assert len(got) in (len(sent), 2 * len(sent))
    kept = [table for table in begun.tables.values() if table]
    assert 0 < len(kept) <= 4 < len(begun.tables)
    assert all(len(table) <= 8 for table in kept)
    log.close()
