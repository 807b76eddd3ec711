"""All logs of a broker: the data folders, their locks and checkpoints, and the periodic work on them.

A start first looks at everything and changes nothing. A log that is damaged beyond its tail is left as it is:
either the start is refused, or it alone is offline, by name, and all others are served. What is periodic is a
plain method that the broker's timers call.

A folder whose disk fails goes offline, alone and until the next start: its logs are gone from here, what is
asked of them is answered with KAFKA_STORAGE_ERROR, and whoever set `on_failure` is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from uuid import uuid4

from odradek.errors import KafkaError, KafkaStorageError
from odradek.log.config import LogConfig
from odradek.log.folders.checkpointing import CheckpointJob, Checkpoints
from odradek.log.folders.data_directories import DataDirectories
from odradek.log.folders.identity import Identity
from odradek.log.folders.moves import Moves
from odradek.log.folders.placement import Placement
from odradek.log.folders.removing import RemovalJob, Removals
from odradek.log.folders.taken_out import TakenOut
from odradek.log.partition.flushing import FlushJob
from odradek.log.partition.partition_log import PartitionLog
from odradek.log.partition.readable_log import ReadableLog
from odradek.log.producers.producer_bounds import ProducerBounds
from odradek.log.startup.clean_stop import LastStop, sizes_of, write_damaged, write_segments
from odradek.log.startup.damaged_logs import DamagedLogs
from odradek.log.startup.folder_view import FolderView, FoundLog, find_compacted, look, settle_duplicates
from odradek.log.startup.loading import load_partition_log, open_partition_log
from odradek.log.storage.checkpoint_file import write_offsets
from odradek.log.storage.data_directory import (
    DataDirectory,
    DirectoryState,
    ReplicaState,
    is_of_one_file,
)
from odradek.log.storage.file_names import (
    CLEAN_SHUTDOWN,
    RECOVERY_POINTS,
    delete_dir,
    parse_partition_dir,
    stray_dir,
)
from odradek.log.storage.files import FileSystem
from odradek.util.clock import Clock
from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN_CONTENT = b'{"version":0,"brokerEpoch":-1}'

FailureListener = Callable[[Path, list[TopicPartition], str], None]
"""Called with the folder that failed, the partitions that are gone with it, and the reason."""


class LogManager:
    """The logs in one or several data folders.

    Raises as `DataDirectories`, which are made and locked.

    Attributes: `directories`, of which `data_dirs` are the paths; `on_failure`: told when one goes offline,
    in the middle of what found it out; `checkpoints`: writes them; `moves`: the logs on their way from one
    folder to another; `refuses_damage`: whether a damaged log refuses the start; `damaged`: else, those that
    are there; `stopped_cleanly`: partitions whose logs were at the start as a clean stop had left them;
    `unlost`: those whose last user has died, perhaps, but not the machine since its boot was noted: all that
    was written is there, synced or not; `lost`: partitions of which others believe that they are here, while
    their logs are gone; set by whoever has asked.
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
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self.producer_bounds = ProducerBounds(lambda: (log.producers for log in self._logs.values()))
        self._offline: dict[TopicPartition, Path] = {}
        """Partitions that were in folders which have failed. Also those that are not this broker's any more:
        their files are there still, and are back with the folder."""
        self._removals = Removals(files, clock, self.defaults.file_delete_delay_ms)
        self.stopped_cleanly: set[TopicPartition] = set()
        self.unlost: set[TopicPartition] = set()
        self.lost: set[TopicPartition] = set()
        self._stale: set[TopicPartition] = set()
        """Partitions that checkpoints on the disk may speak of, but that are gone."""
        self._taken_out = TakenOut(files)
        self.refuses_damage = refuses_damage
        self.damaged = DamagedLogs(files)
        self.checkpoints = Checkpoints(files)
        self.checkpoints.damaged = self.damaged
        self.moves = Moves(self._logs, self.directories, self._removals, files, self.begin_checkpoint)
        self._placement = Placement(self._logs, self.directories, files, self.moves.preferred)
        self._identity = Identity(files, self.directories)
        self.directories.on_failed = self._on_folder_failed

    def unlock(self) -> None:
        """Let go of the folders without writing anything, as when a start fails."""
        for log in self._logs.values():
            log.release()
        self.directories.unlock()

    # Folders that fail.

    @property
    def online_dirs(self) -> list[Path]:
        """The folders that can be used."""
        return self.directories.online

    def _on_write_error(self, log: ReadableLog, error: OSError) -> None:
        sync_failed = isinstance(log, PartitionLog) and log.syncing.failed
        self.directories.note_write_error(log.directory.parent, error, sync_failed=sync_failed)

    def _on_folder_failed(self, path: Path, reason: str) -> None:
        """Let go of the logs in a folder that goes offline."""
        keys = [key for key, log in self._logs.items() if log.directory.parent == path]
        for key in keys:
            log = self._logs.pop(key)
            # Whoever still holds it appends no more.
            log.syncing.failed = True
            log.release()
            self._offline[key] = path
        if keys:
            logger.error("%d partitions are offline with %s", len(keys), path)
        for key in self._taken_out.forget(path):
            # It may be back with the folder, as what could not be taken out is.
            self._offline.setdefault(key, path)
        self._removals.forget(path)
        self.moves.on_failed(path)
        if self.on_failure is not None:
            self.on_failure(path, keys, reason)

    def describe(self) -> Generator[None, None, list[DirectoryState]]:
        """All folders with the logs in them, for DescribeLogDirs; pauses after each log."""
        states: dict[Path, DirectoryState] = {}
        for directory in self.directories:
            path, total, usable = directory.path, -1, -1
            if directory.is_online:
                try:
                    total, usable = self._files.space(path)
                except OSError as error:
                    logger.warning("the size of %s cannot be told: %s", path, error)
            states[path] = DirectoryState(path, directory.failure, total, usable, [])
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

    # Identity.

    def stored_cluster_id(self) -> str | None:
        """See `Identity.stored_cluster_id`."""
        return self._identity.stored_cluster_id()

    def stored_broker_id(self) -> int | None:
        """See `Identity.stored_broker_id`."""
        return self._identity.stored_broker_id()

    def check_identity(self, broker_id: int, cluster_id: str | None) -> None:
        """See `Identity.check`."""
        self._identity.check(broker_id, cluster_id, self._clock.now_ms())

    def lacks(self, topic: str, partition: int) -> bool:
        """Return whether a partition's log cannot be used, though it may well have been here.

        A partition without a folder was never made here where all folders are as they were. To be asked
        after `load`.
        """
        key = (topic, partition)
        return key not in self._logs and (
            bool(self._identity.roster.missing or self.directories.offline)
            or key in self.damaged
            or self.damaged.is_missed(key)
        )

    def note_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Take note of which partitions others believe to be here, of those that `lacks` says are not.

        They are made again only where no record can be missed by it, or somebody wants it so; see `create`.
        Those that are damaged have a reason of their own, and so has what may be in a folder that has failed.
        """
        if self.directories.offline:
            return
        self.lost = {key for key in lost if key not in self.damaged and not self.damaged.is_missed(key)}
        if not self.lost:
            self._identity.roster.settle()
            return
        some = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(self.lost)[:5])
        logger.error(
            "%d partitions are lost (%s …)%s: this broker was the last in sync, and they stay offline."
            " Restore their folders, delete the topics, or have them begin empty: odradek leader-election"
            " --election-type unclean, or unclean.leader.election.enable=true",
            len(self.lost),
            some,
            self._identity.roster.reason,
        )

    # Loading.

    def load(self, topic_configs: Mapping[str, Mapping[str, str]] | None = None) -> list[PartitionLog]:
        """Open all logs; `topic_configs` are the topics' own configs.

        Raises `LogDamagedError` (with `refuses_damage`; else the log is `damaged`, as is one that is in two
        folders) or another `DataDirectoryError`, the logs being as they were.
        """
        configs = dict(topic_configs or {})
        views: dict[Path, FolderView] = {}
        superseded = self.moves.superseded()
        compacted = find_compacted(self._files, self.online_dirs)

        def look_into(directory: DataDirectory) -> None:
            views[directory.path] = look(
                self._files,
                directory,
                configs,
                self.defaults,
                superseded,
                compacted=compacted,
                refuses_damage=self.refuses_damage,
            )

        def open_logs(directory: DataDirectory) -> None:
            for item in views[directory.path].logs:
                self._open_or_give_up(item)

        loading = "loading the logs of {} failed"
        self.directories.in_each(loading, look_into)
        settle_duplicates(views.values(), refuses=self.refuses_damage)
        self._identity.begin()
        self.directories.in_each(loading, lambda one: self._begin_in(one.path, views[one.path]))
        self.directories.in_each(loading, open_logs)
        same_boot = self.directories.of_this_boot()
        self.unlost.update(key for key, log in self._logs.items() if log.directory.parent in same_boot)
        if self._logs:
            scanned = sum(bool(item.plan.scans) for view in views.values() for item in view.logs)
            logger.info("loaded %d logs, %d of them read through after a stop", len(self._logs), scanned)
        self._stale.difference_update(self._logs, self.damaged)
        self.damaged.settle(self._logs)
        self.moves.take_up({path: view for path, view in views.items() if path in self.online_dirs})
        return list(self._logs.values())

    def _begin_in(self, path: Path, view: FolderView) -> None:
        """Take note of what a data folder holds, before the first log of any is opened. Raises `OSError`."""
        # Nobody reads from these any more: they are due.
        for folder in view.deleted:
            self._removals.add(0, folder)
        self._stale |= view.spoken_of.keys()
        self.damaged.note(view.damaged, view.spoken_of)
        # From here on only a clean stop makes it clean again.
        write_damaged(self._files, path, self._known_of_damaged(path))
        self._files.remove(path / CLEAN_SHUTDOWN)
        self._files.fsync_dir(path)
        lowered = view.lowered_recovery_points()
        if lowered is not None:
            write_offsets(self._files, path / RECOVERY_POINTS, lowered)
        for old in view.superseded:
            # The old folder of a damaged log may be all that is left.
            if parse_partition_dir(old.name) not in self.damaged:
                self._removals.add(0, self.moves.retire(old))

    def _open_or_give_up(self, item: FoundLog) -> None:
        try:
            self._open(item)
            self.moves.settle(item)
        except OSError as error:
            if self.refuses_damage or not is_of_one_file(self._files, item.plan.directory.parent, error):
                raise
            key = item.topic, item.partition
            log = self._logs.pop(key, None)
            if log is not None:
                log.release()
            self.damaged[key] = item.damaged(str(error))
            self._write_damaged(item.plan.directory.parent)

    def _open(self, item: FoundLog) -> None:
        log = load_partition_log(
            item.plan,
            item.topic,
            item.partition,
            item.config,
            self._files,
            self._clock,
            item.recovery_point,
            item.believable_log_start,
        )
        log.update_high_watermark(item.high_watermark)
        self._take(log)
        if item.plan.clean:
            self.stopped_cleanly.add((item.topic, item.partition))

    def _take(self, log: PartitionLog) -> None:
        log.on_write_error = self._on_write_error
        log.on_recovery_point_lowered = partial(self._checkpoint_cut, log)
        self._logs[log.topic, log.partition] = log
        log.producers.bounds = self.producer_bounds

    def _checkpoint_cut(self, log: PartitionLog) -> None:
        job = self.begin_checkpoint()
        job.run()
        self.finish_checkpoint(job)
        error = job.errors.get(log.directory.parent)
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
        return max(
            (
                producer_id
                for log in self._logs.values()
                for producer_id in log.producers.entries
                if producer_id < below
            ),
            default=-1,
        )

    def prepare(self, wanted: Iterable[tuple[str, int, bytes | None]]) -> None:
        """Make folders for logs that `create` will be called for, and wait until they are on the disk.

        `wanted` are topics, partitions and topic ids. May be called in another thread while no log is created
        or deleted. Never raises `OSError`: `create` comes upon the same trouble.
        """
        fresh = [
            (topic, partition, topic_id)
            for topic, partition, topic_id in wanted
            if (topic, partition) not in self._logs
            and (topic, partition) not in self._offline
            and (topic, partition) not in self.damaged
            and not self.damaged.is_missed((topic, partition))
        ]
        # While a folder is offline a log may be in it, and two of one partition refuse the next start.
        if not fresh or self.directories.offline:
            return
        self._forget_stale((topic, partition) for topic, partition, _ in fresh)
        if any(self._taken_out.where((topic, partition)) for topic, partition, _ in fresh):
            self._taken_out.sync()
        self._placement.prepare([one for one in fresh if self._taken_out.where(one[:2]) is None])

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
        not made again. Nor is it while the log that is there is damaged. What `is_copied` from others is
        made again where its folder is gone, but not while there is a folder of which nobody knows what is in
        it: though new, it may have been here before. So is what `may_be_lost`, by an unclean election.
        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        key = (topic, partition)
        log = self._logs.get(key)
        if log is None:
            self._require_taken_out(key)
            self._require_room_for(key, is_new, is_copied, may_be_lost)
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
            self.lost.discard(key)
        elif config is not None:
            log.config = config
        if topic_id is not None:
            log.set_topic_id(topic_id)
        return log

    def _require_taken_out(self, key: TopicPartition) -> None:
        """Raise `KafkaError` KAFKA_STORAGE_ERROR where a log of this partition may come back."""
        parent = self._taken_out.where(key)
        if parent is None:
            return
        failed = self._taken_out.sync()
        for path, error in failed.items():
            self.directories.note_error(path, error)
        if parent in failed:
            raise KafkaStorageError(
                f"one is being deleted in {parent}, and would be back after a loss of power: {failed[parent]}"
            )

    def _require_room_for(
        self, key: TopicPartition, is_new: bool, is_copied: bool, may_be_lost: bool
    ) -> None:
        if key in self._offline:
            raise KafkaStorageError(f"it is in {self._offline[key]}, which has failed")
        failed = list(map(str, self.directories.offline))
        if failed and not is_new:
            raise KafkaStorageError(f"it may be in a folder that has failed: {', '.join(failed)}")
        if self.directories.unread and is_copied:
            unread = sorted(map(str, self.directories.unread))
            # In two folders it would be offline at the next start, and with only the older one there that
            # would count.
            raise KafkaStorageError(
                f"one may be in a folder that could not be read at the start: {', '.join(unread)}. "
                "Repair that or take it out of log.dirs, and start the broker again"
            )
        is_given_up = is_new or is_copied or may_be_lost
        if key in self.lost and not is_given_up:
            raise KafkaStorageError(
                f"its log is lost{self._identity.roster.reason}. Restore its folder, delete the topic, or"
                " have it begin empty by an unclean election"
            )
        self.damaged.require_none(key, is_new=is_given_up)

    def _forget_stale(self, keys: Iterable[TopicPartition]) -> None:
        if not self._stale.isdisjoint(keys):
            # What the checkpoints say is of a partition of this name that was deleted.
            self.checkpoint()

    def delete(self, topic: str, partition: int, *, sync: bool = True) -> bool:
        """Take a log out; its folder goes after `file.delete.delay.ms`. Whether there was one.

        Without `sync` it may come back after a power failure until `sync_names` was called. What is in a
        folder that has failed stays there, and is not made anew meanwhile. Raises `KafkaError`
        KAFKA_STORAGE_ERROR.
        """
        key = (topic, partition)
        log = self._logs.get(key)
        if log is None:
            return self._delete_damaged(key)
        target = self._take_out(key, log, delete_dir(topic, partition, uuid4()), sync)
        self._removals.add_later(target, log.config.file_delete_delay_ms)
        return True

    def set_aside(self, topic: str, partition: int) -> Path:
        """Take a log out, and keep its folder under a `-stray` name, which nobody removes. Returns where.

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        key = (topic, partition)
        return self._take_out(key, self._logs[key], stray_dir(topic, partition, uuid4()), True)

    def _take_out(self, key: TopicPartition, log: PartitionLog, name: str, sync: bool) -> Path:
        """Have a log's folder go by another name, and forget the log. Returns where the folder is."""
        try:
            log.syncing.finish_swap()
        except OSError as error:
            raise log.storage_error("deleting", error) from error
        self.moves.cancel(key)
        parent = log.directory.parent
        target = parent / name
        try:
            log.release()
            self._files.rename(log.directory, target)
        except OSError as error:
            raise log.storage_error("deleting", error) from error
        del self._logs[key]
        self._stale.add(key)
        self._taken_out.add(parent, key)
        if sync:
            failure = self.sync_names().get(parent)
            if failure is not None:
                raise log.storage_error("deleting", failure) from failure
        return target

    def _delete_damaged(self, key: TopicPartition) -> bool:
        if key not in self.damaged:
            return False
        parents = [part.directory.parent for part in self.damaged[key].parts()]
        if any(self.directories.failure_of(parent) is not None for parent in parents):
            return False
        for target in self.damaged.retire(key):
            self._removals.add_later(target)
        self._stale.add(key)
        for parent in parents:
            self._taken_out.add(parent, key)
            self._write_damaged(parent)
        return True

    def _write_damaged(self, path: Path) -> None:
        try:
            write_damaged(self._files, path, self._known_of_damaged(path))
        except OSError as error:
            logger.warning("what is known of damaged logs is not written: %s", error)
            self.directories.note_error(path, error)

    def is_gone(self, key: TopicPartition) -> bool:
        """Return whether there is nothing of a partition, nor may be in a data folder that has failed."""
        if key in self._logs or key in self._offline or key in self.damaged:
            return False
        return not self.directories.offline

    def sync_names(self) -> dict[Path, OSError]:
        """Wait until deletions are on the disk. May be called in another thread.

        Returns what failed, which `note_error` is to be told of in the thread of the logs. What was deleted
        there is not made anew before it could be synced.
        """
        return self._taken_out.sync()

    # Periodic work. A failure of one log does not keep the others from being looked after.

    def apply_retention(self, now_ms: int) -> int:
        """Drop segments that are due, in all logs; how many. Their files go with `begin_removals`."""
        dropped = 0
        for log in self.all():
            if log.syncing.swap is not None:
                continue
            try:
                dropped += log.apply_retention(now_ms)
            except KafkaError:
                continue
        return dropped

    def begin_removals(self, now_ms: int, most: int | None = None) -> RemovalJob:
        """Return what is to be removed now: dropped segments and deleted partitions whose time has come.

        The most files and folders at once; the others stay due.
        """
        paths = [path for log in self._logs.values() for path in log.take_due_files(now_ms)]
        return self._removals.begin(now_ms, paths, most)

    def finish_removals(self, job: RemovalJob, now_ms: int) -> None:
        """Take note of what could not be removed: it is due again at that time."""
        self._removals.finish(job, now_ms)

    def begin_flushes(self, now_ms: int) -> list[FlushJob]:
        """The logs that `flush.ms` is up for, and segments that are complete, to be synced: `run` may be
        called in another thread, `finish_flushes` after it."""
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
        job = self.begin_checkpoint()
        job.run()
        self.finish_checkpoint(job)

    def begin_checkpoint(self) -> CheckpointJob:
        """Return the job that writes what `checkpoint` would. Its `run` may be called in another thread,
        `finish_checkpoint` after it.

        With no entries there is nothing new to be written.
        """
        job = self.checkpoints.begin(self.online_dirs, dict(self._logs), self.moves.coming())
        job.forgets = frozenset(self._stale)
        return job

    def begin_log_starts(self) -> CheckpointJob:
        """As `begin_checkpoint`, of what keeps deleted records deleted when the process dies."""
        return self.checkpoints.begin_log_starts(self.online_dirs, self._logs, self.moves.coming())

    def finish_checkpoint(self, job: CheckpointJob) -> bool:
        """Take note of what was written; whether all could be."""
        self.checkpoints.finish(job)
        for path, error in job.errors.items():
            self.directories.note_error(path, error)
        if job.errors:
            return False
        self._stale -= job.forgets - self._logs.keys()
        return True

    def _last_stop(self, path: Path) -> LastStop:
        segments = {key: sizes_of(log) for key, log in self._logs.items() if log.directory.parent == path}
        damaged = self._known_of_damaged(path)
        segments.update(damaged.segments)
        return LastStop(segments, damaged.unclean, self.checkpoints.log_starts(path, self._logs))

    def _known_of_damaged(self, path: Path) -> LastStop:
        """They are as they were at their last stop, and so is what the next start has to do about them."""
        here = self.damaged.in_folder(path)
        segments = {one.key: one.known for one in here if one.known is not None}
        return LastStop(segments, frozenset(one.key for one in here if not one.was_clean), {})

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
        job = self.begin_checkpoint()
        job.run()
        self.finish_checkpoint(job)
        # A start after a clean stop relies on them.
        failed.update(job.errors)
        for directory in self.directories:
            if directory.path in failed or not directory.is_online:
                continue
            try:
                self._files.write_atomically(directory.path / CLEAN_SHUTDOWN, CLEAN_SHUTDOWN_CONTENT)
                stop = self._last_stop(directory.path)
                write_segments(self._files, directory.path, stop)
            except OSError as error:
                logger.error("the stop of %s is not marked as clean: %s", directory.path, error)
                failed.add(directory.path)
        self.unlock()
        return not failed
