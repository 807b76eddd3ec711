"""A produced batch that is in order is accepted in one call, in pure Python; the twin of `_validate`.

What is not in order gives None, and `odradek.records.validate` looks at it again to say what is wrong: these
functions never do.
"""

from __future__ import annotations

from typing import Literal

from odradek.errors import KafkaError, RecordTooLargeError
from odradek.records._pykernel import walk
from odradek.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    HEADER_STRUCT,
    LOG_OVERHEAD,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    compute_crc,
)
from odradek.records.compression import Buffer, decompress

__all__ = ["accept_batch"]

Facts = tuple[int, int, bool, int, int, int, int, int]
"""Last offset delta, the largest timestamp as the records have it, whether the header says so too; of the
header attributes, producer id, producer epoch, base sequence; and how many bytes the records unpacked to, 0
where they were not packed."""

_NOT_FROM_CLIENTS = TIMESTAMP_TYPE_BIT | CONTROL_BIT | DELETE_HORIZON_BIT


def accept_batch(
    buffer: Buffer,
    max_bytes: int,
    earliest: int,
    latest: int,
    require_key: bool,
    newest_codec: int,
    max_unpacked: int,
) -> Facts | Literal[False] | None:
    """Return what an append needs to know of a batch that is in order.

    Args:
        buffer: One batch of magic 2 as a client sends it, and nothing else.
        max_bytes: The largest batch that is taken.
        earliest, latest: The timestamps that are taken, both included, milliseconds; -1 always is.
        require_key: Whether a null key is refused.
        newest_codec: The last codec that may be used, by its number.
        max_unpacked: How far the records may unpack, bytes.

    Returns:
        False for records that unpack to more than `max_unpacked`, None for everything else.
    """
    size = len(buffer)
    # The cheap checks first. Their order tells nothing: `validate` finds out what is wrong, in Kafka's order.
    if not HEADER_BYTES <= size <= max_bytes:
        return None
    header = BatchHeader._make(HEADER_STRUCT.unpack_from(buffer))
    codec = header.attributes & CODEC_MASK
    if (
        header.magic != MAGIC_V2
        or header.base_offset
        or header.length != size - LOG_OVERHEAD
        or header.attributes & _NOT_FROM_CLIENTS
        or codec > newest_codec
        or header.record_count < 1
        or header.record_count != header.last_offset_delta + 1
        or (header.producer_id >= 0 and header.base_sequence < 0)
        or compute_crc(buffer) != header.crc
    ):
        return None
    section = memoryview(buffer)[HEADER_BYTES:]
    unpacked = 0
    if codec:
        try:
            section = decompress(codec, section, max_unpacked)
        except RecordTooLargeError:
            return False
        except KafkaError:
            return None
        unpacked = len(section)
    problem, _, max_timestamp, refused = walk(
        section, header.record_count, header.base_timestamp, earliest, latest, require_key, 1
    )
    if problem or refused:
        return None
    return (
        header.last_offset_delta,
        max_timestamp,
        header.max_timestamp == max_timestamp,
        header.attributes,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        unpacked,
    )
