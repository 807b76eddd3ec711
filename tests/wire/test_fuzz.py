"""Whatever comes in: a message or ProtocolError, nothing else, in time and memory linear in its size."""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.errors import ProtocolError
from odradek.wire.api import ApiKey
from odradek.wire.check import message_class, read_golden
from odradek.wire.headers import decode_request_header, decode_response
from odradek.wire.message import Message
from odradek.wire.messages import request_class, response_class
from seeds import seed

from .golden import TRANSCRIPTS, WIRE_FILES

SEED = seed(20240917)
ROUNDS = int(os.environ.get("ODRADEK_FUZZ_ROUNDS", "20000"))

Case = tuple[type[Message], int, bytes]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Every golden message up to 2,000 bytes, with its class and version."""
    found = []
    for path in WIRE_FILES:
        for line in read_golden(path):
            if len(line["hex"]) <= 4000:
                cls = message_class(line["key"], line["name"], line["kind"])
                found.append((cls, line["version"], bytes.fromhex(line["hex"])))
    return found


LENGTHS = [
    bytes.fromhex(text) for text in ("7fffffff", "ffffffff", "80000000", "00010000", "ffff", "7fff", "8000")
]
VARINTS = [
    bytes.fromhex(text)
    for text in ("ffffffff07", "ffffffff0f", "ffffffffff01", "8000", "808080808000", "ff01")
]


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Damage a message in one to four places."""
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(damaged) + 1)
        match rng.randrange(7):
            case 0 if damaged:
                damaged[place % len(damaged)] ^= 1 << rng.randrange(8)
            case 1 if damaged:
                damaged[place % len(damaged)] = rng.randrange(256)
            case 2:
                del damaged[place : place + rng.randint(1, 8)]
            case 3:
                damaged[place:place] = rng.randbytes(rng.randint(1, 8))
            case 4:
                piece = rng.choice(LENGTHS)
                damaged[place : place + len(piece)] = piece
            case 5:
                damaged[place : place + 1] = rng.choice(VARINTS)
            case _:
                del damaged[place:]
    return bytes(damaged)


def decode_or_refuse(cls: type[Message], version: int, data: bytes) -> Message | None:
    """Decode as bytes and as a view: the same message, or ProtocolError both times."""
    outcomes: list[Message | None] = []
    for buffer in (data, memoryview(data)):
        try:
            outcomes.append(cls.decode(buffer, version))
        except ProtocolError:
            outcomes.append(None)
    assert repr(outcomes[0]) == repr(outcomes[1]) or outcomes[0] == outcomes[1]
    return outcomes[0]


def is_stable(cls: type[Message], version: int, message: Message) -> bool:
    """Whether what was decoded encodes to bytes that decode to the same (NaN aside, by the bytes)."""
    encoded = message.encode(version)
    return cls.decode(encoded, version).encode(version) == encoded


@pytest.mark.fuzz
def test_damaged_golden_messages(cases: list[Case]) -> None:
    print(f"seed {SEED} ODRADEK_FUZZ_ROUNDS={ROUNDS}")  # noqa: T201 - shown when it fails
    rng = random.Random(SEED)
    decoded = 0
    for round_number in range(ROUNDS):
        cls, version, data = rng.choice(cases)
        damaged = mutate(rng, data)
        try:
            message = decode_or_refuse(cls, version, damaged)
            if message is not None:
                decoded += 1
                assert is_stable(cls, version, message)
        except Exception as error:
            error.add_note(f"round {round_number}: {cls.__name__} v{version} {damaged.hex()}")
            raise
    assert 0 < decoded < ROUNDS


def all_versions() -> Iterator[tuple[type[Message], int]]:
    for key in ApiKey:
        for cls in (request_class(key), response_class(key)):
            for version in cls.VERSIONS:
                yield cls, version


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(list(all_versions())), st.binary(max_size=80))
def test_any_bytes(which: tuple[type[Message], int], data: bytes) -> None:
    cls, version = which
    message = decode_or_refuse(cls, version, data)
    assert message is None or is_stable(cls, version, message)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.integers(-5, 100), st.integers(-3, 20))
