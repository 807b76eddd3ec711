"""All logs of a broker: the data folders, their locks and checkpoints, and the periodic work on them.

A start first looks at everything and changes nothing: when any log is damaged beyond its tail the start is
refused with the folders as they were. What is periodic is a plain method that the broker's timers call.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from odradek.errors import KafkaError, KafkaStorageError
from odradek.log import meta_properties
from odradek.log.checkpoints import CorruptCheckpointError, TopicPartition, read_offsets, write_offsets
from odradek.log.config import LogConfig
from odradek.log.errors import DataDirectoryError, DataDirectoryInUseError, UnsupportedLogError
from odradek.log.file_names import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOCK,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    delete_dir,
    marker_of_dir,
    parse_partition_dir,
    partition_dir,
)
from odradek.log.files import DirectoryLock, FileSystem, LockHeldError
from odradek.log.flushing import FlushJob
from odradek.log.partition_log import PartitionLog
from odradek.log.recovery import RecoveryPlan, plan_recovery
from odradek.log.removing import RemovalJob
from odradek.util.clock import Clock

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN_CONTENT = b'{"version":0,"brokerEpoch":-1}'


@dataclass
class _DataDirectory:
    """One data folder: its lock, and whether the last stop was clean."""

    path: Path
    lock: DirectoryLock
    was_clean: bool = False


@dataclass
class _Found:
    """A partition's folder that a start came upon."""

    topic: str
    partition: int
    config: LogConfig
    plan: RecoveryPlan
    recovery_point: int
    log_start_offset: int
    high_watermark: int


