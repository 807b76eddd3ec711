"""From what a client sent to what is written: validated, and in the topic's codec.

In the usual case the sender's bytes are written as they came, behind a new prefix: base offset and leader
epoch stand in front of the CRC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any

from odradek.errors import RecordTooLargeError
from odradek.log.config import LogConfig
from odradek.log.segments.timestamp_offset import NO_TIMESTAMP, TimestampOffset
from odradek.log.storage.files import Buffer
from odradek.records.batch import MAX_TIMESTAMP_AT, BatchHeader, TimestampType
from odradek.records.convert import needs_recompression, recompress, target_codec
from odradek.records.validate import BatchLimits

PREFIX = Struct(">qii")
"""Base offset, length, leader epoch."""
_TIMESTAMP = Struct(">q")


class AppendRules:
    """A topic's config as its appends need it, worked out once.

    Attributes:
        kind: `message.timestamp.type`; `is_append_time`: whether that is LogAppendTime.
        compacted: whether records need keys.
        magic: the format that records are stored in.
        codec, level: of the stored batches; None: the sender's codec.
        limits: what the validation needs, as arguments.
    """

    __slots__ = (
        "_batches",
        "codec",
        "compacted",
        "is_append_time",
        "kind",
        "level",
        "limits",
        "magic",
        "max_message_bytes",
    )

    def __init__(self, config: LogConfig) -> None:
        self.is_append_time = config.message_timestamp_type == "LogAppendTime"
        self.kind = TimestampType.LOG_APPEND_TIME if self.is_append_time else TimestampType.CREATE_TIME
        self.codec = target_codec(config.compression_type)
        self.compacted = config.compact
        self.magic = config.record_magic
        self.max_message_bytes = config.max_message_bytes
        name = f"compression_{self.codec.name.lower()}_level" if self.codec else ""
        self.level: int | None = getattr(config, name, None)
        self.limits: Mapping[str, Any] = {
            "max_message_bytes": config.max_message_bytes,
            "timestamp_type": self.kind,
            "timestamp_before_max_ms": config.message_timestamp_before_max_ms,
            "timestamp_after_max_ms": config.message_timestamp_after_max_ms,
            "compacted": config.compact,
        }
        self._batches = BatchLimits(**self.limits)

    def validated(
        self, records: Buffer, *, from_client: bool, now_ms: int, produce_version: int | None
    ) -> tuple[Buffer, list[BatchHeader]]:
        """Return the batches, recompressed if the topic wants another codec, and their headers.

        Raises `KafkaError` as `validate_batches` does, and MESSAGE_TOO_LARGE for a batch that is larger than
        `max.message.bytes` once it is recompressed.
        """
        headers = self._batches.validate(records, now_ms, from_client, produce_version)
        codec = self.codec
        if codec is not None and needs_recompression(headers, codec):
            records, headers = recompress(records, headers, codec, level=self.level)
            for header in headers:
                if header.size > self.max_message_bytes:
                    raise RecordTooLargeError(
                        f"the record batch has {header.size} bytes in the topic's codec, which exceeds the "
                        f"maximum of {self.max_message_bytes}"
                    )
        return records, headers

    def checked(
        self, records: Buffer, *, from_client: bool, now_ms: int, produce_version: int | None
    ) -> list[BatchHeader]:
        """Return the headers of batches that are converted next. Raises as `validated`."""
        return self._batches.validate(records, now_ms, from_client, produce_version)


def newest_of(headers: Sequence[BatchHeader]) -> TimestampOffset:
    """The largest timestamp of some batches, and the last offset of the first that has it."""
    newest = TimestampOffset(NO_TIMESTAMP, headers[-1].last_offset)
    for header in headers:
        if header.max_timestamp > newest.timestamp:
            newest = TimestampOffset(header.max_timestamp, header.last_offset)
    return newest


def is_as_sent(records: Buffer, header: BatchHeader) -> bool:
    """Whether a batch may be stored as it came but for its prefix: it says itself what its records say."""
    stored: int = _TIMESTAMP.unpack_from(records, MAX_TIMESTAMP_AT)[0]
    return stored == header.max_timestamp
