"""The compiled kernel and its Python twin are equal: to the byte, to the error, to the index.

Inputs are well-formed sections, mutated ones, and noise; the numbers around them are drawn too.
"""

from __future__ import annotations

import gc
import importlib
import struct
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.client.types import ConsumerRecord
from odradek.records import _pykernel as twin
from odradek.records.batch import Record, TimestampType
from odradek.records.kernel import NATIVE
from odradek.records.varint import encode_varint
from waiting import WITHIN_S

try:
    native: Any = importlib.import_module("odradek.records._kernel")
except ImportError:
    native = None

both = pytest.mark.skipif(native is None, reason="the compiled kernel is not installed")
moderate = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
nullable_bytes = st.none() | st.binary(max_size=20)
names = st.text(max_size=5) | st.sampled_from(["", "a", "é", "日本"])
header_lists = st.lists(st.tuples(names, nullable_bytes), max_size=3)
record_fields = st.tuples(INT64, nullable_bytes, nullable_bytes, header_lists)


def section_of(records: list[Any], deltas: list[int] | None = None) -> bytes:
    out = bytearray()
    for index, (timestamp_delta, key, value, headers) in enumerate(records):
        delta = index if deltas is None else deltas[index]
        twin.append_record(out, delta, timestamp_delta, key, value, headers)
    return bytes(out)


@st.composite
def sections(draw: Any) -> tuple[bytes, int]:
    """A section and the count that goes with it, right or not."""
    records = draw(st.lists(record_fields, max_size=12))
    section = bytearray(section_of(records))
    count = len(records)
    damages = st.sampled_from(["flip", "cut", "insert", "delete", "count", "name"])
    for kind in draw(st.lists(damages, max_size=3)):
        at = draw(st.integers(0, max(len(section) - 1, 0)))
        if kind == "flip" and section:
            section[at] = draw(st.integers(0, 255))
        elif kind == "cut":
            del section[at:]
        elif kind == "insert":
            section[at:at] = draw(st.binary(max_size=6))
        elif kind == "delete" and section:
            del section[at]
        elif kind == "count":
            count = draw(st.integers(-1, 20) | st.just(2**31 - 1))
        elif kind == "name":
            section = section.replace(b"a", b"\xff")
    return bytes(section), count


any_section = sections() | st.tuples(st.binary(max_size=60), st.integers(-1, 12))


def outcome(function: Any, *args: Any) -> tuple[str, Any]:
    try:
        return "result", function(*args)
    except (ValueError, TypeError, OverflowError) as problem:
        # Messages are for people, but a ValueError names the row, which must be the same.
        return "raised", str(problem) if type(problem) is ValueError else type(problem)


@both
@given(any_section, INT64, INT64, INT64, st.booleans(), st.integers(0, 5))
@moderate
def test_walk(
    section: tuple[bytes, int], base: int, earliest: int, latest: int, require_key: bool, limit: int
) -> None:
    args = (*section, base, earliest, latest, require_key, limit)
    assert native.walk(*args) == twin.walk(*args)
    assert native.walk(memoryview(bytearray(section[0])), *args[1:]) == twin.walk(*args)


@both
@given(any_section, INT64, INT64, st.sampled_from(TimestampType))
@moderate
def test_parse_records(section: tuple[bytes, int], base: int, timestamp: int, kind: TimestampType) -> None:
    args = (*section, base, timestamp, kind, Record)
    ours, theirs = native.parse_records(*args), twin.parse_records(*args)
    assert ours == theirs
    for record in ours[2]:
        assert type(record) is Record
        assert hash(record) == hash(tuple(record))


@both
@given(any_section, INT64, INT64, st.sampled_from(TimestampType), INT64 | st.integers(-5, 20))
@moderate
def test_parse_fetched(
    section: tuple[bytes, int], base: int, timestamp: int, kind: TimestampType, from_offset: int
) -> None:
    args = (*section, base, timestamp, kind, ConsumerRecord, "topic", 3, 7, from_offset)
    ours, theirs = native.parse_fetched(*args), twin.parse_fetched(*args)
    assert ours == theirs
    for record in ours[2]:
        assert type(record) is ConsumerRecord
        assert hash(record) == hash(tuple(record))
        assert record.topic == "topic" and record.leader_epoch == 7
        assert gc.is_tracked(record) == bool(record.headers)
    plain = native.parse_records(*args[:5], Record)
    assert ours[:2] == plain[:2]
    assert [r[2:8] for r in ours[2]] == [tuple(r) for r in plain[2] if r.offset >= from_offset]


