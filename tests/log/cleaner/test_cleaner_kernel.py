"""The compiled map of keys and its twin: the same of the same, whatever the bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.log.cleaner import _pykeys
from odradek.records.batch import HEADER_BYTES, iter_batches, iter_records
from odradek.records.builder import BatchBuilder

_cleaner = pytest.importorskip("odradek.log.cleaner._cleaner", reason="the kernel is not compiled")

BIG = 10_000

keys = st.none() | st.sampled_from([b"", b"a", b"b", b"c" * 40]) | st.binary(max_size=12)
values = st.none() | st.binary(max_size=200)
timestamps = st.integers(-1, 2**50) | st.integers(0, 2**62)
record_lists = st.lists(st.tuples(timestamps, keys, values), max_size=30)


def section_of(records: list[tuple[int, bytes | None, bytes | None]]) -> tuple[bytes, int]:
    """Records of a batch, and its base timestamp."""
    builder = BatchBuilder()
    for timestamp, key, value in records:
        builder.append(timestamp, key, value, [("h", None)])
    data = builder.build(last_offset_delta=len(records))
    ((header, batch),) = iter_batches(data)
    return bytes(batch[HEADER_BYTES:]), header.base_timestamp


def maps() -> list:
    return [_cleaner.KeyMap(BIG, 0.9), _pykeys.KeyMap(BIG * 9, 0.9)]


@given(first=record_lists, second=record_lists, start=st.integers(90, 120))
def test_both_index_the_same(first, second, start):
    found = []
    for key_map in maps():
        said = [
            key_map.index(section_of(records)[0], len(records), base, start)
            for base, records in ((90, first), (150, second))
        ]
        known = {key: key_map.get(key) for _, key, _ in first + second if key is not None}
        found.append((said, known, len(key_map)))
    assert found[0] == found[1]


retain_arguments = st.tuples(
    st.booleans(), st.booleans(), st.none() | st.integers(0, 2**50), st.integers(-1, 60)
)


@given(records=record_lists, newer=record_lists, how=retain_arguments)
@settings(max_examples=300)
def test_both_retain_the_same(records, newer, how):
    append_time, tombstones, horizon, latest = how
    section, base = section_of(records)
    found = []
    for key_map in maps():
        key_map.index(section_of(newer)[0], len(newer), 10, 0)
        key_map.note_read(latest)
        found.append(key_map.retain(section, len(records), 0, base, append_time, tombstones, horizon))
    assert found[0] == found[1]
    problem, looked_at, kept, *_ = found[0]
    assert (problem, looked_at) == (0, len(records))
    assert kept <= len(records)


@given(
    records=record_lists,
    at=st.integers(0, 10_000),
    byte=st.integers(0, 255),
    cut=st.integers(0, 20),
    count=st.integers(-3, 3),
)
@settings(max_examples=400)
def test_both_say_the_same_of_damaged_records(records, at, byte, cut, count):
    section, base = section_of(records)
    damaged = bytearray(section)
    if damaged:
        damaged[at % len(damaged)] = byte
    damaged = damaged[: max(0, len(damaged) - cut)]
    found = []
    for key_map in maps():
        key_map.note_read(20)
        found.append(
            (
                key_map.index(damaged, len(records) + count, 5, 0),
                key_map.retain(damaged, len(records) + count, 5, base, False, True, None),
            )
        )
    assert found[0] == found[1]


def test_what_stays_reads_as_before_but_for_the_base():
    records = [(1_000, b"a", b"1"), (2_000, b"b", None), (500, b"a", b"2")]
    section, base = section_of(records)
    for key_map in maps():
        key_map.index(section, 3, 0, 0)
        key_map.note_read(2)
        said = key_map.retain(section, 3, 0, base, False, True, None)
        assert said[:7] == (0, 3, 2, 0, True, 2_000, 2_000)
        builder = BatchBuilder(base_offset=0)
        builder.append(2_000, b"b", None, [("h", None)], offset_delta=1)
        builder.append(500, b"a", b"2", [("h", None)], offset_delta=2)
        assert said[7] == builder.build()[HEADER_BYTES:]
        assert [r.timestamp for r in iter_records(builder.build())] == [2_000, 500]


def test_a_full_map_says_so_at_the_record():
    section, _ = section_of([(0, b"%d" % number, b"") for number in range(50)])
    compiled = _cleaner.KeyMap(24 * 20, 0.5)
    assert compiled.index(section, 50, 0, 0) == (0, 10, True)
    assert (len(compiled), compiled.capacity, compiled.utilization) == (10, 10, 1.0)
    twin = _pykeys.KeyMap(_pykeys.SLOT_BYTES * 20, 0.5)
    assert twin.index(section, 50, 0, 0) == (0, 10, True)
    assert not compiled.put(b"x", 1)
    assert compiled.get(b"9") == 9
    assert compiled.get(b"10") == -1


@pytest.mark.parametrize("size", [0, 1, 23, 24, 48, 100])
def test_the_smallest_maps_take_one_key(size):
    key_map = _cleaner.KeyMap(size, 0.9)
    assert key_map.put(b"a", 5)
    assert key_map.get(b"a") == 5
    assert key_map.get(b"b") == -1


def test_many_keys():
    key_map = _cleaner.KeyMap(24 * 10_000, 1.0)
    for number in range(9_999):
        assert key_map.put(b"key-%d" % number, number)
    assert not key_map.put(b"one more", 1)
    assert all(key_map.get(b"key-%d" % number) == number for number in range(9_999))


def test_siphash_against_its_published_vectors():
    secret = bytes(range(16))
    assert _cleaner.siphash(b"", secret).hex() == "a3817f04ba25a8e66df67214c7550293"
    assert _cleaner.siphash(b"\0", secret).hex() == "da87c1d86b99af44347659119b22fc45"
