"""The loops over messages: the compiled ones and their twin are equal, to the byte and to the error."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odradek.records.batch import HEADER_BYTES, BatchHeader
from odradek.records.builder import build_batch
from odradek.records.compression import Codec
from odradek.records.message_sets import _pymessages
from records.message_set_builder import MessageSetBuilder
from seeds import seed

from ..conversion.test_message_conversion import mutate_message
from ..golden import RELEASES, log_batches, wire_record_sets
from ..old_golden import old_segments
from ..test_fuzz import mutate
from .test_message_set import FIELD

native = pytest.importorskip("odradek.records.message_sets._messages", reason="the kernel is not compiled")

SEED = seed(20260407)
INT64 = st.integers(-(2**63), 2**63 - 1)
MAX = 2**63 - 1


def walked(kernel: Any, data: bytes, *arguments: Any) -> Any:
    return kernel.walk_messages(data, *arguments)


def both_walk(data: bytes, *arguments: Any) -> Any:
    expected = walked(_pymessages, data, *arguments)
    assert walked(native, data, *arguments) == expected
    return expected


def both_to_records(data: bytes, magic: int) -> bytearray:
    ours, theirs = bytearray(b"before"), bytearray(b"before")
    assert native.messages_to_records(data, magic, ours) == _pymessages.messages_to_records(
        data, magic, theirs
    )
    assert ours == theirs
    return ours


def both_to_messages(*arguments: Any) -> Any:
    ours, theirs = bytearray(b"before"), bytearray(b"before")
    result = native.records_to_messages(*arguments, ours)
    assert result == _pymessages.records_to_messages(*arguments, theirs)
    if result[0] == 0:
        assert ours == theirs
    return result


ROWS = st.lists(st.tuples(INT64, FIELD, FIELD), min_size=1, max_size=12)


def raw_set(rows: list[tuple[int, bytes | None, bytes | None]], magic: int, offsets: int = 0) -> bytes:
    builder = MessageSetBuilder(magic, base_offset=offsets)
    for timestamp, key, value in rows:
        builder.append(max(timestamp, -1), key, value)
    return builder.build()


@given(
    ROWS,
    st.sampled_from([0, 1]),
    st.sampled_from([0, 1]),
    st.booleans(),
    st.sampled_from([10, 40, 60, 2**31 - 1]),
    INT64,
    INT64,
    st.booleans(),
    st.integers(0, 4),
    st.sampled_from([0, 3]),
)
def test_walking_alike(
    rows: Any,
    magic: int,
    claimed: int,
    nested: bool,
    largest: int,
    earliest: int,
    latest: int,
    key: bool,
    many: int,
    base: int,
) -> None:
    both_walk(raw_set(rows, magic, base), claimed, nested, largest, earliest, latest, key, many)


@given(ROWS, st.sampled_from([0, 1]))
@example([(-1, None, None), (MAX, None, None)], 1)  # a delta of 2^63 wraps around, as in Java
def test_records_alike(rows: Any, magic: int) -> None:
    both_to_records(raw_set(rows, magic), magic)


@given(
    st.lists(
        st.tuples(st.integers(-1, 2**62), FIELD, FIELD, st.just(()) | st.just((("h", b"x"),))),
        min_size=1,
        max_size=12,
    ),
    st.integers(-1, 14),
    st.integers(0, 2**40) | st.just(2**63 - 3),
    INT64,
    INT64,
    st.sampled_from([0, 1]),
    st.sampled_from([0, 8]),
    st.booleans(),
    st.integers(-5, 20),
    st.sampled_from([100, 300, 10**6]),
)
def test_messages_alike(
    rows: Any,
    count: int,
    base: int,
    timestamp: int,
    append: int,
    magic: int,
    attributes: int,
    relative: bool,
    first: int,
    room: int,
) -> None:
    section = build_batch(rows)[HEADER_BYTES:]
    first = min(base + first, MAX)
    both_to_messages(section, count, base, timestamp, append, magic, attributes, relative, first, room)


def test_golden_bytes_alike() -> None:
    problems = set()
    for release in ("0.8.2.2", "0.10.2.2", "2.2.2"):
        for segment in old_segments(release):
            for magic in (0, 1):
                result = both_walk(segment.data, magic, False, 2**31 - 1, 0, MAX, False, 5)
                problems.add(result[0])
                if not result[0]:
                    both_to_records(segment.data, magic)
    assert 0 in problems and len(problems) > 2
    for release in RELEASES:
        for _, raw, _ in log_batches(release):
            header = BatchHeader.parse(raw)
            if header.codec is Codec.NONE:
                for magic in (0, 1):
                    result = both_to_messages(
                        raw[HEADER_BYTES:],
                        header.record_count,
                        header.base_offset,
                        header.base_timestamp,
                        -1,
                        magic,
                        0,
                        bool(magic),
                        0,
                        10**7,
                    )
                    assert result[0] == 0


@pytest.mark.fuzz
def test_mutated_bytes_alike() -> None:
    print("seed", SEED)  # noqa: T201
    rng = random.Random(SEED)
    sets = wire_record_sets(0) + wire_record_sets(1) + [raw_set([(5, b"k", b"v")] * 4, 1)]
    own = build_batch([(i, b"k", b"v" * i, [("h", b"x")] * (i % 2)) for i in range(8)])
    batches = [own, *wire_record_sets()]
    for _ in range(8000):
        data = mutate_message(rng, rng.choice(sets))
        magic = rng.choice([0, 1])
        result = both_walk(data, magic, rng.random() < 0.5, 2**31 - 1, 0, MAX, True, 3)
        if not result[0]:
            both_to_records(data, magic)
        data = mutate(rng, rng.choice(batches))[HEADER_BYTES:]
        both_to_messages(data, rng.choice([1, 8, 1000]), 7, 9, -1, magic, 0, True, 7, 10**6)


@given(st.binary(max_size=300))
def test_crc_is_zlibs(value: bytes) -> None:
    out = bytearray()
    section = build_batch([(0, None, value, ())])[HEADER_BYTES:]
    native.records_to_messages(section, 1, 0, 0, -1, 1, 0, False, 0, 10**6, out)
    assert zlib.crc32(out[16:]) == int.from_bytes(out[12:16], "big")


def both_take(data: bytes, *arguments: Any) -> Any:
    ours, theirs = bytearray(b"before"), bytearray(b"before")
    result = native.take_messages(data, *arguments, ours)
    assert result == _pymessages.take_messages(data, *arguments, theirs)
    assert ours == theirs
    return result, bytes(ours[6:])


@given(
    ROWS,
    st.sampled_from([0, 1]),
    st.sampled_from([0, 1]),
    st.booleans(),
    st.booleans(),
    st.none() | INT64,
    st.booleans(),
    st.integers(0, 60),
    st.integers(0, 20),
    st.randoms(use_true_random=False),
)
def test_taking_messages(
    rows: list[tuple[int, bytes | None, bytes | None]],
    magic: int,
    asked: int,
    nested: bool,
    append_time: bool,
    fixed: int | None,
    check_crcs: bool,
    max_bytes: int,
    cut: int,
    rng: random.Random,
) -> None:
    data = raw_set(rows, magic, 7)
    (_, count, first, last, _, _), _ = both_take(data, 0, magic, True, False, None, True, 2**31 - 1)
    assert (count, first, last) == (len(rows), 7, 6 + len(rows))
    for attempt in (data, data[: len(data) - cut], mutate(rng, data), mutate_message(rng, data)):
        for position in (0, min(40, len(attempt))):
            both_take(attempt, position, asked, nested, append_time, fixed, check_crcs, max_bytes)


def test_taking_ends_where_no_batch_goes_on() -> None:
    good = raw_set([(5, b"k", b"v")], 1, 3)
    for behind in (
        raw_set([(5, b"k", b"v")], 1, 3),  # an offset that does not grow
        raw_set([(5, b"k", b"v")], 1, 3 + 2**31),  # too far away
        raw_set([(5, b"k", b"v")], 0, 4),  # another magic
        MessageSetBuilder(1, Codec.GZIP).build() or b"",
        good[:-1],
    ):
        taken, _ = both_take(good + behind, 0, 1, False, False, None, True, 2**31 - 1)
        assert taken == (len(good), 1, 3, 3, 5, 5)
    assert both_take(b"", 0, 0, False, False, None, True, 10)[0] == (0, 0, -1, -1, -1, -1)
    far = raw_set([(5, b"k", b"v")], 1, 2 + 2**31)
    assert both_take(good + far, 0, 1, False, False, None, True, 2**31 - 1)[0][1] == 2


def both_skim(data: bytes, position: int) -> Any:
    result = native.skim_messages(data, position)
    assert result == _pymessages.skim_messages(data, position)
    return result


@given(
    ROWS,
    st.sampled_from([0, 1]),
    st.sampled_from([0, 1]),
    st.integers(0, 20),
    st.randoms(use_true_random=False),
)
def test_skimming(
    rows: list[tuple[int, bytes | None, bytes | None]], magic: int, other: int, cut: int, rng: random.Random
) -> None:
    data = raw_set(rows, magic, 7)
    more = data + raw_set(rows, other, 7 + len(rows))
    assert both_skim(data, 0) == (len(data), 6 + len(rows))
    assert both_skim(more, 0) == (len(more), 6 + 2 * len(rows))
    batch = build_batch([(1, b"k", b"v", ())])
    assert both_skim(data + batch, 0) == (len(data), 6 + len(rows))
    for attempt in (more[: len(more) - cut], mutate(rng, more), mutate_message(rng, more)):
        for position in (0, min(40, len(attempt))):
            both_skim(attempt, position)
