"""The fetch buffer: the position stands after the record that was handed out last, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from odradek.client import (
    OffsetAndMetadata,
    TopicPartition,
)
from odradek.client.core.chunk import Chunk
from odradek.client.core.fetch_buffer import FetchBuffer
from odradek.client.core.subscription_state import Position, SubscriptionState
from odradek.client.errors import SerializationError
from odradek.errors import CorruptRecordError
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec
from odradek.records.control import ControlType, end_marker_batch

from .fetched_batches import batch

TP = TopicPartition("t", 0)


def marker(base: int, producer_id: int, kind: ControlType) -> bytes:
    return end_marker_batch(
        kind,
        base_offset=base,
        timestamp=1_000,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        partition_leader_epoch=4,
    )


class Aborted:
    def __init__(self, producer_id: int, first_offset: int) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


def buffered(*chunks: tuple[Position, bytes], **more: Any) -> FetchBuffer:
    buffer = FetchBuffer(True, more.get("key"), more.get("value"))
    for position, data in chunks:
        buffer.add(Chunk(position, memoryview(data), more.get("aborted")))
    return buffer


def at(offset: int, tp: TopicPartition = TP) -> Position:
    position = Position(tp)
    position.seek(offset)
    return position


def iterate(buffer: FetchBuffer, limit: int = 500) -> Iterator[Any]:
    return buffer.hand_out(limit, lambda: None)


LETTERS = batch(0, b"a", b"b", b"c") + batch(3, b"d", b"e", epoch=5)


def test_the_position_moves_with_each_record() -> None:
    position = at(0)
    buffer = buffered((position, LETTERS))
    seen = [(record.value, position.offset, position.offset_epoch) for record in iterate(buffer)]
    assert seen == [(b"a", 1, 4), (b"b", 2, 4), (b"c", 3, 4), (b"d", 4, 5), (b"e", 5, 5)]
    assert (buffer.empty, buffer.used, buffer.records_given_out) == (True, 1, 5)


@pytest.mark.parametrize("handed_out", range(6))
def test_whoever_comes_next_goes_on_there(handed_out: int) -> None:
    rest = [b"a", b"b", b"c", b"d", b"e"][handed_out:]
    ways: dict[str, Callable[[FetchBuffer], list[Any]]] = {
        "poll": lambda buffer: [r.value for r in buffer.take(500)],
        "a record a poll": lambda buffer: [r.value for _ in range(len(rest)) for r in buffer.take(1)],
        "columns": lambda buffer: [
            v
            for _, rows in buffer.take_columns(500, False, {})
            for v in rows.column(rows.schema.get_field_index("value")).to_pylist()
        ],
        "iteration": lambda buffer: [r.value for r in iterate(buffer)],
        "an iteration each": lambda buffer: [r.value for _ in rest for r in islice(iterate(buffer), 1)],
    }
    for name, way in ways.items():
        buffer = buffered((at(0), LETTERS))
        assert len(list(islice(iterate(buffer), handed_out))) == handed_out
        assert way(buffer) == rest, name


def test_an_iteration_ends_when_something_else_takes_records() -> None:
    buffer = buffered((at(0), LETTERS))
    first, second = iterate(buffer), iterate(buffer)
    assert next(first).value == b"a"
    assert next(second).value == b"b"
    assert next(first, None) is None
    assert [r.value for r in buffer.take(2)] == [b"c", b"d"]
    assert next(second, None) is None
    assert [r.value for r in iterate(buffer)] == [b"e"]
    assert buffer.records_given_out == 5


def test_records_of_what_was_paused_or_revoked_are_not_handed_out() -> None:
    for_others = TopicPartition("t", 1)
    positions = SubscriptionState("earliest")
    positions.assign([TP, for_others])
    for position in positions:
        position.seek(0)
    buffer = buffered((positions[TP], LETTERS), (positions[for_others], LETTERS))
    going = iterate(buffer)
    assert next(going).offset == 0
    positions[TP].paused = True
    buffer.interrupt()
    assert list(going) == []
    assert [(r.partition, r.offset) for r in islice(iterate(buffer), 2)] == [(1, 0), (1, 1)]
    positions[TP].paused = False
    positions.set_assignment([TP])
    buffer.interrupt()
    assert [(r.partition, r.offset) for r in iterate(buffer)] == [(0, n) for n in range(1, 5)]


def test_a_seek_is_where_it_goes_on() -> None:
    position = at(0)
    buffer = buffered((position, LETTERS))
    going = iterate(buffer)
    next(going)
    position.seek(7)
    buffer.interrupt()
    assert list(going) == []
    assert (position.offset, buffer.takeable) == (7, False)


def test_a_limit_is_kept() -> None:
    buffer = buffered((at(0), LETTERS))
    assert [r.value for r in iterate(buffer, 4)] == [b"a", b"b", b"c", b"d"]
    assert [r.value for r in iterate(buffer, 4)] == [b"e"]


def test_a_record_that_cannot_be_deserialized_is_where_it_stands() -> None:
    def picky(topic: str, value: bytes) -> str:
        if value == b"c":
            raise ValueError("no c")
        return value.decode()

    position = at(0)
    buffer = buffered((position, LETTERS), value=picky)
    for _ in range(2):
        values = []
        with pytest.raises(SerializationError, match="offset 2"):
            values += [r.value for r in iterate(buffer)]
        assert position.offset == 2
    position.seek(3)


def test_null_is_not_given_to_deserializers() -> None:
    asked: list[bytes] = []

    def write_down(topic: str, data: bytes) -> bytes:
        asked.append(data)
        return data

    builder = BatchBuilder(Codec.NONE, base_offset=0, partition_leader_epoch=0)
    builder.append(1, None, None, ())
    builder.append(1, b"k", None, ())
    builder.append(1, None, b"v", ())
    for take in (lambda b: b.take(10), lambda b: list(iterate(b))):
        asked.clear()
        records = take(buffered((at(0), builder.build()), key=write_down, value=write_down))
        assert [(r.key, r.value) for r in records] == [(None, None), (b"k", None), (None, b"v")]
        assert asked == [b"k", b"v"]


def test_what_may_be_unprocessed() -> None:
    position = at(0)
    buffer = buffered((position, LETTERS))
    assert buffer.unprocessed() == {}
    buffer.take(2)
    assert {tp: o.offset for tp, o in buffer.unprocessed().items()} == {TP: 0}
    going = iterate(buffer)
    next(going)
    assert {tp: o.offset for tp, o in buffer.unprocessed().items()} == {TP: 2}
    next(going)
    assert {tp: o.offset for tp, o in buffer.unprocessed().items()} == {TP: 3}
    buffer.committed({TP: position_of(position)})
    assert buffer.unprocessed() == {}
    next(going)
    assert {tp: o.offset for tp, o in buffer.unprocessed().items()} == {TP: 4}
    assert next(going, None) is None
    assert buffer.unprocessed() == {}, "the application came back for more"


def position_of(position: Position) -> OffsetAndMetadata:
    assert position.offset is not None
    return OffsetAndMetadata(position.offset)


def test_columns_in_portions_leave_out_what_was_aborted_and_nothing_else() -> None:
    data = (
        batch(0, b"aborted", producer_id=7)
        + marker(1, 7, ControlType.ABORT)
        + batch(2, b"plain")
        + batch(3, b"committed", b"too", producer_id=7)
        + marker(5, 7, ControlType.COMMIT)
    )
    position = at(0)
    buffer = buffered((position, data), aborted=[Aborted(7, 0)])
    values: list[bytes] = []
    while buffer.takeable:
        for _, rows in buffer.take_columns(1, False, {}):
            values += rows.column(1).to_pylist()
    assert values == [b"plain", b"committed", b"too"]
    assert (position.offset, position.offset_epoch) == (6, 4)


@pytest.mark.parametrize("way", ["poll", "poll_arrow", "iteration"])
def test_nothing_behind_a_damaged_batch_passes_it(way: str) -> None:
    damaged = bytearray(batch(2, b"c", b"d"))
    damaged[-1] ^= 0xFF
    position = at(0)
    buffer = buffered((position, batch(0, b"a", b"b") + bytes(damaged)))
    buffer.add(Chunk(position, memoryview(batch(4, b"e")), None))

    def read() -> list[int]:
        if way == "poll":
            return [record.offset for record in buffer.take(500)]
        if way == "iteration":
            return [record.offset for record in islice(iterate(buffer), 2)]
        found = buffer.take_columns(500, False, {})
        return [offset for _, rows in found for offset in rows.column("offset").to_pylist()]

    assert read() == [0, 1]
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            read()
        assert position.offset == 2
    position.seek(4)
    buffer.add(Chunk(position, memoryview(batch(4, b"e")), None))
    assert read() == [4]
