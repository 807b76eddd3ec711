"""Folders that Kafka left: what we find in them is what Kafka says is in them, and nothing is harmed."""

from __future__ import annotations

import pytest

from odradek.errors import UnsupportedForMessageFormatError

from ..golden_folders import GoldenFolder, expected_records, has_old_format, read_all

CLEAN = [
    "kafka-2.2.2-clean",
    "kafka-3.9.1-clean",
    "kafka-2.2.2-killed-recovered",
    "kafka-3.9.1-killed-recovered",
]
KILLED = ["kafka-2.2.2-killed", "kafka-3.9.1-killed"]
CLUSTER = [f"kafka-{v}-cluster-broker{n}" for v in ("2.2.2", "3.9.1") for n in (2, 3)]
OLD = ["kafka-0.8.2.2-clean", "kafka-0.10.2.2-clean"]
HAVE_OLD_FORMATS = [*OLD, "kafka-2.2.2-clean", "kafka-2.2.2-killed", "kafka-2.2.2-killed-recovered"]


def _name(log):
    return f"{log.topic}-{log.partition}"


def _check_view(log, view, records):
    """What ListOffsets and DescribeProducers answered.

    Kafka finds no record by time behind an empty segment that compaction left; we do.
    """
    log.update_high_watermark(log.log_end_offset)
    assert log.log_start_offset == view["earliest"]
    assert log.log_end_offset == view["latest"]
    assert log.last_stable_offset == view["last_stable"]
    for asked in view["by_time"]:
        if "error" in asked:
            with pytest.raises(UnsupportedForMessageFormatError):
                log.offset_for_timestamp(asked["ask"])
            assert asked["error"] == "UnsupportedForMessageFormatException"
            continue
        found = log.offset_for_timestamp(asked["ask"])
        answer = (found.offset, found.timestamp) if found else (-1, -1)
        newer = ((r.offset, r.timestamp) for r in records if r.timestamp >= asked["ask"])
        assert answer in ((asked["offset"], asked["timestamp"]), next(newer, None)), asked
    if "max_timestamp_offset" in view:
        found = log.max_timestamp()
        expected = (view["max_timestamp_offset"], view.get("max_timestamp", -1))
        answer = (found.offset, found.timestamp) if found else (-1, -1)
        if expected[0] < view["earliest"]:
            # Kafka tells of a record that was deleted.
            newest = max(((r.timestamp, -r.offset) for r in records), default=(-1, 1))
            expected = (-newest[1], newest[0])
        assert answer == expected
    if "producers" in view:
        ours = sorted(
            (e.producer_id, e.epoch, e.last_sequence, e.last_timestamp, e.txn_first_offset)
            for e in log.producers.entries.values()
        )
        theirs = sorted(
            (p["producer_id"], p["epoch"], p["last_sequence"], p["last_timestamp"], p.get("txn_start", -1))
            for p in view["producers"]
        )
        assert ours == theirs


@pytest.mark.parametrize("archive", CLEAN + KILLED + CLUSTER + OLD)
def test_every_record_and_offset_is_found(archive, tmp_path):
    golden = GoldenFolder(archive, tmp_path)
    manager = golden.manager()
    logs = {_name(log): log for log in manager.load(golden.topic_configs())}
    checked = old = 0
    for partition in golden.expected_partitions():
        expected = golden.expected(partition)
        if partition not in logs:
            continue
        old += has_old_format(expected)
        log = logs[partition]
        records = expected_records(expected, log.log_start_offset, log.log_end_offset)
        view = expected.get("broker_view")
        if view:
            _check_view(log, view, records)
        assert read_all(log, 700) == records
        assert read_all(log, 1 << 20) == records
        if records:
            assert records[-1].offset < log.log_end_offset
        checked += 1
    assert checked >= 5
    assert old or archive not in HAVE_OLD_FORMATS
    manager.close()


@pytest.mark.parametrize("archive", CLEAN)
def test_a_clean_folder_is_left_as_kafka_left_it(archive, tmp_path):
    """Loading and closing changes no file of a log, but for those that waited to be removed."""
    golden = GoldenFolder(archive, tmp_path)
    manager = golden.manager()
    logs = manager.load(golden.topic_configs())
    assert manager.close()
    for log in logs:
        before = golden.originals(_name(log))
        kept = {name: content for name, content in before.items() if not name.endswith(".deleted")}
        useful = {*log.segments.bases, log.log_end_offset}
        for name in [name for name in kept if name.endswith(".snapshot")]:
            if int(name.split(".")[0]) not in useful or int(name.split(".")[0]) < log.log_start_offset:
                del kept[name]
        after = {path.name: path.read_bytes() for path in log.directory.iterdir()}
        assert after == kept, log
    assert (golden.data / "meta.properties").read_bytes() == golden.original("meta.properties")


@pytest.mark.parametrize("archive", ["kafka-2.2.2-torn", "kafka-3.9.1-torn"])
def test_a_damaged_folder_is_recovered_as_kafka_recovers_it(archive, tmp_path):
    golden = GoldenFolder(archive, tmp_path)
    manager = golden.manager()
    logs = {_name(log): log for log in manager.load(golden.topic_configs())}
    after = golden.about["after_recovery"]
    checked = 0
    for partition, damage in golden.about["damage"].items():
        if partition not in logs:
            continue
        log = logs[partition]
        records = expected_records(golden.expected(partition), log.log_start_offset, log.log_end_offset)
        view = after["views"].get(partition)
        if view:
            _check_view(log, view, records)
        checked += 1
        assert read_all(log, 1 << 20) == records, damage
    assert checked >= 20
    assert manager.close()
    for name, size in after["files"].items():
        folder, _, file = name.partition("/")
        if folder not in logs or not file.endswith((".log", ".index", ".timeindex", ".txnindex")):
            continue
        # Kafka 2.2 leaves the indexes empty that it found missing below the recovery point.
        if size or file.endswith(".log"):
            assert (golden.data / name).stat().st_size == size, name
