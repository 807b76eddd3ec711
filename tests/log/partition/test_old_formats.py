"""Logs of message sets: what follows damage, truncation, searching, and a format that changes on the way."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.errors import InvalidRecordError, OffsetOutOfRangeError, UnsupportedForMessageFormatError
from odradek.log import LogConfig, LogDamagedError, RealFileSystem
from odradek.log.config import magic_of_release, record_magic
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.records.batch import Record, TimestampType
from odradek.records.builder import build_batch
from odradek.records.compression import Codec
from odradek.records.message_sets.message_set import iter_all_records, iter_entries
from odradek.util.clock import ManualClock
from records.message_set_builder import MessageSetBuilder
from seeds import each_seed

from ..following import append_follower
from ..golden_folders import GoldenFolder, expected_records, read_all

OLD = [
    ("kafka-0.8.2.2-clean", "old-none-0"),
    ("kafka-0.8.2.2-clean", "old-snappy-0"),
    ("kafka-0.10.2.2-clean", "m0-none-0"),
    ("kafka-0.10.2.2-clean", "m1-none-0"),
    ("kafka-0.10.2.2-clean", "m1-lz4-0"),
    ("kafka-2.2.2-clean", "mixed-magic-0"),
]


def open_log(directory, clean=False, recovery_point=0, **config):
    topic, _, partition = directory.name.rpartition("-")
    return open_partition_log(
        directory,
        topic,
        int(partition),
        LogConfig(**config),
        RealFileSystem(),
        ManualClock(1_700_000_000_000),
        clean_shutdown=clean,
        recovery_point=recovery_point,
    )


def last_segment(directory):
    return max(directory.glob("*.log"))


@pytest.mark.parametrize(("archive", "partition"), OLD)
def test_recovery_finds_the_same_records(archive, partition, tmp_path):
    golden = GoldenFolder(archive, tmp_path)
    directory = golden.data / partition
    log = open_log(directory)
    records = expected_records(golden.expected(partition), 0, 2**63)
    assert read_all(log, 500) == records
    log.close()
    again = open_log(directory, clean=True, recovery_point=log.log_end_offset)
    assert read_all(again, 500) == records


@pytest.mark.parametrize(("archive", "partition"), OLD)
def test_a_torn_message_is_cut(archive, partition, tmp_path):
    golden = GoldenFolder(archive, tmp_path)
    directory = golden.data / partition
    path = last_segment(directory)
    entries = [(header, len(raw)) for header, raw in iter_entries(path.read_bytes())]
    whole = path.read_bytes()
    for cut in (1, 11, 12, 17, entries[-1][1] - 1):
        path.write_bytes(whole[: len(whole) - entries[-1][1] + cut])
        log = open_log(directory)
        assert log.log_end_offset == (
            entries[-2][0].last_offset + 1 if len(entries) > 1 else int(path.name.split(".")[0])
        )
        log.close()


@pytest.mark.parametrize(("archive", "partition"), OLD)
@pytest.mark.parametrize("zeros", [False, True])
def test_damage_before_valid_messages_is_refused(archive, partition, zeros, tmp_path):
    golden = GoldenFolder(archive, tmp_path)
    directory = golden.data / partition
    path = max(directory.glob("*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    sizes = [len(raw) for _, raw in iter_entries(bytes(data))]
    if zeros:
        data[sizes[0] : sizes[0] + sizes[1]] = bytes(sizes[1])
    else:
        data[sizes[0] + sizes[1] - 1] ^= 0x20
    path.write_bytes(data)
    with pytest.raises(LogDamagedError, match="valid batches go on"):
        open_log(directory)
    assert path.read_bytes() == bytes(data)


@pytest.mark.parametrize(("archive", "partition"), OLD)
def test_truncation_ends_at_a_message(archive, partition, tmp_path):
    golden = GoldenFolder(archive, tmp_path)
    records = expected_records(golden.expected(partition), 0, 2**63)
    log = open_log(golden.data / partition)
    offset = records[len(records) // 2].offset
    log.truncate_to(offset)
    kept = read_all(log, 1 << 20)
    assert kept == records[: len(kept)]
    # A wrapper goes as a whole.
    assert log.log_end_offset == offset
    assert offset - len(kept) < 80
    assert not kept or kept[-1].offset < offset
    found = log.max_timestamp()
    newest = max((record.timestamp for record in kept), default=-1)
    assert (found.timestamp if found else -1) == newest


def test_the_format_of_a_release():
    magics = {
        "0.8.2": 0,
        "0.9.0": 0,
        "0.9.0.1": 0,
        "0.10.0-IV0": 1,
        "0.10.2.2": 1,
        "0.11.0-IV0": 2,
        "1.0": 2,
        "3.0-IV1": 2,
    }
    assert {release: magic_of_release(release) for release in magics} == magics
    assert record_magic("0.10.0", "2.8-IV1") == 1
    assert record_magic("0.10.0", "3.0-IV0") == 1
    assert record_magic("0.10.0", "3.0") == 2
    assert record_magic("3.0-IV1", "0.9.0") == 0
    assert LogConfig.from_topic({"message.format.version": "0.9.0"}).record_magic == 2
    with pytest.raises(ValueError, match="not a valid version"):
        magic_of_release("new")


NOW_MS = 1_700_000_000_000


def message_set(magic, codec, values, timestamp=NOW_MS):
    builder = MessageSetBuilder(magic, codec)
    for number, value in enumerate(values):
        builder.append(timestamp + number, b"key", value)
    return builder.build()


CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
VERSIONS = {0: "0.9.0", 1: "0.10.2", 2: "2.8"}


def memory_log(files=None, **config):
    clock = ManualClock(NOW_MS)
    config = LogConfig(inter_broker_protocol_version="2.8", **config)
    return open_partition_log(Path("/data/t-0"), "t", 0, config, files or MemoryFileSystem(), clock)


@pytest.mark.parametrize("log_magic", [0, 1, 2])
@pytest.mark.parametrize("append_time", [False, True])
@each_seed(3)
def test_appends_of_every_format_in_a_log_of_every_format(log_magic, append_time, seed):
    chance = random.Random(seed)
    files = MemoryFileSystem()
    config = {
        "message_format_version": VERSIONS[log_magic],
        "message_timestamp_type": "LogAppendTime" if append_time else "CreateTime",
        "segment_bytes": 4000,
        "index_interval_bytes": 200,
        "compression_type": chance.choice(["producer", "gzip", "uncompressed"]),
    }
    log = memory_log(files, **config)
    expected = []
    for number in range(60):
        values = [b"%d-%d" % (number, each) * 9 for each in range(chance.randrange(1, 9))]
        magic, codec = chance.randrange(3), chance.choice(CODECS)
        if magic == 2:
            sent = build_batch([(NOW_MS + i, b"key", v, []) for i, v in enumerate(values)], codec=codec)
        else:
            sent = message_set(magic, codec, values)
        version = chance.randrange(3) if magic < 2 else 9
        info = log.append(sent, leader_epoch=4, now_ms=NOW_MS + 100, produce_version=version)
        assert (info.first_offset, info.last_offset) == (len(expected), len(expected) + len(values) - 1)
        assert info.log_append_time_ms == (NOW_MS + 100 if append_time else -1)
        for each, value in enumerate(values):
            timestamp = NOW_MS + each if magic else -1
            kind = TimestampType.CREATE_TIME
            if append_time:
                timestamp, kind = NOW_MS + 100, TimestampType.LOG_APPEND_TIME
            if log_magic == 0:
                timestamp, kind = -1, TimestampType.NO_TIMESTAMP_TYPE
            expected.append(Record(len(expected), timestamp, kind, b"key", value, ()))
        if number % 20 == 19:
            log.close()
            log = memory_log(files, **config)
    assert len(log.segments) > 1
    log.update_high_watermark(log.log_end_offset)
    for reopened in (log, memory_log(files, **config)):
        for max_bytes in (1, 300, 1 << 20):
            assert read_all(reopened, max_bytes) == expected
        assert {entry[0].magic if hasattr(entry[0], "magic") else 2 for entry in all_entries(reopened)} == {
            log_magic
        }
        for offset in range(len(expected)):
            read = reopened.read(offset, 1, upper_bound=len(expected), min_one_batch=True)
            found = [record.offset for record in iter_all_records(read.records)]
            assert offset in found
            assert read.first_offset >= 0
    if log_magic:
        found = log.offset_for_timestamp(NOW_MS + 1)
        assert found.offset == next(r.offset for r in expected if r.timestamp >= NOW_MS + 1)
        newest = max(record.timestamp for record in expected)
        assert log.max_timestamp()[:2] == (
            next(r.offset for r in expected if r.timestamp == newest),
            newest,
        )
        assert log.offset_for_timestamp(newest + 1) is None
    assert log.epochs.latest == (4 if log_magic == 2 else -1)


def all_entries(log):
    data = b""
    for segment in log.segments:
        data += segment.pread(segment.size, 0)
    return list(iter_entries(data))


def test_an_empty_message_set_is_answered_as_done():
    log = memory_log()
    info = log.append(b"", leader_epoch=0, now_ms=NOW_MS, produce_version=1)
    assert (info.first_offset, info.last_offset, info.log_append_time_ms) == (-1, -1, -1)
    assert log.log_end_offset == 0


def test_messages_are_refused_from_version_3_on():
    log = memory_log()
    sent = message_set(1, Codec.NONE, [b"v"])
    with pytest.raises(InvalidRecordError):
        log.append(sent, leader_epoch=0, now_ms=NOW_MS, produce_version=3)


@pytest.mark.parametrize("log_magic", [0, 1])
def test_a_log_of_messages_takes_no_sequences_and_no_headers(log_magic):
    log = memory_log(message_format_version=VERSIONS[log_magic])
    idempotent = build_batch([(NOW_MS, b"k", b"v", [])], producer_id=5, producer_epoch=0, base_sequence=0)
    with_headers = build_batch([(NOW_MS, b"k", b"v", [("h", b"x")])])
    for sent in (idempotent, with_headers):
        with pytest.raises(UnsupportedForMessageFormatError):
            log.append(sent, leader_epoch=0, now_ms=NOW_MS, produce_version=9)
    assert log.log_end_offset == 0


def test_what_was_prepared_is_made_again_when_the_log_has_grown_or_its_format_has_changed():
    log = memory_log(message_format_version=VERSIONS[0])
    sent = message_set(0, Codec.GZIP, [b"a", b"b"])
    early = log.prepare(sent, now_ms=NOW_MS, produce_version=1)
    log.append(sent, leader_epoch=0, now_ms=NOW_MS, produce_version=1)
    info = log.append_prepared(early, leader_epoch=0, now_ms=NOW_MS)
    assert info.first_offset == 2
    early = log.prepare(sent, now_ms=NOW_MS, produce_version=1)
    log.config = replace(log.config, message_format_version=VERSIONS[2])
    info = log.append_prepared(early, leader_epoch=0, now_ms=NOW_MS)
    assert info.first_offset == 4
    assert [record.offset for record in read_all(log, 1)] == list(range(6))
    assert [type(header).__name__ for header, _ in all_entries(log)] == [
        "MessageHeader",
        "MessageHeader",
        "BatchHeader",
    ]


def test_a_format_that_is_set_back_forgets_the_epochs():
    log = memory_log()
    sent = message_set(0, Codec.NONE, [b"a"])
    log.append(sent, leader_epoch=3, now_ms=NOW_MS, produce_version=1)
    assert log.epochs.latest == 3
    log.config = replace(log.config, message_format_version=VERSIONS[1])
    log.append(sent, leader_epoch=4, now_ms=NOW_MS, produce_version=1)
    assert log.epochs.latest == -1


def test_a_follower_keeps_the_offsets_of_messages(tmp_path):
    golden = GoldenFolder("kafka-2.2.2-clean", tmp_path)
    directory = golden.data / "mixed-magic-0"
    follower = memory_log()
    for path in sorted(directory.glob("*.log")):
        append_follower(follower, path.read_bytes())
    assert read_all(follower, 300) == expected_records(golden.expected("mixed-magic-0"), 0, 2**63)
    with pytest.raises(OffsetOutOfRangeError):
        append_follower(follower, path.read_bytes())


@each_seed(40)
def test_damage_is_never_served(seed, tmp_path):
    """Some bytes of the last segment are cut off, turned over or zeroed: refused, or a prefix is served."""
    chance = random.Random(seed)
    archive, partition = chance.choice(OLD)
    golden = GoldenFolder(archive, tmp_path)
    records = expected_records(golden.expected(partition), 0, 2**63)
    path = last_segment(golden.data / partition)
    data = bytearray(path.read_bytes())
    entries = list(iter_entries(bytes(data)))
    at = chance.randrange(len(data))
    size = min(chance.choice([1, 2, 9, 40, 300]), len(data) - at)
    how = chance.randrange(3)
    if how == 0:
        del data[at:]
    elif how == 1:
        data[at : at + size] = bytes(size)
    else:
        for place in range(at, at + size):
            data[place] ^= 1 << chance.randrange(8)
    changed = bytes(data) != path.read_bytes()
    path.write_bytes(data)
    end, intact = 0, int(path.name.split(".")[0])
    for header, entry in entries:
        end += len(entry)
        if end > at:
            break
        intact = header.last_offset + 1
    try:
        log = open_log(golden.data / partition)
    except LogDamagedError:
        assert how and changed
        assert path.read_bytes() == bytes(data)
        return
    found = read_all(log, 1 << 20)
    # Of the bytes that no CRC covers, the offset can be larger than it was.
    kept = [record for record in records if record.offset < intact]
    assert found[: len(kept)] == kept
    contents = {(record.key, record.value) for record in records}
    assert all((record.key, record.value) in contents for record in found)
