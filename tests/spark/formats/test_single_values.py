"""Kafka's serdes of single values."""

from __future__ import annotations

import struct
from typing import Any

import pytest

pytest.importorskip("pyspark")

from hypothesis import given
from hypothesis import strategies as st

from .decoded import KERNELS, decoder


@pytest.mark.fuzz
@given(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_values(number: int, real: float, text: str) -> None:
    short, word = number % 2**16 - 2**15, number % 2**32 - 2**31
    for kind, data, found in (
        ("long", struct.pack(">q", number), number),
        ("int", struct.pack(">i", word), word),
        ("integer", struct.pack(">i", word), word),
        ("short", struct.pack(">h", short), short),
        ("double", struct.pack(">d", real), real),
        ("string", text.encode(), text),
    ):
        assert decoder(value_format=kind)([data, None]) == ([found, None], [])


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        ("long", b"1234567", "a long has 8 bytes, and it has another length"),
        ("short", b"", "a short has 2 bytes, and it has another length"),
        ("boolean", b"\x02", "not a boolean"),
        ("float", b"12345", "a float has 4 bytes, and it has another length"),
        ("string", b"ok\xff", "the characters are not UTF-8"),
        ("string", b"\xed\xa0\x80", "the characters are not UTF-8"),
        ("uuid", b"123", "not a UUID of 36 characters"),
    ],
)
def test_malformed(kind: str, data: bytes, reason: str) -> None:
    good = {
        "boolean": b"\x01",
        "string": b"good",
        "uuid": b"123e4567-e89b-12d3-a456-426614174000",
        "float": struct.pack(">f", 0.5),
    }.get(kind, bytes({"long": 8, "short": 2}.get(kind, 0)))
    rows, problems = decoder(value_format=kind)([good, data, None, good])
    assert [one is None for one in rows] == [False, True, True, False]
    assert [(one.row, one.reason.endswith(reason)) for one in problems] == [(1, True)]


@pytest.mark.fuzz
@given(
    st.lists(st.none() | st.binary(max_size=9), max_size=20),
    st.sampled_from(["long", "string", "boolean", "uuid"]),
)
def test_any_bytes(records: list[bytes | None], kind: str) -> None:
    rows, problems = decoder(value_format=kind)(records)
    for number, (record, row) in enumerate(zip(records, rows, strict=True)):
        malformed: Any = number in {one.row for one in problems}
        assert (row is None) == (record is None or malformed)


@pytest.mark.parametrize(
    ("validity", "offsets", "data", "first", "length", "said"),
    [
        (None, (0, 1), b"x", -1, 1, "negative offset or length"),
        (None, (0, 1), b"x", 0, 2, "the offsets are too short"),
        (b"\xff", (0,) * 11, b"", 0, 10, "the validity bits are too short"),
        (None, (-1, 1), b"x", 0, 1, "the offsets do not fit the data"),
        (None, (0, 1, 0), b"x", 0, 2, "the offsets do not fit the data"),
        (None, (0, 2), b"x", 0, 1, "the offsets do not fit the data"),
        (None, (0, 1), None, 0, 1, "the offsets do not fit the data"),
    ],
)
@pytest.mark.parametrize("modules", KERNELS)
def test_buffers_that_are_no_array(
    modules: dict[str, Any],
    validity: bytes | None,
    offsets: tuple[int, ...],
    data: bytes | None,
    first: int,
    length: int,
    said: str,
) -> None:
    packed = struct.pack(f"={len(offsets)}i", *offsets)
    with pytest.raises(ValueError, match=said):
        modules["tree_kernel"].Records(validity, packed, data, first, length)
