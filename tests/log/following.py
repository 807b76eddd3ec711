"""A log as its follower, its cleaner and its folder's housekeeping use it, in one call each."""

from __future__ import annotations

from odradek.log import AppendInfo, LogManager, PartitionLog
from odradek.records.message_sets.message_set import iter_entries


def append_follower(log: PartitionLog, records: bytes, *, now_ms: int | None = None) -> AppendInfo | None:
    """Append what a leader sent, up to where it is cut off."""
    entries = list(iter_entries(records))
    size = sum(len(entry) for _, entry in entries)
    return log.append_entries(memoryview(records)[:size], entries, now_ms=now_ms)


def remove_due_files(log: PartitionLog, now_ms: int) -> int:
    """Remove the files whose time has come; how many."""
    due = log.take_due_files(now_ms)
    for path in due:
        log.files.remove(path)
    return len(due)


def remove_deleted(manager: LogManager, now_ms: int) -> int:
    """Remove the files and folders whose time has come; how many."""
    job = manager.removals.begin(now_ms)
    removed = job.run()
    manager.removals.finish(job, now_ms)
    return removed


def flush_dirty(manager: LogManager, now_ms: int) -> int:
    """Sync what is to be synced now; how many logs."""
    jobs = manager.begin_flushes(now_ms)
    for job in jobs:
        job.run()
    return manager.finish_flushes(jobs)
