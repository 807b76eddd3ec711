"""Sequences, epochs and transactions of producers, and their snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from odradek.log import LogConfig, Origin, PartitionLog
from odradek.log.producers.producer_snapshots import CorruptSnapshotError, decode_snapshot, encode_snapshot
from odradek.log.producers.producer_state import BatchMetadata, ProducerEntry, ProducerState
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch, marker, values_of

DIRECTORY = Path("/data/t-0")
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200, segment_index_bytes=240)


@pytest.fixture
def files() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def log(files) -> PartitionLog:
    return open_log(files)


def open_log(files, clean=False, recovery_point=0, now_ms=NOW_MS) -> PartitionLog:
    return open_partition_log(
        DIRECTORY,
        "t",
        0,
        CONFIG,
        files,
        ManualClock(now_ms),
        recovery_point=recovery_point,
        clean_shutdown=clean,
    )


def send(log, sequence, count=1, *, producer=1, epoch=0, transactional=False, origin=Origin.CLIENT):
    data = batch(
        [b"v"] * count, producer_id=producer, epoch=epoch, sequence=sequence, transactional=transactional
    )
    return log.append(data, leader_epoch=0, origin=origin, now_ms=NOW_MS)


def end(log, *, commit, producer=1, epoch=0, coordinator_epoch=0):
    data = marker(producer, epoch, commit=commit, coordinator_epoch=coordinator_epoch)
    return log.append(data, leader_epoch=0, origin=Origin.COORDINATOR, now_ms=NOW_MS)


def test_sequences_go_on_without_a_gap(log):
    assert send(log, 0, 3).first_offset == 0
    assert send(log, 3, 2).first_offset == 3
    for wrong in (6, 4, 100):
        with pytest.raises(OutOfOrderSequenceError):
            send(log, wrong)
    assert log.log_end_offset == 5


def test_each_of_the_last_five_batches_is_answered_with_its_first_offsets(log):
    for number in range(7):
        send(log, 2 * number, 2)
    for number in range(2, 7):
        info = send(log, 2 * number, 2)
        assert (info.duplicate, info.first_offset, info.last_offset) == (True, 2 * number, 2 * number + 1)
    for number in (0, 1):
        with pytest.raises(OutOfOrderSequenceError):
            send(log, 2 * number, 2)
    # The same first sequence with another length is no duplicate.
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 12, 1)
    assert log.log_end_offset == 14


def test_an_unknown_producer_may_begin_anywhere(log):
    assert send(log, 1000).first_offset == 0
    assert send(log, 1001).first_offset == 1


def test_sequences_wrap_around(log):
    last = 2**31 - 1
    send(log, last - 1, 2)
    send(log, 0)
    send(log, 1)
    assert send(log, last - 1, 2).duplicate
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 3)


def test_a_batch_may_wrap_around_inside(log):
    last = 2**31 - 1
    send(log, last - 1, 4)
    assert log.producers.entries[1].last_sequence == 1
    assert send(log, last - 1, 4).duplicate
    send(log, 2)


def test_a_new_epoch_begins_at_zero_and_shuts_out_the_old(log):
    send(log, 0)
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 1, epoch=1)
    send(log, 0, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        send(log, 1, epoch=0)
    # Sent again in the old epoch: no duplicate any more.
    with pytest.raises(InvalidProducerEpochError):
        send(log, 0, epoch=0)
    assert log.log_end_offset == 2


def test_coordinators_need_no_sequences(log):
    send(log, 5, origin=Origin.COORDINATOR)
    send(log, 5, origin=Origin.COORDINATOR)
    assert log.log_end_offset == 2


def test_transactions_hold_the_last_stable_offset(log):
    send(log, 0, 2, transactional=True)
    send(log, 0, producer=2, transactional=True)
    log.append(batch([b"plain"]), leader_epoch=0, now_ms=NOW_MS)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 0
    with pytest.raises(InvalidTxnStateError):
        send(log, 2)
    end(log, commit=True)
    # Ended, but its marker is not replicated yet.
    assert log.last_stable_offset == 0
    log.update_high_watermark(5)
    assert log.last_stable_offset == 2
    end(log, commit=False, producer=2)
    log.update_high_watermark(6)
    assert log.last_stable_offset == 6
    aborted = log.aborted_transactions(0, 6)
    assert [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in aborted] == [(2, 2, 5)]
    assert log.aborted_transactions(0, 2) == []


def test_a_marker_of_a_superseded_coordinator_is_refused(log):
    send(log, 0, transactional=True)
    end(log, commit=True, coordinator_epoch=5)
    send(log, 1, transactional=True)
    with pytest.raises(TransactionCoordinatorFencedError):
        end(log, commit=True, coordinator_epoch=4)
    end(log, commit=True, epoch=1, coordinator_epoch=5)
    with pytest.raises(InvalidProducerEpochError):
        end(log, commit=True, epoch=0, coordinator_epoch=5)


@pytest.mark.parametrize("how", ["killed", "clean"])
def test_state_is_the_same_after_a_new_start(files, log, how):
    for number in range(40):
        send(log, number, producer=1 + number % 3, epoch=0) if number % 3 == 0 else None
        send(log, number, producer=10)
        if number % 3 == 0:
            log.producers.entries.pop(1)
    send(log, 0, producer=5, transactional=True)
    before = {p: (e.epoch, e.last_batch, e.txn_first_offset) for p, e in log.producers.entries.items()}
    end_offset = log.log_end_offset
    if how == "clean":
        log.close()
    log = open_log(files, clean=how == "clean")
    after = {p: (e.epoch, e.last_batch, e.txn_first_offset) for p, e in log.producers.entries.items()}
    after.pop(1, None)
    assert after == before
    assert log.log_end_offset == end_offset
    assert send(log, 39, producer=10).duplicate
    assert send(log, 40, producer=10).first_offset == end_offset


@pytest.mark.parametrize("how", ["killed", "clean"])
def test_batches_in_flight_at_a_stop_are_known_after_it(files, log, how):
    """Five batches that were written but whose answers were lost: all are duplicates, none is a gap."""
    for number in range(8):
        send(log, number)
    if how == "clean":
        log.close()
    log = open_log(files, clean=how == "clean")
    for number in range(3, 8):
        assert send(log, number).duplicate, number
    assert not send(log, 8).duplicate


def test_idle_producers_expire_unless_a_transaction_is_open(files, log):
    send(log, 0, producer=1)
    send(log, 0, producer=2, transactional=True)
    assert log.expire_producers(NOW_MS + 24 * 3600 * 1000 - 1) == 0
    assert log.expire_producers(NOW_MS + 24 * 3600 * 1000) == 1
    assert list(log.producers.entries) == [2]
    log.close()
    log = open_log(files, clean=True, now_ms=NOW_MS + 10 * 24 * 3600 * 1000)
    assert list(log.producers.entries) == [2]


def test_truncation_takes_producers_back(log):
    for number in range(30):
        send(log, number, 2) if number == 0 else send(log, number + 1)
    assert len(log.segments) > 1
    log.truncate_to(10)
    assert log.producers.entries[1].last_sequence == 9
    assert send(log, 10).first_offset == 10
    log.truncate_to(0)
    assert log.producers.entries == {}
    log.truncate_fully_and_start_at(50)
    assert send(log, 7).first_offset == 50


def test_a_damaged_snapshot_is_passed_over(files, log):
    for number in range(60):
        send(log, number)
    log.close()
    assert len(log.snapshots.offsets) > 2
    for offset in log.snapshots.offsets[-2:]:
        files.files[log.snapshots.path(offset)].data[-1] ^= 1
    log = open_log(files, clean=True)
    assert log.producers.entries[1].last_sequence == 59
    assert send(log, 60).first_offset == 60


def test_snapshot_bytes():
    state = ProducerState()
    state.load(ProducerEntry(3, 1, 2, NOW_MS, 44, BatchMetadata(9, 70, 4, NOW_MS)))
    state.load(ProducerEntry(4, 0, -1, NOW_MS))
    content = encode_snapshot(state)
    assert len(content) == 10 + 2 * 46
    first, second = decode_snapshot(content)
    assert (first.producer_id, first.epoch, first.coordinator_epoch, first.txn_first_offset) == (3, 1, 2, 44)
    assert first.last_batch == BatchMetadata(9, 70, 4, NOW_MS)
    assert (second.producer_id, second.last_batch, second.last_sequence) == (4, None, -1)
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x20
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(bytes(damaged))
    for size in range(len(content)):
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(content[:size])


def test_values_are_untouched_by_refusals(log):
    send(log, 0)
    for attempt in (lambda: send(log, 5), lambda: send(log, 0, epoch=-1)):
        with pytest.raises(Exception):  # noqa: B017 - any refusal
            attempt()
    assert values_of(log) == [(0, b"v")]
