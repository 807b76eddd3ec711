"""Message sets in both directions: what a broker appends of them, and what old consumers get of batches."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.errors import (
    CorruptRecordError,
    ErrorCode,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from odradek.records.batch import TimestampType, iter_batches, iter_records
from odradek.records.builder import BatchBuilder, build_batch
from odradek.records.compression import Codec
from odradek.records.control import ControlType, end_marker_batch
from odradek.records.conversion.down_conversion import DownConversion, convert, down_convert
from odradek.records.conversion.up_conversion import batch_to_messages, messages_to_batch, place_messages
from odradek.records.message_sets.message_set import (
    MessageHeader,
    iter_all_records,
    iter_entries,
    iter_messages,
)
from odradek.records.message_sets.message_validation import ValidMessages, validate_message_set
from odradek.records.patch import assign_offsets
from odradek.records.validate import record_errors
from records.message_set_builder import MessageSetBuilder
from records.validating import validate_batches
from seeds import seed

from ..golden import wire_record_sets
from ..message_sets.test_message_set import BAD, FIELD, OLD_CODECS, message, with_bytes, wrapped
from ..test_fuzz import mutate

NOW = 1_600_000_000_000
SEED = seed(20260406)
CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME

TIMES = st.just(-1) | st.integers(0, 2**50)
ROWS = st.lists(st.tuples(TIMES, FIELD, FIELD), min_size=1, max_size=15)
Rows = list[tuple[int, bytes | None, bytes | None]]


def message_set(rows: Rows, magic: int = 1, codec: Codec = Codec.NONE, base: int = 0) -> bytes:
    builder = MessageSetBuilder(magic, codec, base_offset=base)
    for row in rows:
        builder.append(*row)
    return builder.build()


def check(data: bytes, **limits: Any) -> ValidMessages:
    return validate_message_set(data, **{"max_message_bytes": 1 << 20, "now_ms": NOW} | limits)


# --- up --------------------------------------------------------------------------------------------------


@given(
    ROWS, st.sampled_from([0, 1]), st.sampled_from(OLD_CODECS), st.sampled_from([None, *Codec]), st.booleans()
)
def test_a_produced_set_becomes_one_batch(
    rows: Rows, magic: int, codec: Codec, target: Codec | None, append_time: bool
) -> None:
    kind = APPEND if append_time else CREATE
    buffer, headers = messages_to_batch(
        check(message_set(rows, magic, codec), timestamp_type=kind), codec=target
    )
    headers = assign_offsets(buffer, 500, leader_epoch=3, timestamp_type=kind, now_ms=NOW, headers=headers)
    ((header, _),) = iter_batches(buffer)
    assert [header] == headers
    assert header.codec is (codec if target is None else target)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (
        500,
        499 + len(rows),
        3,
    )
    times = [NOW if append_time else row[0] if magic else -1 for row in rows]
    assert header.max_timestamp == max(times)
    assert [r[:3] for r in iter_records(buffer)] == [(500 + i, t, kind) for i, t in enumerate(times)]
    assert [r[3:] for r in iter_records(buffer)] == [(*row[1:], ()) for row in rows]


@given(
    ROWS,
    st.sampled_from([0, 1]),
    st.sampled_from([0, 1]),
    st.sampled_from(OLD_CODECS),
    st.sampled_from([None, *OLD_CODECS]),
    st.booleans(),
)
def test_a_produced_set_goes_into_an_old_log(
    rows: Rows, magic: int, to_magic: int, codec: Codec, target: Codec | None, append_time: bool
) -> None:
    kind = APPEND if append_time else CREATE
    sent = message_set(rows, magic, codec)
    placed = place_messages(
        check(sent, timestamp_type=kind),
        to_magic,
        base_offset=70,
        codec=target,
        timestamp_type=kind,
        now_ms=NOW,
    )
    wanted = codec if target is None else target
    assert {(h.magic, h.codec) for h, _ in iter_entries(placed.records)} == {(to_magic, wanted)}
    times = [-1 if not to_magic else NOW if append_time else row[0] if magic else -1 for row in rows]
    records = list(iter_all_records(placed.records))
    assert [(r.offset, r.timestamp) for r in records] == [(70 + i, t) for i, t in enumerate(times)]
    assert [(r.key, r.value) for r in records] == [row[1:] for row in rows]
    assert (placed.first_offset, placed.last_offset) == (70, 69 + len(rows))
    assert placed.max_timestamp == max(times)
    in_place = magic == to_magic and codec is wanted and (codec is Codec.NONE or magic == 1)
    assert placed.converted == (not in_place)
    if max(times) == -1:
        assert placed.offset_of_max_timestamp == -1
    elif wanted is Codec.NONE:
        assert placed.offset_of_max_timestamp == 70 + times.index(max(times))
    else:
        assert placed.offset_of_max_timestamp == placed.last_offset
    if in_place and not append_time:
        # Nothing but offsets was touched, which stand before the CRC.
        assert [e[12:] for _, e in iter_messages(placed.records)] == [e[12:] for _, e in iter_messages(sent)]


def test_a_wrapper_whose_messages_do_not_count_from_0_is_written_anew() -> None:
    inner = message(offset=1) + message(offset=3)
    placed = place_messages(check(wrapped(inner, offset=3)), 1, base_offset=10)
    assert placed.converted
    assert [r.offset for r in iter_all_records(placed.records)] == [10, 11]
    high = place_messages(check(wrapped(message() + message(offset=1), offset=40)), 1, base_offset=10)
    assert high.converted
    right = place_messages(check(wrapped(message() + message(offset=1), offset=1)), 1, base_offset=10)
    assert not right.converted
    assert [r.offset for r in iter_all_records(right.records)] == [10, 11]


@given(ROWS, st.sampled_from([0, 1]), st.sampled_from(OLD_CODECS), st.sampled_from([None, *OLD_CODECS]))
def test_a_batch_goes_into_an_old_log(rows: Rows, magic: int, codec: Codec, target: Codec | None) -> None:
    data = build_batch([(*row, ()) for row in rows], codec=codec)
    headers = validate_batches(data, max_message_bytes=1 << 20, now_ms=NOW)
    placed = batch_to_messages(data, headers, magic, base_offset=5, codec=target)
    records = list(iter_all_records(placed.records))
    assert [(r.offset, r.key, r.value) for r in records] == [(5 + i, *row[1:]) for i, row in enumerate(rows)]
    assert [r.timestamp for r in records] == [row[0] if magic else -1 for row in rows]
    assert (placed.first_offset, placed.last_offset) == (5, 4 + len(rows))
    times = [r.timestamp for r in records]
    assert placed.max_timestamp == max(times)
    if max(times) >= 0 and (codec if target is None else target) is Codec.NONE:
        assert placed.offset_of_max_timestamp == 5 + times.index(max(times))


@pytest.mark.parametrize(
    "fields",
    [
        {"producer_id": 4, "producer_epoch": 0, "base_sequence": 0},
        {"producer_id": 4, "producer_epoch": 0, "base_sequence": 0, "transactional": True},
    ],
)
def test_an_old_log_takes_neither_transactions_nor_sequences(fields: dict[str, Any]) -> None:
    data = build_batch([(1, b"k", b"v", ())], **fields)
    headers = validate_batches(data, max_message_bytes=1 << 20, now_ms=NOW)
    with pytest.raises(UnsupportedForMessageFormatError):
        batch_to_messages(data, headers, 1, base_offset=0)


def test_an_old_log_takes_neither_headers_nor_zstd() -> None:
    data = build_batch([(1, b"k", b"v", [("h", b"")])])
    headers = validate_batches(data, max_message_bytes=1 << 20, now_ms=NOW)
    with pytest.raises(UnsupportedForMessageFormatError):
        batch_to_messages(data, headers, 1, base_offset=0)
    data = build_batch([(1, b"k", b"v", ())])
    headers = validate_batches(data, max_message_bytes=1 << 20, now_ms=NOW)
    with pytest.raises(UnsupportedCompressionTypeError):
        batch_to_messages(data, headers, 1, base_offset=0, codec=Codec.ZSTD)
    with pytest.raises(UnsupportedCompressionTypeError):
        place_messages(check(message()), 1, base_offset=0, codec=Codec.ZSTD)


# --- what a broker refuses -------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "error"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_messages_are_not_appended(make: Any, error: type[KafkaError]) -> None:
    inside = {"inner batch": (InvalidRecordError, CorruptRecordError)}
    name = next(case[0] for case in BAD if case[1] is make)
    with pytest.raises(inside.get(name, (error, CorruptRecordError, InvalidRecordError))):
        check(make())


@pytest.mark.parametrize(
    ("data", "limits", "error"),
    [
        (message(), {"produce_version": 3}, InvalidRecordError),
        (message() + message(0), {}, InvalidRecordError),
        (wrapped(message()) + message(), {}, InvalidRecordError),
        (message() + wrapped(message()), {}, InvalidRecordError),
        (wrapped(message()) * 2, {}, InvalidRecordError),
        (wrapped(message(0)), {}, InvalidRecordError),
        (message()[:-1], {}, CorruptRecordError),
        (message() + message()[:-1], {}, CorruptRecordError),
        (wrapped(message() + message()[:-1]), {}, CorruptRecordError),
        (message() + b"x", {}, CorruptRecordError),
        (message(), {"max_message_bytes": len(message()) - 1}, RecordTooLargeError),
        (wrapped(message()), {"max_message_bytes": 40}, RecordTooLargeError),
        (wrapped(message(value=bytes(100_000))), {"max_decompressed_bytes": 50_000}, RecordTooLargeError),
        (with_bytes(message(), 31, b"\xff\xff\xff\xf0"), {}, InvalidRecordError),
        (with_bytes(message(), 31, bytes(4)), {}, InvalidRecordError),
        (with_bytes(message(), 18, b"\xff" * 7 + b"\xfe"), {}, InvalidTimestampError),
        (with_bytes(message(), 18, b"\xff" * 7 + b"\xfe"), {"timestamp_type": APPEND}, InvalidTimestampError),
        (message(attributes=8), {}, InvalidTimestampError),
        (with_bytes(wrapped(message()), 17, b"\x09"), {}, InvalidTimestampError),
        (message(), {"timestamp_before_max_ms": 10}, InvalidTimestampError),
        (message(), {"now_ms": -10, "timestamp_after_max_ms": 10}, InvalidTimestampError),
        (build_batch([(0, None, None, ())]), {}, UnsupportedForMessageFormatError),
    ],
)
def test_what_producers_may_not_send(data: bytes, limits: dict[str, Any], error: type[KafkaError]) -> None:
    with pytest.raises(error):
        check(data, **limits)


def test_refused_records_are_named() -> None:
    keyless: Rows = [(5, b"k", b""), (5, None, b""), (NOW, None, b"")]
    with pytest.raises(InvalidRecordError) as caught:
        check(message_set(keyless, codec=Codec.GZIP), compacted=True)
    assert [error.batch_index for error in record_errors(caught.value)] == [1, 2]
    with pytest.raises(InvalidRecordError) as caught:
        check(message_set(keyless), compacted=True)
    assert [error.batch_index for error in record_errors(caught.value)] == [1]
    with pytest.raises(InvalidTimestampError) as caught:
        check(message_set(keyless, codec=Codec.GZIP), timestamp_before_max_ms=9)
    assert [error.batch_index for error in record_errors(caught.value)] == [0, 1]


def test_no_messages_are_no_error() -> None:
    assert check(b"").message_count == 0


def test_messages_without_a_time_are_of_any_time() -> None:
    limits = {"timestamp_before_max_ms": 0, "timestamp_after_max_ms": 0}
    assert check(message_set([(-1, b"", b"")]), **limits).max_timestamp == -1
    assert check(message(0), **limits).max_timestamp == -1
    assert check(message(), timestamp_type=APPEND, **limits).max_timestamp == 1


def test_messages_that_fit_singly_may_make_a_batch_that_does_not() -> None:
    messages = check(message() * 20, max_message_bytes=100)
    with pytest.raises(RecordTooLargeError):
        messages_to_batch(messages, max_message_bytes=100)
    with pytest.raises(RecordTooLargeError):
        place_messages(messages, 0, base_offset=0, codec=Codec.LZ4, max_message_bytes=40)


# --- down ------------------------------------------------------------------------------------------------


def batch(rows: Rows, base: int = 0, **fields: Any) -> bytes:
    return build_batch([(*row, [("gone", b"x")]) for row in rows], base_offset=base, **fields)


@given(ROWS, st.sampled_from([0, 1]), st.sampled_from(OLD_CODECS), st.integers(0, 20), st.booleans())
def test_a_batch_becomes_messages(
    rows: Rows, magic: int, codec: Codec, first: int, append_time: bool
) -> None:
    fields = {"timestamp_type": APPEND, "append_time": NOW} if append_time else {}
    out = convert(batch(rows, 3, codec=codec, **fields), magic, first_offset=first)
    kind = TimestampType.NO_TIMESTAMP_TYPE if not magic else APPEND if append_time else CREATE
    expected = [
        (3 + i, -1 if not magic else NOW if append_time else time, kind, key, value, ())
        for i, (time, key, value) in enumerate(rows)
        if codec is not Codec.NONE or 3 + i >= first
    ]
    assert list(iter_all_records(out)) == expected
    assert all(isinstance(h, MessageHeader) and h.magic == magic for h, _ in iter_entries(out))
    if codec is not Codec.NONE:
        ((header, _),) = iter_entries(out)
        assert (header.codec, header.last_offset) == (codec, 2 + len(rows))


@given(ROWS, st.sampled_from(OLD_CODECS))
def test_magic_1_becomes_magic_0_and_stays_magic_1(rows: Rows, codec: Codec) -> None:
    log = message_set(rows, 1, codec, base=8)
    assert convert(log, 1, first_offset=10) == log
    converted = convert(log, 0)
    assert [(r.offset, r.timestamp, r.key, r.value) for r in iter_all_records(converted)] == [
        (8 + i, -1, key, value) for i, (_, key, value) in enumerate(rows)
    ]
    assert convert(converted, 0) == converted == convert(converted, 1)


def test_gaps_stay_and_markers_go() -> None:
    builder = BatchBuilder(codec=Codec.GZIP, base_offset=100)
    builder.append(1, b"a", b"", offset_delta=2)
    builder.append(1, b"b", b"", offset_delta=7)
    log = builder.build(last_offset_delta=9) + end_marker_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, timestamp=1, coordinator_epoch=0, base_offset=110
    )
    log += batch([(1, None, None)], 111, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    for magic in (0, 1):
        assert [r.offset for r in iter_all_records(convert(log, magic))] == [102, 107, 111]


def test_a_batch_that_compaction_has_emptied_is_left_out() -> None:
    empty = BatchBuilder(codec=Codec.LZ4).build(last_offset_delta=3)
    assert convert(empty + batch([(1, b"", b"")], 4), 1) == convert(batch([(1, b"", b"")], 4), 1)


def test_zstd_is_not_converted() -> None:
    zstd = batch([(1, b"", b"")], 1, codec=Codec.ZSTD)
    plain = batch([(1, b"", b"")])
    with pytest.raises(UnsupportedCompressionTypeError):
        convert(zstd, 1)
    with pytest.raises(UnsupportedCompressionTypeError):
        DownConversion(zstd + plain, 1)
    pieces = down_convert(iter_entries(plain + zstd), 1)
    assert next(pieces) == convert(plain, 1)
    with pytest.raises(UnsupportedCompressionTypeError):
        next(pieces)
    # The size is promised already: what was converted goes out, filled up.
    lazy = DownConversion(plain + zstd, 1)
    assert [r.offset for r in iter_messages_of(lazy)] == [0]


def iter_messages_of(lazy: DownConversion) -> list[MessageHeader]:
    data = b"".join(lazy.pieces())
    assert len(data) == lazy.size
    return [header for header, _ in iter_messages(data)]


@given(
    st.lists(st.tuples(ROWS, st.sampled_from(OLD_CODECS)), max_size=8),
    st.integers(1, 600),
    st.integers(0, 30),
)
def test_pieces_are_the_whole(parts: list[tuple[Rows, Codec]], piece_bytes: int, cut: int) -> None:
    log = b""
    base = 0
    for rows, codec in parts:
        log += batch(rows, base, codec=codec)
        base += len(rows)
    log = log[: len(log) - cut]
    for magic in (0, 1):
        whole = convert(log, magic)
        pieces = list(down_convert(iter_entries(log), magic, piece_bytes=piece_bytes))
        assert b"".join(pieces) == whole and all(pieces)
        lazy = DownConversion(log, magic, piece_bytes=piece_bytes)
        data = b"".join(lazy.pieces())
        assert len(data) == lazy.size
        if whole:
            assert lazy.size >= len(log)
            common = min(len(data), len(whole))
            assert data[:common] == whole[:common]
            sent = list(iter_messages(data))
            assert [h for h, _ in sent] == [h for h, _ in list(iter_messages(whole))[: len(sent)]]
            assert sent
        else:
            assert lazy.size in (0, 12)


def test_nothing_but_markers_is_answered_by_a_message_that_does_not_fit() -> None:
    marker = end_marker_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, timestamp=1, coordinator_epoch=0
    )
    lazy = DownConversion(marker, 1)
    assert b"".join(lazy.pieces()) == b"\xff" * 8 + (61).to_bytes(4, "big")
    assert DownConversion(b"", 1).size == 0 and list(DownConversion(b"", 1).pieces()) == []


def test_the_filling_is_long_where_much_is_missing() -> None:
    log = batch([(1, None, b"")])
    marker = end_marker_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, timestamp=1, coordinator_epoch=0
    )
    lazy = DownConversion(log + marker * 4000, 1)
    assert [h.offset for h in iter_messages_of(lazy)] == [0]


def test_what_is_converted_is_bounded() -> None:
    many = batch([(1, None, None)] * 5000, codec=Codec.GZIP)
    with pytest.raises(RecordTooLargeError):
        convert(many, 1, max_size=150_000)
    assert convert(many, 1, max_size=5000 * 34)


def test_offsets_beyond_all_bounds_wrap_around_as_in_java() -> None:
    far = batch([(1, None, None)] * 3, 2**63 - 2)
    assert [r.offset for r in iter_all_records(convert(far, 1))] == [2**63 - 2, 2**63 - 1]
    wrapped_far = wrapped(message(offset=-(2**63)), offset=2**63 - 1)
    assert len(list(iter_all_records(convert(wrapped_far, 0)))) == 1


# --- strangers' bytes ------------------------------------------------------------------------------------


@pytest.mark.fuzz
def test_mutated_sets_give_messages_or_kafka_errors() -> None:
    print("seed", SEED)  # noqa: T201
    rng = random.Random(SEED)
    corpus = wire_record_sets(0) + wire_record_sets(1) + [make() for _, make, _ in BAD]
    for magic in (0, 1):
        for codec in OLD_CODECS:
            corpus.append(message_set([(i, b"k%d" % i, b"v" * i) for i in range(9)], magic, codec))
            corpus.append(batch([(i, b"k%d" % i, b"v" * i) for i in range(9)], codec=codec))
    taken = 0
    for _ in range(6000):
        data = mutate_message(rng, rng.choice(corpus))
        for way in (
            lambda data: list(iter_all_records(data, max_size=1 << 20)),
            lambda data: list(iter_all_records(data, check_crcs=False, max_size=1 << 20)),
            lambda data: convert(data, 0, max_size=1 << 20),
            lambda data: b"".join(DownConversion(data, 1, piece_bytes=100, max_size=1 << 20).pieces()),
            append_everywhere,
        ):
            try:
                way(data)
                taken += 1
            except KafkaError as error:
                assert error.code is not ErrorCode.UNKNOWN_SERVER_ERROR
    assert taken > 1000


def append_everywhere(data: bytes) -> None:
    messages = check(data, max_decompressed_bytes=1 << 20)
    if not messages.message_count:
        return
    buffer, headers = messages_to_batch(messages)
    assert validate_batches(buffer, max_message_bytes=1 << 30, now_ms=NOW) == headers
    for magic in (0, 1):
        placed = place_messages(messages, magic, base_offset=3)
        assert len(list(iter_all_records(placed.records))) == messages.message_count


def mutate_message(rng: random.Random, seed: bytes) -> bytes:
    data = mutate(rng, seed)
    if rng.random() < 0.7 and len(data) > 26 and data[16] < 2:
        if rng.random() < 0.8:
            data = data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:]
        data = with_bytes(data, 0, b"")
    return data


@given(st.binary(max_size=200), st.sampled_from([0, 1]))
def test_random_bytes(data: bytes, magic: int) -> None:
    head = b"\0" * 8 + (len(data) + 6).to_bytes(4, "big") + bytes([0, 0, 0, 0, magic, 0])
    for each in (data, with_bytes(head + data, 0, b"")):
        for way in (lambda d: list(iter_all_records(d)), lambda d: convert(d, 0), check):
            try:
                way(each)
            except KafkaError:
                continue
