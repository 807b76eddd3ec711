"""The compiled codec and the generated functions: the same messages, the same bytes, the same errors."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import random
import sys
import tracemalloc
from collections.abc import Generator
from typing import Any

import pytest

from odradek.errors import ProtocolError
from odradek.wire import programs
from odradek.wire.api import ApiKey
from odradek.wire.check import message_class, read_golden
from odradek.wire.codec import GeneratedCodec
from odradek.wire.decoder import PAUSE_AFTER
from odradek.wire.errors import InvalidMessageError
from odradek.wire.headers import encode_response, encode_response_in_steps
from odradek.wire.message import Message
from odradek.wire.messages import request_class, response_class
from odradek.wire.messages.metadata import MetadataRequest
from odradek.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.structs import Struct
from seeds import seed

from .golden import WIRE_FILES
from .test_fuzz import mutate

_codec = pytest.importorskip("odradek.wire._codec", reason="the compiled codec is not built")

SEED = seed(20240917)
ROUNDS = int(os.environ.get("ODRADEK_FUZZ_ROUNDS", "20000"))


class LeftToTheTwin(Exception):
    pass


class NoTwin:
    def decode(self, buffer: Any, position: int) -> Any:
        raise LeftToTheTwin

    def decode_within(self, buffer: Any, position: int, elements: int) -> Any:
        raise LeftToTheTwin

    def encode(self, message: Any) -> Any:
        raise LeftToTheTwin

    def encode_parts(self, message: Any, head: bytes, size_at: int) -> Any:
        raise LeftToTheTwin


_made: dict[tuple[type[Message], int], tuple[Any, GeneratedCodec]] = {}


def both(cls: type[Message], version: int) -> tuple[Any, GeneratedCodec]:
    """The compiled codec, alone, and its twin."""
    if (cls, version) not in _made:
        program = programs.program_of(_codec, cls, version)
        compiled = _codec.Codec(program, NoTwin(), programs.has_records(cls, version))
        _made[cls, version] = compiled, GeneratedCodec(cls, version)
    return _made[cls, version]


Case = tuple[type[Message], int, bytes]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Every golden message."""
    return [
        (message_class(line["key"], line["name"], line["kind"]), line["version"], bytes.fromhex(line["hex"]))
        for path in WIRE_FILES
        for line in read_golden(path)
    ]


def attempt(function: Any, *arguments: Any) -> Any:
    """What a function returns, or the kind and the words of its error."""
    try:
        return function(*arguments)
    except (ProtocolError, InvalidMessageError) as error:
        return type(error), str(error)


def test_every_golden_message(cases: list[Case]) -> None:
    left = [0, 0]
    for cls, version, data in cases:
        compiled, twin = both(cls, version)
        message, end = twin.decode(data, 0)
        for buffer in (data, bytearray(data), memoryview(b"xx" + data)[2:]):
            try:
                found = compiled.decode(buffer, 0)
            except LeftToTheTwin:
                left[0] += 1
            else:
                assert found == (message, end)
        whole = twin.encode(message)
        try:
            assert compiled.encode(message) == whole
            head = b"head" * 3
            parts = compiled.encode_parts(message, head, 4)
            assert b"".join(parts) == b"".join(twin.encode_parts(message, head, 4))
            assert int.from_bytes(b"".join(parts)[4:8], "big") == 4 + len(whole)
        except LeftToTheTwin:
            left[1] += 1
    # Golden messages have tagged fields set that clients and brokers leave alone.
    assert left[0] < 0.5 * 3 * len(cases)
    assert left[1] < 0.5 * len(cases)


