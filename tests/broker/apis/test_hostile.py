"""What strangers send: none of it brings the broker down, blocks it, or is noticed by anybody else.

Whoever sends what is no request is disconnected, with one line in the log that names the peer and the reason.
"""

from __future__ import annotations

import asyncio
import logging
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.apis.registry import SERVED
from odradek.broker.network.connection import WRITE_HIGH_WATER
from odradek.errors.codes import ErrorCode
from odradek.records.builder import build_batch
from odradek.wire.api import ApiKey, request_header_version
from odradek.wire.check import read_golden
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages import describe_configs, incremental_alter_configs, request_class
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from seeds import seed

from .. import live
from ..net import at_rest, read_eof, run, settle
from ..sweep import WIRE, Sweeper, error_codes, golden_requests, sweeping
from .test_every_version import TOPIC, aim, commit_once, fill_topic

LONGEST = 32767
"""Bytes of the longest string that any version carries."""


@contextmanager
def warnings_of() -> Iterator[list[str]]:
    """What the broker logs at INFO and above."""
    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, logger = Collect(logging.INFO), logging.getLogger("odradek")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4096 / 2**20


# ---------------------------------------------------------------------- what is no request


NO_REQUESTS = {
    "negative size": b"\xff\xff\xff\xff",
    "oversized": b"\x7f\xff\xff\xff",
    "one more than the largest": (104_857_601).to_bytes(4, "big"),
    "empty": b"\0\0\0\0",
    "three bytes": b"\0\0\0\3abc",
    "no such key": b"\0\0\0\x0a" + b"\x12\x34\0\0\0\0\0\1\xff\xff",
    "negative key": b"\0\0\0\x0a" + b"\xff\xff\0\0\0\0\0\1\xff\xff",
    "a key that is not served": b"\0\0\0\x0a" + b"\0\4\0\0\0\0\0\1\xff\xff",
    "no such version": b"\0\0\0\x0a" + b"\0\3\0\x63\0\0\0\1\xff\xff",
    "negative version": b"\0\0\0\x0a" + b"\0\3\xff\xff\0\0\0\1\xff\xff",
    "a version that is not served": b"\0\0\0\x0a" + b"\0\0\0\0\0\0\0\1\xff\xff",
    "client id beyond the end": b"\0\0\0\x0a" + b"\0\3\0\0\0\0\0\1\x7f\xff",
    "client id that is no text": b"\0\0\0\x0c" + b"\0\3\0\0\0\0\0\1\0\2\xff\xfe",
    "an array of 2^31-1": b"\0\0\0\x0e" + b"\0\3\0\0\0\0\0\1\xff\xff\x7f\xff\xff\xff",
    "an array of -2": b"\0\0\0\x0e" + b"\0\3\0\0\0\0\0\1\xff\xff\xff\xff\xff\xfe",
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("what", NO_REQUESTS)
def test_what_is_no_request_is_one_line_and_the_end(what: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            neighbour = await live.connect(broker)
            await neighbour.call(ApiVersionsRequest(), 0)
            with warnings_of() as lines:
                reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
                port = writer.get_extra_info("sockname")[1]
                writer.write(NO_REQUESTS[what])
                assert await read_eof(reader) == b""
                writer.close()
                await settle(lambda: len(broker.listeners[0].connections) == 1)
            (line,) = lines
            assert line.startswith(f"closing a connection peer=127.0.0.1:{port} reason=")
            assert len(line) > len(f"closing a connection peer=127.0.0.1:{port} reason=") + 10
            assert (await neighbour.call(ApiVersionsRequest(), 0)).error_code == 0
            assert broker.listeners[0].queued_bytes == 0
            assert broker.listeners[0].partial_bytes == 0
            neighbour.close()

    run(main)


def test_a_frame_that_is_cut_off_costs_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            before = resident_mib()
            writers = []
            for _ in range(50):
                _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
                # It announces 100 MiB and sends four bytes.
                writer.write((104_857_600).to_bytes(4, "big") + b"\0\0\0\7")
                writers.append(writer)
            listener = broker.listeners[0]
            await settle(lambda: listener.partial_bytes == 50 * 8)
            assert resident_mib() - before < 30
            for writer in writers:
                writer.close()
            await settle(lambda: not listener.connections)
            assert listener.partial_bytes == 0

    run(main)


def test_a_slow_sender_gets_its_answer_and_nobody_waits_for_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            neighbour = await live.connect(broker)
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            frame = b"\0\x12\0\0\0\0\0\7\0\3abc"
            for byte in len(frame).to_bytes(4, "big") + frame:
                writer.write(bytes([byte]))
                await writer.drain()
                assert (await neighbour.call(ApiVersionsRequest(), 0)).error_code == 0
            size = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), 60), "big")
            correlation_id, _ = decode_response(await reader.readexactly(size), 18, 0)
            assert correlation_id == 7
            writer.close()
            neighbour.close()

    run(main)


