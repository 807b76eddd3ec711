"""Fetch against a whole broker: versions, bounds, long polls by a clock that tests move, sessions, epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.broker.app import Broker
from odradek.errors.codes import ErrorCode
from odradek.records.batch import iter_records
from odradek.records.compression import Codec
from odradek.util.clock import ManualClock, SystemClock
from odradek.util.timers import ManualTimers
from odradek.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

from ..live import Client, append, batch, connect, create_topic, delete_topics, fetch, running
from ..net import run, settle


def only(response: FetchResponse) -> PartitionData:
    assert response.error_code == 0
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def values(partition: PartitionData) -> list[bytes | None]:
    return [record.value for record in iter_records(partition.records or b"")]


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            topic_id = await create_topic(broker, "t")
            client = await connect(broker)
            for number in range(3):
                await append(client, "t", batch([b"%d" % number]))
            response = await client.call(fetch("t", 1, topic_id=topic_id), version)
            topic = response.responses[0]
            assert topic.topic_id == topic_id if version >= 13 else topic.topic == "t"
            partition = only(response)
            assert (partition.error_code, partition.high_watermark) == (0, 3)
            assert partition.last_stable_offset == 3
            assert partition.log_start_offset == (0 if version >= 5 else -1)
            assert partition.preferred_read_replica == -1
            assert values(partition) == [b"1", b"2"]
            client.close()

    run(main)


def test_limits_hold_except_for_the_first_batch(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", 2)
            client = await connect(broker)
            size = len(batch([b"x" * 1000]))
            for index in (0, 1):
                for _ in range(4):
                    await append(client, "t", batch([b"x" * 1000]), index=index)

            async def sizes(max_bytes: int, partition_max_bytes: int) -> list[int]:
                request = fetch("t", max_bytes=max_bytes, partition_max_bytes=partition_max_bytes)
                request.topics[0].partitions.append(
                    FetchPartition(partition=1, partition_max_bytes=partition_max_bytes)
                )
                response = await client.call(request, 12)
                return [len(one.records or b"") // size for one in response.responses[0].partitions]

            assert await sizes(10**6, 10**6) == [4, 4]
            assert await sizes(3 * size, 10**6) == [3, 0]
            assert await sizes(10**6, 2 * size) == [2, 2]
            assert await sizes(5 * size, 3 * size) == [3, 2]
            # Smaller than a batch: the first comes whole, and only the first.
            assert await sizes(1, 10**6) == [1, 0]
            assert await sizes(10**6, 1) == [1, 0]
            assert await sizes(0, 0) == [1, 0]
            client.close()

    run(main)


async def waiting(broker: Broker, count: int = 1) -> None:
    await settle(lambda: len(broker.purgatory) == count, f"for {count} in the purgatory")


def with_time(tmp_path: Path) -> tuple[ManualTimers, Path]:
    return ManualTimers(ManualClock(SystemClock().now_ms())), tmp_path


def test_a_long_poll_ends_when_enough_has_come(tmp_path: Path) -> None:
    async def main() -> None:
        timers = ManualTimers(ManualClock(SystemClock().now_ms()))
        async with running(tmp_path, pauses=timers) as broker:
            upkeep = timers.pending
            await create_topic(broker, "t")
            reader, writer = await connect(broker), await connect(broker)
            size = len(batch([b"x" * 100]))
            reader.send(fetch("t", max_wait_ms=500, min_bytes=2 * size), 12)
            await waiting(broker)
            await append(writer, "t", batch([b"x" * 100]))
            assert await reader.silent()
            await append(writer, "t", batch([b"x" * 100]))
            assert len(only(await reader.receive()).records or b"") == 2 * size
            assert (len(broker.purgatory), timers.pending) == (0, upkeep)
            reader.close()
            writer.close()

    run(main)


def test_a_long_poll_ends_with_its_time(tmp_path: Path) -> None:
    async def main() -> None:
        timers = ManualTimers(ManualClock(SystemClock().now_ms()))
        async with running(tmp_path, pauses=timers) as broker:
            await create_topic(broker, "t")
            client, writer = await connect(broker), await connect(broker)
            client.send(fetch("t", max_wait_ms=500, min_bytes=10**6), 12)
            await waiting(broker)
            await append(writer, "t", batch([b"little"]))
            timers.advance(499)
            assert await client.silent()
            timers.advance(1)
            assert values(only(await client.receive())) == [b"little"]
            client.close()
            writer.close()

    run(main)


def test_without_time_to_wait_the_answer_comes_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        timers = ManualTimers(ManualClock(SystemClock().now_ms()))
        async with running(tmp_path, pauses=timers) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            for max_wait_ms, min_bytes in ((0, 100), (-1, 100), (500, 0), (500, -1)):
                request = fetch("t", max_wait_ms=max_wait_ms, min_bytes=min_bytes)
                assert only(await client.call(request, 12)).records == b""
            client.close()

    run(main)


def test_a_poll_does_not_hold_up_what_is_asked_after_it(tmp_path: Path) -> None:
    async def main() -> None:
        timers = ManualTimers(ManualClock(SystemClock().now_ms()))
        async with running(tmp_path, pauses=timers) as broker:
            await create_topic(broker, "t")
            await create_topic(broker, "u")
            client = await connect(broker)
            client.send(fetch("t", max_wait_ms=500), 12)
            await waiting(broker)
            # On the same connection: appended while the poll waits, answered after it.
            from ..live import produce

            client.send(produce("u", batch()), 9)
            await settle(lambda: broker.replicas.get("u", 0).log.log_end_offset == 1)
            timers.advance(500)
            assert only(await client.receive()).records == b""
            assert (await client.receive()).responses[0].partition_responses[0].base_offset == 0
            client.close()

    run(main)


def test_a_deleted_topic_ends_the_poll(tmp_path: Path) -> None:
    async def main() -> None:
        timers = ManualTimers(ManualClock(SystemClock().now_ms()))
        async with running(tmp_path, pauses=timers) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            client.send(fetch("t", max_wait_ms=500), 12)
            await waiting(broker)
            await delete_topics(broker, ["t"])
            assert only(await client.receive()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            client.close()

    run(main)


def test_a_peer_that_goes_leaves_nothing_waiting(tmp_path: Path) -> None:
    async def main() -> None:
        timers = ManualTimers(ManualClock(SystemClock().now_ms()))
        async with running(tmp_path, pauses=timers) as broker:
            upkeep = timers.pending
            await create_topic(broker, "t")
            client = await connect(broker)
            client.send(fetch("t", max_wait_ms=2**31 - 1), 12)
            await waiting(broker)
            client.close()
            await waiting(broker, 0)
            assert timers.pending == upkeep

    run(main)


ERRORS = [
    ({"offset": 5}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ({"offset": -1}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ({"index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ({"current_leader_epoch": 0}, ErrorCode.NONE),
    ({"current_leader_epoch": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ({"last_fetched_epoch": 0, "offset": 1}, ErrorCode.NONE),
    ({"last_fetched_epoch": 9, "offset": 1}, ErrorCode.OFFSET_OUT_OF_RANGE),
]


@pytest.mark.parametrize(("fields", "code"), ERRORS)
def test_errors_are_answered_at_once(fields: dict[str, int], code: ErrorCode, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, pauses=ManualTimers(ManualClock(SystemClock().now_ms()))) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            for _ in range(2):
                await append(client, "t", batch())
            # Time stands still: what waited would wait for ever.
            response = await client.call(fetch("t", **{"max_wait_ms": 0, **fields}), 12)
            assert ErrorCode(only(response).error_code) == code
            client.close()

    run(main)


def test_unknown_topics(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await connect(broker)
            by_name = only(await client.call(fetch("nobody", max_wait_ms=0), 12))
            assert by_name.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            by_id = only(await client.call(fetch("", topic_id=b"?" * 16, max_wait_ms=0), 13))
            assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID
            client.close()

    run(main)


def test_a_recreated_topic_is_another_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            old = await create_topic(broker, "t")
            client = await connect(broker)
            await append(client, "t", batch([b"old"]))
            await delete_topics(broker, ["t"])
            new = await create_topic(broker, "t")
            assert old != new
            answer = only(await client.call(fetch("", topic_id=old), 13))
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
            answer = only(await client.call(fetch("", topic_id=new), 13))
            assert (answer.error_code, answer.high_watermark, answer.records) == (0, 0, b"")
            client.close()

    run(main)


@pytest.mark.parametrize(
    ("version", "code"), [(9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (10, ErrorCode.NONE)]
)
def test_zstd_topics_need_version_10(version: int, code: ErrorCode, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", configs={"compression.type": "zstd"})
            client = await connect(broker)
            await append(client, "t", batch(codec=Codec.ZSTD))
            assert ErrorCode(only(await client.call(fetch("t"), version)).error_code) == code
            client.close()

    run(main)


def request(
    session_id: int, epoch: int, offsets: dict[int, int], forget: list[int] | None = None
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic="t",
                partitions=[
                    FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)
                    for index, offset in offsets.items()
                ],
            )
        ]
        if offsets
        else [],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=forget)] if forget else [],
    )


def shown(response: FetchResponse) -> list[int]:
    return [partition.partition_index for topic in response.responses for partition in topic.partitions]


def test_a_session_from_its_opening_to_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", 3)
            client = await connect(broker)
            opened = await client.call(request(0, 0, {0: 0, 1: 0, 2: 0}), 12)
            session = opened.session_id
            assert session > 0
            assert shown(opened) == [0, 1, 2]
            assert shown(await client.call(request(session, 1, {}), 12)) == []
            await append(client, "t", batch(), index=1)
            assert shown(await client.call(request(session, 2, {}), 12)) == [1]
            # Not moved on: the same data again.
            assert shown(await client.call(request(session, 3, {}), 12)) == [1]
            assert shown(await client.call(request(session, 4, {1: 1}), 12)) == []
            assert shown(await client.call(request(session, 5, {}, forget=[1]), 12)) == []
            await append(client, "t", batch(), index=1)
            assert shown(await client.call(request(session, 6, {}), 12)) == []
            wrong = await client.call(request(session, 6, {}), 12)
            assert (wrong.error_code, wrong.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])
            final = await client.call(request(session, -1, {0: 0}), 12)
            assert (final.session_id, shown(final)) == (0, [0])
            gone = await client.call(request(session, 7, {}), 12)
            assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            client.close()

    run(main)


def test_what_is_read_after_delete_records_and_at_the_log_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            for number in range(5):
                await append(client, "t", batch([b"%d" % number]))
            broker.replicas.get("t", 0).delete_records_before(2)
            answer = only(await client.call(fetch("t", 1, max_wait_ms=10_000), 12))
            assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            answer = only(await client.call(fetch("t", 2), 12))
            assert (answer.log_start_offset, values(answer)) == (2, [b"2", b"3", b"4"])
            answer = only(await client.call(fetch("t", 5), 12))
            assert (answer.error_code, answer.records) == (0, b"")
            client.close()

    run(main)


async def read_all(client: Client, partitions: int) -> dict[int, list[bytes | None]]:
    got: dict[int, list[bytes | None]] = {}
    for index in range(partitions):
        got[index] = values(only(await client.call(fetch("t", index=index), 12)))
    return got


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", 3)
            client = await connect(broker)
            for number in range(30):
                await append(client, "t", batch([b"%d" % number]), index=number % 3)
            before = await read_all(client, 3)
            cluster_id, topic_id = broker.cluster_id, broker.image.topic_id("t")
            client.close()
        async with running(tmp_path) as broker:
            client = await connect(broker)
            assert await read_all(client, 3) == before
            assert (broker.cluster_id, broker.image.topic_id("t")) == (cluster_id, topic_id)
            assert (await append(client, "t", batch())).base_offset == 10
            client.close()

    run(main)
