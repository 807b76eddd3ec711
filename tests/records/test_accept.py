"""A batch is accepted in one call exactly if nothing is wrong with it; both kernels do so alike."""

from __future__ import annotations

import importlib
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from odradek.errors import KafkaError
from odradek.records import _pyvalidate as twin
from odradek.records.batch import BatchHeader, compute_crc, records_section
from odradek.records.builder import BatchBuilder
from odradek.records.codecs import PIECE_BYTES
from odradek.records.compression import Codec
from odradek.records.validate import AcceptedBatch, _explain, _Limits

try:
    native: Any = importlib.import_module("odradek.records._validate")
except ImportError:
    native = None

KERNELS = [
    pytest.param(twin, id="python"),
    pytest.param(
        native, id="native", marks=pytest.mark.skipif(native is None, reason="the kernel is not compiled")
    ),
]
NOW = 1_700_000_000_000
INT64 = st.integers(-(2**63), 2**63 - 1)
UNLIMITED = -(2**63), 2**63 - 1

moderate = settings(suppress_health_check=[HealthCheck.too_slow])


@st.composite
def batches(draw: Any) -> bytes:
    """A batch of any codec, often with damages, then often with a right CRC all the same."""
    fields: dict[str, Any] = {}
    if draw(st.booleans()):
        fields = {
            "producer_id": draw(st.sampled_from([0, 5, 2**62])),
            "producer_epoch": draw(st.sampled_from([0, 7])),
            "base_sequence": draw(st.sampled_from([0, 2**31 - 1])),
            "transactional": draw(st.booleans()),
        }
    if draw(st.integers(0, 9)) == 0:
        fields["base_offset"] = draw(st.integers(-1, 3))
    codec = draw(st.sampled_from([Codec.NONE, *Codec]))
    builder = BatchBuilder(codec, **fields)
    size = draw(st.sampled_from([5, 5, 5, 4000]))
    for _ in range(draw(st.integers(1, 8))):
        timestamp = draw(st.integers(NOW - 5, NOW + 5) | st.just(-1))
        key = draw(st.none() | st.binary(max_size=3))
        value = draw(st.none() | st.just(b"v" * size))
        builder.append(timestamp, key, value, [("h", b"x")] * draw(st.integers(0, 2)))
    data = bytearray(builder.build())
    for kind in draw(st.lists(st.sampled_from(["flip", "bit", "cut", "more", "field"]), max_size=2)):
        at = draw(st.integers(0, len(data) - 1))
        if kind == "flip":
            data[at] = draw(st.integers(0, 255))
        elif kind == "bit":
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut" and at:
            del data[at:]
        elif kind == "more":
            data += draw(st.binary(min_size=1, max_size=3))
        elif kind == "field" and len(data) >= 61:
            position, layout, values = draw(
                st.sampled_from(
                    [
                        (0, ">q", [-1, 1]),
                        (8, ">i", [0, 48, 49, len(data) - 12]),
                        (16, ">b", [0, 1, 3]),
                        (22, ">B", [5, 7, 8, 0x20, 0x40, 0x80]),
                        (23, ">i", [-1, 0, 2**31 - 1]),
                        (27, ">q", [-(2**63), 2**63 - 1, 0]),
                        (35, ">q", [-1, 0, NOW + 100]),
                        (43, ">q", [-1, -2, 0]),
                        (53, ">i", [-1, -2, 0]),
                        (57, ">i", [-1, 0, 1, 2**31 - 1]),
                    ]
                )
            )
            struct.pack_into(layout, data, position, draw(st.sampled_from(values)))
    if len(data) > 21 and draw(st.integers(0, 3)):
        data[17:21] = compute_crc(data).to_bytes(4, "big")
    return bytes(data)


@st.composite
def limits(draw: Any) -> tuple[int, int, int, bool, int, int]:
    """The arguments behind the batch."""
    return (
        draw(st.sampled_from([100, 1 << 20, 1 << 20])),
        draw(st.sampled_from([-(2**63), NOW - 3])),
        draw(st.sampled_from([2**63 - 1, NOW + 3])),
        draw(st.sampled_from([False, False, True])),
        draw(st.sampled_from([Codec.LZ4, Codec.ZSTD])).value,
        draw(st.sampled_from([50, 1 << 20, 1 << 21])),  # beyond a MiB it is unpacked piece by piece
    )