class LogManager:
    """The logs in one or several data folders.

    Making it creates the folders that are missing and locks them: `DataDirectoryInUseError` where another
    broker is at work, `DataDirectoryError` for a folder given twice.

    Attributes: `data_dirs`; `unsupported`: partitions whose folders hold message sets of the old formats;
    they are left alone.
    """

    def __init__(
        self, data_dirs: Sequence[Path], files: FileSystem, clock: Clock, defaults: LogConfig | None = None
    ) -> None:
        self.data_dirs = [Path(path) for path in data_dirs]
        self._files = files
        self._clock = clock
        self.defaults = defaults or LogConfig()
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self.unsupported: dict[TopicPartition, UnsupportedLogError] = {}
        self._deleted: list[tuple[int, Path]] = []
        """Folders of deleted partitions, and when they are to be removed."""
        self._stale: set[TopicPartition] = set()
        """Partitions that checkpoints on the disk may speak of, but that are gone."""
        self._written: dict[Path, dict[TopicPartition, int]] = {}
        """What the checkpoints on the disk say, as far as it was written here."""
        self._dirs: list[_DataDirectory] = []
        if len(set(self.data_dirs)) != len(self.data_dirs):
            raise DataDirectoryError(f"log.dirs names a folder twice: {', '.join(map(str, self.data_dirs))}")
        try:
            for path in self.data_dirs:
                self._dirs.append(_DataDirectory(path, self._lock(path)))
        except BaseException:
            self.unlock()
            raise

    def _lock(self, path: Path) -> DirectoryLock:
        try:
            self._files.make_dirs(path)
            return self._files.lock(path / LOCK)
        except LockHeldError as error:
            raise DataDirectoryInUseError(path / LOCK, error.holder_pid) from None
        except OSError as error:
            raise DataDirectoryError(f"the data folder {path} cannot be used: {error}") from error

    def unlock(self) -> None:
        """Let go of the folders without writing anything, as when a start fails."""
        for log in self._logs.values():
            log.release()
        for directory in self._dirs:
            directory.lock.release()
        self._dirs.clear()

    # Identity.

    def stored_cluster_id(self) -> str | None:
        """The cluster id that a folder's `meta.properties` names. Raises `InconsistentIdentityError`."""
        for path in self.data_dirs:
            meta = meta_properties.read(self._files, path / META_PROPERTIES)
            if meta is not None and meta.cluster_id is not None:
                return meta.cluster_id
        return None

    def stored_broker_id(self) -> int | None:
        """The broker id that a folder's `meta.properties` names. Raises `InconsistentIdentityError`."""
        for path in self.data_dirs:
            meta = meta_properties.read(self._files, path / META_PROPERTIES)
            if meta is not None and meta.broker_id is not None:
                return meta.broker_id
        return None

    def check_identity(self, broker_id: int, cluster_id: str | None) -> None:
        """Compare the folders' `meta.properties` with who we are, then write what is missing.

        Raises `InconsistentIdentityError`, nothing being written then; `DataDirectoryError`.
        """
        paths = [path / META_PROPERTIES for path in self.data_dirs]
        metas = [(path, meta_properties.read(self._files, path)) for path in paths]
        for _, meta in metas:
            if meta is not None:
                meta_properties.check(meta, broker_id, cluster_id)
        for path, meta in metas:
            if meta is None or (meta.cluster_id is None and cluster_id is not None):
                now_ms = self._clock.now_ms()
                try:
                    meta_properties.write(self._files, path, broker_id, cluster_id, now_ms, meta)
                except OSError as error:
                    raise DataDirectoryError(f"{path} cannot be written: {error}") from error

    # Loading.

    def load(self, topic_configs: Mapping[str, Mapping[str, str]] | None = None) -> list[PartitionLog]:
        """Open all logs; `topic_configs` are the topics' own configs.

        Raises `LogDamagedError` or another `DataDirectoryError`, the logs being as they were.
        """
        configs = dict(topic_configs or {})
        try:
            found = [item for directory in self._dirs for item in self._look(directory, configs)]
            self._refuse_duplicates(found)
            for directory in self._dirs:
                # From here on only a clean stop makes it clean again.
                self._files.remove(directory.path / CLEAN_SHUTDOWN)
            for item in found:
                self._open(item)
            unclean = sum(bool(item.plan.scans) for item in found)
            if found:
                logger.info("loaded %d logs, %d of them read through after a stop", len(found), unclean)
            self._stale.difference_update(self._logs)
        except OSError as error:
            raise DataDirectoryError(f"loading the logs failed: {error}") from error
        return list(self._logs.values())

    def _look(self, directory: _DataDirectory, configs: Mapping[str, Mapping[str, str]]) -> Iterator[_Found]:
        path = directory.path
        directory.was_clean = self._files.exists(path / CLEAN_SHUTDOWN)
        recovery_points = self._read_checkpoint(path / RECOVERY_POINTS)
        log_starts = self._read_checkpoint(path / LOG_START_OFFSETS)
        high_watermarks = self._read_checkpoint(path / HIGH_WATERMARKS)
        for name in self._files.list(path):
            folder = path / name
            if not self._files.is_dir(folder):
                continue
            marker = marker_of_dir(name)
            if marker == "delete":
                self._deleted.append((self._clock.now_ms() + self.defaults.file_delete_delay_ms, folder))
                continue
            key = parse_partition_dir(name)
            if key is None:
                logger.info("%s is left alone: %s", folder, marker or "no partition's folder")
                continue
            config = LogConfig.from_topic(configs.get(key[0], {}), self.defaults)
            recovery_point = recovery_points.get(key, 0)
            try:
                plan = plan_recovery(
                    self._files, folder, config, clean=directory.was_clean, recovery_point=recovery_point
                )
            except UnsupportedLogError as error:
                logger.warning("%s-%d is not served: %s", *key, error)
                self.unsupported[key] = error
                continue
            yield _Found(
                *key, config, plan, recovery_point, log_starts.get(key, 0), high_watermarks.get(key, 0)
            )

    def _read_checkpoint(self, path: Path) -> dict[TopicPartition, int]:
        try:
            offsets = read_offsets(self._files, path)
            self._stale.update(offsets)
            return offsets
        except CorruptCheckpointError as error:
            logger.warning("going on without %s: %s", path.name, error)
            return {}

    def _refuse_duplicates(self, found: list[_Found]) -> None:
        seen: dict[TopicPartition, Path] = {}
        for item in found:
            other = seen.setdefault((item.topic, item.partition), item.plan.directory)
            if other is not item.plan.directory:
                raise DataDirectoryError(
                    f"{item.topic}-{item.partition} is in both {other} and {item.plan.directory}. "
                    f"Move the folder away that is not the newer one."
                )

    def _open(self, item: _Found) -> None:
        log = PartitionLog.from_plan(
            item.plan,
            item.topic,
            item.partition,
            item.config,
            self._files,
            self._clock,
            item.recovery_point,
            item.log_start_offset,
        )
        log.update_high_watermark(item.high_watermark)
        self._logs[item.topic, item.partition] = log

    # Logs.

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """A partition's log, if there is one."""
        return self._logs.get((topic, partition))

    def all(self) -> list[PartitionLog]:
        """All logs."""
        return list(self._logs.values())

    def create(
        self, topic: str, partition: int, config: LogConfig | None = None, topic_id: bytes | None = None
    ) -> PartitionLog:
        """A partition's log, made if it does not exist, in the data folder that has the fewest.

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        key = (topic, partition)
        if key in self.unsupported:
            raise KafkaStorageError(str(self.unsupported[key]))
        log = self._logs.get(key)
        if log is None:
            if key in self._stale:
                # What the checkpoints say is of a partition of this name that was deleted.
                self.checkpoint()
            directory = self._emptiest() / partition_dir(topic, partition)
            try:
                log = PartitionLog.open(
                    directory, topic, partition, config or self.defaults, self._files, self._clock
                )
            except OSError as error:
                raise KafkaStorageError(f"creating {directory} failed: {error}") from error
            self._logs[key] = log
        elif config is not None:
            log.config = config
        if topic_id is not None:
            log.set_topic_id(topic_id)
        return log

    def _emptiest(self) -> Path:
        counts = dict.fromkeys((directory.path for directory in self._dirs), 0)
        for log in self._logs.values():
            counts[log.directory.parent] += 1
        return min(counts, key=lambda path: counts[path])

    def delete(self, topic: str, partition: int) -> bool:
        """Take a log out; its folder goes after `file.delete.delay.ms`. Whether there was one.

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        log = self._logs.get((topic, partition))
        if log is None:
            return False
        target = log.directory.parent / delete_dir(topic, partition, uuid4())
        try:
            log.release()
            self._files.rename(log.directory, target)
            self._files.fsync_dir(target.parent)
        except OSError as error:
            raise log.storage_error("deleting", error) from error
        del self._logs[topic, partition]
        self._deleted.append((self._clock.now_ms() + log.config.file_delete_delay_ms, target))
        self._stale.add((topic, partition))
        return True

    # Periodic work. A failure of one log does not keep the others from being looked after.

    def apply_retention(self, now_ms: int) -> int:
        """Drop segments that are due, in all logs; how many. Their files go with `begin_removals`."""
        dropped = 0
        for log in self.all():
            try:
                dropped += log.apply_retention(now_ms)
            except KafkaError:
                continue
        return dropped

    def begin_removals(self, now_ms: int) -> RemovalJob:
        """What is to be removed now: dropped segments and deleted partitions whose time has come."""
        folders = [path for at_ms, path in self._deleted if at_ms <= now_ms]
        self._deleted = [entry for entry in self._deleted if entry[0] > now_ms]
        paths = [path for log in self.all() for path in log.take_due_files(now_ms)]
        return RemovalJob(self._files, paths, folders)

    def finish_removals(self, job: RemovalJob, now_ms: int) -> None:
        """Take note of what could not be removed: it is due again."""
        self._deleted += [(now_ms, path) for path in job.left]

    def remove_deleted(self, now_ms: int) -> int:
        """Remove what is due; how many files and folders."""
        job = self.begin_removals(now_ms)
        removed = job.run()
        self.finish_removals(job, now_ms)
        return removed

    def flush_dirty(self, now_ms: int) -> int:
        """Sync the logs that `flush.ms` is up for, and segments that are complete; how many logs."""
        jobs = self.begin_flushes(now_ms)
        for job in jobs:
            job.run()
        return self.finish_flushes(jobs)

    def begin_flushes(self, now_ms: int) -> list[FlushJob]:
        """What `flush_dirty` would sync. `run` may be called in another thread, `finish_flushes` after it."""
        jobs = []
        for log in self.all():
            try:
                job = log.begin_flush(whole_segments_only=not log.is_flush_overdue(now_ms))
            except KafkaError:
                continue
            if job is not None:
                jobs.append(job)
        return jobs

    def finish_flushes(self, jobs: Sequence[FlushJob]) -> int:
        """Take note of what has been synced; how many logs it went well for."""
        flushed = 0
        for job in jobs:
            try:
                job.finish()
                flushed += 1
            except KafkaError:
                continue
        return flushed

    def expire_producers(self, now_ms: int) -> int:
        """Forget idle producers in all logs; how many."""
        return sum(log.expire_producers(now_ms) for log in self.all())

    def checkpoint(self) -> None:
        """Write down recovery points, log starts and high watermarks, per data folder."""
        for directory in self._dirs:
            logs = {key: log for key, log in self._logs.items() if log.directory.parent == directory.path}
            recovery_points = {key: log.recovery_point for key, log in logs.items()}
            high_watermarks = {key: log.high_watermark for key, log in logs.items()}
            log_starts = {
                key: log.log_start_offset
                for key, log in logs.items()
                if log.log_start_offset > log.segments[0].base_offset
            }
            for name, offsets in (
                (RECOVERY_POINTS, recovery_points),
                (LOG_START_OFFSETS, log_starts),
                (HIGH_WATERMARKS, high_watermarks),
            ):
                if not self._write_checkpoint(directory.path / name, offsets):
                    return
        self._stale.clear()

    def checkpoint_log_starts(self) -> None:
        """Write down the log starts, so that deleted records stay deleted."""
        self.checkpoint()

    def _write_checkpoint(self, path: Path, offsets: dict[TopicPartition, int]) -> bool:
        if self._written.get(path) == offsets:
            return True
        self._written.pop(path, None)
        try:
            # High watermarks change with every append and are found again: no need to wait for the disk.
            write_offsets(self._files, path, offsets, sync=path.name != HIGH_WATERMARKS)
        except OSError as error:
            logger.error("writing %s failed: %s", path, error)
            return False
        self._written[path] = offsets
        return True

    def close(self) -> bool:
        """Stop in good order; whether every log could be closed, so that the next start may trust them."""
        failed: set[Path] = set()
        for log in self.all():
            try:
                log.close()
            except KafkaError:
                failed.add(log.directory.parent)
        self.checkpoint()
        for directory in self._dirs:
            if directory.path in failed:
                continue
            try:
                self._files.write_atomically(directory.path / CLEAN_SHUTDOWN, CLEAN_SHUTDOWN_CONTENT)
            except OSError as error:
                logger.error("the stop of %s is not marked as clean: %s", directory.path, error)
                failed.add(directory.path)
        self.unlock()
        return not failed
