"""Carrying out a recovery plan: from the folder on the disk to a log that can be used."""

from __future__ import annotations

import logging
from pathlib import Path

from odradek.log.config import LogConfig
from odradek.log.partition import partition_metadata
from odradek.log.partition.partition_log import PartitionLog
from odradek.log.producers.producer_replay import recall_recent_batches, replay_producers
from odradek.log.segments.index_file import CorruptIndexError
from odradek.log.segments.segment import Segment
from odradek.log.segments.segment_list import open_segment
from odradek.log.startup.recovery import RecoveryPlan, apply_scan, plan_recovery
from odradek.log.storage.checkpoint_file import CorruptCheckpointError, EpochEntry
from odradek.log.storage.file_names import LEADER_EPOCHS, PARTITION_METADATA, TXN_INDEX_SUFFIX, numbered
from odradek.log.storage.files import FileSystem
from odradek.log.storage.gap_marker import note_gaps
from odradek.records.batch import HEADER_BYTES, MAGIC_AT, MAGIC_V2, BatchHeader
from odradek.util.clock import Clock

logger = logging.getLogger(__name__)


def open_partition_log(
    directory: Path,
    topic: str,
    partition: int,
    config: LogConfig,
    files: FileSystem,
    clock: Clock,
    recovery_point: int = 0,
    clean_shutdown: bool = False,
    topic_id: bytes | None = None,
    log_start_offset: int = 0,
) -> PartitionLog:
    """Open the log in a folder, which is made if need be.

    `recovery_point`, `clean_shutdown` and `log_start_offset` are what the data folder's checkpoints say.

    Raises:
        LogDamagedError: the log is damaged; nothing is changed then.
        OSError: the folder cannot be read or written to.
    """
    files.make_dirs(directory)
    plan = plan_recovery(files, directory, config, clean=clean_shutdown, recovery_point=recovery_point)
    log = load_partition_log(plan, topic, partition, config, files, clock, recovery_point, log_start_offset)
    if topic_id is not None:
        log.set_topic_id(topic_id)
    return log


def load_partition_log(
    plan: RecoveryPlan,
    topic: str,
    partition: int,
    config: LogConfig,
    files: FileSystem,
    clock: Clock,
    recovery_point: int,
    log_start_offset: int,
) -> PartitionLog:
    """Open a log by a plan that has been made before; see `open_partition_log`."""
    log = PartitionLog(plan.directory, topic, partition, config, files, clock)
    load(log, plan, recovery_point, log_start_offset)
    return log