def finished(builder: Any) -> Any:
    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(plain(item) for item in value)
        return value if value is None or isinstance(value, int) else bytes(value)

    return plain(builder.finish())


@both
@given(
    st.lists(any_section, min_size=1, max_size=4),
    INT64 | st.integers(0, 100),
    INT64,
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 1000]),
    st.sampled_from([0, 1]),
    st.integers(-5, 20) | INT64,
    st.integers(0, 30) | INT64,
    st.integers(0, 9),
    st.integers(0, 60),
)
@moderate
def test_column_builder(
    parts: list[tuple[bytes, int]],
    base_offset: int,
    timestamp: int,
    with_headers: bool,
    nullable: bool,
    factor: int,
    kind: int,
    from_offset: int,
    until_offset: int,
    max_rows: int,
    max_bytes: int,
) -> None:
    builders = [k.ColumnBuilder(with_headers, nullable, factor) for k in (native, twin)]
    for section, count in parts:
        index = position = 0
        for _ in range(40):  # until the section is used up, or bad
            results = [
                builder.append(
                    section,
                    count,
                    index,
                    position,
                    base_offset,
                    timestamp,
                    kind,
                    from_offset,
                    until_offset,
                    max_rows,
                    max_bytes,
                )
                for builder in builders
            ]
            assert results[0] == results[1]
            assert builders[0].rows == builders[1].rows
            assert builders[0].data_bytes == builders[1].data_bytes
            status, index, position = results[0]
            if status != -1:
                break
            assert finished(builders[0]) == finished(builders[1])
            if max_rows == 0:
                break
    assert finished(builders[0]) == finished(builders[1])
    assert finished(builders[0]) == finished(builders[1])


@both
def test_column_builder_with_many_rows_and_late_nulls() -> None:
    # Sizes at which the buffers grow and are kept for later, and nulls that come after many values.
    builders = [k.ColumnBuilder(True, True, 1000) for k in (native, twin)]
    for round_ in range(3):
        for part in range(30):
            records = [
                (
                    i,
                    None if part > 10 and i % 7 == round_ else b"k%d" % i,
                    None if part > 20 and i % 3 else b"v" * (i % 300),
                    [("h", None if i % 5 else b"x")] * (i % 3) if part > 5 else [],
                )
                for i in range(100)
            ]
            args = (section_of(records), 100, 0, 0, part * 100, 5, 0, 0, 2**62, 10**6, 2**31 - 1)
            assert builders[0].append(*args) == builders[1].append(*args)
        assert finished(builders[0]) == finished(builders[1])


@both
@given(st.binary(max_size=70))
@moderate
def test_murmur2(data: bytes) -> None:
    assert native.murmur2(data) == twin.murmur2(data)


@both
@given(
    st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1), nullable_bytes, nullable_bytes, header_lists
)
@moderate
def test_append_record(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: list[Any]
) -> None:
    ours, theirs = bytearray(b"before"), bytearray(b"before")
    native.append_record(ours, offset, timestamp, key, value, headers)
    twin.append_record(theirs, offset, timestamp, key, value, tuple(headers))
    assert ours == theirs


# --- Arrow input -----------------------------------------------------------------------------------------


