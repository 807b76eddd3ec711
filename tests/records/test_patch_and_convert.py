"""What a leader changes in a batch: in place, or by packing it anew."""

from __future__ import annotations

import struct

import pytest

from odradek.records.batch import (
    BatchHeader,
    TimestampType,
    check_crc,
    compute_crc,
    iter_batches,
    iter_records,
)
from odradek.records.builder import BatchBuilder, build_batch
from odradek.records.compression import Codec
from odradek.records.control import ControlType, end_marker_batch
from odradek.records.conversion.convert import needs_recompression, recompress, target_codec
from odradek.records.patch import assign_offsets
from records.validating import validate_batches

RECORDS = [(1000 + i % 3, b"k%d" % i, b"v" * i, []) for i in range(50)]


def test_offset_and_epoch_leave_the_crc_alone() -> None:
    batch = bytearray(build_batch(RECORDS, codec=Codec.LZ4))
    original = bytes(batch)
    (header,) = assign_offsets(batch, 1_000_000, leader_epoch=9)
    assert batch[16:] == original[16:]
    assert header == BatchHeader.parse(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (1_000_000, 9)
    assert [r.offset for r in iter_records(batch)] == list(range(1_000_000, 1_000_050))


def test_several_batches_follow_without_a_gap() -> None:
    buffer = bytearray(build_batch(RECORDS) + build_batch(RECORDS[:7]) + build_batch(RECORDS[:1]))
    headers = assign_offsets(memoryview(buffer), 10, leader_epoch=0)
    assert [(h.base_offset, h.last_offset) for h in headers] == [(10, 59), (60, 66), (67, 67)]
    assert [header for header, _ in iter_batches(buffer)] == headers


def test_log_append_time() -> None:
    batch = bytearray(build_batch(RECORDS, codec=Codec.ZSTD))
    (header,) = assign_offsets(
        batch, 5, leader_epoch=1, timestamp_type=TimestampType.LOG_APPEND_TIME, now_ms=777
    )
    assert header == BatchHeader.parse(batch)
    check_crc(header, batch)
    assert {(r.timestamp, r.timestamp_type) for r in iter_records(batch)} == {
        (777, TimestampType.LOG_APPEND_TIME)
    }


def test_a_wrong_max_timestamp_is_put_right() -> None:
    builder = BatchBuilder()
    for record in RECORDS:
        builder.append(*record)
    batch = bytearray(builder.build())
    struct.pack_into(">q", batch, 35, 5)  # docs/log_format.md: the largest timestamp, and the CRC
    struct.pack_into(">I", batch, 17, compute_crc(batch))
    headers = validate_batches(batch, max_message_bytes=1 << 20, now_ms=0)
    (header,) = assign_offsets(batch, 0, leader_epoch=0, headers=headers)
    assert header.max_timestamp == 1002
    assert header == BatchHeader.parse(batch)
    check_crc(header, batch)


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", list(Codec))
def test_recompression(source: Codec, target: Codec) -> None:
    batch = build_batch(
        RECORDS, codec=source, producer_id=1, producer_epoch=2, base_sequence=3, transactional=True
    )
    headers = validate_batches(batch, max_message_bytes=1 << 20, now_ms=0)
    assert needs_recompression(headers, target) == (source != target)
    assert not needs_recompression(headers, None)
    packed, new = recompress(batch, headers, target)
    assert list(iter_records(packed)) == list(iter_records(batch))
    assert [header for header, _ in iter_batches(packed)] == new
    (header,) = new
    assert header.codec is target
    unchanged = {"length": 0, "crc": 0, "attributes": 0}
    assert header._replace(**unchanged) == headers[0]._replace(**unchanged)
    if source == target:
        assert packed == batch
    if target is Codec.NONE:
        assert packed == build_batch(
            RECORDS, producer_id=1, producer_epoch=2, base_sequence=3, transactional=True
        )


def test_markers_stay_uncompressed() -> None:
    marker = end_marker_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0
    )
    headers = [BatchHeader.parse(marker)]
    assert not needs_recompression(headers, Codec.GZIP)
    assert recompress(marker, headers, Codec.GZIP)[0] == marker


def test_compression_type_of_a_topic() -> None:
    assert target_codec("producer") is None
    assert target_codec("uncompressed") is Codec.NONE
    assert target_codec("zstd") is Codec.ZSTD
    with pytest.raises(ValueError, match="compression"):
        target_codec("nonsense")
