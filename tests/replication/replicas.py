"""A partition over a log in memory, led by this broker, with others that follow."""

from __future__ import annotations

from pathlib import Path

from odradek.log.config import LogConfig
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.records.builder import BatchBuilder
from odradek.replication.partition import Partition
from odradek.util.clock import ManualClock

ME, SECOND, THIRD = 1, 2, 3
NOW = 1_700_000_000_000


def batch(count: int = 1, timestamp: int = NOW) -> bytes:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(timestamp + number, b"key%d" % number, b"value", ())
    return builder.build()


def make(config: LogConfig | None = None) -> tuple[Partition, list[tuple[str, int]]]:
    clock = ManualClock(NOW)
    files = MemoryFileSystem()
    log = open_partition_log(Path("/data/t-0"), "t", 0, config or LogConfig(), files, clock)
    progress: list[tuple[str, int]] = []
    return Partition(log, topic="t", index=0, broker_id=ME, on_progress=progress.append), progress


def lead(
    partition: Partition,
    epoch: int = 0,
    replicas: tuple[int, ...] = (ME,),
    isr: tuple[int, ...] | None = None,
) -> bool:
    return partition.make_leader(
        epoch, replicas=replicas, isr=isr if isr is not None else replicas, partition_epoch=0, now_ms=NOW
    )


def append(partition: Partition, count: int = 1, acks: int = 1) -> int:
    return partition.append(batch(count), required_acks=acks, now_ms=NOW).last_offset


def follow(partition: Partition, replica: int, offset: int, now_ms: int = NOW) -> None:
    partition.record_follower_fetch(replica, fetch_offset=offset, log_start_offset=0, now_ms=now_ms)