def in_steps(steps: Generator[None, None, Any]) -> Any:
    """What comes of steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def test_every_golden_message_in_steps(cases: list[Case]) -> None:
    for cls, version, data in cases:
        _, twin = both(cls, version)
        message, end = twin.decode_within(data, 0, sys.maxsize) or (None, 0)
        assert in_steps(cls.decode_in_steps(data, version)) == (message, end)
        message = cls.decode(data, version)
        assert b"".join(in_steps(message.encode_in_steps(version))) == message.encode(version)
        if cls.KIND == "response":
            parts = in_steps(encode_response_in_steps(cls.API_KEY, version, 7, message))
            assert b"".join(parts) == b"".join(encode_response(cls.API_KEY, version, 7, message))


@pytest.mark.parametrize("key", [0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 22, 24, 25, 26, 28])
def test_what_brokers_are_asked_all_day_is_not_left_to_the_twin(key: int) -> None:
    for cls in (request_class(key), response_class(key)):
        for version in cls.VERSIONS:
            compiled, twin = both(cls, version)
            data = twin.encode(cls())
            assert compiled.encode(cls()) == data
            assert compiled.decode(data, 0) == (cls(), len(data))


@pytest.mark.fuzz
def test_damaged_messages(cases: list[Case]) -> None:
    print(f"seed {SEED} ODRADEK_FUZZ_ROUNDS={ROUNDS}")  # noqa: T201 - shown when it fails
    rng = random.Random(SEED)
    small = [case for case in cases if len(case[2]) <= 2000]
    for number in range(ROUNDS):
        cls, version, data = rng.choice(small)
        damaged = mutate(rng, data)
        compiled, twin = both(cls, version)
        try:
            found = compiled.decode(damaged, 0)
        except LeftToTheTwin:
            continue
        expected = attempt(twin.decode, damaged, 0)
        # A float may be NaN, which is not equal to itself.
        same = found == expected or twin.encode(found[0]) == twin.encode(expected[0])
        assert same and found[1] == expected[1], f"round {number}: {cls.__name__} v{version} {damaged.hex()}"


ODD: list[Any] = [
    None,
    True,
    -1,
    2**15,
    2**16,
    2**31,
    2**32,
    2**63,
    2**64,
    1.5,
    "",
    "text",
    "ü" * 20_000,
    "\ud800",
    b"",
    b"x" * 16,
    b"x" * 17,
    bytearray(b"x" * 16),
    memoryview(b"x" * 16),
    memoryview(b"0123456789")[::2],
    [],
    [None],
    [1, 2],
    ["a"],
    (),
    {},
    object,
    ApiKey.FETCH,
]


def places_of(message: Struct) -> list[tuple[Struct, str]]:
    found: list[tuple[Struct, str]] = []
    for field in message.FIELDS:
        found.append((message, field.name))
        value = getattr(message, field.name)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Struct):
                found += places_of(inner)
    found.append((message, "unknown_tagged_fields"))
    return found


@pytest.mark.fuzz
def test_values_that_do_not_fit(cases: list[Case]) -> None:
    print(f"seed {SEED} ODRADEK_FUZZ_ROUNDS={ROUNDS}")  # noqa: T201 - shown when it fails
    rng = random.Random(SEED)
    small = [case for case in cases if len(case[2]) <= 500]
    for number in range(ROUNDS // 4):
        cls, version, data = rng.choice(small)
        compiled, twin = both(cls, version)
        message, _ = twin.decode(data, 0)
        holder, name = rng.choice(places_of(message))
        value = rng.choice([{}, {7000: b"x"}, None] if name == "unknown_tagged_fields" else ODD)
        setattr(holder, name, copy.copy(value) if isinstance(value, list) else value)
        if rng.random() < 0.05:
            delattr(holder, name)
        try:
            found = compiled.encode(message)
            parts = compiled.encode_parts(message, b"", -1)
        except LeftToTheTwin:
            continue
        what = f"round {number}: {cls.__name__} v{version} {name} = {value!r}"
        assert found == attempt(twin.encode, message), what
        assert b"".join(parts) == found, what


def test_constructors() -> None:
    made = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=3, records=b"r")])
    assert made.topic_id == bytes(16)
    assert made.partition_data[0].index == 3
    assert made.unknown_tagged_fields is None
    assert TopicProduceData().partition_data is not TopicProduceData().partition_data
    response = PartitionProduceResponse()
    assert response.current_leader.leader_id == -1
    assert response.current_leader is not PartitionProduceResponse().current_leader
    with pytest.raises(TypeError, match="unexpected keyword argument 'indx'"):
        PartitionProduceResponse(indx=1)
    with pytest.raises(TypeError):
        PartitionProduceResponse(1)
    assert copy.copy(made) == made
    assert copy.deepcopy(made) == made
    assert TopicProduceData(name="t").partition_data == []
    assert MetadataRequest(topics=None).topics is None


def test_records_are_views_and_larger_ones_are_not_copied() -> None:
    batch = os.urandom(9_000)
    request = ProduceRequest(
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[
                    PartitionProduceData(index=0, records=batch),
                    PartitionProduceData(index=1, records=b"small"),
                    PartitionProduceData(index=2, records=[batch, b"more"]),
                    PartitionProduceData(index=3, records=None),
                ],
            )
        ]
    )
    compiled, twin = both(ProduceRequest, 9)
    parts = compiled.encode_parts(request, b"", -1)
    assert [part is batch for part in parts] == [False, True, False, True, False]
    whole = b"".join(parts)
    assert whole == twin.encode(request)
    frame = bytearray(b"front" + whole + b"behind")
    message, end = compiled.decode(memoryview(frame), 5)
    assert end == 5 + len(whole)
    first, second, third, fourth = message.topic_data[0].partition_data
    assert [first.records, second.records, third.records] == [batch, b"small", batch + b"more"]
    assert fourth.records is None
    assert isinstance(second.records, memoryview)
    assert second.records.shape == (5,)
    assert second.records[1:3] == b"ma"
    assert second.records.obj is frame
    at = frame.index(b"small")
    frame[at : at + 5] = b"SMALL"
    assert second.records == b"SMALL"


def test_more_elements_than_allowed_are_left_to_others() -> None:
    topics = [TopicProduceData(name="t", partition_data=[PartitionProduceData()] * 3)] * 2
    for version in (3, 9):
        compiled, twin = both(ProduceRequest, version)
        data = twin.encode(ProduceRequest(topic_data=topics))
        assert compiled.decode_within(data, 0, 7) is None
        assert compiled.decode_within(data, 0, 8) == twin.decode(data, 0)
        assert twin.decode_within(data, 0, 8) == twin.decode(data, 0)
        assert twin.decode_within(memoryview(data), 0, 8) == twin.decode(data, 0)
        assert twin.decode_within(data, 0, 7) is None


def structs_of(message: Struct, version: int) -> list[Struct]:
    """A message and all structs in it that a version has."""
    found = [message]
    for field in message.FIELDS:
        if version in field.versions:
            value = getattr(message, field.name)
            for inner in value if isinstance(value, list) else [value]:
                found += structs_of(inner, version) if isinstance(inner, Struct) else []
    return found


def elements_of(message: Struct) -> int:
    """How many elements its arrays have."""
    total = 0
    for field in message.FIELDS:
        value = getattr(message, field.name)
        total += len(value) if isinstance(value, list) else 0
        for inner in value if isinstance(value, list) else [value]:
            total += elements_of(inner) if isinstance(inner, Struct) else 0
    return total


def test_unknown_tags_of_what_peers_sent_are_passed_over_and_count(cases: list[Case]) -> None:
    """Of every flexible message, in every struct: by the compiled codec, its twin, and in steps."""
    largest: dict[type[Message], Case] = {}
    for case in cases:
        cls, version, data = case
        newest = cls.is_flexible(version) and version == cls.VERSIONS[-1]
        if newest and len(data) < 5_000 and len(data) >= len(largest.get(cls, case)[2]):
            largest[cls] = case
    assert len(largest) > 100
    for cls, version, data in largest.values():
        compiled, twin = both(cls, version)
        message, _ = twin.decode_within(data, 0, 10**6)  # type: ignore[misc]
        for holder in structs_of(message, version):
            holder.unknown_tagged_fields = {7_000 + number: b"x" * number for number in range(3)}
        tagged = twin.encode(message)
        # A struct that is not written, as it is null or has its default, takes its tags with it.
        written, _ = twin.decode(tagged, 0)
        holders = structs_of(written, version)
        unknown = sum(len(holder.unknown_tagged_fields or ()) for holder in holders)
        cost = unknown + elements_of(written)
        for holder in holders:
            holder.unknown_tagged_fields = None
        for buffer in (tagged, memoryview(tagged)):
            for codec in (compiled, twin):
                found = codec.decode_within(buffer, 0, cost)
                assert found is not None, (cls, version)
                assert found[1] == len(tagged)
                assert found[0] == written, (cls, version)
                assert codec.decode_within(buffer, 0, cost - 1) is None, (cls, version)
                with pytest.raises((LeftToTheTwin, ProtocolError)):
                    codec.decode_within(buffer[:-1], 0, cost)
            steps = cls.decode_in_steps(buffer, version)
            with pytest.raises(StopIteration) as end:
                while True:
                    next(steps)
            assert end.value.value == compiled.decode_within(buffer, 0, cost)


def test_more_unknown_tags_than_elements_are_refused_in_steps() -> None:
    """Of a Produce request, which has the bound of most elements that is lowest for its size."""
    for holder in (request := ProduceRequest(topic_data=[TopicProduceData(name="t")]), request.topic_data[0]):
        most = ProduceRequest.MOST_ELEMENTS
        holder.unknown_tagged_fields = dict.fromkeys(range(most + PAUSE_AFTER), b"")
        steps = ProduceRequest.decode_in_steps(request.encode(9), 9)
        with pytest.raises(ProtocolError, match="more than"):
            for pauses, _ in enumerate(steps, 1):  # noqa: B007 - how many there were is asked below
                pass
        assert pauses >= most // PAUSE_AFTER - 1
        holder.unknown_tagged_fields = None


@pytest.mark.fuzz
def test_nothing_is_kept(cases: list[Case]) -> None:
    some = random.Random(SEED).sample([case for case in cases if len(case[2]) <= 500], 100)

    def go_round() -> None:
        for cls, version, data in some:
            compiled, _ = both(cls, version)
            with contextlib.suppress(LeftToTheTwin):
                message, _ = compiled.decode(data, 0)
                compiled.encode(message)
                compiled.encode_parts(message, b"1234", 0)
            with contextlib.suppress(LeftToTheTwin):
                compiled.decode(data[:-1], 0)
            cls()
            with pytest.raises(TypeError):
                cls(_no_such_field=1)  # type: ignore[call-arg]

    def growth() -> int:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            go_round()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    go_round()
    gc.collect()
    tracemalloc.start()
    try:
        go_round()
        gc.collect()
        # An object kept of each message in each round would be half a megabyte and more, each time. What
        # others in this process come to keep is counted too, but once.
        assert any(growth() < 100_000 for _ in range(3))
    finally:
        tracemalloc.stop()


class Claiming:
    """Records that are elsewhere, of so many bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


