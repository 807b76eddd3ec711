"""Message sets of magic 0 and 1, as old producers make them: byte for byte those of Kafka's own writer."""

from __future__ import annotations

from odradek.records.batch import NO_TIMESTAMP, TimestampType
from odradek.records.compression import Buffer, Codec
from odradek.records.message_sets.message_compression import refuse_zstd
from odradek.records.message_sets.message_writer import (
    MESSAGE_OVERHEAD,
    append_message,
    message_attributes,
    wrapper,
)

_MAX_TIMESTAMP = 0x7FFF_FFFF_FFFF_FFFF


class MessageSetBuilder:
    """Writes one message set, as producers and logs of the old formats have it.

    Args:
        magic: 0 or 1.
        codec: Not NONE: one wrapper is made of all messages in `build`.
        timestamp_type: With LOG_APPEND_TIME, `append_time` is the timestamp of all messages.
        base_offset: Of the first message; 0 from a producer.
        append_time: Milliseconds; only with LOG_APPEND_TIME.
        level: The codec's level; None is Kafka's default.

    Raises:
        KafkaError: UNSUPPORTED_COMPRESSION_TYPE for zstd.
        ValueError: Another magic.
    """

    def __init__(
        self,
        magic: int,
        codec: Codec = Codec.NONE,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        base_offset: int = 0,
        *,
        append_time: int = NO_TIMESTAMP,
        level: int | None = None,
    ) -> None:
        if magic not in (0, 1):
            raise ValueError(f"a message set has magic 0 or 1, not {magic}")
        refuse_zstd(codec, magic)
        self.magic = magic
        self.codec = codec
        self.timestamp_type = timestamp_type
        self.base_offset = base_offset
        self.append_time = append_time
        self.level = level
        self._messages = bytearray()
        self._count = 0
        self._last_offset = base_offset - 1
        self._max_timestamp = NO_TIMESTAMP
        self._attributes = message_attributes(magic, Codec.NONE, timestamp_type)

    @property
    def count(self) -> int:
        """Return how many messages have been appended."""
        return self._count

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp appended, -1 before the first and at magic 0."""
        return self._max_timestamp

    @property
    def last_offset(self) -> int:
        """The offset of the last message."""
        return self._last_offset

    def append(
        self, timestamp: int, key: Buffer | None, value: Buffer | None, *, offset: int | None = None
    ) -> int:
        """Add a message; its offset is returned.

        Args:
            timestamp: Milliseconds since the epoch, or -1; magic 0 drops it.
            key, value: None is null.
            offset: Larger than the last one, where there are gaps; without it the next.

        Raises:
            ValueError: A negative timestamp other than -1, or an offset that does not grow.
        """
        if offset is None:
            offset = self._last_offset + 1
        elif offset <= self._last_offset:
            raise ValueError(f"offset {offset} after {self._last_offset}")
        if not NO_TIMESTAMP <= timestamp <= _MAX_TIMESTAMP:
            raise ValueError(f"invalid timestamp {timestamp}")
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            timestamp = self.append_time
        relative = self.magic == 1 and self.codec is not Codec.NONE
        append_message(
            self._messages,
            self.magic,
            offset - self.base_offset if relative else offset,
            timestamp,
            self._attributes,
            key,
            value,
        )
        if self.magic and timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self._last_offset = offset
        self._count += 1
        return offset

    def size_estimate(self) -> int:
        """The set's size so far in bytes, before compression."""
        wrapping = 0 if self.codec is Codec.NONE else MESSAGE_OVERHEAD[self.magic]
        return len(self._messages) + wrapping

    def size_with(self, key: Buffer | None, value: Buffer | None) -> int:
        """`size_estimate()` after one more such message."""
        size = self.size_estimate() + MESSAGE_OVERHEAD[self.magic]
        return size + (0 if key is None else len(key)) + (0 if value is None else len(value))

    def build(self) -> bytes:
        """The whole set; empty without messages. May be called again after more messages."""
        if self.codec is Codec.NONE or not self._count:
            return bytes(self._messages)
        with memoryview(self._messages) as view:
            return bytes(
                wrapper(
                    view,
                    self.magic,
                    self.codec,
                    last_offset=self._last_offset,
                    timestamp=self._max_timestamp,
                    timestamp_type=self.timestamp_type,
                    level=self.level,
                )
            )
