"""A log with keys, and whole passes over it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from odradek.log import LogConfig, PartitionLog
from odradek.log.cleaner import CleanJob, CleanResult, clean_range, make_job, run, swap_in
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.records.batch import BatchHeader, Record, iter_batches
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec
from odradek.util.clock import ManualClock

from .batches import NOW_MS, marker

DIRECTORY = Path("/data/t-0")
CONFIG = LogConfig(
    segment_bytes=700,
    segment_index_bytes=240,
    index_interval_bytes=150,
    file_delete_delay_ms=0,
    cleanup_policy=("compact",),
    delete_retention_ms=1_000,
)
DAY_MS = 24 * 3_600_000


def open_log(
    files: MemoryFileSystem, clock: ManualClock, config: LogConfig = CONFIG, *, clean: bool = False
) -> PartitionLog:
    log = open_partition_log(DIRECTORY, "t", 0, config, files, clock, clean_shutdown=clean)
    log.update_high_watermark(log.log_end_offset)
    return log


def keyed(
    items: list[tuple[bytes | None, bytes | None]],
    *,
    codec: Codec = Codec.NONE,
    timestamp: int = NOW_MS,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    builder = BatchBuilder(
        codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    for number, (key, value) in enumerate(items):
        builder.append(timestamp + number, key, value, [("h", b"v")])
    return builder.build()


def put(log: PartitionLog, data: bytes, **how: object) -> None:
    log.append(data, leader_epoch=0, now_ms=NOW_MS, **how)  # type: ignore[arg-type]
    log.update_high_watermark(log.log_end_offset)


def end_transaction(log: PartitionLog, producer_id: int, *, commit: bool) -> None:
    from odradek.log.producers.producer_state import Origin

    put(log, marker(producer_id, 0, commit=commit), origin=Origin.COORDINATOR)


def clean(
    log: PartitionLog, files: MemoryFileSystem, *, now_ms: int = NOW_MS, dirty_from: int | None = None, **job
) -> CleanResult:
    """One whole pass, the job going through JSON as it does on its way to another process."""
    extent = clean_range(log, dirty_from, now_ms)
    planned = replace(make_job(log, extent, now_ms), **job)
    planned = CleanJob.from_json(planned.to_json())
    result = CleanResult.from_json(run(files, planned).to_json())
    assert swap_in(log, planned, result, now_ms)
    return result


def headers_of(log: PartitionLog) -> list[BatchHeader]:
    found = []
    for segment in log.segments:
        found += [header for header, _ in iter_batches(segment.pread(segment.size, 0))]
    return found


def plain(records: list[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]