def whole(accepted: Any, data: bytes) -> BatchHeader | None:
    """The header of an accepted batch, all of which has to be as its bytes are."""
    if not accepted:
        return None
    batch = AcceptedBatch(*accepted)
    header = batch.header(data)
    for field in ("last_offset_delta", "attributes", "producer_id", "producer_epoch", "base_sequence"):
        assert getattr(batch, field) == getattr(header, field)
    assert batch.says_so == (batch.max_timestamp == BatchHeader.parse(data).max_timestamp)
    return header


@pytest.mark.parametrize("kernel", KERNELS)
@moderate
@given(data=batches(), found=limits())
def test_what_is_accepted_is_what_has_nothing_wrong_with_it(
    kernel: Any, data: bytes, found: tuple[int, int, int, bool, int, int]
) -> None:
    size, earliest, latest, require_key, newest_codec, unpacked = found
    accepted = kernel.accept_batch(data, *found)
    version = 9 if newest_codec == Codec.ZSTD else 6
    try:
        explained = _explain(
            memoryview(data), _Limits(size, earliest, latest, require_key, True, version, unpacked)
        )
    except KafkaError:
        explained = [None]  # type: ignore[list-item]
    assert [whole(accepted, data)] == explained


@pytest.mark.skipif(native is None, reason="the kernel is not compiled")
@moderate
@given(data=batches(), found=limits())
@example(data=b"", found=(100, *UNLIMITED, False, 4, 100))
def test_both_kernels_accept_the_same(data: bytes, found: tuple[int, int, int, bool, int, int]) -> None:
    assert native.accept_batch(data, *found) == twin.accept_batch(data, *found)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("count", [1, 300])
@pytest.mark.parametrize("container", [bytes, bytearray, memoryview])
def test_every_codec_is_accepted(kernel: Any, codec: Codec, count: int, container: Any) -> None:
    builder = BatchBuilder(codec, producer_id=7, producer_epoch=1, base_sequence=2, transactional=True)
    for number in range(count):
        builder.append(NOW + number, b"k", b"v" * 100, ())
    data = bytes(builder.build())
    accepted = kernel.accept_batch(container(data), 1 << 20, *UNLIMITED, True, 4, 1 << 20)
    assert whole(accepted, data) == BatchHeader.parse(data)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_batch_that_unpacks_to_too_much_is_not_accepted(kernel: Any, codec: Codec) -> None:
    builder = BatchBuilder(codec)
    builder.append(NOW, None, b"v" * 10_000, ())
    data = bytes(builder.build())
    for unpacked, good in ((11_000, True), (9_000, False)):
        accepted = kernel.accept_batch(data, 1 << 20, *UNLIMITED, False, 4, unpacked)
        assert accepted is False if not good else accepted[-1] > 10_000


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_batch_that_unpacks_to_much_is_looked_at_piece_by_piece(kernel: Any, codec: Codec) -> None:
    builder = BatchBuilder(codec)
    for number in range(40):
        value = bytes([number]) * (50_000 * (number % 3) + number)
        builder.append(NOW + number, b"k" * number, value, (("h" * number, None), ("i", value[:number])))
    data = bytes(builder.build())
    whole_size = len(records_section(BatchHeader.parse(data), memoryview(data)))
    assert whole_size > 7 * PIECE_BYTES
    accepted = kernel.accept_batch(data, 1 << 22, *UNLIMITED, True, 4, 1 << 23)
    assert whole(accepted, data) == BatchHeader.parse(data)
    assert accepted[-1] == whole_size
    assert kernel.accept_batch(data, 1 << 22, *UNLIMITED, True, 4, whole_size) == accepted
    assert kernel.accept_batch(data, 1 << 22, *UNLIMITED, True, 4, whole_size - 1) is False
    assert kernel.accept_batch(data, 1 << 22, NOW, NOW + 38, True, 4, 1 << 23) is None


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_max_timestamp_that_is_not_true_comes_back_as_the_records_have_it(kernel: Any) -> None:
    builder = BatchBuilder()
    builder.append(NOW, None, b"v", ())
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 35, NOW + 9)
    data[17:21] = compute_crc(data).to_bytes(4, "big")
    accepted = kernel.accept_batch(data, 1 << 20, *UNLIMITED, False, 4, 1 << 20)
    assert whole(accepted, bytes(data)) == BatchHeader.parse(data)._replace(max_timestamp=NOW)