def test_answers_that_nobody_reads_do_not_pile_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t")
            neighbour = await live.connect(broker)
            await live.append(neighbour, "t", live.batch([b"x" * 1000] * 500))
            greedy = await live.connect(broker)
            before = resident_mib()
            # Two thousand answers of half a megabyte each.
            for _ in range(2000):
                greedy.send(live.fetch("t"), 11)
            listener = broker.listeners[0]

            def unsent_bytes() -> int:
                ours = [one for one in listener.connections if one.peer.port == _port(greedy)]
                return sum(one.unsent_bytes for one in ours)

            await settle(lambda: unsent_bytes() > 0)
            assert WRITE_HIGH_WATER // 4 < await at_rest(unsent_bytes) < 2 * WRITE_HIGH_WATER
            for _ in range(20):
                assert (await neighbour.call(ApiVersionsRequest(), 0)).error_code == 0
            assert resident_mib() - before < 40
            # Whoever reads after all gets every answer.
            for _ in range(2000):
                answer = await greedy.receive()
                assert len(answer.responses[0].partitions[0].records) > 500_000
            greedy.close()
            neighbour.close()

    run(main)


def _port(client: live.Client) -> int:
    port: int = client.writer.get_extra_info("sockname")[1]
    return port


# ---------------------------------------------------------------------- mutated frames


def mutated(rng: random.Random, frame: bytes) -> bytes:
    """One to four accidents."""
    broken = bytearray(frame)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not broken:
            break
        at = rng.randrange(len(broken))
        match rng.randrange(6):
            case 0:
                broken[at] = rng.randrange(256)
            case 1:
                broken[at] ^= 1 << rng.randrange(8)
            case 2:
                del broken[at : at + rng.randrange(1, 9)]
            case 3:
                broken[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                extremes = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0")
                broken[at : at + 4] = rng.choice(extremes)
            case 5:
                del broken[at:]
    return bytes(broken)


def golden_frame(rng: random.Random, line: dict[str, Any], topic_id: bytes) -> bytes:
    key, version, body = line["key"], line["version"], bytes.fromhex(line["hex"])
    if rng.random() < 0.7:
        message = request_class(key).decode(body, version)
        aim(message, version, topic_id)
        body = message.encode(version)
    head = struct.pack(">hhih", key, version, rng.randrange(2**31), 1) + b"c"
    if request_header_version(key, version) == 2:
        head += b"\0"
    return mutated(rng, head + body) if rng.random() < 0.3 else head + mutated(rng, body)


def recorded_frames() -> list[bytes]:
    paths = sorted((WIRE.parent / "transcripts").glob("[2-4]*.jsonl.gz"))
    return [
        bytes.fromhex(line["hex"]) for path in paths for line in read_golden(path) if line["dir"] == "request"
    ]


@pytest.mark.fuzz
@pytest.mark.parametrize("source", ["golden", "recorded"])
def test_mutated_frames(source: str, tmp_path: Path) -> None:
    rng = random.Random(seed(20261122))
    lines = [
        line for key in SERVED for line in golden_requests(key) if line["version"] in SERVED[key].versions
    ]
    recorded = recorded_frames()

    async def main() -> None:
        async with sweeping(tmp_path / "data") as sweeper:
            await sweeper.broker.controller.event_queue.run(sweeper.broker.groups.ensure_topic)
            await commit_once(sweeper)
            with warnings_of() as log:
                for number in range(700):
                    if sweeper.broker.image.topic(TOPIC) is None:
                        await fill_topic(sweeper)
                    if source == "golden":
                        frame = golden_frame(rng, rng.choice(lines), sweeper.broker.image.topic_id(TOPIC))
                    else:
                        frame = mutated(rng, rng.choice(recorded))
                    log.clear()
                    await survive(sweeper, frame, log)
                    if number % 50 == 0:
                        await sweeper.is_alive()

    run(main)


def test_a_failed_produce_without_acks_closes_the_connection_with_one_line(tmp_path: Path) -> None:
    batch = build_batch([(0, None, b"value", ())])
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=59, records=batch)])
    frame = b"".join(encode_request(ApiKey.PRODUCE, 10, 1, "c", ProduceRequest(acks=0, topic_data=[data])))

    async def main() -> None:
        async with sweeping(tmp_path / "data") as sweeper:
            with warnings_of() as log:
                await survive(sweeper, frame[4:], log)
                assert any("a produce with acks=0 failed" in line for line in log)

    run(main)


