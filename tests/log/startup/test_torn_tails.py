"""A tail that is torn is cut; damage before it refuses the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.errors import KafkaError
from odradek.log import LogDamagedError
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch, values_of
from ..writer import Writer, start


def _torn_folder() -> tuple[MemoryFileSystem, Path, int, int, list]:
    files = MemoryFileSystem()
    clock = ManualClock(NOW_MS)
    _, log = start(files, clock)
    for number in range(4):
        log.append(
            batch([b"%d" % number, b"v" * 40], producer_id=3, epoch=0, sequence=2 * number),
            leader_epoch=0,
            now_ms=NOW_MS,
        )
    path = log.segments.active.path
    before_last = values_of(log)[:-2]
    size = log.segments.active.size
    last = size // 4
    files.restart()
    return files, path, size - last, size, before_last


def test_a_tail_torn_at_every_byte_of_the_last_batch():
    files, path, start_of_last, size, before_last = _torn_folder()
    content = bytes(files.files[path].data)
    for cut in range(start_of_last, size):
        files.files[path].data[:] = content[:cut]
        files.locked.clear()
        _, log = start(files, ManualClock(NOW_MS))
        assert values_of(log) == before_last, cut
        assert log.log_end_offset == 6
        assert len(files.files[path].data) == start_of_last
        # The producer may send the batch that was lost again, and no later one.
        with pytest.raises(KafkaError, match="expected was 6"):
            log.append(batch([b"gap"], producer_id=3, epoch=0, sequence=8), leader_epoch=0, now_ms=NOW_MS)
        info = log.append(
            batch([b"3", b"v" * 40], producer_id=3, epoch=0, sequence=6), leader_epoch=0, now_ms=NOW_MS
        )
        assert (info.first_offset, info.duplicate) == (6, False)
        assert bytes(files.files[path].data) == content


def test_a_flipped_bit_anywhere_in_the_last_batch_is_cut():
    files, path, start_of_last, size, before_last = _torn_folder()
    content = bytes(files.files[path].data)
    # Base offset, leader epoch and the length are not under the CRC; the first two change what is read, not
    # whether it is whole.
    for at in [*range(start_of_last + 8, start_of_last + 12), *range(start_of_last + 16, size)]:
        files.files[path].data[:] = content
        files.files[path].data[at] ^= 0x10
        files.locked.clear()
        _, log = start(files, ManualClock(NOW_MS))
        assert values_of(log) == before_last, at


def test_a_flipped_bit_before_the_last_batch_refuses_the_start_and_changes_nothing():
    files, path, start_of_last, _, _ = _torn_folder()
    second = start_of_last // 3
    # Anywhere in the first three batches, also in a length, which makes a batch look torn.
    # Or in an offset, which is not under the CRC but must go on from the one before.
    for at in (
        0,
        5,
        6,
        8,
        11,
        16,
        20,
        100,
        second + 5,
        second + 8,
        second + 9,
        second + 10,
        second + 30,
        start_of_last - 1,
    ):
        files.locked.clear()
        content = bytes(files.files[path].data)
        files.files[path].data[at] ^= 0x10
        before = {name: bytes(inode.data) for name, inode in files.files.items()}
        operations = files.operations
        with pytest.raises(LogDamagedError) as refused:
            start(files, ManualClock(NOW_MS))
        assert str(path) in str(refused.value)
        assert f"position {refused.value.position}" in str(refused.value)
        assert "Nothing was changed" in str(refused.value)
        assert {name: bytes(inode.data) for name, inode in files.files.items()} == before
        assert files.operations == operations
        files.files[path].data[:] = content


def test_damage_in_a_segment_before_others_refuses_the_start():
    files = MemoryFileSystem()
    clock = ManualClock(NOW_MS)
    writer = Writer(2)
    _, log = start(files, clock)
    for _ in range(20):
        writer.send(log)
    first = log.segments[0]
    assert len(log.segments) > 2
    files.restart()
    del files.files[first.path].data[first.size - 5 :]
    with pytest.raises(LogDamagedError, match=r"valid batches go on in \d{20}\.log"):
        start(files, clock)


def test_a_payload_that_holds_a_batch_is_no_damage_when_it_is_torn():
    """A torn batch whose value is itself a batch, with an offset that would fit, is cut like any other."""
    inner = batch([b"inner"], base_offset=1)
    files = MemoryFileSystem()
    clock = ManualClock(NOW_MS)
    _, log = start(files, clock)
    log.append(batch([b"first"]), leader_epoch=0, now_ms=NOW_MS)
    log.append(batch([inner, b"rest" * 20]), leader_epoch=0, now_ms=NOW_MS)
    path = log.segments.active.path
    files.restart()
    del files.files[path].data[-3:]
    _, log = start(files, clock)
    assert values_of(log) == [(0, b"first")]
