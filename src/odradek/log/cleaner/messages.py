"""The cleaning of one message of magic 0 or 1, or of a wrapper: the rules of `batches`, for older formats.

A wrapper that loses records is written anew in its codec; offsets and timestamps stay. There are no delete
horizons: tombstones go with the first pass that meets them in a segment which was written to at least
`delete.retention.ms` before the clean part of the log (Kafka: `retainLegacyDeletesAndTxnMarkers`).
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.log.cleaner.job import CleanJob, Source
from odradek.log.cleaner.key_map import KeyMap
from odradek.records.batch import NO_TIMESTAMP, TimestampType
from odradek.records.compression import Codec
from odradek.records.message_sets.message_set import MessageHeader, inner_records
from odradek.records.message_sets.message_writer import append_message, message_attributes, wrapper


def index_messages(keys: KeyMap, header: MessageHeader, message: memoryview, start_offset: int) -> bool:
    """Note the offsets of the keys from `start_offset` on; true when the map is full.

    Raises:
        KafkaError: the messages do not parse.
    """
    for _, _, record in inner_records(header, message):
        if (
            record.key is not None
            and record.offset >= start_offset
            and not keys.put(record.key, record.offset)
        ):
            return True
    return False


@dataclass(slots=True)
class KeptMessages:
    """The part of a message that stays: `data` (None: nothing), its last offset and largest timestamp, and
    counts.
    """

    data: bytes | memoryview | None
    last_offset: int
    max_timestamp: int
    read: int
    records: int
    keyless: int


class MessageFilter:
    """The rules, for one pass.

    Args:
        keys: the map of the pass.
        job: what the pass is to do.
    """

    def __init__(self, keys: KeyMap, job: CleanJob) -> None:
        self._keys = keys
        clean = [source for source in job.sources if source.base_offset < job.first_dirty]
        self._horizon_ms = clean[-1].modified_ms - job.delete_retention_ms if clean else 0
        self._keep_tombstones = True

    def enter(self, source: Source) -> None:
        """The messages to come are those of this segment."""
        self._keep_tombstones = source.modified_ms > self._horizon_ms

    def apply(self, header: MessageHeader, message: memoryview) -> KeptMessages:
        """Return what is kept.

        Raises:
            KafkaError: the message does not parse.
        """
        read = keyless = 0
        kept = []
        for _, _, record in inner_records(header, message):
            read += 1
            if record.offset <= self._keys.latest_offset:
                if record.key is None:
                    keyless += 1
                    continue
                if record.offset < self._keys.get(record.key):
                    continue
                if record.value is None and not self._keep_tombstones:
                    continue
            kept.append(record)
        if not kept:
            return KeptMessages(None, header.offset, NO_TIMESTAMP, read, 0, keyless)
        if len(kept) == read:
            return KeptMessages(message, header.offset, header.max_timestamp, read, read, keyless)
        kind = header.timestamp_type
        attributes = message_attributes(header.magic, Codec.NONE, kind)
        first = kept[0].offset if header.magic else 0
        inner = bytearray()
        for record in kept:
            append_message(
                inner,
                header.magic,
                record.offset - first,
                record.timestamp,
                attributes,
                record.key,
                record.value,
            )
        last_offset = kept[-1].offset
        largest = max(record.timestamp for record in kept)
        if kind is TimestampType.LOG_APPEND_TIME:
            largest = header.timestamp
        data = wrapper(
            inner,
            header.magic,
            header.codec,
            last_offset=last_offset,
            timestamp=largest,
            timestamp_type=kind,
        )
        return KeptMessages(bytes(data), last_offset, largest, read, len(kept), keyless)