@pytest.mark.parametrize("version", [3, 9])
def test_nothing_is_larger_than_kafka_can_count(version: int) -> None:
    def of(*sizes: int) -> ProduceRequest:
        partitions = [PartitionProduceData(index=size, records=Claiming(size)) for size in sizes]
        return ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=partitions)])

    compiled, twin = both(ProduceRequest, version)
    for sizes in [(2**31,), (2**32 + 5,), (2**31 - 1,), (2**30, 2**30)]:
        with pytest.raises(LeftToTheTwin):
            compiled.encode_parts(of(*sizes), b"head", 0)
        with pytest.raises(InvalidMessageError):
            twin.encode_parts(of(*sizes), b"head", 0)
    for codec in (compiled, twin):
        first, *_ = codec.encode_parts(of(2**30, 2**30 - 200), b"head", 0)
        assert int.from_bytes(first[:4], "big", signed=True) > 2**31 - 200


def test_views_that_are_not_of_single_bytes_are_left_to_the_twin() -> None:
    compiled, twin = both(ProduceRequest, 9)
    partition = PartitionProduceData(index=0, records=b"x" * 100)
    message = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])
    data = twin.encode(message)
    data += bytes(-len(data) % 4)
    for view in (memoryview(data).cast("i"), memoryview(data).cast("B", (2, len(data) // 2))):
        with pytest.raises(LeftToTheTwin):
            compiled.decode(view, 0)


def test_a_message_may_be_extended() -> None:
    class More(MetadataRequest):
        pass

    made = More(topics=None)
    assert made == More(topics=None, allow_auto_topic_creation=True)
    assert made.encode(9) == MetadataRequest(topics=None).encode(9)