async def survive(sweeper: Sweeper, frame: bytes, log: list[str]) -> None:
    """Send a frame: it is answered, passed over (acks=0), or the connection closed with one line."""
    what = frame.hex()
    answer = await sweeper.send_frame(frame)
    if answer is None:
        closing = [line for line in log if "closing a connection" in line]
        assert len(closing) == 1, (what, log)
        assert "127.0.0.1" in closing[0]
    elif answer:
        key, version = struct.unpack_from(">hh", frame)
        refused = key == ApiKey.API_VERSIONS and answer[4:6] == b"\0\x23"
        correlation_id, response = decode_response(answer, key, 0 if refused else version)
        assert correlation_id == int.from_bytes(frame[4:8], "big", signed=True), what
        assert ErrorCode.UNKNOWN_SERVER_ERROR not in error_codes(response), what
    assert not (complaints := sweeper.complaints.take()), (what, complaints)
    assert sweeper.broker.listeners[0].queued_bytes == 0


# ---------------------------------------------------------------------- texts


def test_the_longest_texts_are_answered(tmp_path: Path) -> None:
    """Error messages quote what was asked for; a client id is part of a member id. Both must still fit."""
    long = "x" * LONGEST

    async def main() -> None:
        async with sweeping(tmp_path / "data") as sweeper:
            await sweeper.broker.controller.event_queue.run(sweeper.broker.groups.ensure_topic)
            await commit_once(sweeper)
            for version in range(8):
                topics = [CreatableTopic(name=long, num_partitions=1, replication_factor=1)]
                answer = await sweeper.ask(CreateTopicsRequest(topics=topics), version)
                assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
                assert answer.topics[0].name == long
            for version in range(5):
                resources = [
                    describe_configs.DescribeConfigsResource(
                        resource_type=kind, resource_name=long, configuration_keys=None
                    )
                    for kind in (2, 4, 8)
                ]
                request = describe_configs.DescribeConfigsRequest(resources=resources)
                answer = await sweeper.ask(request, version)
                assert all(error_codes(answer))
            for version in range(10):
                answer = await sweeper.ask(
                    JoinGroupRequest(
                        group_id=f"long-{version}",
                        session_timeout_ms=10_000,
                        rebalance_timeout_ms=10_000,
                        protocol_type="consumer",
                        group_instance_id=long if version >= 5 else None,
                        protocols=[JoinGroupRequestProtocol(name=long, metadata=b"")],
                    ),
                    version,
                    client_id=long,
                )
                assert error_codes(answer) in ([ErrorCode.NONE], [ErrorCode.MEMBER_ID_REQUIRED])
                answer = await sweeper.ask(DescribeGroupsRequest(groups=[f"long-{version}"]), 5)
                assert error_codes(answer) == [ErrorCode.NONE]
            assert not (complaints := sweeper.complaints.take()), complaints

    run(main)


def test_a_config_cannot_grow_beyond_what_an_answer_carries(tmp_path: Path) -> None:
    async def main() -> None:
        async with sweeping(tmp_path / "data") as sweeper:
            await fill_topic(sweeper)
            codes = []
            for part in range(4):
                config = incremental_alter_configs.AlterableConfig(
                    name="leader.replication.throttled.replicas",
                    config_operation=2,
                    value=",".join(f"{number}:0" for number in range(part * 2500, part * 2500 + 2500)),
                )
                resource = incremental_alter_configs.AlterConfigsResource(
                    resource_type=2, resource_name=TOPIC, configs=[config]
                )
                request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
                codes += error_codes(await sweeper.ask(request, 1))
            assert codes == [ErrorCode.NONE, *[ErrorCode.INVALID_CONFIG] * 3]
            for version in range(5):
                resources = [
                    describe_configs.DescribeConfigsResource(
                        resource_type=2, resource_name=TOPIC, configuration_keys=None
                    )
                ]
                request = describe_configs.DescribeConfigsRequest(resources=resources)
                assert error_codes(await sweeper.ask(request, version)) == [ErrorCode.NONE]

    run(main)
