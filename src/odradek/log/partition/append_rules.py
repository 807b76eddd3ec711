# compiled: mypyc
"""From what a client sent to what is written: validated, and in the topic's codec.

In the usual case the sender's bytes are written as they came, behind a new prefix: base offset and leader
epoch stand in front of the CRC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from odradek.errors import RecordTooLargeError
from odradek.log.config import LogConfig
from odradek.log.segments.timestamp_offset import NO_TIMESTAMP, TimestampOffset
from odradek.log.storage.files import Buffer
from odradek.records.batch import CODEC_MASK, MAGIC_V2, BatchHeader, TimestampType
from odradek.records.conversion.convert import needs_recompression, recompress, target_codec
from odradek.records.validate import AcceptedBatch, BatchLimits

_MOST: Final = 2**62 - 1
"""What stands for more: numbers up to here are plain numbers where this is compiled."""


class AppendRules:
    """A topic's config as its appends need it, worked out once.

    Attributes:
        kind: `message.timestamp.type`; `is_append_time`: whether that is LogAppendTime.
        compacted: whether records need keys.
        magic: the format that records are stored in.
        holds_batches: whether that is the one of record batches.
        codec, level: of the stored batches; None: the sender's codec.
        limits: what the validation needs, as arguments.
        max_unpacked_bytes: how far one batch may unpack.
        segment_bytes, flush_messages: as the config has them.
        segment_ms, segment_jitter_ms: for how long a segment is written to, and how much less at most.
        segment_ms_most: the bound of both: `max.compaction.lag.ms` of a compacted log, which needs complete
            segments to be compacted.
    """

    __slots__ = (
        "_batches",
        "_codec_id",
        "codec",
        "compacted",
        "flush_messages",
        "holds_batches",
        "is_append_time",
        "kind",
        "level",
        "limits",
        "magic",
        "max_message_bytes",
        "max_unpacked_bytes",
        "segment_bytes",
        "segment_jitter_ms",
        "segment_ms",
        "segment_ms_most",
    )

    def __init__(self, config: LogConfig) -> None:
        self.is_append_time = config.message_timestamp_type == "LogAppendTime"
        self.kind = TimestampType.LOG_APPEND_TIME if self.is_append_time else TimestampType.CREATE_TIME
        self.codec = target_codec(config.compression_type)
        self._codec_id = -1 if self.codec is None else int(self.codec)
        self.compacted = config.compact
        self.magic = config.record_magic
        self.holds_batches = self.magic == MAGIC_V2
        self.max_message_bytes = config.max_message_bytes
        name = f"compression_{self.codec.name.lower()}_level" if self.codec else ""
        self.level: int | None = getattr(config, name, None)
        self.limits: Mapping[str, Any] = {
            "max_message_bytes": config.max_message_bytes,
            "timestamp_type": self.kind,
            "timestamp_before_max_ms": config.message_timestamp_before_max_ms,
            "timestamp_after_max_ms": config.message_timestamp_after_max_ms,
            "compacted": config.compact,
            "max_decompressed_bytes": config.batch_unpacked_max_bytes,
        }
        self.max_unpacked_bytes = config.batch_unpacked_max_bytes
        self._batches = BatchLimits(**self.limits)
        self.segment_bytes = config.segment_bytes
        self.flush_messages = min(config.flush_messages, _MOST)
        self.segment_jitter_ms = min(config.segment_jitter_ms, config.segment_ms, _MOST)
        self.segment_ms = min(config.segment_ms, _MOST)
        # `max.compaction.lag.ms`: the active segment is not cleaned, so a record must get out of it by then.
        self.segment_ms_most = min(config.max_compaction_lag_ms, _MOST) if self.compacted else _MOST

    def accept(self, records: Buffer, now_ms: int, produce_version: int | None) -> AcceptedBatch | None:
        """One batch that is in order, as clients send them; None for all that `validated` is to explain."""
        return self._batches.accept(records, now_ms, produce_version)

    def accept_within(
        self, records: Buffer, now_ms: int, produce_version: int | None, most_unpacked: int
    ) -> AcceptedBatch | None:
        """See `BatchLimits.accept_within`."""
        return self._batches.accept_within(
            records, now_ms, produce_version, min(most_unpacked, self.max_unpacked_bytes)
        )

    def keeps(self, batch: AcceptedBatch) -> bool:
        """Return whether a batch is stored as it came, but for the prefix: it says itself what its records
        say, and is in the topic's codec.
        """
        return (
            batch.says_so
            and not self.is_append_time
            and (self._codec_id < 0 or batch.attributes & CODEC_MASK == self._codec_id)
        )

    def validated(
        self, records: Buffer, *, from_client: bool, now_ms: int, produce_version: int | None
    ) -> tuple[Buffer, list[BatchHeader]]:
        """Return the batches, recompressed if the topic wants another codec, and their headers.

        Raises:
            KafkaError: as `validate_batches`; MESSAGE_TOO_LARGE for a batch that is larger than
                `max.message.bytes` once it is recompressed.
        """
        return self.recoded(
            records, self._batches.validate_batches(records, now_ms, from_client, produce_version)
        )

    def recoded(self, records: Buffer, headers: list[BatchHeader]) -> tuple[Buffer, list[BatchHeader]]:
        """Return validated batches in the codec that the topic wants, and their headers."""
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
        """Return the headers of batches that are converted next.

        Raises:
            KafkaError: as `validate_batches`.
        """
        return self._batches.validate_batches(records, now_ms, from_client, produce_version)


def newest_of(headers: Sequence[BatchHeader]) -> TimestampOffset:
    """The largest timestamp of some batches, and the last offset of the first that has it."""
    newest = TimestampOffset(NO_TIMESTAMP, headers[-1].last_offset)
    for header in headers:
        if header.max_timestamp > newest.timestamp:
            newest = TimestampOffset(header.max_timestamp, header.last_offset)
    return newest
