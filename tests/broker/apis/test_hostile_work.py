"""Requests that are well formed and ask for far too much, and records that are not what they say.

One request may keep the broker busy for a moment, not for minutes, and may not take memory without bound.
"""

from __future__ import annotations

import io
import logging
import random
import struct
import time
from pathlib import Path
from typing import Any

import cramjam
import fastcrc
import pytest

from odradek.broker.app import Broker
from odradek.broker.metadata.auto_creation import MAX_TOPICS_AT_ONCE
from odradek.broker.network.dispatch import MAX_REQUEST_BYTES
from odradek.broker.process.logging import TextFormatter
from odradek.errors.codes import ErrorCode
from odradek.records.batch import iter_records
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, Codec
from odradek.wire.messages import describe_configs, fetch, list_offsets, metadata, offset_fetch
from odradek.wire.messages import produce as production
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from seeds import seed

from .. import live
from ..net import run, settle
from ..sweep import error_codes, sweeping
from .test_every_version import GROUP, TOPIC, commit_once, fill_topic
from .test_hostile import resident_mib, warnings_of

LONG_S = 30.0
"""Far above what any of these takes on a busy machine, far below what they took unbounded."""


# ---------------------------------------------------------------------- too much at once


def many_offsets(count: int) -> Any:
    partitions = [list_offsets.ListOffsetsPartition(partition_index=-n, timestamp=-1) for n in range(count)]
    return list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=TOPIC, partitions=partitions)]
    ), 7


def many_fetches(count: int) -> Any:
    partitions = [
        fetch.FetchPartition(partition=n % 3, fetch_offset=0, partition_max_bytes=2**31 - 1)
        for n in range(count)
    ]
    return fetch.FetchRequest(
        max_wait_ms=2**31 - 1,
        max_bytes=2**31 - 1,
        min_bytes=2**31 - 1,
        topics=[fetch.FetchTopic(topic=TOPIC, partitions=partitions)],
    ), 12


def many_committed(count: int) -> Any:
    topics = [offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=list(range(count)))]
    return offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=topics), 7


def many_unknown_topics(count: int) -> Any:
    topics = [metadata.MetadataRequestTopic(name=f"unknown-{n}") for n in range(count)]
    return metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=True), 8


def many_bad_topics(count: int) -> Any:
    topics = [
        CreatableTopic(name=f"../{n}", num_partitions=2**31 - 1, replication_factor=1) for n in range(count)
    ]
    return CreateTopicsRequest(topics=topics), 5


def one_huge_topic(count: int) -> Any:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name="huge", num_partitions=count * 100, replication_factor=1)]
    ), 5


