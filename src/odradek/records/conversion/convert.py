"""Batches written anew, where patching in place will not do: another codec for the topic."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.records.batch import CODEC_MASK, HEADER_BYTES, BatchHeader, records_section
from odradek.records.builder import finish_batch
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, Buffer, Codec, compress


def target_codec(compression_type: str) -> Codec | None:
    """The codec of a topic's `compression.type`; None for 'producer', which keeps the sender's.

    Raises:
        ValueError: a name that Kafka does not know.
    """
    return None if compression_type == "producer" else Codec.parse(compression_type)


def needs_recompression(headers: Sequence[BatchHeader], codec: Codec | None) -> bool:
    """Return whether `recompress` would change any of these batches."""
    return codec is not None and any(_differs(header, codec) for header in headers)


def _differs(header: BatchHeader, codec: Codec) -> bool:
    # Markers that were written uncompressed stay so, as in Kafka.
    return header.codec_id != codec and not (header.is_control and header.codec_id == Codec.NONE)


def recompress(
    buffer: Buffer,
    headers: Sequence[BatchHeader],
    codec: Codec,
    *,
    level: int | None = None,
    max_size: int = MAX_DECOMPRESSED_BYTES,
) -> tuple[bytearray, list[BatchHeader]]:
    """The batches in `buffer` with their records compressed by `codec`, and their new headers.

    The records themselves stay as they are, byte for byte; only their packing, the length, the codec in the
    attributes and the CRC are new (Kafka's own rewriting comes to the same bytes before compression).
    `headers` are those that `validate_batches` returned; their max timestamps are written.

    Raises:
        KafkaError: as `records_section`.
    """
    view = memoryview(buffer)
    out = bytearray()
    rewritten = []
    position = 0
    for header in headers:
        batch = view[position : position + header.size]
        position += header.size
        if not _differs(header, codec):
            out += batch
            rewritten.append(header)
            continue
        new = bytearray(HEADER_BYTES)
        new += compress(codec, records_section(header, batch, max_size), level)
        finish_batch(
            new,
            base_offset=header.base_offset,
            partition_leader_epoch=header.partition_leader_epoch,
            attributes=header.attributes & ~CODEC_MASK | codec,
            last_offset_delta=header.last_offset_delta,
            base_timestamp=header.base_timestamp,
            max_timestamp=header.max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            record_count=header.record_count,
        )
        rewritten.append(BatchHeader.parse(new))
        out += new
    return out, rewritten
