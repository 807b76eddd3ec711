"""All logs of a broker: the data folders, their locks and checkpoints, and the periodic work on them.

It makes the parts that know the rest, and hands them to each other. What is periodic is a plain method that
the broker's timers call.

A folder whose disk fails goes offline, alone and until the next start: its logs are gone from here, what is
asked of them is answered with KAFKA_STORAGE_ERROR, and whoever set `on_failure` is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from odradek.errors import KafkaError, KafkaStorageError
from odradek.log.config import LogConfig
from odradek.log.folders.checkpointing import Checkpoints
from odradek.log.folders.data_directories import DataDirectories
from odradek.log.folders.log_loader import LogLoader
from odradek.log.folders.meta_properties import Identity
from odradek.log.folders.moves import Moves
from odradek.log.folders.offline_logs import OfflineLogs
from odradek.log.folders.placement import Placement
from odradek.log.folders.removing import Removals
from odradek.log.folders.taken_out import TakenOut
from odradek.log.partition.flushing import FlushJob
from odradek.log.partition.partition_log import PartitionLog
from odradek.log.partition.readable_log import ReadableLog
from odradek.log.producers.producer_bounds import ProducerBounds
from odradek.log.startup.clean_stop import write_clean_stop
from odradek.log.startup.damaged_logs import DamagedLogs
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.data_directory import DirectoryState, ReplicaState
from odradek.log.storage.file_names import delete_dir, stray_dir
from odradek.log.storage.files import FileSystem
from odradek.util.clock import Clock
from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

FailureListener = Callable[[Path, list[TopicPartition], str], None]
"""Called with the folder that failed, the partitions that are gone with it, and the reason."""


class LogManager:
    """The logs in one or several data folders.

    The data folders are made, and locked.

    Attributes: `directories`, of which `data_dirs` are the paths; `on_failure`: told when one goes offline,
    in the middle of what found it out; `identity` of the folders; `checkpoints`: writes them; `moves`: the
    logs on their way from one folder to another; `removals`: what is to be
    removed; `taken_out`: those that are gone, perhaps not for good;
    `offline`: partitions whose logs cannot be used; `damaged`: those of them that are there, where damage
    does not refuse the start; `stopped_cleanly`: partitions whose logs were at the start as a clean stop had
    left them; `unlost`: those whose last user has died, perhaps, but not the machine since its boot was
    noted: all that was written is there, synced or not.

    Raises:
        DataDirectoryError: as `DataDirectories`.
    """

    def __init__(
        self,
        data_dirs: Sequence[Path],
        files: FileSystem,
        clock: Clock,
        defaults: LogConfig | None = None,
        *,
        refuses_damage: bool = True,
    ) -> None:
        self.directories = DataDirectories(data_dirs, files)
        self.data_dirs = self.directories.paths
        self._files = files
        self._clock = clock
        self.defaults = defaults or LogConfig()
        self.on_failure: FailureListener | None = None
        # Shared with all parts below, which read it. Only `_take`, `taken_out` and a failing folder change
        # it.
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self.producer_bounds = ProducerBounds(lambda: (log.producers for log in self._logs.values()))
        self.damaged = DamagedLogs(files, self.directories.note_error)
        self.checkpoints = Checkpoints(self._logs, self.directories, self.damaged, files)
        self.removals = Removals(self._logs, files, clock, self.defaults.file_delete_delay_ms)
        self.moves = Moves(self._logs, self.directories, self.removals, files, self.checkpoints)
        self.taken_out = TakenOut(
            self._logs, self.directories, self.damaged, self.moves, self.removals, self.checkpoints, files
        )
        self._placement = Placement(self._logs, self.directories, files, self.moves.preferred)
        self.identity = Identity(files, self.directories, clock)
        self.offline = OfflineLogs(self._logs, self.directories, self.damaged, self.identity.roster)
        self._loader = LogLoader(
            files,
            clock,
            self._logs,
            self._take,
            self.directories,
            self.damaged,
            self.checkpoints,
            self.removals,
            self.moves,
            refuses_damage,
        )
        self.stopped_cleanly = self._loader.stopped_cleanly
        self.unlost = self._loader.unlost
        self.directories.on_failed = self._on_folder_failed

    def unlock(self) -> None:
        """Let go of the folders without writing anything, as when a start fails."""
        self.checkpoints.close()
        for log in self._logs.values():
            # Whoever still has it in hand appends no more: another broker may have the folder, and after a
            # clean stop the next start believes what was noted of it (Kafka:
            # `UnifiedLog.checkIfMemoryMappedBufferClosed`).
            log.syncing.failed = True
            log.release()
        self.directories.unlock()

    # Folders that fail.

    @property
    def online_dirs(self) -> list[Path]:
        """The folders that can be used."""
        return self.directories.online

    def _on_write_error(self, log: ReadableLog, error: OSError) -> None:
        # A full disk may have room again; a failed sync is the log's last whatever the error
        # (docs/decisions/a-failed-sync-is-the-last.md).
        sync_failed = isinstance(log, PartitionLog) and log.syncing.failed
        self.directories.note_error(log.directory.parent, error, sync_failed=sync_failed)

    def _on_folder_failed(self, path: Path, reason: str) -> None:
        """Let go of the logs in a folder that goes offline."""
        keys = [key for key, log in self._logs.items() if log.directory.parent == path]
        for key in keys:
            log = self._logs.pop(key)
            # Whoever still holds it appends no more.
            log.syncing.failed = True
            log.release()
        if keys:
            logger.error("%d partitions are offline with %s", len(keys), path)
        # What was taken out may be back with the folder, as what could not be taken out is.
        self.offline.add(path, [*keys, *self.taken_out.forget(path)])
        self.removals.forget(path)
        self.moves.on_failed(path)
        if self.on_failure is not None:
            self.on_failure(path, keys, reason)

    def describe(self) -> Generator[None, None, list[DirectoryState]]:
        """All folders with the logs in them, for DescribeLogDirs; pauses after each log."""
        states = self.directories.describe()
        for key, log in list(self._logs.items()):
            # In a pause it may have been deleted.
            if self._logs.get(key) is log and (state := states.get(log.directory.parent)) is not None:
                lag = max(0, log.log_end_offset - log.high_watermark)
                state.replicas.append(ReplicaState(*key, log.size_bytes, lag))
            yield
        for path, state in states.items():
            state.replicas.extend(self.moves.describe(path))
            yield
        return list(states.values())

    # Loading.

    def load(self, topic_configs: Mapping[str, Mapping[str, str]] | None = None) -> list[PartitionLog]:
        """Open all logs; `topic_configs` are the topics' own configs.

        Raises:
            LogDamagedError: a log is damaged, with `refuses_damage`; else it is `damaged`, as is one that is
                in two folders. The logs are as they were.
            DataDirectoryError: no data folder can be used, or, with `refuses_damage`, a log is in two; the
                logs are as they were.
        """
        # Nothing is written before all folders have been looked at: a start that is refused changes nothing.
        views = self._loader.look(dict(topic_configs or {}), self.defaults)
        self.identity.begin()
        self._loader.open(views)
        return self.all()

    def _take(self, log: PartitionLog) -> None:
        log.on_write_error = self._on_write_error
        log.on_recovery_point_lowered = partial(self._checkpoint_cut, log)
        self._logs[log.topic, log.partition] = log
        log.producers.bounds = self.producer_bounds

    def _checkpoint_cut(self, log: PartitionLog) -> None:
        # Without it the log is not cut: the next start would take the cut for lost records.
        error = self.checkpoints.write_all().errors.get(log.directory.parent)
        if error is not None:
            raise error

    # Logs.

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """A partition's log, if there is one."""
        return self._logs.get((topic, partition))

    def all(self) -> list[PartitionLog]:
        """All logs."""
        return list(self._logs.values())

    def largest_producer_id(self, below: int) -> int:
        """Return the largest producer id below another one that a log knows, -1 for none."""
        producer_ids = (producer_id for log in self.all() for producer_id in log.producers.entries)
        return max((producer_id for producer_id in producer_ids if producer_id < below), default=-1)

    def prepare(self, new_logs: Iterable[tuple[str, int, bytes | None]]) -> None:
        """Make folders for logs that `create` will be called for, and wait until they are on the disk.

        `new_logs` are topics, partitions and topic ids. May be called in another thread while no log is
        created or deleted. Never raises `OSError`: `create` comes upon the same trouble.
        """
        fresh = [new_log for new_log in new_logs if self.offline.may_prepare(new_log[:2])]
        if not fresh:
            return
        self._forget_stale((topic, partition) for topic, partition, _ in fresh)
        if any(self.taken_out.where((topic, partition)) for topic, partition, _ in fresh):
            self.taken_out.sync()
        self._placement.prepare([new_log for new_log in fresh if self.taken_out.where(new_log[:2]) is None])

    def create(
        self,
        topic: str,
        partition: int,
        config: LogConfig | None = None,
        topic_id: bytes | None = None,
        *,
        is_new: bool = True,
        is_copied: bool = False,
        may_be_lost: bool = False,
    ) -> PartitionLog:
        """A partition's log, made if it does not exist, in the data folder that has the fewest.

        A partition that is not new may be in a folder that is offline, or its folder is gone: then its log is
        not made again. Nor is it while the log that is there is damaged. What `is_copied` from others is made
        again where its folder is gone, but not while there is a folder of which nobody knows what is in it:
        though new, it may have been here before. So is what `may_be_lost`, by an unclean election.

        Raises:
            KafkaStorageError: it may not be made, or the disk fails.
        """
        key = (topic, partition)
        log = self._logs.get(key)
        if log is None:
            self.taken_out.require_none(key)
            self.offline.require_none(key, is_new=is_new, is_copied=is_copied, may_be_lost=may_be_lost)
            self._forget_stale([key])
            directory = self._placement.take(key)
            try:
                log = open_partition_log(
                    directory, topic, partition, config or self.defaults, self._files, self._clock
                )
            except OSError as error:
                self.directories.note_error(directory.parent, error)
                raise KafkaStorageError(f"creating {directory} failed: {error}") from error
            self._take(log)
            self.offline.lost.discard(key)
        elif config is not None:
            log.config = config
        if topic_id is not None:
            log.set_topic_id(topic_id)
        return log

    def _forget_stale(self, keys: Iterable[TopicPartition]) -> None:
        if not self.checkpoints.gone.isdisjoint(keys):
            # What the checkpoints say is of a partition of this name that was deleted.
            self.checkpoint()

    def delete(self, topic: str, partition: int, *, sync: bool = True) -> bool:
        """Take a log out; its folder goes after `file.delete.delay.ms`. Whether there was one.

        Without `sync` it may come back after a power failure until `taken_out.sync` was called. What is in a
        folder that has failed stays there, and is not made anew meanwhile.

        Raises:
            KafkaStorageError: the folder cannot be renamed.
        """
        log = self.get(topic, partition)
        if log is None:
            return self.taken_out.take_damaged((topic, partition))
        target = self.taken_out.take(log, delete_dir(topic, partition, uuid4()), sync=sync)
        self.removals.add_later(target, log.config.file_delete_delay_ms)
        return True

    def set_aside(self, topic: str, partition: int) -> Path:
        """Take a log out, and keep its folder under a `-stray` name, which nobody removes. Returns where.

        Raises:
            KafkaStorageError: the folder cannot be renamed.
        """
        name = stray_dir(topic, partition, uuid4())
        return self.taken_out.take(self._logs[topic, partition], name, sync=True)

    # Periodic work. A failure of one log does not keep the others from being looked after.

    def apply_retention(self, now_ms: int) -> int:
        """Drop segments that are due, in all logs; how many. Their files go with `removals`."""
        dropped = 0
        for log in self.all():
            # In a swap segments go by two names: one that is dropped now could come back with it.
            if log.syncing.swap is None:
                with suppress(KafkaError):
                    dropped += log.apply_retention(now_ms)
        return dropped

    def begin_flushes(self, now_ms: int) -> list[FlushJob]:
        """The logs that `flush.ms` is up for, and segments that are complete, to be synced: `run` may be
        called in another thread, `finish_flushes` after it."""
        jobs = []
        for log in self.all():
            with suppress(KafkaError):
                job = log.begin_flush(whole_segments_only=not log.is_flush_overdue(now_ms))
                if job is not None:
                    jobs.append(job)
        return jobs

    def finish_flushes(self, jobs: Sequence[FlushJob]) -> int:
        """Take note of what has been synced; how many logs it went well for."""
        flushed = 0
        for job in jobs:
            with suppress(KafkaError):
                job.finish()
                flushed += 1
        return flushed

    def expire_producers(self, now_ms: int) -> int:
        """Forget idle producers in all logs; how many."""
        return sum(log.expire_producers(now_ms) for log in self.all())

    def checkpoint(self) -> None:
        """Write down recovery points, log starts and high watermarks, per data folder."""
        self.checkpoints.write_all()

    def close(self) -> bool:
        """Stop in good order; whether every log could be closed, so that the next start may trust them."""
        failed = set(self.directories.offline)
        self.moves.close()
        for log in self.all():
            try:
                log.syncing.finish_swap()
                log.close()
            except (OSError, KafkaError) as error:
                logger.error("%r could not be closed: %s", log, error)
                failed.add(log.directory.parent)
        # A start after a clean stop relies on them.
        failed.update(self.checkpoints.write_all().errors)
        for directory in self.directories:
            if directory.path in failed or not directory.is_online:
                continue
            try:
                write_clean_stop(self._files, directory.path, self.checkpoints.last_stop(directory.path))
            except OSError as error:
                logger.error("the stop of %s is not marked as clean: %s", directory.path, error)
                failed.add(directory.path)
        self.unlock()
        return not failed
