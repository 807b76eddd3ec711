"""The small text files of a data folder: a version, a count, and a line per entry.

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and `replication-offset-checkpoint` have an
offset per partition; `leader-epoch-checkpoint` has an offset per epoch (docs/log_format.md, "Checkpoints").
They are replaced whole (a temporary file, synced, renamed), so a reader finds the old or the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from odradek.log.storage.files import FileSystem
from odradek.util.topic_partition import TopicPartition

CURRENT_VERSION = 0


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of its first record: a line of `leader-epoch-checkpoint`."""

    epoch: int
    start_offset: int


class CorruptCheckpointError(Exception):
    """A checkpoint file that does not parse."""


def encode_lines(lines: Iterable[str]) -> bytes:
    """The file's content for these entries."""
    entries = list(lines)
    return "".join(f"{line}\n" for line in [str(CURRENT_VERSION), str(len(entries)), *entries]).encode()


def decode_lines(content: bytes, fields: int | None, path: Path) -> list[list[str]]:
    """The entries of a file, each split into so many fields, None for any number.

    An empty file has no entries, as one that Kafka has only just created.

    Raises:
        CorruptCheckpointError: the file does not parse.
    """
    if content and not content.endswith(b"\n"):
        raise CorruptCheckpointError(f"{path} breaks off in a line")
    try:
        lines = content.decode().splitlines()
        if len(lines) < 2:
            if lines and int(lines[0]) != CURRENT_VERSION:
                raise CorruptCheckpointError(f"{path} has version {lines[0]}, known is {CURRENT_VERSION}")
            return []
        version, count = int(lines[0]), int(lines[1])
    except ValueError as error:
        raise CorruptCheckpointError(f"{path} does not begin with a version and a count: {error}") from None
    if version != CURRENT_VERSION:
        raise CorruptCheckpointError(f"{path} has version {version}, known is {CURRENT_VERSION}")
    entries = [line.split() for line in lines[2:]]
    for line, entry in zip(lines[2:], entries, strict=True):
        if fields is not None and len(entry) != fields:
            raise CorruptCheckpointError(f"{path} has the malformed line {line!r}")
    if len(entries) != count:
        raise CorruptCheckpointError(f"{path} has {len(entries)} entries, its second line says {count}")
    return entries


def read_offsets(files: FileSystem, path: Path) -> dict[TopicPartition, int]:
    """The offset per partition; empty where there is no file.

    Raises:
        CorruptCheckpointError: the file does not parse.
        OSError: it cannot be read.
    """
    if not files.exists(path):
        return {}
    offsets = {}
    for topic, partition, offset in decode_lines(files.read(path), 3, path):
        try:
            offsets[topic, int(partition)] = int(offset)
        except ValueError:
            raise CorruptCheckpointError(
                f"{path} has the malformed line {topic} {partition} {offset}"
            ) from None
    return offsets


def write_offsets(
    files: FileSystem, path: Path, offsets: Mapping[TopicPartition, int], *, sync: bool = True
) -> None:
    """Replace the file.

    Without `sync` a power failure may leave a file that does not parse.

    Raises:
        OSError: it cannot be written; the old file is then still there.
    """
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
    files.write_atomically(path, encode_lines(lines), sync=sync)