def load(log: PartitionLog, plan: RecoveryPlan, recovery_point: int, log_start_offset: int) -> None:
    """Fill a new `PartitionLog`.

    Raises:
        OSError: the folder cannot be read or written to; the same plan can then be made and carried out
            again.
    """
    files = log.files
    sizes = plan.contents.sizes
    if PARTITION_METADATA in sizes:
        log.topic_id = partition_metadata.read(files, log.directory / PARTITION_METADATA)
    # A cleaner's segments take their place with `tidy`, and the gaps in them are no lost records.
    if plan.contents.renames:
        note_gaps(files, log.directory)
    plan.contents.tidy(files)
    now_ms = log._clock.now_ms()
    log.snapshots.know(sizes)
    if LEADER_EPOCHS in sizes:
        _load_epochs(log)
    for base in plan.kept:
        log.segments.add(_segment_of(log, plan, base, now_ms))
    for base in plan.dropped:
        dropped = open_segment(files, log.directory, base, log.config)
        for path in dropped.paths():
            files.remove(path)
    end_offset = log_start_offset if plan.end_offset is None else plan.end_offset
    if len(log.segments) and end_offset < log_start_offset:
        _begin_anew(log, end_offset, log_start_offset)
        end_offset = log_start_offset
    if not len(log.segments):
        segment = open_segment(files, log.directory, log_start_offset, log.config)
        segment.create(now_ms)
        log.segments.add(segment)
    active = log.segments.active
    active.learn_tail(plan.tail)
    active.become_active()
    log.log_start_offset = max(log_start_offset, log.segments[0].base_offset)
    log.log_end_offset = end_offset
    # The least that it can be; the checkpoint, or else the leader, says how far it goes.
    log.high_watermark = log.log_start_offset
    # A clean stop has synced everything; after any other only the checkpoint is to be believed.
    log.recovery_point = end_offset if plan.clean else min(recovery_point, end_offset)
    _load_producers(log, plan, now_ms)
    _note_scanned_epochs(log, plan)
    # The checkpoint may know of epochs whose records were cut, or have been deleted since it was written.
    log.epochs.truncate_from_end(end_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    # Of thousands of logs most are not used soon: descriptors are opened again when they are.
    log.release()


def _segment_of(log: PartitionLog, plan: RecoveryPlan, base: int, now_ms: int) -> Segment:
    """A segment that is kept: read through, known to be the last, or taken up as its files are."""
    scan, sizes = plan.scans.get(base), plan.contents.sizes
    if scan is not None:
        segment = open_segment(log.files, log.directory, base, log.config)
        segment.created_ms = now_ms
        apply_scan(segment, scan, log.files)
        segment.release()
    elif plan.last is not None and plan.last.base_offset == base:
        segment = plan.last
        segment.created_ms = now_ms
        if numbered(base, TXN_INDEX_SUFFIX) in sizes:
            segment.txn_index.load()
    else:
        segment = open_segment(log.files, log.directory, base, log.config)
        segment.take_up(sizes, now_ms)
    return segment


def _begin_anew(log: PartitionLog, end_offset: int, log_start_offset: int) -> None:
    """Drop all segments of a log that ends below its start."""
    logger.warning(
        "%r ends at %d, below its start %d: newer files must have been removed; it goes on at its start",
        log,
        end_offset,
        log_start_offset,
    )
    for segment in log.segments:
        log.drop_segment(segment)
    log.epochs.clear()
    log.snapshots.restart_at(log_start_offset)


def _load_epochs(log: PartitionLog) -> None:
    try:
        log.epochs.load()
    except CorruptCheckpointError as error:
        logger.warning("finding the leader epochs in the log again: %s", error)
        log.epochs.clear()


def _note_scanned_epochs(log: PartitionLog, plan: RecoveryPlan) -> None:
    """Epochs that are in the records but not in the checkpoint, which was lost or is older."""
    epochs: list[EpochEntry] = []
    latest = log.epochs.latest
    for base in plan.kept:
        scan = plan.scans.get(base)
        if scan is None and latest < 0:
            # Without a checkpoint the segments that were not scanned have to be asked as well.
            epochs += [
                entry for entry in _epochs_of(log, base) if not epochs or entry.epoch > epochs[-1].epoch
            ]
        elif scan is not None:
            for entry in scan.epochs:
                if entry.epoch > (epochs[-1].epoch if epochs else latest):
                    epochs.append(entry)
    if epochs:
        log.epochs.assign_all(epochs)


def _epochs_of(log: PartitionLog, base: int) -> list[EpochEntry]:
    segment = log.segments[log.segments.floor(base)]
    epochs: list[EpochEntry] = []
    if segment.holds_batches():
        for step in segment.walk(0, segment.size):
            head = segment.pread(HEADER_BYTES, step.position)
            epoch = BatchHeader.parse(head).partition_leader_epoch if head[MAGIC_AT] == MAGIC_V2 else -1
            if epoch >= 0 and (not epochs or epoch > epochs[-1].epoch):
                epochs.append(EpochEntry(epoch, step.base_offset))
    segment.release()
    return epochs


def _load_producers(log: PartitionLog, plan: RecoveryPlan, now_ms: int) -> None:
    """Producer state from the newest snapshot that can be trusted, and the records since.

    The aborted transactions of every segment that was read through are found on the way, so the snapshot
    must not be newer than the first of these.
    """
    snapshots, state = log.snapshots, log.producers
    snapshots.remove_strays(log.segments.bases)
    scanned = [base for base in plan.kept if base in plan.scans]
    at_most = min([*scanned, log.log_end_offset])
    for offset in [offset for offset in snapshots.offsets if offset > at_most]:
        snapshots.remove(offset)
    snapshots.load(state, log.log_start_offset, at_most, now_ms, log.config.producer_id_expiration_ms)
    recall_recent_batches(state, list(log.segments))
    aborted = replay_producers(state, list(log.segments), log.log_end_offset, plan.scans)
    for segment in log.segments:
        if segment.base_offset in plan.scans:
            try:
                segment.txn_index.load()
            except CorruptIndexError as error:
                logger.warning("finding the aborted transactions in the log again: %s", error)
                log.files.remove(segment.txn_index.path)
                segment.txn_index.load()
            segment.txn_index.replace_all(aborted.get(segment.base_offset, []))
    snapshots.take(state, sync=True)
