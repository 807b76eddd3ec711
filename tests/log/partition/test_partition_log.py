"""One partition's log: what an append does to a batch, when segments are rolled, dropped and synced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from odradek.errors import (
    CorruptRecordError,
    InvalidRecordError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
)
from odradek.log import LogConfig, Origin, PartitionLog, RealFileSystem
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.records.batch import Record, TimestampType, check_crc, iter_batches, iter_records
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch, records_of, values_of
from ..following import append_follower, remove_due_files

DIRECTORY = Path("/data/t-0")
DEFAULTS = LogConfig()


def open_log(config: LogConfig = DEFAULTS, files=None, **more) -> PartitionLog:
    return open_partition_log(
        DIRECTORY, "t", 0, config, files or MemoryFileSystem(), ManualClock(NOW_MS), **more
    )


def append(log, *values, now_ms=NOW_MS, timestamp=NOW_MS, leader_epoch=0):
    return log.append(batch(list(values), timestamp=timestamp), leader_epoch=leader_epoch, now_ms=now_ms)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_senders_bytes_are_written_behind_a_new_prefix(kind):
    log = open_log()
    append(log, b"zero")
    sent = batch([b"one", b"two"])
    info = log.append(kind(sent), leader_epoch=7, now_ms=NOW_MS)
    assert (info.first_offset, info.last_offset, info.log_append_time_ms, info.duplicate) == (1, 2, -1, False)
    written = log.read(1, 1 << 20, upper_bound=3, min_one_batch=True).records
    assert written[16:] == sent[16:]
    [(header, whole)] = iter_batches(written)
    assert (header.base_offset, header.partition_leader_epoch) == (1, 7)
    check_crc(header, whole)


def test_log_append_time():
    log = open_log(LogConfig(message_timestamp_type="LogAppendTime"))
    info = append(log, b"a", b"b", timestamp=5, now_ms=NOW_MS + 9)
    assert info.log_append_time_ms == NOW_MS + 9
    kind = TimestampType.LOG_APPEND_TIME
    assert records_of(log) == [
        Record(offset, NOW_MS + 9, kind, b"key", value, ()) for offset, value in enumerate((b"a", b"b"))
    ]
    assert log.max_timestamp().timestamp == NOW_MS + 9


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_the_topics_compression_wins(codec):
    log = open_log(LogConfig(compression_type=codec))
    builder = BatchBuilder(codec=Codec.GZIP)
    builder.append(NOW_MS, b"k", b"v" * 500, [("h", b"x")])
    log.append(builder.build(), leader_epoch=0, now_ms=NOW_MS)
    [(header, whole)] = iter_batches(log.read(0, 1 << 20, upper_bound=1, min_one_batch=True).records)
    assert header.codec is Codec.parse(codec)
    check_crc(header, whole)
    assert [record.value for record in iter_records(whole)] == [b"v" * 500]


@pytest.mark.parametrize("version", [2, 9, None])
def test_a_batch_that_is_too_large_in_the_topics_codec_is_refused(version):
    builder = BatchBuilder(codec=Codec.GZIP)
    builder.append(NOW_MS, b"k", b"v" * 3000, [])
    data = builder.build()
    assert len(data) < 1000
    log = open_log(LogConfig(compression_type="uncompressed", max_message_bytes=3000))
    with pytest.raises(RecordTooLargeError, match=r"exceeds the maximum of 3000"):
        log.append(data, leader_epoch=0, now_ms=NOW_MS, produce_version=version)
    assert log.log_end_offset == 0
    log.config = LogConfig(compression_type="uncompressed", max_message_bytes=4000)
    assert log.append(data, leader_epoch=0, now_ms=NOW_MS, produce_version=version).first_offset == 0


def test_refusals_leave_nothing_behind():
    log = open_log(LogConfig(max_message_bytes=2000, segment_bytes=1500, cleanup_policy=("compact",)))
    append(log, b"kept")
    files = log.files
    before = files.read(log.segments.active.path)
    damaged = bytearray(batch([b"x"]))
    damaged[-1] ^= 1
    keyless = BatchBuilder()
    keyless.append(NOW_MS, None, b"v", [])
    for data, error in (
        (bytes(damaged), CorruptRecordError),
        (b"", InvalidRecordError),
        (batch([b"x"])[:-1], CorruptRecordError),
        (batch([b"x" * 2500]), RecordTooLargeError),
        (batch([b"x" * 1600]), RecordBatchTooLargeError),
        (batch([b"x"]) * 2, InvalidRecordError),
        (batch([b"x"], base_offset=5), InvalidRecordError),
        (keyless.build(), InvalidRecordError),
    ):
        with pytest.raises(error):
            log.append(data, leader_epoch=0, now_ms=NOW_MS)
    assert files.read(log.segments.active.path) == before
    assert values_of(log) == [(0, b"kept")]


def test_an_index_that_cannot_be_read_leaves_nothing_of_an_append_behind():
    files = MemoryFileSystem()
    config = LogConfig(index_interval_bytes=0)
    log = open_log(config, files)
    for value in range(5):
        append(log, b"%d" % value)
    log.close()
    log = open_log(config, files)
    segment = log.segments.active
    before = files.read(segment.path)[: segment.size]
    # What else an append needs of an opened segment is known; the largest timestamp is not.
    segment.first_timestamp()
    segment.max_timestamp = None
    files.failing["pread"] = lambda path: True
    with pytest.raises(KafkaStorageError):
        append(log, b"lost" * 100)
    files.failing.clear()
    assert files.read(segment.path).rstrip(b"\0") == before.rstrip(b"\0")
    append(log, b"next")
    log.release()
    assert [value for _, value in values_of(open_log(config, files))] == [
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
        b"next",
    ]


def test_a_coordinator_may_append_several_batches():
    log = open_log()
    data = batch([b"a"], timestamp=NOW_MS + 5) + batch([b"b", b"c"])
    info = log.append(data, leader_epoch=2, origin=Origin.COORDINATOR, now_ms=NOW_MS)
    assert (info.first_offset, info.last_offset) == (0, 2)
    assert values_of(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert values_of(log, max_bytes=1) == values_of(log)
    assert log.max_timestamp().offset == 0


def test_followers_take_offsets_and_epochs_as_they_are():
    log = open_log()
    first = batch([b"a"], base_offset=10, leader_epoch=3)
    second = batch([b"b", b"c"], base_offset=20, leader_epoch=4)
    info = append_follower(log, first + second + batch([b"cut"], base_offset=22)[:-4])
    assert (info.first_offset, info.last_offset, log.log_end_offset) == (10, 21, 22)
    assert log.epochs.entries == [(3, 10), (4, 20)]
    assert log.read(0, 1 << 20, upper_bound=22, min_one_batch=True).records == first + second
    assert append_follower(log, b"") is None
    for data, error in (
        (batch([b"x"], base_offset=21), OffsetOutOfRangeError),
        (batch([b"x"], base_offset=30) + second, OffsetOutOfRangeError),
    ):
        with pytest.raises(error):
            append_follower(log, data)
    damaged = bytearray(batch([b"x"], base_offset=30))
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        append_follower(log, damaged)
    assert log.log_end_offset == 22


def test_reading_is_bounded():
    log = open_log()
    sizes = []
    for number in range(10):
        append(log, b"%d" % number * 20, b"second")
        sizes.append(log.size_bytes - sum(sizes))

    def read(offset, max_bytes, upper_bound=20, min_one_batch=False):
        result = log.read(offset, max_bytes, upper_bound=upper_bound, min_one_batch=min_one_batch)
        return result.first_offset, len(result.records)

    one = sizes[0]
    assert read(0, 10 * one) == (0, 10 * one)
    assert read(5, 3 * one) == (4, 3 * one)
    assert read(5, 3 * one - 1) == (4, 2 * one)
    assert read(5, one - 1) == (-1, 0)
    assert read(5, 0, min_one_batch=True) == (4, one)
    assert read(0, 10 * one, upper_bound=6) == (0, 3 * one)
    # A batch that the bound cuts through is left out.
    assert read(0, 10 * one, upper_bound=7) == (0, 3 * one)
    assert read(6, 10 * one, upper_bound=7, min_one_batch=True) == (-1, 0)
    assert read(6, 10 * one, upper_bound=6, min_one_batch=True) == (-1, 0)
    assert read(20, 100, min_one_batch=True) == (-1, 0)
    for outside in (-1, 21):
        with pytest.raises(OffsetOutOfRangeError):
            read(outside, 100)


def test_segments_are_rolled_by_size_time_and_full_indexes():
    log = open_log(LogConfig(segment_bytes=500))
    while len(log.segments) < 3:
        append(log, b"v" * 100)
    assert all(segment.size <= 500 for segment in log.segments)
    log = open_log(LogConfig(segment_ms=1000))
    append(log, b"a", timestamp=NOW_MS)
    append(log, b"b", timestamp=NOW_MS + 1000)
    assert log.segments.bases == [0]
    append(log, b"c", timestamp=NOW_MS + 1001)
    assert log.segments.bases == [0, 2]
    log = open_log(LogConfig(segment_index_bytes=24, index_interval_bytes=0))
    for _ in range(4):
        append(log, b"x")
    assert len(log.segments) > 1
    log = open_log(LogConfig(segment_ms=10_000, segment_jitter_ms=9_999))
    append(log, b"a", timestamp=NOW_MS)
    append(log, b"b", timestamp=NOW_MS + 10_000)
    assert len(log.segments) == 2


def test_offsets_that_do_not_fit_begin_a_new_segment():
    log = open_log()
    append_follower(log, batch([b"a"], base_offset=0))
    append_follower(log, batch([b"b"], base_offset=2**31 + 5))
    assert log.segments.bases == [0, 2**31 + 5]
    assert values_of(log) == [(0, b"a"), (2**31 + 5, b"b")]


def test_old_segments_are_dropped_by_age_and_size_below_the_high_watermark():
    files = MemoryFileSystem()
    config = LogConfig(segment_bytes=300, retention_ms=5000, file_delete_delay_ms=60_000)
    log = open_log(config, files)
    for number in range(6):
        append(log, b"v" * 100, timestamp=NOW_MS + 1000 * number)
    bases = log.segments.bases
    assert len(bases) == 6
    assert log.apply_retention(NOW_MS + 7500) == 0
    log.update_high_watermark(log.log_end_offset)
    assert log.apply_retention(NOW_MS + 7500) == 3
    assert (log.log_start_offset, log.segments.bases) == (3, bases[3:])
    with pytest.raises(OffsetOutOfRangeError):
        log.read(2, 100, upper_bound=6, min_one_batch=True)
    marked = [path for path in files.files if path.name.endswith(".deleted")]
    assert len(marked) >= 9
    assert remove_due_files(log, NOW_MS + 59_999) == 0
    assert remove_due_files(log, NOW_MS + 60_000) == len(marked)
    assert not [path for path in files.files if path.name.endswith(".deleted")]
    log.config = replace(config, retention_bytes=200, retention_ms=-1)
    assert log.apply_retention(NOW_MS) == 1
    # All of it too old: the log goes on empty, at its end.
    log.config = config
    assert log.apply_retention(NOW_MS + 10**9) == 2
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (6, 6, 1)
    assert append(log, b"more").first_offset == 6
    # A compacted topic keeps what is only old.
    log.config = replace(config, cleanup_policy=("compact",))
    log.update_high_watermark(7)
    assert log.apply_retention(NOW_MS + 10**9) == 0


def test_deleted_records_are_gone_at_once_and_their_files_with_the_next_retention():
    log = open_log(LogConfig(segment_bytes=300))
    for number in range(4):
        append(log, b"%d" % number * 100)
    log.update_high_watermark(3)
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records_before(4)
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records_before(-2)
    assert log.delete_records_before(2) == 2
    assert log.delete_records_before(1) == 2
    assert log.earliest() == (2, -1, 0)
    assert log.offset_for_timestamp(0).offset == 2
    assert log.apply_retention(NOW_MS) == 2
    assert log.delete_records_before(-1) == 3


def test_what_a_flush_began_with_is_what_it_has_synced():
    files = MemoryFileSystem()
    log = open_log(LogConfig(segment_bytes=300), files)
    for _ in range(3):
        append(log, b"v" * 100)
    assert log.begin_flush(whole_segments_only=True).up_to == 2
    job = log.begin_flush()
    append(log, b"later")
    job.run()
    assert log.recovery_point == 0
    job.finish()
    assert log.recovery_point == 3
    files.lose_power()
    assert [value for _, value in values_of(open_log(files=files))][:3] == [b"v" * 100] * 3


def test_a_truncation_in_the_middle_of_a_flush_does_not_count_as_synced():
    log = open_log()
    for number in range(4):
        append(log, b"%d" % number)
    job = log.begin_flush()
    job.run()
    log.truncate_to(1)
    append(log, b"other")
    append(log, b"other")
    job.finish()
    assert log.recovery_point <= 1


def test_a_segment_dropped_in_the_middle_of_a_flush_is_no_error():
    files = MemoryFileSystem()
    log = open_log(LogConfig(segment_bytes=300, retention_ms=0), files)
    for _ in range(3):
        append(log, b"v" * 100)
    log.update_high_watermark(3)
    job = log.begin_flush()
    log.apply_retention(NOW_MS + 10)
    job.run()
    job.finish()
    assert log.recovery_point == 3
    # The name of the segment that is left has come meanwhile, and keeps the log's end.
    log.flush()
    assert log.recovery_point == 3
    assert log.begin_flush() is None


def test_epochs_of_earlier_leaders():
    log = open_log()
    append(log, b"a", leader_epoch=1)
    append(log, b"b", leader_epoch=1)
    append(log, b"c", leader_epoch=4)
    assert log.end_offset_for_epoch(1) == (1, 2)
    assert log.end_offset_for_epoch(3) == (1, 2)
    assert log.end_offset_for_epoch(4) == (4, 3)
    assert log.end_offset_for_epoch(5) is None
    log.assign_epoch(6, 3)
    assert log.end_offset_for_epoch(4) == (4, 3)
    assert log.latest() == (3, -1, 6)
    # The new leader never wrote.
    assert not log.truncate_to(3)
    assert log.latest() == (3, -1, 4)


def test_a_disk_that_cannot_write_the_epoch_refuses_the_append():
    files = MemoryFileSystem()
    log = open_log(files=files)
    files.failing["open"] = lambda path: path.name.startswith("leader-epoch")
    with pytest.raises(KafkaStorageError):
        append(log, b"a")
    files.failing.clear()
    assert append(log, b"a").first_offset == 0


def test_preallocated_segments(tmp_path):
    config = LogConfig(segment_bytes=3000, preallocate=True)
    directory = tmp_path / "t-0"

    def open_real(clean):
        return open_partition_log(
            directory, "t", 0, config, RealFileSystem(), ManualClock(NOW_MS), clean_shutdown=clean
        )

    log = open_real(False)
    for number in range(60):
        append(log, b"%d" % number * 50)
    expected = values_of(log)
    assert len(log.segments) > 1
    log.release()
    log = open_real(False)
    assert values_of(log) == expected
    append(log, b"more")
    log.close()
    assert values_of(open_real(True)) == [*expected, (60, b"more")]


def test_a_swap_that_a_stop_interrupted_is_finished():
    files = MemoryFileSystem()
    config = LogConfig(segment_bytes=300)
    log = open_log(config, files)
    for number in range(4):
        append(log, b"%d" % number * 100)
    assert log.segments.bases == [0, 1, 2, 3]
    log.close()
    # The cleaner had merged the first two segments into one with only the second record.
    kept = log.segments[1].pread(log.segments[1].size, 0)
    (swap := files.open(DIRECTORY / "00000000000000000000.log.swap", create=True)).pwrite([kept], 0)
    assert swap.size()
    # And had begun with the third.
    files.open(DIRECTORY / "00000000000000000002.log.cleaned", create=True)
    files.open(DIRECTORY / "00000000000000000001.log.deleted", create=True)
    files.open(DIRECTORY / "leader-epoch-checkpoint.tmp", create=True)
    log = open_log(config, files, clean_shutdown=True)
    assert [offset for offset, _ in values_of(log)] == [1, 2, 3]
    assert log.segments.bases == [0, 2, 3]
    left = [path.name for path in files.files if path.suffix in (".swap", ".cleaned", ".deleted", ".tmp")]
    assert left == []


def test_orphaned_indexes_and_snapshots_are_removed():
    files = MemoryFileSystem()
    log = open_log(files=files)
    append(log, b"a")
    log.close()
    for name in (
        "00000000000000000050.index",
        "00000000000000000050.timeindex",
        "00000000000000000070.snapshot",
    ):
        files.open(DIRECTORY / name, create=True)
    log = open_log(files=files, clean_shutdown=True)
    assert values_of(log) == [(0, b"a")]
    assert sorted(path.name for path in files.files if path.suffix != ".tmp") == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
    ]
