"""Unsigned varints, tag sections and uuids in text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import odradek
from odradek.errors import ProtocolError
from odradek.wire.fields import parse_versions
from odradek.wire.primitives import (
    ZERO_UUID,
    encode_uvarint,
    join_tags,
    read_unknown_tags,
    read_uvarint,
    uuid_from_text,
    uuid_to_text,
)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_varints_come_back(value: int, tail: bytes) -> None:
    encoded = encode_uvarint(value)
    assert len(encoded) == max(1, -(-value.bit_length() // 7))
    assert read_uvarint(b"\xff" + encoded + tail, 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize("text", ["ffffffffff01", "808080808000", "ffffffff10", "ffffffff7f"])
def test_varints_that_are_too_long(text: str) -> None:
    with pytest.raises(ProtocolError):
        read_uvarint(bytes.fromhex(text), 0)


@pytest.mark.parametrize("text", ["", "80", "ffffffff"])
def test_varints_that_are_cut_off(text: str) -> None:
    with pytest.raises(IndexError):
        read_uvarint(bytes.fromhex(text), 0)


@given(st.dictionaries(st.integers(0, 2**31 - 1), st.binary(max_size=5), max_size=4))
def test_tags_come_back_in_order(tags: dict[int, bytes]) -> None:
    encoded = join_tags((), tags)
    found, end = read_unknown_tags(encoded, 0, len(encoded))
    assert end == len(encoded)
    assert (found or {}) == tags
    assert list(found or {}) == sorted(tags)


@given(st.binary(min_size=16, max_size=16))
def test_uuids_come_back(uuid: bytes) -> None:
    assert len(uuid_to_text(uuid)) == 22
    assert uuid_from_text(uuid_to_text(uuid)) == uuid


def test_uuids_are_kafkas() -> None:
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 21, "A" * 23, "!" * 22, "é" * 22])
def test_texts_that_are_no_uuids(text: str) -> None:
    with pytest.raises(ValueError, match="is not a uuid"):
        uuid_from_text(text)


@pytest.mark.parametrize(
    ("text", "inside", "shown"),
    [
        ("3+", [3, 99], "3+"),
        ("2-4", [2, 3, 4], "2-4"),
        ("5", [5], "5"),
        ("none", [], "none"),
        ("0+", [0, 7], "0+"),
    ],
)
def test_version_ranges(text: str, inside: list[int], shown: str) -> None:
    versions = parse_versions(text)
    assert [version for version in (0, 1, 2, 3, 4, 5, 7, 99) if version in versions][:1] == inside[:1]
    assert all(version in versions for version in inside)
    assert repr(versions) == shown
    assert bool(versions) == bool(inside)


def test_the_zero_id_has_one_name() -> None:
    """`ZERO_UUID`; `wire/fields.py` has the zeros of all types."""
    unnamed = re.compile(r"""b["']\\(0|x00)["'] ?\* ?16|\bbytes\(16\)""")
    root = Path(odradek.__file__).parent
    places = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if unnamed.search(path.read_text(encoding="utf-8"))
    }
    assert places == {"wire/fields.py", "wire/primitives.py"}
