"""The names of a log's files and folders, as Kafka gives them (docs/log_format.md, "Names")."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

from odradek.errors import InvalidTopicError
from odradek.util.topic_partition import TopicPartition

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"

DELETE_DIR_SUFFIX = "-delete"
FUTURE_DIR_SUFFIX = "-future"
STRAY_DIR_SUFFIX = "-stray"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
MOVED_FROM = "moved-from"
OFFSET_GAPS = "offset-gaps"
"""Says that a log may have gaps between its segments: it was compacted, or has followed a log that was."""

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
SEGMENTS = "segments-checkpoint"
LOG_DIRS = "log-dirs-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
META_PROPERTIES = "meta.properties"

_MAX_NAME = 255
_PLAIN_SUFFIXES = frozenset((LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX))
_NUMBERED = re.compile(r"([0-9]{20})(\.[a-z]+)((?:\.deleted|\.cleaned|\.swap)?)")
_PARTITION_DIR = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>[0-9]+)")
_MARKED_DIR = re.compile(r"\S+-[0-9]+\.\S+-(delete|future|stray)")


def numbered(offset: int, suffix: str) -> str:
    """The name of a file that belongs to an offset: `00000000000000000042.log`."""
    return f"{offset:020d}{suffix}"


def parse_numbered(name: str) -> tuple[int, str, str] | None:
    """(offset, suffix, marker) of such a name, the marker being `.deleted`, `.cleaned`, `.swap` or empty."""
    if name[20:] in _PLAIN_SUFFIXES and name[:20].isdecimal() and name.isascii():
        return int(name[:20]), name[20:], ""
    match = _NUMBERED.fullmatch(name)
    return (int(match[1]), match[2], match[3]) if match else None


def partition_dir(topic: str, partition: int) -> str:
    """The folder of a partition in a data folder.

    Raises:
        InvalidTopicError: it would not be that of this partition alone: the name leads elsewhere (`../t`), or
            the number is negative, so that another topic has the same folder.
    """
    name = f"{topic}-{partition}"
    if parse_partition_dir(name) != (topic, partition):
        raise InvalidTopicError(f"no folder can be that of partition {partition} of a topic called {topic!r}")
    return name


def parse_partition_dir(name: str) -> TopicPartition | None:
    """(topic, partition) of a folder's name; None for the marked ones and for anything else."""
    if _MARKED_DIR.fullmatch(name):
        return None
    match = _PARTITION_DIR.fullmatch(name)
    return (match["topic"], int(match["partition"])) if match else None


def marker_of_dir(name: str) -> str | None:
    """`delete`, `future` or `stray` for a folder marked so; else None."""
    match = _MARKED_DIR.fullmatch(name)
    return match[1] if match else None


def delete_dir(topic: str, partition: int, unique: UUID) -> str:
    """Return what a partition's folder is renamed to when it is deleted; long topic names are cut to fit."""
    suffix = f"-{partition}.{unique.hex}{DELETE_DIR_SUFFIX}"
    return topic[: _MAX_NAME - len(suffix)] + suffix


def stray_dir(topic: str, partition: int, unique: UUID) -> str:
    """Return what a folder is renamed to that holds another topic of the same name; nobody removes it."""
    suffix = f"-{partition}.{unique.hex}{STRAY_DIR_SUFFIX}"
    return topic[: _MAX_NAME - len(suffix)] + suffix


def future_dir(topic: str, partition: int, unique: UUID) -> str:
    """Return where a replica is copied to on its way to another data folder."""
    return f"{topic}-{partition}.{unique.hex}{FUTURE_DIR_SUFFIX}"


def parse_future_dir(name: str) -> TopicPartition | None:
    """(topic, partition) of such a name."""
    return parse_partition_dir(name.rpartition(".")[0]) if marker_of_dir(name) == "future" else None


def with_marker(path: Path, marker: str) -> Path:
    """The path with a marker such as `.deleted` behind its name."""
    return path.with_name(path.name + marker)