@pytest.mark.parametrize(
    "make",
    [many_offsets, many_fetches, many_committed, many_unknown_topics, many_bad_topics, one_huge_topic],
)
def test_a_large_question_is_answered_in_bounds(make: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with sweeping(tmp_path / "data") as sweeper:
            await sweeper.broker.controller.event_queue.run(sweeper.broker.groups.ensure_topic)
            await commit_once(sweeper)
            request, version = make(20_000)
            topics = len(sweeper.broker.image.topics)
            before, started = resident_mib(), time.thread_time()
            answer = await sweeper.ask(request, version)
            assert time.thread_time() - started < LONG_S
            assert resident_mib() - before < 150
            assert ErrorCode.UNKNOWN_SERVER_ERROR not in error_codes(answer)
            assert len(sweeper.broker.image.topics) - topics <= MAX_TOPICS_AT_ONCE
            assert not sweeper.complaints.take()
            await sweeper.is_alive()
            assert {path.name for path in tmp_path.iterdir()} == {"data"}

    run(main)


def test_topics_that_nobody_made_come_into_being_in_rounds(tmp_path: Path) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            client = await live.connect(broker)
            names = [f"made-{n}" for n in range(MAX_TOPICS_AT_ONCE + 20)]
            wanted = [metadata.MetadataRequestTopic(name=name) for name in names]
            request = metadata.MetadataRequest(topics=wanted, allow_auto_topic_creation=True)
            rounds = []
            for _ in range(3):
                answer = await client.call(request, 8)
                rounds.append([topic.error_code for topic in answer.topics])
            assert set(rounds[0]) == {ErrorCode.LEADER_NOT_AVAILABLE}
            assert rounds[1].count(ErrorCode.NONE) == MAX_TOPICS_AT_ONCE
            assert set(rounds[2]) == {ErrorCode.NONE}
            client.close()

    run(main)


def test_a_request_of_many_megabytes_of_small_things_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            client, neighbour = await live.connect(broker), await live.connect(broker)
            indexes = list(range(MAX_REQUEST_BYTES // 4))
            topics = [offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=indexes)]
            with warnings_of() as lines:
                client.send(offset_fetch.OffsetFetchRequest(group_id="g", topics=topics), 5)
                assert await client.closed()
            assert len([line for line in lines if "OffsetFetch request of" in line]) == 1
            assert (await neighbour.call(ApiVersionsRequest(), 0)).error_code == 0
            client.close()
            neighbour.close()

    run(main)


def test_long_polls_of_one_connection_are_bounded_in_bytes(tmp_path: Path) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t")
            client, neighbour = await live.connect(broker), await live.connect(broker)
            partitions = [fetch.FetchPartition(partition=0, fetch_offset=0) for _ in range(10_000)]
            request = fetch.FetchRequest(
                max_wait_ms=2**31 - 1,
                min_bytes=1,
                topics=[fetch.FetchTopic(topic="t", partitions=partitions)],
            )
            for _ in range(40):
                client.send(request, 12)
            listener = broker.listeners[0]
            size = len(request.encode(12))
            while listener.queued_bytes < 8 * 2**20:
                assert (await neighbour.call(ApiVersionsRequest(), 0)).error_code == 0
            for _ in range(20):
                assert (await neighbour.call(ApiVersionsRequest(), 0)).error_code == 0
            assert listener.queued_bytes < 8 * 2**20 + 2 * size
            listener.abort_connections()
            await settle(lambda: not listener.connections)
            assert (listener.queued_bytes, len(broker.purgatory)) == (0, 0)
            client.abort()
            neighbour.abort()

    run(main)


# ---------------------------------------------------------------------- the same thing twice


def test_a_partition_that_is_named_twice_is_appended_to_not_at_all(tmp_path: Path) -> None:
    async def main() -> None:
        async with sweeping(tmp_path / "data") as sweeper:
            await fill_topic(sweeper)
            topic_id = sweeper.broker.image.topic_id(TOPIC)
            for version in range(3, 14):
                name = "" if version >= 13 else TOPIC

                def data(*indexes: int) -> Any:
                    return [
                        production.PartitionProduceData(index=index, records=live.batch())
                        for index in indexes
                    ]

                topics = [
                    production.TopicProduceData(name=name, topic_id=topic_id, partition_data=data(*indexes))
                    for indexes in ((0, 1), (0,))
                ]
                request = production.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics)
                answer = await sweeper.ask(request, version)
                codes = [[one.error_code for one in topic.partition_responses] for topic in answer.responses]
                twice = ErrorCode.INVALID_REQUEST
                assert codes == [[twice, ErrorCode.NONE], [twice]]
            assert sweeper.broker.replicas.get(TOPIC, 0).log.log_end_offset == 5
            assert sweeper.broker.replicas.get(TOPIC, 1).log.log_end_offset == 5 + 11

    run(main)


def test_questions_that_are_repeated_do_not_multiply_the_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with sweeping(tmp_path / "data") as sweeper:
            await sweeper.broker.controller.event_queue.run(sweeper.broker.groups.ensure_topic)
            await commit_once(sweeper)
            described = await sweeper.ask(DescribeGroupsRequest(groups=[GROUP] * 1000), 5)
            assert [group.group_id for group in described.groups] == [GROUP]

            groups = [
                offset_fetch.OffsetFetchRequestGroup(group_id=g, topics=None) for g in (GROUP, "b", GROUP)
            ]
            fetched = await sweeper.ask(offset_fetch.OffsetFetchRequest(groups=groups), 8)
            assert [group.error_code for group in fetched.groups] == [
                ErrorCode.INVALID_REQUEST,
                ErrorCode.NONE,
                ErrorCode.INVALID_REQUEST,
            ]

            resources = [
                describe_configs.DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=None
                )
                for kind, name in ((2, TOPIC), (2, TOPIC), (4, "0"), (4, "00"), (4, "+0"), (8, "0"))
            ]
            configs = await sweeper.ask(describe_configs.DescribeConfigsRequest(resources=resources), 4)
            twice = ErrorCode.INVALID_REQUEST
            assert [one.error_code for one in configs.results] == [0, twice, 0, twice, twice, 0]

    run(main)


# ---------------------------------------------------------------------- records


def raw_batch(payload: bytes, codec: int, count: int = 1) -> bytes:
    """A batch whose header and CRC are right, whatever is in it."""
    body = struct.pack(">hiqqqhii", codec, count - 1, 1000, 1000, -1, -1, -1, count) + payload
    crc = fastcrc.crc32.iscsi(body)
    return struct.pack(">qiibI", 0, len(body) + 9, -1, 2, crc) + body


