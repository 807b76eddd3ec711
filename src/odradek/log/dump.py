"""Views of single files of a log, without opening the log: what `dump-log` shows, as data.

Nothing is written. A message of magic 0 or 1, a wrapper too, is shown as a batch of its own. Kafka:
`DumpLogSegments`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

from odradek.log.segments.index_file import CorruptIndexError
from odradek.log.segments.offset_index import OffsetIndex
from odradek.log.segments.time_index import TimeIndex
from odradek.log.segments.timestamp_offset import NO_TIMESTAMP
from odradek.log.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX
from odradek.log.storage.real_files import RealFileSystem
from odradek.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_AT,
    NO_SEQUENCE,
    BatchHeader,
    Record,
    TimestampType,
    batch_records,
    compute_crc,
    increment_sequence,
)
from odradek.records.message_sets.message_set import (
    Entry,
    MessageHeader,
    compute_message_crc,
    inner_records,
    message_records,
    parse_entry,
)

_LEGACY = Struct(">qiIbbq")
"""Offset, length, CRC, magic, attributes, and from magic 1 on a timestamp."""
_LEGACY_BYTES = 18
_MIN_LENGTH = 14
"""Of the smallest message: magic 0, no key, no value."""
# By their ids in a batch's attributes. Not from `Codec`: a dump names an id that nobody knows, too.
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_KINDS = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


class UnreadableError(Exception):
    """A file that cannot be read on."""


class RecordView(NamedTuple):
    """A record and its sequence, or the CRC of its own that it has at magic 0 and 1."""

    record: Record
    sequence: int
    crc: int | None
    valid: bool


@dataclass
class BatchView:
    """A batch seen from outside. For magic 0 and 1 it is a single message, perhaps a compressed set."""

    path: Path
    position: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    timestamp_type: str
    max_timestamp: int
    codec: str
    crc: int
    valid: bool
    # From here on: of batches of magic 2 alone.
    header: BatchHeader | None = None
    count: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    last_sequence: int = -1
    leader_epoch: int = -1
    transactional: bool = False
    control: bool = False
    delete_horizon_ms: int | None = None

    def content(self) -> bytes:
        """The batch's bytes."""
        # Read again, not kept: a dump may be of a whole segment, and most are of headers alone.
        with self.path.open("rb") as file:
            file.seek(self.position)
            return file.read(self.size)

    def records(self) -> Iterator[RecordView]:
        """Return the batch's records.

        Raises:
            KafkaError: the records do not parse.
            OSError: the file cannot be read.
        """
        content = memoryview(self.content())
        if self.header is None:
            # Messages have a CRC each, those in a wrapper too; since magic 2 a batch has a single CRC.
            header = MessageHeader.parse(content)
            for message, raw, record in inner_records(header, content):
                yield RecordView(record, NO_SEQUENCE, message.crc, compute_message_crc(raw) == message.crc)
            return
        for record in batch_records(self.header, content):
            sequence = self.base_sequence
            # By the offset, not by counting: a compacted batch has gaps, and keeps each record's sequence.
            if sequence >= 0:
                sequence = increment_sequence(sequence, record.offset - self.base_offset)
            yield RecordView(record, max(sequence, NO_SEQUENCE), None, True)

    def as_dict(self) -> dict[str, Any]:
        """Return the view for JSON."""
        data: dict[str, Any] = {"lastOffset": self.last_offset}
        if self.header is not None:
            data = {
                "baseOffset": self.base_offset,
                "lastOffset": self.last_offset,
                "count": self.count,
                "baseSequence": self.base_sequence,
                "lastSequence": self.last_sequence,
                "producerId": self.producer_id,
                "producerEpoch": self.producer_epoch,
                "partitionLeaderEpoch": self.leader_epoch,
                "isTransactional": self.transactional,
                "isControl": self.control,
                "deleteHorizonMs": self.delete_horizon_ms,
            }
        return data | {
            "position": self.position,
            "timestampType": self.timestamp_type,
            "maxTimestamp": self.max_timestamp,
            "size": self.size,
            "magic": self.magic,
            "compression": self.codec,
            "crc": self.crc,
            "isValid": self.valid,
        }


