"""Written again from the same appends, a log is the files that Kafka wrote, byte for byte."""

from __future__ import annotations

import pytest

from odradek.log import LogConfig, RealFileSystem
from odradek.log.startup.loading import open_partition_log
from odradek.records.batch import iter_batches
from odradek.util.clock import ManualClock

from ..following import append_follower
from ..golden_folders import GoldenFolder

# Partitions of which every batch is one append of a broker that was not stopped in between: not those that
# the cleaner or retention went over.
PARTITIONS = [
    "m2-none-0", "m2-gzip-0", "m2-snappy-0", "m2-lz4-0", "m2-zstd-0", "m2-none-append-0", "m2-zstd-append-0",
    "m2-broker-lz4-0", "m2-broker-uncompressed-0", "disorder-0", "a-0-1-0", "dot.and_under-0", "large-0",
    "idem-0", "idem-1", "txn-a-0", "txn-b-0", "g-one-0", "g-two-0", "g-two-1",
]  # fmt: skip
OTHERWISE = (".timeindex", ".snapshot")


@pytest.mark.parametrize("version", ["2.2.2", "3.9.1"])
@pytest.mark.parametrize("partition", PARTITIONS)
def test_the_same_appends_make_the_same_files(version, partition, tmp_path):
    golden = GoldenFolder(f"kafka-{version}-clean", tmp_path / "golden")
    originals = golden.originals(partition)
    topic, _, index = partition.rpartition("-")
    config = LogConfig.from_topic(golden.topic_configs()[topic], golden.defaults())
    clock = ManualClock(golden.about["made_at_ms"])
    log = open_partition_log(tmp_path / partition, topic, int(index), config, RealFileSystem(), clock)
    for name in sorted(name for name in originals if name.endswith(".log")):
        for _, batch in iter_batches(originals[name]):
            append_follower(log, batch)
    log.close()
    written = {path.name: path.read_bytes() for path in log.directory.iterdir()}
    if version == "2.2.2":
        # That release writes the time index with the record's own offset, not the batch's last one, and in
        # its snapshots the producers stand in another order and a marker does not count as a sign of life.
        originals = {name: data for name, data in originals.items() if not name.endswith(OTHERWISE)}
        written = {name: data for name, data in written.items() if not name.endswith(OTHERWISE)}
    originals.pop("partition.metadata", None)
    assert sorted(written) == sorted(originals)
    different = [name for name in originals if written[name] != originals[name]]
    assert different == []