def bits_of(rows: list[Any], shift: int) -> bytes:
    bits = bytearray((len(rows) + shift + 7) // 8)
    for row, value in enumerate(rows):
        if value is not None:
            bits[(row + shift) >> 3] |= 1 << ((row + shift) & 7)
    return bytes(bits)


def arrow_binary(rows: list[bytes | None], shift: int, with_validity: bool) -> Any:
    """Arrow's buffers for a column that starts `shift` rows into them."""
    filler = [b"zz"] * shift
    data = bytearray()
    offsets = [0]
    for value in [*filler, *rows]:
        data += value or b""
        offsets.append(len(data))
    packed = b"".join(o.to_bytes(4, "little", signed=True) for o in offsets)
    validity = bits_of(rows, shift) if with_validity or None in rows else None
    return validity, packed, bytes(data), shift


columns = st.lists(nullable_bytes, min_size=1, max_size=20)
shifts = st.integers(0, 10)


@both
@given(columns, shifts, st.booleans(), st.integers(1, 9) | st.just(2**31 - 1), st.integers(-1, 5))
@moderate
def test_murmur2_partitions(
    rows: list[bytes | None], shift: int, validity: bool, partitions: int, null: int
) -> None:
    args = (arrow_binary(rows, shift, validity), len(rows), partitions, null)
    assert bytes(native.murmur2_partitions(*args)) == bytes(twin.murmur2_partitions(*args))


@both
@given(st.lists(st.integers(-1, 6), max_size=40), st.integers(0, 6))
@moderate
def test_split(ids: list[int], partitions: int) -> None:
    packed = b"".join(i.to_bytes(4, "little", signed=True) for i in ids)

    def run(kernel: Any) -> Any:
        return outcome(lambda: tuple(bytes(part) for part in kernel.split(packed, len(ids), partitions)))

    assert run(native) == run(twin)


@st.composite
def encode_arguments(draw: Any) -> tuple[Any, ...]:
    rows = draw(st.integers(0, 12))
    fixed = {"min_size": rows, "max_size": rows}
    shift = draw(shifts)
    keys, values = (
        draw(st.none() | st.lists(nullable_bytes, **fixed).map(lambda c: arrow_binary(c, shift, False)))
        for _ in range(2)
    )
    headers = None
    if draw(st.booleans()):
        lists = draw(st.lists(st.none() | header_lists, **fixed))
        flat = [pair for one in lists for pair in one or []]
        offsets = [0] * (shift + 1)
        for one in lists:
            offsets.append(offsets[-1] + len(one or []))
        name_rows: list[bytes | None] = [name.encode() for name, _ in flat]
        if name_rows and draw(st.integers(0, 9)) == 0:
            name_rows[0] = None
        headers = (
            bits_of(lists, shift) if None in lists else None,
            b"".join(o.to_bytes(4, "little", signed=True) for o in offsets),
            shift,
            len(flat),
            arrow_binary(name_rows, 1, False),
            arrow_binary([payload for _, payload in flat], 2, True),
        )
    timestamps = None
    if draw(st.booleans()):
        low = -3 if draw(st.integers(0, 5)) == 0 else -1
        drawn = draw(st.lists(st.integers(low, 2**63 - 1) | st.integers(0, 1000), **fixed))
        timestamps = b"".join(t.to_bytes(8, "little", signed=True) for t in drawn)
    return (
        keys,
        values,
        headers,
        timestamps,
        draw(st.integers(-2, 10**13)),
        rows,
        draw(st.integers(-5, 200)),
        draw(st.sampled_from([0, 61])),
    )


@both
@given(encode_arguments())
@moderate
def test_encode_records(args: tuple[Any, ...]) -> None:
    assert outcome(native.encode_records, *args) == outcome(twin.encode_records, *args)


@both
@pytest.mark.parametrize("kernel", [native, twin], ids=["native", "twin"])
def test_arrow_buffers_that_do_not_fit_are_refused(kernel: Any) -> None:
    good = arrow_binary([b"a", b"bc"], 0, True)
    offsets = [good[1][:8], bytes(8) + b"\xff\xff\xff\xff", (9).to_bytes(4, "little") * 3, b"\xff" * 12]
    for bad in [(good[0], o, good[2], 0) for o in offsets] + [
        (b"", good[1], good[2], 0),
        (good[0], good[1], b"a", 0),
        (good[0], good[1], None, 0),
        (good[0], good[1], good[2], 7),
        (good[0], good[1], good[2], -1),
    ]:
        with pytest.raises(ValueError, match=r"offsets|validity|negative"):
            kernel.murmur2_partitions(bad, 2, 3, 0)
        with pytest.raises(ValueError, match=r"offsets|validity|negative"):
            kernel.encode_records(bad, None, None, None, 0, 2, 100, 0)
    lists = (None, (0).to_bytes(4, "little") + (3).to_bytes(4, "little"), 0, 2, good, good)
    with pytest.raises(ValueError, match="offsets"):
        kernel.encode_records(None, good, lists, None, 0, 1, 100, 0)
    with pytest.raises(ValueError, match="timestamps"):
        kernel.encode_records(None, good, None, bytes(15), 0, 2, 100, 0)


def test_the_environment_chooses() -> None:
    code = "from odradek.records.kernel import NATIVE; print(NATIVE)"

    def run(wish: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code],
            env={"ODRADEK_KERNEL": wish},
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )

    assert run("python").stdout == "False\n"
    assert run("").stdout == f"{native is not None}\n"
    assert (run("native").stdout == "True\n") == (native is not None)
    assert "ODRADEK_KERNEL" in run("fast").stderr
    assert NATIVE in (True, False)


