"""Records and columns of one fetch are the same, whatever formats stand side by side in it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.core.chunk import Chunk
from odradek.client.core.fetched import end_of_fetched
from odradek.client.core.subscription_state import Position
from odradek.client.types import TopicPartition
from odradek.errors import KafkaError
from odradek.records.compression import Codec
from odradek.records.message_sets.message_set import iter_all_records
from records.mixed import PART, log_of

pytest.importorskip("pyarrow")

Row = tuple[int, int, int, bytes | None, bytes | None]


def chunk_of(log: bytes, offset: int) -> Chunk:
    """What was fetched at an offset."""
    position = Position(TopicPartition("t", 0))
    position.seek(offset)
    return Chunk(position, log, None)


def polled(log: bytes, offset: int, limit: int) -> tuple[list[Row], int | None]:
    """What `poll` gives, so many at a time, and where it ends: at damage at the latest."""
    chunk = chunk_of(log, offset)
    rows: list[Row] = []
    done = False
    while not done:
        try:
            records, done = chunk.take(limit, True)
        except KafkaError:
            break
        rows += [(r.offset, r.timestamp, r.timestamp_type, r.key, r.value) for r in records]
    return rows, chunk.position.offset


def columns(log: bytes, offset: int, limit: int) -> tuple[list[Row], int | None]:
    """The same of `poll_arrow`."""
    chunk = chunk_of(log, offset)
    rows: list[Row] = []
    done = False
    while not done:
        try:
            batches, done = chunk.take_columns(limit, True, False, {})
        except KafkaError:
            break
        for batch in batches:
            rows += [
                (r["offset"], r["timestamp"], r["timestampType"], r["key"], r["value"])
                for r in batch.to_pylist()
            ]
    return rows, chunk.position.offset


@given(st.lists(PART, max_size=6), st.integers(0, 20), st.integers(1, 7))
def test_records_columns_and_the_end(
    parts: list[tuple[int, Codec, bool, int, list[tuple[int, bytes | None, bytes | None]]]],
    offset: int,
    limit: int,
) -> None:
    log = log_of(parts)
    expected: list[Row] = [
        (r.offset, r.timestamp, r.timestamp_type, r.key, r.value)
        for r in iter_all_records(log)
        if r.offset >= offset
    ]
    end = end_of_fetched(log, offset)
    assert polled(log, offset, limit) == (expected, end)
    assert columns(log, offset, limit) == (expected, end)
    assert polled(log + log[: len(log) // 2], offset, limit)[0] == expected


@given(st.lists(PART, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_both_end_at_the_same_damage(
    parts: list[tuple[int, Codec, bool, int, list[tuple[int, bytes | None, bytes | None]]]],
    rng: random.Random,
) -> None:
    log = bytearray(log_of(parts))
    for _ in range(rng.randint(1, 3)):
        log[rng.randrange(len(log))] ^= 1 << rng.randrange(8)
    assert polled(bytes(log), 0, 1_000) == columns(bytes(log), 0, 1_000)
