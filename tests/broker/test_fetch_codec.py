"""The codecs of the short cut for fetches read and write what the declared codec does."""

from __future__ import annotations

import random
from typing import Any

import pytest

from odradek.broker.fast import _pyfetch
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_request_header, encode_response
from odradek.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

from .fetch_frames import TOPICS, Shape
from .twins import twins

CODECS = twins(_pyfetch, "odradek._fetch")
IDS = {name: bytes([number]) * 16 for number, name in enumerate(TOPICS, 1)}


def as_declared(frame: bytes) -> Any:
    """What the declared codec reads, in the form of `parse_fetch`."""
    header, at = decode_request_header(frame)
    message, _ = FetchRequest.decode_from(frame, header.api_version, at)
    by_id = header.api_version >= 13
    return (
        header.api_version,
        header.correlation_id,
        message.max_wait_ms,
        message.min_bytes,
        message.max_bytes,
        message.isolation_level,
        message.session_id,
        message.session_epoch,
        [
            (
                topic.topic_id if by_id else topic.topic,
                [
                    (
                        one.partition,
                        one.fetch_offset,
                        one.partition_max_bytes,
                        one.current_leader_epoch,
                        one.log_start_offset,
                        one.last_fetched_epoch,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in message.topics
        ],
    )


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", range(4, 19))
def test_what_is_parsed_is_what_the_declared_codec_reads(codec: Any, version: int) -> None:
    shape = Shape(version, IDS)
    usual = 0
    for _ in range(300):
        frame = shape.frame(version, odd=0.02)
        parsed = codec.parse_fetch(memoryview(frame))
        if parsed is not None:
            usual += 1
            assert parsed == as_declared(frame)
    assert usual > 100


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_frame_is_parsed_rightly_or_not_at_all(codec: Any, seed: int) -> None:
    shape = Shape(seed, IDS)
    parsed_ones = 0
    for _ in range(3000):
        frame = shape.mutated(shape.frame(shape.chance.randrange(4, 19)))
        parsed = codec.parse_fetch(frame)
        assert parsed == _pyfetch.parse_fetch(frame)
        if parsed is not None:
            parsed_ones += 1
            assert parsed == as_declared(frame)
    assert parsed_ones > 100


@pytest.mark.parametrize("codec", CODECS)
def test_other_apis_and_versions_are_not_parsed(codec: Any) -> None:
    frame = Shape(1, IDS).frame(12, odd=0)
    parse = codec.parse_fetch
    assert parse(frame) is not None
    assert parse(b"") is None
    assert parse(b"\0\0" + frame[2:]) is None
    assert parse(frame[:3] + b"\x03" + frame[4:]) is None
    assert parse(frame[:3] + b"\x13" + frame[4:]) is None


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", range(4, 19))
def test_what_is_written_is_what_the_declared_codec_writes(codec: Any, version: int) -> None:
    chance = random.Random(version)
    for _ in range(100):
        committed = chance.random() < 0.5
        session_id = chance.choice((0, 77)) if version >= 7 else 0
        answers: list[Any] = []
        response = FetchResponse(session_id=session_id)
        for number in range(chance.choice((0, 1, 1, 2, 5))):
            topic = chance.choice(("t", "name" * 60, "ümläut")) + str(number)
            topic_id = chance.randbytes(16)
            parts = []
            declared = FetchableTopicResponse(topic=topic, topic_id=topic_id)
            for index in range(chance.choice((1, 1, 2, 200))):
                size = chance.choice((0, 0, 1, 126, 127, 128, 8192, 8193, 20_000)) if index < 3 else 3
                records: Any = chance.randbytes(size)
                if size and chance.random() < 0.2:
                    records = memoryview(records)
                high, stable, start = (chance.choice((-1, 0, 7, 2**62)) for _ in range(3))
                parts.append((index, high, stable, start, records))
                declared.partitions.append(
                    PartitionData(
                        partition_index=index,
                        high_watermark=high,
                        last_stable_offset=stable,
                        log_start_offset=start,
                        aborted_transactions=[] if committed else None,
                        records=records,
                    )
                )
            answers.append((topic_id if version >= 13 else topic, parts))
            response.responses.append(declared)
        correlation_id = chance.choice((0, 1, -1, 2**31 - 1))
        buffers = codec.encode_fetch(version, correlation_id, session_id, committed, answers)
        assert b"".join(buffers) == b"".join(encode_response(ApiKey.FETCH, version, correlation_id, response))
        for buffer in buffers:
            assert len(buffer) > 0
