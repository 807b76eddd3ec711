"""Confluent's wire format."""

from __future__ import annotations

import pytest

from odradek.serdes.wire_format import encode_message_indexes, frame_of, message_indexes, schema_id_of


def test_a_frame_has_the_schema_s_id() -> None:
    assert frame_of(258) == b"\x00\x00\x00\x01\x02"
    assert schema_id_of(frame_of(2**31 - 1) + b"x") == 2**31 - 1


@pytest.mark.parametrize("data", [b"", b"\x00\x00\x00\x01"])
def test_too_few_bytes(data: bytes) -> None:
    with pytest.raises(ValueError, match="too few"):
        schema_id_of(data)


def test_what_begins_otherwise() -> None:
    with pytest.raises(ValueError, match="first byte is 123, not 0"):
        schema_id_of(b'{"a": 1}')


@pytest.mark.parametrize(
    ("path", "data"), [([0], b"\x00"), ([1], b"\x02\x02"), ([1, 0, 64], b"\x06\x02\x00\x80\x01")]
)
def test_message_indexes(path: list[int], data: bytes) -> None:
    assert encode_message_indexes(path) == data
    assert message_indexes(b"....." + data + b"rest", 5) == (path, 5 + len(data))


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\x04\x00", b"\xff" * 9 + b"\x01", b"\x01", b"\xfe\xff\xff\xff\x0f\x00"]
)
def test_damaged_message_indexes(data: bytes) -> None:
    with pytest.raises(ValueError, match="message indexes"):
        message_indexes(data)
