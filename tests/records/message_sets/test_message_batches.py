"""What old brokers answer, as record batches: the same records, whatever reads them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.errors import CorruptRecordError, KafkaError
from odradek.records.batch import Record, batch_records, check_crc
from odradek.records.columns import decode_columns
from odradek.records.message_sets.message_batches import BATCH_BYTES, iter_as_batches
from odradek.records.message_sets.message_set import iter_all_records
from records.message_set_builder import MessageSetBuilder
from seeds import seed

from ..conversion.test_message_conversion import mutate_message
from ..golden import wire_record_sets
from ..mixed import PART, Part, log_of
from ..old_golden import OLD_RELEASES, OldSegment, old_segments
from .test_message_set import message, wrapped

SEED = seed(20260408)
SEGMENTS = [segment for release in OLD_RELEASES for segment in old_segments(release)]


def through_batches(data: bytes) -> list[Record]:
    found = []
    for header, batch, kind in iter_as_batches(data):
        check_crc(header, batch)
        if header.is_control:
            continue
        records = batch_records(header, batch)
        assert header.record_count == len(records)
        assert records[0].offset == header.base_offset and records[-1].offset == header.last_offset
        found += [record._replace(timestamp_type=kind) for record in records]
    return found


@pytest.mark.parametrize("segment", SEGMENTS, ids=lambda segment: segment.where)
def test_old_logs(segment: OldSegment) -> None:
    expected = list(iter_all_records(segment.data))
    assert through_batches(segment.data) == expected
    whole = b"".join(bytes(batch) for _, batch, _ in iter_as_batches(segment.data))
    table = decode_columns(whole)
    assert table.column("offset").to_pylist() == [r.offset for r in expected]
    assert table.column("value").to_pylist() == [r.value for r in expected]


@given(st.lists(PART, max_size=6))
def test_mixed_sets(parts: list[Part]) -> None:
    log = log_of(parts)
    assert through_batches(log) == list(iter_all_records(log))
    assert through_batches(log + message()[:20]) == list(iter_all_records(log))


def test_single_messages_are_gathered() -> None:
    builder = MessageSetBuilder(1)
    for _ in range(1000):
        builder.append(5, None, bytes(200))
    batches = list(iter_as_batches(builder.build()))
    assert [header.record_count for header, _, _ in batches] == [313, 313, 313, 61]
    assert all(len(batch) < BATCH_BYTES + 300 for _, batch, _ in batches)


def test_what_stands_before_a_bad_message_comes_first() -> None:
    log = message(offset=3) + wrapped(message()[:-1] + b"w", offset=4)
    batches = iter_as_batches(log)
    assert next(batches)[0].base_offset == 3
    with pytest.raises(CorruptRecordError):
        next(batches)


@pytest.mark.fuzz
def test_mutated_bytes() -> None:
    print("seed", SEED)  # noqa: T201
    rng = random.Random(SEED)
    corpus = wire_record_sets(0) + wire_record_sets(1)
    for _ in range(3000):
        data = mutate_message(rng, rng.choice(corpus))
        try:
            expected = list(iter_all_records(data))
        except KafkaError:
            with pytest.raises(KafkaError):
                through_batches(data)
        else:
            assert [r[:1] + r[3:] for r in through_batches(data)] == [r[:1] + r[3:] for r in expected]