def iter_batch_views(path: Path, max_bytes: int) -> Iterator[BatchView]:
    """The whole batches among the first `max_bytes` of a segment.

    Raises:
        UnreadableError: a length that no message has, as in a tail of zeros.
        OSError: the file cannot be read.
    """
    size = min(path.stat().st_size, max_bytes)
    position = 0
    with path.open("rb") as file:
        while position + _LEGACY_BYTES <= size:
            file.seek(position)
            head = file.read(HEADER_BYTES)
            # The last message may be of magic 0, which is shorter than `_LEGACY` by its timestamp.
            _, length, _, magic, _, _ = _LEGACY.unpack_from(head.ljust(_LEGACY.size, b"\0"))
            if length < _MIN_LENGTH:
                raise UnreadableError(f"length {length} at position {position} is smaller than {_MIN_LENGTH}")
            batch_size = length + LOG_OVERHEAD
            # Cut off by `max_bytes`, or by a stop in the middle of a write: no fault of what is there.
            if position + batch_size > size:
                return
            # An unknown magic does not say where the CRC and the offsets are: nothing can be shown.
            if magic not in (0, 1, 2) or (magic == 2 and batch_size < HEADER_BYTES):
                raise UnreadableError(f"magic {magic} and length {length} at position {position}")
            file.seek(position)
            content = file.read(batch_size)
            yield (_view if magic == 2 else _legacy_view)(path, position, content)
            position += batch_size


def _view(path: Path, position: int, content: bytes) -> BatchView:
    header = BatchHeader.parse(content)
    return BatchView(
        path=path,
        position=position,
        size=header.size,
        magic=2,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        timestamp_type=_KINDS[header.timestamp_type],
        max_timestamp=header.max_timestamp,
        codec=_codec(header.codec_id),
        crc=header.crc,
        valid=compute_crc(content) == header.crc,
        header=header,
        count=header.record_count,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
        leader_epoch=header.partition_leader_epoch,
        transactional=header.is_transactional,
        control=header.is_control,
        delete_horizon_ms=header.delete_horizon_ms,
    )


def _legacy_view(path: Path, position: int, content: bytes) -> BatchView:
    header = MessageHeader.parse(content)
    return BatchView(
        path=path,
        position=position,
        size=len(content),
        magic=header.magic,
        # Where the messages in a wrapper begin is not known without unpacking it.
        base_offset=header.offset,
        last_offset=header.offset,
        timestamp_type=_KINDS[header.timestamp_type],
        max_timestamp=header.max_timestamp,
        codec=_codec(header.codec_id),
        crc=header.crc,
        valid=compute_message_crc(content) == header.crc,
    )


def _codec(number: int) -> str:
    return _CODECS[number] if number < len(_CODECS) else f"unknown({number})"


@dataclass
class IndexCheck:
    """An index's entries, and where the log says otherwise."""

    entries: list[tuple[int, int]] = field(default_factory=list)
    """As they stand in the file: offset and position, or timestamp and offset."""
    mismatches: list[tuple[int, int]] = field(default_factory=list)
    """The offset, or timestamp, of an entry, and what the batch there has; -1 where no batch is."""
    disorder: list[tuple[int, int]] = field(default_factory=list)
    """A timestamp that is not above the timestamp before it, and that timestamp; times in an index grow."""
    missing: list[tuple[int, int]] = field(default_factory=list)
    """An offset at which no batch ends, and the last offset of the batch that reaches it; -1 for none."""


def base_offset(path: Path) -> int:
    """The offset that a file's name begins with.

    Raises:
        UnreadableError: the name begins with none.
    """
    try:
        return int(path.name.split(".")[0])
    except ValueError:
        raise UnreadableError(f"{path.name} does not begin with an offset") from None


