"""Logs of message sets: what follows damage, truncation, searching, and a format that changes on the way."""

from __future__ import annotations

import pytest

from odradek.log import LogConfig, LogDamagedError, PartitionLog, RealFileSystem
from odradek.log.message_format import magic_of_release, record_magic
from odradek.records.message_set import iter_entries
from odradek.util.clock import ManualClock

from .golden_folders import GoldenFolder, expected_records, read_all

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
    return PartitionLog.open(
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
