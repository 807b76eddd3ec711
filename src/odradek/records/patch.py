"""The changes that a leader makes to a batch, in place: base offset, leader epoch, and timestamps.

The first two stand in front of the CRC, so that an append leaves the sender's checksum alone. Only a
timestamp (LogAppendTime, or a max timestamp that the sender got wrong) costs a new one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from odradek.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    LOG_OVERHEAD,
    MAX_TIMESTAMP_AT,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    TimestampType,
    compute_crc,
    iter_batches,
)

_INT64 = struct.Struct(">q")
_OFFSET_LENGTH_EPOCH = struct.Struct(">qii")
_INT16 = struct.Struct(">h")
_UINT32 = struct.Struct(">I")


def assign_offsets(
    buffer: bytearray | memoryview,
    base_offset: int,
    *,
    leader_epoch: int,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    now_ms: int = -1,
    headers: Sequence[BatchHeader] | None = None,
) -> list[BatchHeader]:
    """Give the batches in `buffer` their place in a log.

    Args:
        buffer: Whole batches that `validate_batches` has accepted; changed in place.
        base_offset: Offset of the first record; the others follow without a gap.
        leader_epoch: Of the partition's leader.
        timestamp_type: The topic's. With LOG_APPEND_TIME every batch gets `now_ms`.
        now_ms: The broker's time, milliseconds; used with LOG_APPEND_TIME only.
        headers: What `validate_batches` returned for `buffer`, with the true max timestamps; without
            them the batches' own are taken for true.

    Returns:
        The headers as they now are in `buffer`.
    """
    if headers is None:
        headers = [header for header, _ in iter_batches(buffer)]
    patched = []
    position = 0
    view = memoryview(buffer)
    for header in headers:
        size = header.length + LOG_OVERHEAD
        _OFFSET_LENGTH_EPOCH.pack_into(buffer, position, base_offset, header.length, leader_epoch)
        attributes = header.attributes
        if timestamp_type is TimestampType.LOG_APPEND_TIME:
            attributes |= TIMESTAMP_TYPE_BIT
            max_timestamp = now_ms
        else:
            max_timestamp = header.max_timestamp
        crc = header.crc
        # `header` may have the true max timestamp where the bytes have a wrong one.
        (stored,) = _INT64.unpack_from(buffer, position + MAX_TIMESTAMP_AT)
        if attributes != header.attributes or max_timestamp != stored:
            crc = _stamp(view[position : position + size], attributes, max_timestamp)
        patched.append(
            BatchHeader(
                base_offset,
                header.length,
                leader_epoch,
                header.magic,
                crc,
                attributes,
                header.last_offset_delta,
                header.base_timestamp,
                max_timestamp,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.record_count,
            )
        )
        base_offset += header.last_offset_delta + 1
        position += size
    return patched


def _stamp(batch: memoryview, attributes: int, max_timestamp: int) -> int:
    """Change what the checksum of a batch covers; returns the new one."""
    _INT16.pack_into(batch, ATTRIBUTES_AT, attributes)
    _INT64.pack_into(batch, MAX_TIMESTAMP_AT, max_timestamp)
    crc = compute_crc(batch)
    _UINT32.pack_into(batch, CRC_AT, crc)
    return crc