def test_varints_of_every_width() -> None:
    for bits in range(64):
        for value in (2**bits - 1, -(2**bits)):
            encoded = encode_varint(value)
            section = twin_record_with_timestamp(encoded)
            for kernel in filter(None, (native, twin)):
                problem, _, records = kernel.parse_records(section, 1, 0, 0, 0, Record)
                assert problem == 0
                assert records[0].timestamp == value


def twin_record_with_timestamp(encoded: bytes) -> bytes:
    body = b"\x00" + encoded + b"\x00\x01\x01\x00"
    return encode_varint(len(body)) + body


@st.composite
def logs(draw: Any) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Entries of a log one behind the other, and `(size, first offset, last offset)` of each."""
    out = bytearray()
    entries: list[tuple[int, int, int]] = []
    for _ in range(draw(st.integers(0, 6))):
        offset, delta = draw(st.integers(0, 2**40)), draw(st.integers(0, 2**31 - 1))
        magic, body = draw(st.integers(0, 2)), draw(st.integers(0, 90))
        length = (14, 22, 49)[magic] + body
        last = offset + delta if magic == 2 else offset
        head = struct.pack(">qi4xB", offset, length, magic)
        if magic == 2:
            head += bytes(6) + struct.pack(">i", delta)
        out += head + draw(st.binary(min_size=length + 12 - len(head), max_size=length + 12 - len(head)))
        entries.append((length + 12, offset, last))
    return bytes(out), entries


@given(logs(), st.integers(0, 600), st.integers(0, 80))
@moderate
def test_whole_entries_of_a_log(log: tuple[bytes, list[tuple[int, int, int]]], most: int, cut: int) -> None:
    data, entries = log
    data = data[: max(0, len(data) - cut)]
    end, following = 0, (0, 0, 0)
    for size, first, last in entries:
        magic_at = end + 16
        if len(data) - end < (27 if data[magic_at : magic_at + 1] == b"\2" else 17):
            break
        if end + size > min(most, len(data)):
            following = (size, first, last)
            break
        end += size
    for kernel in filter(None, (native, twin)):
        assert kernel.whole_entries(data, most) == (end, *following)


def test_offsets_beyond_the_last_one_are_broken() -> None:
    def entry(base: int) -> bytes:
        return struct.pack(">qi4xb6xi34x", base, 49, 2, 3)

    for kernel in filter(None, (native, twin)):
        assert kernel.whole_entries(entry(2**63 - 4), 100) == (61, 0, 0, 0)
        assert kernel.whole_entries(entry(2**63 - 3), 100) == (-1, 0, 0, 0)
        assert kernel.whole_entries(entry(2**63 - 3), 10) == (-1, 0, 0, 0)


@both
@given(logs(), st.integers(0, 600), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3))
@moderate
def test_whole_entries_of_a_damaged_log(
    log: tuple[bytes, list[tuple[int, int, int]]], most: int, damages: list[tuple[int, int]]
) -> None:
    data = bytearray(log[0])
    for at, value in damages:
        if at < len(data):
            data[at] = value
    assert native.whole_entries(bytes(data), most) == twin.whole_entries(bytes(data), most)
