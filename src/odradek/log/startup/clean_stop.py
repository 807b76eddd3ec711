"""The sizes of all segments at a clean stop, so that the next start sees what is gone without reading it.

`segments-checkpoint` in each data folder: the time at which `.kafka_cleanshutdown` beside it was written,
then a line per segment (docs/log_format.md, "Checkpoints"). After a clean stop nothing writes to a segment
any more, so one that is smaller or not there has lost records. Where `.kafka_cleanshutdown` is of another
time, another broker has had the folder meanwhile, and the file says nothing.

While the broker runs, the file has `damaged` in place of the time, and only the partitions that are damaged:
nothing writes to these, so what was known of them holds after a kill, too. Without any there is no file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from odradek.log.segments.txn_index import LAYOUT
from odradek.log.storage.checkpoint_file import CorruptCheckpointError, decode_lines, encode_lines
from odradek.log.storage.file_names import CLEAN_SHUTDOWN, SEGMENTS
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.log.storage.files import FileSystem

logger = logging.getLogger(__name__)

_UNCLEAN, _START = "unclean", "start"
_DAMAGED = "damaged"
_CLEAN_SHUTDOWN = b'{"version":0,"brokerEpoch":-1}'


class SegmentSizes(NamedTuple):
    """Bytes of a segment's `.log` and of the entries of its `.txnindex`."""

    log: int
    txn_index: int


Known = Mapping[int, SegmentSizes]
"""The segments of one partition by their base offsets."""


class LastStop(NamedTuple):
    """A data folder's last stop, as far as it was clean.

    Attributes: `segments`: of each partition; `unclean`: partitions that could not be opened after a stop
    that was not clean, so that what has to be looked at then still has to be; `starts`: of logs that do not
    start with their first segment, should `log-start-offset-checkpoint` be lost.
    """

    segments: Mapping[TopicPartition, Known]
    unclean: frozenset[TopicPartition]
    starts: Mapping[TopicPartition, int]


NOTHING = LastStop({}, frozenset(), {})


def sizes_of(log: PartitionLog) -> Known:
    """The sizes of a log that has been closed."""
    return {
        segment.base_offset: SegmentSizes(segment.size, LAYOUT.size * len(segment.txn_index.entries))
        for segment in log.segments
    }


def write_clean_stop(files: FileSystem, directory: Path, stop: LastStop) -> None:
    """Write `.kafka_cleanshutdown`, and the file.

    Raises:
        OSError: one of the two cannot be written.
    """
    files.write_atomically(directory / CLEAN_SHUTDOWN, _CLEAN_SHUTDOWN)
    _write(files, directory, str(files.modified_ms(directory / CLEAN_SHUTDOWN)), stop)


def write_damaged(files: FileSystem, directory: Path, stop: LastStop) -> None:
    """Keep what is known of the damaged partitions, also if the broker is killed.

    Raises:
        OSError: the file cannot be written.
    """
    if stop.segments or stop.unclean:
        _write(files, directory, _DAMAGED, stop)
    else:
        files.remove(directory / SEGMENTS)


def _write(files: FileSystem, directory: Path, first: str, stop: LastStop) -> None:
    lines = [first]
    for (topic, partition), segments in stop.segments.items():
        lines += (f"{topic} {partition} {base} {size} {txn}" for base, (size, txn) in segments.items())
    lines += (f"{topic} {partition} {_START} {offset}" for (topic, partition), offset in stop.starts.items())
    lines += (f"{topic} {partition} {_UNCLEAN}" for topic, partition in sorted(stop.unclean))
    files.write_atomically(directory / SEGMENTS, encode_lines(lines))


def read_segments(files: FileSystem, directory: Path) -> LastStop:
    """Return what the last clean stop has written down; nothing where it cannot be believed.

    Raises:
        OSError: it cannot be read.
    """
    path = directory / SEGMENTS
    if not files.exists(path):
        return NOTHING
    try:
        (time, *rest) = decode_lines(files.read(path), None, path)
        if time == [_DAMAGED]:
            return _parse(rest)
        if not files.exists(directory / CLEAN_SHUTDOWN):
            return NOTHING
        if time != [str(files.modified_ms(directory / CLEAN_SHUTDOWN))]:
            logger.info("%s is not of the last stop: segments are looked at instead", path)
            return NOTHING
        return _parse(rest)
    except (CorruptCheckpointError, ValueError) as error:
        logger.warning("going on without %s: %s", path, error)
        return NOTHING


def _parse(lines: Iterable[list[str]]) -> LastStop:
    segments: dict[TopicPartition, dict[int, SegmentSizes]] = {}
    unclean, starts = set(), {}
    for line in lines:
        if len(line) == 3 and line[2] == _UNCLEAN:
            unclean.add((line[0], int(line[1])))
            continue
        if len(line) == 4 and line[2] == _START:
            starts[line[0], int(line[1])] = int(line[3])
            continue
        topic, partition, base, size, txn = line
        segments.setdefault((topic, int(partition)), {})[int(base)] = SegmentSizes(int(size), int(txn))
    return LastStop(segments, frozenset(unclean), starts)