def test_any_frame(data: bytes, key: int, version: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + data
    for taken in (frame, data):
        try:
            header, start = decode_request_header(taken)
            assert start <= len(taken)
            assert header.api_key in set(ApiKey)
        except ProtocolError:
            pass
    if key in set(ApiKey) and version in response_class(key).VERSIONS:
        with suppress(ProtocolError):
            decode_response(data, key, version)


@pytest.mark.fuzz
def test_damaged_requests_of_real_clients() -> None:
    rng = random.Random(SEED)
    frames = [
        bytes.fromhex(line["hex"])
        for path in TRANSCRIPTS
        for line in read_golden(path)
        if line["dir"] == "request"
    ]
    for frame in rng.sample(frames, 800):
        damaged = mutate(rng, frame)
        try:
            header, start = decode_request_header(damaged)
            cls = request_class(header.api_key)
            if header.api_version in cls.VERSIONS:
                cls.decode_from(damaged, header.api_version, start)
        except ProtocolError:
            pass


# -- bounds: counted, not timed


def steps_of(cls: type[Message], version: int, data: bytes) -> int:
    """How many lines of generated code and of its helpers run while a buffer is decoded."""
    steps = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        steps += 1
        return trace

    # A collection may call whatever other tests of the process have left to be finalized.
    gc.disable()
    sys.settrace(trace)
    try:
        cls.decode(data, version)
    except ProtocolError:
        pass
    finally:
        sys.settrace(None)
        gc.enable()
    return steps


def hostile(data: bytes) -> Iterator[bytes]:
    """A message with its lengths made enormous, one place at a time."""
    for place in range(0, len(data), max(1, len(data) // 12)):
        yield data[:place] + b"\x7f\xff\xff\xff" + data[place + 4 :]
        yield data[:place] + b"\xff\xff\xff\xff\x07" + data[place + 1 :]


@pytest.mark.fuzz
def test_steps_and_memory_are_linear_in_the_input(cases: list[Case]) -> None:
    print(f"seed {SEED}")  # noqa: T201 - shown when it fails
    rng = random.Random(SEED)
    for cls, version, golden in rng.sample(cases, 120):
        cls.decode(golden, version)  # compiles
        for data in hostile(golden):
            with suppress(ProtocolError):
                cls.decode(data, version)  # compiles what the golden one has none of
            assert steps_of(cls, version, data) < 200 + 40 * len(data), (
                f"{cls.__name__} v{version} {data.hex()}"
            )
            tracemalloc.start()
            with suppress(ProtocolError):
                cls.decode(data, version)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 20_000 + 300 * len(data), f"{cls.__name__} v{version} {data.hex()}"


@pytest.mark.parametrize(
    ("cls", "version"),
    [
        pytest.param(*pair, id=f"{pair[0].__name__}-{pair[1]}")
        for pair in all_versions()
        if pair[1] in (pair[0].VERSIONS[0], pair[0].VERSIONS[-1])
    ],
)
def test_zeros_and_ones_in_bulk(cls: type[Message], version: int) -> None:
    """Long runs of one byte make the most elements out of the fewest bytes."""
    for byte in (b"\0", b"\1", b"\2", b"\x7f", b"\xff"):
        data = byte * 3000
        cls_steps = steps_of(cls, version, data)
        assert cls_steps < 500 + 40 * len(data)


@pytest.mark.fuzz
def test_json_of_fuzzed_messages_reads_back(cases: list[Case]) -> None:
    rng = random.Random(SEED)
    for cls, version, data in rng.sample(cases, 600):
        message = decode_or_refuse(cls, version, mutate(rng, data))
        if message is None:
            continue
        document = json.loads(json.dumps(message.to_json(version)))
        again = cls.from_json(document, version)
        assert again.to_json(version) == document or "NaN" in json.dumps(document)


def densest(cls: type[Message], version: int) -> bytes:
    """A message whose arrays hold as many of the smallest elements as possible."""
    message = cls()
    for field in cls.FIELDS:
        if field.kind == "array" and version in field.versions:
            element = field.element
            assert element is not None
            setattr(
                message,
                field.name,
                [element.struct() if element.struct is not None else element.default] * 300,
            )
    return message.encode(version)


def test_the_densest_messages_stay_within_a_known_factor() -> None:
    """What a hostile peer gets at most: some sixty bytes of memory for one byte of its own."""
    for cls, version in all_versions():
        if version not in (cls.VERSIONS[0], cls.VERSIONS[-1]):
            continue
        data = densest(cls, version)
        cls.decode(data, version)  # compiles
        tracemalloc.start()
        cls.decode(data, version)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4_000 + 64 * len(data), f"{cls.__name__} v{version}: {peak / len(data):.0f} times"