def packed(codec: Codec, size: int) -> bytes:
    """`size` zeros, at most a MiB of what they are packed into."""
    zeros = bytes(size)
    match codec:
        case Codec.GZIP:
            data = bytes(cramjam.gzip.compress(zeros, level=9))
        case Codec.SNAPPY:
            data = bytes(cramjam.snappy.compress_raw(zeros))
        case Codec.LZ4:
            data = bytes(cramjam.lz4.compress(zeros))
        case _:
            data = bytes(cramjam.zstd.compress(zeros, level=1))
    return data[: 2**20 - 1000]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_refused_within_bounds(codec: Codec, tmp_path: Path) -> None:
    bomb = raw_batch(packed(codec, 512 * 2**20), codec)
    frames = raw_batch(packed(codec, 2**20) * 20, codec)

    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t")
            client = await live.connect(broker)
            assert (await live.append(client, "t", live.batch())).error_code == 0
            before = resident_mib()
            peak_before = peak_mib()
            for records in (bomb, frames):
                answer = await live.append(client, "t", records)
                assert answer.error_code in (
                    ErrorCode.MESSAGE_TOO_LARGE,
                    ErrorCode.CORRUPT_MESSAGE,
                    ErrorCode.INVALID_RECORD,
                )
            assert resident_mib() - before < 50
            assert peak_mib() - peak_before < 2 * MAX_DECOMPRESSED_BYTES / 2**20 + 50
            end = broker.replicas.get("t", 0).log.log_end_offset
            assert end == 1
            client.close()

    run(main)


def peak_mib() -> float:
    (line,) = [
        one
        for one in Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        if one.startswith("VmHWM")
    ]
    return int(line.split()[1]) / 1024


@pytest.mark.fuzz
def test_mutated_batches_are_refused_or_whole(tmp_path: Path) -> None:
    rng = random.Random(seed(20261123))
    sound = [live.batch([b"v%d" % n for n in range(9)], codec=codec, timestamp=1000) for codec in Codec]

    async def main() -> None:
        async with sweeping(tmp_path / "data") as sweeper:
            await fill_topic(sweeper)
            log = sweeper.broker.replicas.get(TOPIC, 0).log
            taken = refused = 0
            for _ in range(600):
                records = bytearray(rng.choice(sound))
                for _ in range(rng.choice((1, 1, 2))):
                    records[rng.randrange(len(records))] = rng.randrange(256)
                if rng.random() < 0.5 and len(records) > 21:
                    # The CRC of a liar is right.
                    records[17:21] = fastcrc.crc32.iscsi(bytes(records[21:])).to_bytes(4, "big")
                if rng.random() < 0.2:
                    del records[rng.randrange(len(records)) :]
                before = log.log_end_offset
                answer = await sweeper.ask(live.produce(TOPIC, bytes(records)), 9)
                (code,) = error_codes(answer)
                assert code != ErrorCode.UNKNOWN_SERVER_ERROR, records.hex()
                assert (log.log_end_offset > before) == (code == ErrorCode.NONE), records.hex()
                taken, refused = taken + (code == 0), refused + (code != 0)
                assert not (complaints := sweeper.complaints.take()), (records.hex(), complaints)
            assert refused > 100
            assert taken > 10
            # What was taken can be read back, every record of it.
            offset, count = 0, 0
            while offset < log.log_end_offset:
                answer = await sweeper.ask(live.fetch(TOPIC, offset), 11)
                found = list(iter_records(answer.responses[0].partitions[0].records, include_control=True))
                assert [one.offset for one in found] == list(range(offset, offset + len(found)))
                offset, count = found[-1].offset + 1, count + len(found)
            assert count == log.log_end_offset

    run(main)


# ---------------------------------------------------------------------- the log


def test_nobody_writes_lines_into_the_log(tmp_path: Path) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter())
    forged = "x\n2026-01-01T00:00:00.000Z ERROR broker.app everything is lost\r\x1b[2J\u2028é"

    async def main(broker: Broker) -> None:
        client = await live.connect(broker)
        request = live.produce("t", b"", acks=0)
        client.send(request, 9, client_id=forged)
        assert await client.closed()
        client.close()

    async def whole() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t")
            logger = logging.getLogger("odradek")
            level = logger.level
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
            try:
                await main(broker)
            finally:
                logger.removeHandler(handler)
                logger.setLevel(level)

    run(whole)
    lines = stream.getvalue().splitlines()
    (line,) = [one for one in lines if "everything is lost" in one]
    assert "client_id=x\\n2026-01-01" in line
    assert "\\r\\x1b[2J\\u2028é" in line
