"""Be any Kafka, on the wire: what a client of each age notices of the broker's release."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from broker import live
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.wire.messages.delete_topics import DeleteTopicsRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

WHO = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def on(
    data: Path, name: str, test: Callable[[Any, live.Client], Coroutine[Any, Any, None]], **config: Any
) -> None:
    """Run `test(broker, client)` with a broker that is that release."""

    async def main() -> None:
        async with live.running(data, odradek_kafka_version=name, **config) as broker:
            client = await live.connect(broker)
            try:
                await test(broker, client)
            finally:
                client.close()

    asyncio.run(main())


def test_no_api_versions_in_0_8_2(tmp_path: Path) -> None:
    async def test(broker: Any, client: live.Client) -> None:
        client.send(WHO, 0)
        assert await client.closed()

    on(tmp_path, "0.8.2", test)


@pytest.mark.parametrize(
    ("key", "body", "answer"),
    [
        (ApiKey.HEARTBEAT, b"\0\1g\0\0\0\7\0\1m", b"\xff\xff"),
        (
            ApiKey.JOIN_GROUP,
            b"\0\1g\0\0\0\7\0\0\0\1\0\1t\0\1m\0\5range",
            b"\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0",
        ),
    ],
)
def test_0_8_2_reads_requests_of_groups_and_does_not_know_them(
    key: ApiKey, body: bytes, answer: bytes, tmp_path: Path
) -> None:
    async def ask(broker: Any, body: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        frame = struct.pack(">hhih", key, 0, 7, 1) + b"t" + body
        writer.write(struct.pack(">i", len(frame)) + frame)
        writer.write_eof()
        data = await reader.read()
        writer.close()
        return data

    async def test(broker: Any, client: live.Client) -> None:
        assert await ask(broker, body) == struct.pack(">ii", 4 + len(answer), 7) + answer
        # What cannot be read closes the connection, wherever it breaks off.
        for end in range(len(body)):
            assert await ask(broker, body[:end]) == b""
        assert await ask(broker, b"\xff\xff" + body[2:]) == b""

    on(tmp_path, "0.8.2", test)


def test_0_9_says_nothing_to_what_it_does_not_know(tmp_path: Path) -> None:
    async def test(broker: Any, client: live.Client) -> None:
        client.send(WHO, 0)
        client.send(ListGroupsRequest(), 2)
        assert await client.silent()
        # The connection lives, and its next request is answered.
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        for key, correlation in ((18, 1), (16, 2)):
            frame = key.to_bytes(2, "big") + bytes(2) + correlation.to_bytes(4, "big") + b"\xff\xff"
            writer.write(len(frame).to_bytes(4, "big") + frame)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        assert answer[:4] == b"\0\0\0\x02"
        writer.close()

    on(tmp_path, "0.9", test)


@pytest.mark.parametrize(
    ("name", "version", "named"),
    [
        ("0.10.0", 1, None),
        ("1.0", 3, None),
        ("2.3", 3, None),
        ("2.4", 4, (0, 3)),
        ("3.9", 5, (0, 4)),
        ("4.4", 6, (0, 5)),
    ],
)
def test_how_an_unknown_version_of_api_versions_is_refused(
    tmp_path: Path, name: str, version: int, named: tuple[int, int] | None
) -> None:
    async def test(broker: Any, client: live.Client) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        frame = b"\0\x12" + version.to_bytes(2, "big") + b"\0\0\0\x07\xff\xff\0"
        writer.write(len(frame).to_bytes(4, "big") + frame)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        assert answer[:4] == b"\0\0\0\x07"
        response = ApiVersionsResponse.decode(answer[4:], 0)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        listed = [(one.api_key, one.min_version, one.max_version) for one in response.api_keys]
        assert listed == ([] if named is None else [(18, *named)])
        writer.close()

    on(tmp_path, name, test)


@pytest.mark.parametrize(
    ("name", "version", "taken"),
    [("2.2", 7, True), ("2.2", 8, False), ("0.10.1", 2, True), ("1.0", 6, False)],
)
def test_versions_beyond_the_release_close_the_connection(
    tmp_path: Path, name: str, version: int, taken: bool
) -> None:
    async def test(broker: Any, client: live.Client) -> None:
        await client.call(MetadataRequest(topics=[]), 1)
        client.send(MetadataRequest(topics=[]), version)
        if taken:
            assert (await client.receive()).brokers
        else:
            assert await client.closed()

    on(tmp_path, name, test)


def test_the_short_cuts_keep_to_the_release(tmp_path: Path) -> None:
    async def test(broker: Any, client: live.Client) -> None:
        await live.create_topic(broker, "t")
        for _ in range(2):
            assert (await live.append(client, "t", live.batch(), version=7)).error_code == 0
        assert (await client.call(live.fetch("t"), 10)).responses[0].partitions[0].high_watermark == 2
        for message, version in ((live.produce("t", live.batch()), 8), (live.fetch("t"), 11)):
            other = await live.connect(broker)
            other.send(message, version)
            assert await other.closed()
            other.close()
        assert broker.replicas.by_topic["t"][0].log.log_end_offset == 2

    on(tmp_path, "2.2", test)


def test_the_oldest_do_not_look_at_the_version(tmp_path: Path) -> None:
    async def test(broker: Any, client: live.Client) -> None:
        await live.create_topic(broker, "t")
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        # Metadata 5 for one topic: read as version 0, with one byte too many.
        frame = b"\0\x03\0\x05\0\0\0\x09\0\x01x\0\0\0\x01\0\x01t\x01"
        writer.write(len(frame).to_bytes(4, "big") + frame)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        response = MetadataResponse.decode(answer[4:], 0)
        assert [topic.name for topic in response.topics] == ["t"]
        writer.close()

    on(tmp_path, "0.9", test)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("2.2", ErrorCode.LEADER_NOT_AVAILABLE),
        ("3.9", ErrorCode.LEADER_NOT_AVAILABLE),
        ("3.9-kraft", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("4.1", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_topic_that_comes_into_being(tmp_path: Path, name: str, first: ErrorCode) -> None:
    async def test(broker: Any, client: live.Client) -> None:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
        codes = [(await client.call(asked, 4)).topics[0].error_code for _ in range(2)]
        assert codes == [first, ErrorCode.NONE]

    on(tmp_path, name, test)


@pytest.mark.parametrize(
    ("name", "version", "code"),
    [
        ("0.11", 1, ErrorCode.REQUEST_TIMED_OUT),
        ("1.0", 1, ErrorCode.NONE),
        ("2.1", 3, ErrorCode.NONE),
    ],
)
def test_topics_are_not_deleted_before_1_0(tmp_path: Path, name: str, version: int, code: ErrorCode) -> None:
    async def test(broker: Any, client: live.Client) -> None:
        await live.create_topic(broker, "t")
        asked = DeleteTopicsRequest(topic_names=["t", "none"], timeout_ms=1000)
        response = await client.call(asked, version)
        codes = {one.name: one.error_code for one in response.responses}
        assert codes == {"t": code, "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert (broker.image.topic("t") is None) == (code == ErrorCode.NONE)

    on(tmp_path, name, test)


@pytest.mark.parametrize(
    ("name", "version", "there", "absent"),
    [
        ("0.11", 0, "message.format.version", "message.downconversion.enable"),
        ("2.2", 2, "message.downconversion.enable", "max.compaction.lag.ms"),
        ("3.9", 4, "message.format.version", None),
        ("4.0", 4, "max.compaction.lag.ms", "message.format.version"),
    ],
)
def test_configs_of_the_age(tmp_path: Path, name: str, version: int, there: str, absent: str | None) -> None:
    async def test(broker: Any, client: live.Client) -> None:
        await live.create_topic(broker, "t")
        topic = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
        me = DescribeConfigsResource(resource_type=4, resource_name="0", configuration_keys=None)
        response = await client.call(
            DescribeConfigsRequest(resources=[topic, me], include_synonyms=version > 0), version
        )
        of_topic, of_broker = ({one.name: one for one in result.configs} for result in response.results)
        assert there in of_topic
        assert absent not in of_topic
        assert ("inter.broker.protocol.version" in of_broker) == (name != "4.0")
        assert ("zookeeper.connect" in of_broker) == (name != "4.0")

    on(tmp_path, name, test)


@pytest.mark.parametrize("version", [3, 4])
def test_features(tmp_path: Path, version: int) -> None:
    async def test(broker: Any, client: live.Client) -> None:
        response = await client.call(WHO, version)
        shown = {one.name: (one.min_version, one.max_version) for one in response.supported_features}
        assert shown["metadata.version"] == (7, 25)
        assert ("kraft.version" in shown) == (version >= 4)
        levels = {one.name: one.max_version_level for one in response.finalized_features}
        assert levels["metadata.version"] == 25

    on(tmp_path, "4.0", test)


def test_an_error_that_the_release_does_not_know(tmp_path: Path) -> None:
    async def test(broker: Any, client: live.Client) -> None:
        await live.create_topic(broker, "t", configs={"cleanup.policy": "compact"})
        answer = await live.append(client, "t", live.batch(keys=[None]), version=5)
        assert answer.error_code == (
            ErrorCode.CORRUPT_MESSAGE if broker.handlers.release.name == "2.3" else ErrorCode.INVALID_RECORD
        )

    on(tmp_path / "a", "2.3", test)
    on(tmp_path / "b", "2.4", test)


def test_listed_is_what_the_handlers_take(tmp_path: Path) -> None:
    async def test(broker: Any, client: live.Client) -> None:
        response = await client.call(ApiVersionsRequest(), 0)
        listed = {one.api_key: range(one.min_version, one.max_version + 1) for one in response.api_keys}
        assert listed == dict(broker.handlers.versions())
        assert ApiKey.INCREMENTAL_ALTER_CONFIGS not in listed

    on(tmp_path, "2.2", test)
