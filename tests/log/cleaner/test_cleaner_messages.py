"""Compaction of logs that hold messages of magic 0 and 1, alone and before batches."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from odradek.errors import KafkaError
from odradek.log import LogConfig, PartitionLog
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.records.compression import Codec
from odradek.records.message_sets.message_set import iter_entries
from odradek.util.clock import ManualClock
from records.message_set_builder import MessageSetBuilder
from seeds import each_seed

from ..batches import NOW_MS
from ..cleaning import CONFIG, clean, keyed, open_log
from ..following import append_follower
from ..golden_folders import GoldenFolder, read_all

VERSIONS = {0: "0.9.0", 1: "0.10.2", 2: "2.8"}


def config_of(magic: int, **changes) -> LogConfig:
    return replace(
        CONFIG,
        inter_broker_protocol_version="2.8",
        message_format_version=VERSIONS[magic],
        segment_bytes=1500,
        **changes,
    )


def put_messages(log: PartitionLog, magic: int, codec: Codec, items) -> None:
    builder = MessageSetBuilder(magic, codec)
    for number, (key, value) in enumerate(items):
        builder.append(NOW_MS + number, key, value)
    log.append(builder.build(), leader_epoch=0, now_ms=NOW_MS, produce_version=2)
    log.update_high_watermark(log.log_end_offset)


@each_seed(8)
@pytest.mark.parametrize("append_time", [False, True])
def test_of_each_key_the_newest_stays(seed: int, append_time: bool) -> None:
    chance = random.Random(seed)
    files, clock = MemoryFileSystem(), ManualClock(NOW_MS)
    magic = chance.randrange(2)
    more = {"message_timestamp_type": "LogAppendTime" if append_time else "CreateTime"}
    log = open_log(files, clock, config_of(magic, **more))
    dirty = None
    for _ in range(3):
        for _ in range(25):
            items = [
                (b"k%d" % chance.randrange(12), b"v%d" % chance.randrange(999) * chance.randrange(1, 9))
                for _ in range(chance.randrange(1, 9))
            ]
            codec = chance.choice([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
            put_messages(log, min(magic, 1), codec, items)
        before = read_all(log, 1 << 20)
        active = log.segments.active.base_offset
        result = clean(log, files, dirty_from=dirty)
        dirty = result.end_offset
        newest = {record.key: record.offset for record in before if record.offset < active}
        expected = [r for r in before if r.offset >= active or newest[r.key] == r.offset]
        assert read_all(log, 1 << 20) == expected
        assert read_all(log, 200) == expected
        log = open_log(files, clock, log.config)
        assert read_all(log, 200) == expected
        assert result.records_kept == len([r for r in expected if r.offset < active])
        for offset in range(log.log_end_offset):
            read = log.read(offset, 1, upper_bound=log.log_end_offset, min_one_batch=True)
            assert not read.records or max(h.last_offset for h, _ in iter_entries(read.records)) >= offset
        magic = min(magic + 1, 2)
        log.config = config_of(magic, **more)


def test_records_without_a_key_go() -> None:
    files = MemoryFileSystem()
    log = open_log(files, ManualClock(NOW_MS), replace(config_of(1), cleanup_policy=("delete",)))
    put_messages(log, 1, Codec.GZIP, [(None, b"1"), (b"a", b"2"), (None, b"3")])
    put_messages(log, 1, Codec.NONE, [(None, b"4")])
    log.roll(NOW_MS)
    log.config = config_of(1)
    result = clean(log, files)
    assert result.keyless == 3
    assert [(r.offset, r.value) for r in read_all(log, 1 << 20)] == [(1, b"2")]


@pytest.mark.parametrize(("later_ms", "stays"), [(1_000, False), (999, True)])
def test_tombstones_go_when_the_clean_part_is_young_enough(later_ms: int, stays: bool) -> None:
    files = MemoryFileSystem()
    log = open_log(files, ManualClock(NOW_MS), config_of(1))
    large = b"x" * 1000
    for key in (b"1", b"2", b"3"):
        put_messages(log, 1, Codec.NONE, [(b"a" + key, None), (key, large)])
        log.roll(NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]
    for segment, modified_ms in zip(log.segments, (0, later_ms, 2 * later_ms), strict=False):
        files.set_modified_ms(segment.path, NOW_MS + modified_ms)
    clean(log, files, dirty_from=4)
    found = [record.offset for record in read_all(log, 1 << 20)]
    # The first segment was written to `delete.retention.ms` before the last one that is clean.
    assert found == ([0, 1, 2, 3, 4, 5] if stays else [1, 2, 3, 4, 5])


def test_damage_is_not_copied() -> None:
    files = MemoryFileSystem()
    log = open_log(files, ManualClock(NOW_MS), config_of(0))
    for number in range(5):
        put_messages(log, 0, Codec.NONE, [(b"k", b"v%d" % number)])
    log.roll(NOW_MS)
    file = files.open(log.segments[0].path)
    file.pwrite([b"\xff"], 57)
    with pytest.raises(KafkaError, match="CRC"):
        clean(log, files)


def test_a_log_of_all_formats(tmp_path) -> None:
    """Every message of Kafka's that comes before a batch of the same key goes."""
    golden = GoldenFolder("kafka-2.2.2-clean", tmp_path)
    files = MemoryFileSystem()
    log = open_log(files, ManualClock(NOW_MS), replace(config_of(2), segment_bytes=100_000))
    for path in sorted((golden.data / "mixed-magic-0").glob("*.log")):
        append_follower(log, path.read_bytes())
    log.update_high_watermark(log.log_end_offset)
    log.roll(NOW_MS)
    before = [record for record in read_all(log, 1 << 20) if record.key is not None]
    for segment in log.segments:
        files.set_modified_ms(segment.path, NOW_MS)
    clean(log, files)
    newest = {record.key: record.offset for record in before}
    assert read_all(log, 1 << 20) == [r for r in before if newest[r.key] == r.offset]
    log.append(keyed([(b"x", b"y")]), leader_epoch=0, now_ms=NOW_MS)