def check_offset_index(path: Path, sanity_only: bool, max_message_size: int) -> IndexCheck | None:
    """Compare an offset index with the log beside it; None if it is empty.

    Raises:
        CorruptIndexError: the index's size is no whole number of entries.
        UnreadableError: the file's name begins with no offset.
        OSError: a file cannot be read.
    """
    base = base_offset(path)
    log_path = path.with_suffix(LOG_SUFFIX)
    # Of no size to reserve: an index that is only read is never filled with zeros.
    index = OffsetIndex(RealFileSystem(), path, base, 0)
    log_size = log_path.stat().st_size
    try:
        index.load(log_size)
        if not index.entries:
            return None
        check = IndexCheck()
        if sanity_only:
            return check
        with log_path.open("rb") as log:
            for relative, position in index.iter_entries():
                log.seek(position)
                header = _header_of(log.read(min(HEADER_BYTES, max_message_size)))
                last_offset = -1 if header is None else header.last_offset
                # An entry has the last offset of an append beside its first byte. Of several batches in one
                # append, as followers make them, this tells of a mismatch, as Kafka's tool does.
                if last_offset != base + relative:
                    check.mismatches.append((base + relative, last_offset))
                check.entries.append((base + relative, position))
        return check
    finally:
        index.close()


def check_time_index(path: Path, sanity_only: bool) -> IndexCheck:
    """Compare a time index with the log and the offset index beside it.

    Raises:
        CorruptIndexError: the index's size is no whole number of entries.
        UnreadableError: the file's name begins with no offset, or the log does not parse.
        KafkaError: the records do not parse.
        OSError: a file cannot be read.
    """
    base = base_offset(path)
    files = RealFileSystem()
    times = TimeIndex(files, path, base, 0)
    offsets = OffsetIndex(files, path.with_suffix(INDEX_SUFFIX), base, 0)
    check = IndexCheck()
    try:
        times.load()
        if sanity_only:
            return check
        try:
            offsets.load()
        except (CorruptIndexError, FileNotFoundError):
            # Without it the log is walked from its start.
            offsets.entries = 0
        before = NO_TIMESTAMP
        for slot in range(times.entries):
            entry = times.at(slot)
            timestamp, offset = entry.timestamp, entry.offset
            check.entries.append((timestamp, offset))
            start = offsets.lookup(offset).position if offsets.entries else 0
            _check_time_entry(check, path.with_suffix(LOG_SUFFIX), start, timestamp, offset, before)
            before = timestamp
        return check
    finally:
        times.close()
        offsets.close()


def _header_of(head: bytes) -> Entry | None:
    """The batch or message that begins with these bytes, `HEADER_BYTES` at most; None for too few."""
    old = len(head) > MAGIC_AT and head[MAGIC_AT] < 2
    return parse_entry(head) if len(head) >= (_LEGACY.size if old else HEADER_BYTES) else None


def _check_time_entry(
    check: IndexCheck, log: Path, start: int, timestamp: int, offset: int, before: int
) -> None:
    header, content = _batch_reaching(log, start, offset)
    if header is None or header.last_offset != offset:
        check.missing.append((offset, header.last_offset if header else -1))
        return
    records = (
        message_records(header, memoryview(content), check_crcs=False)
        if isinstance(header, MessageHeader)
        else batch_records(header, content)
    )
    # From the records, as in Kafka's tool: the header may be what is wrong.
    largest = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    if largest != timestamp:
        check.mismatches.append((timestamp, largest))
    if before >= timestamp:
        check.disorder.append((timestamp, before))


def _batch_reaching(log: Path, position: int, offset: int) -> tuple[Entry | None, bytes]:
    """The first batch from the position on that reaches the offset."""
    with log.open("rb") as file:
        while True:
            file.seek(position)
            header = _header_of(file.read(HEADER_BYTES))
            if header is None:
                return None, b""
            if header.last_offset >= offset:
                file.seek(position)
                return header, file.read(header.size)
            position += header.size
