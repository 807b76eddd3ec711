"""From what a client sent to what is written: validated, in the topic's codec, with offsets.

In the usual case the sender's bytes are written as they came, behind a new prefix: base offset and leader
epoch stand in front of the CRC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any

from odradek.log.config import LogConfig
from odradek.log.segments.time_index import NO_TIMESTAMP, TimestampOffset
from odradek.log.storage.files import Buffer
from odradek.records.batch import MAGIC_V2, MAX_TIMESTAMP_AT, BatchHeader, TimestampType
from odradek.records.compression import Codec
from odradek.records.convert import needs_recompression, recompress, target_codec
from odradek.records.patch import assign_offsets
from odradek.records.validate import validate_batches

PREFIX = Struct(">qii")
"""Base offset, length, leader epoch."""
_TIMESTAMP = Struct(">q")


class AppendRules:
    """A topic's config as its appends need it, worked out once.

    Attributes: `kind`: `message.timestamp.type`; `compacted`: whether records need keys; `magic`: the format
    that records are stored in; `codec` (None: the sender's) and `level`; `limits`: of single records, for the
    validation; `rewrites`: whether a batch without compression is written otherwise than it came; `plain`: if
    not, the largest batch, how old and how early a timestamp may be, and whether records need keys.
    """

    __slots__ = (
        "codec",
        "compacted",
        "kind",
        "level",
        "limits",
        "magic",
        "max_message_bytes",
        "plain",
        "rewrites",
    )

    def __init__(self, config: LogConfig) -> None:
        append_time = config.message_timestamp_type == "LogAppendTime"
        self.kind = TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME
        self.codec = target_codec(config.compression_type)
        self.compacted = config.compact
        self.magic = config.record_magic
        self.max_message_bytes = config.max_message_bytes
        self.rewrites = append_time or self.codec not in (None, Codec.NONE) or self.magic != MAGIC_V2
        self.plain = (
            None
            if self.rewrites
            else (
                config.max_message_bytes,
                config.message_timestamp_before_max_ms,
                config.message_timestamp_after_max_ms,
                config.compact,
            )
        )
        name = f"compression_{self.codec.name.lower()}_level" if self.codec else ""
        self.level: int | None = getattr(config, name, None)
        self.limits: Mapping[str, Any] = {
            "max_message_bytes": config.max_message_bytes,
            "timestamp_type": self.kind,
            "timestamp_before_max_ms": config.message_timestamp_before_max_ms,
            "timestamp_after_max_ms": config.message_timestamp_after_max_ms,
            "compacted": config.compact,
        }

    def validated(
        self, records: Buffer, *, from_client: bool, now_ms: int, produce_version: int | None
    ) -> tuple[Buffer, list[BatchHeader]]:
        """The batches, recompressed if the topic wants another codec, and their headers.

        Raises `KafkaError` as `validate_batches` does.
        """
        headers = validate_batches(
            records, now_ms=now_ms, from_client=from_client, produce_version=produce_version, **self.limits
        )
        codec = self.codec
        if codec is not None and needs_recompression(headers, codec):
            return recompress(records, headers, codec, level=self.level)
        return records, headers

    def checked(
        self, records: Buffer, *, from_client: bool, now_ms: int, produce_version: int | None
    ) -> list[BatchHeader]:
        """The headers of batches that are converted next. Raises as `validated`."""
        return validate_batches(
            records, now_ms=now_ms, from_client=from_client, produce_version=produce_version, **self.limits
        )


def stamped(
    records: Buffer,
    headers: Sequence[BatchHeader],
    kind: TimestampType,
    *,
    base_offset: int,
    leader_epoch: int,
    now_ms: int,
) -> tuple[list[Buffer], int, list[BatchHeader]]:
    """What to write: its parts, its size in bytes, and the headers as they are in it."""
    header = headers[0]
    if len(headers) == 1 and kind is TimestampType.CREATE_TIME:
        (stored,) = _TIMESTAMP.unpack_from(records, MAX_TIMESTAMP_AT)
        if stored == header[8]:
            view = memoryview(records)
            parts: list[Buffer] = [PREFIX.pack(base_offset, header[1], leader_epoch), view[PREFIX.size :]]
            prefix = (base_offset, header[1], leader_epoch)
            return parts, len(view), [BatchHeader._make(prefix + header[3:])]
    copy = bytearray(records)
    headers = assign_offsets(
        copy, base_offset, leader_epoch=leader_epoch, timestamp_type=kind, now_ms=now_ms, headers=headers
    )
    return [copy], len(copy), headers


def newest_of(headers: list[BatchHeader]) -> TimestampOffset:
    """The largest timestamp of some batches, and the last offset of the first that has it."""
    newest = TimestampOffset(NO_TIMESTAMP, headers[-1].last_offset)
    for header in headers:
        if header[8] > newest[0]:
            newest = TimestampOffset(header[8], header.last_offset)
    return newest
