"""Brokers whose disk is empty at their return: they lead nothing of it, unless somebody wants it so."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from odradek import Producer
from odradek.broker.app import Broker
from odradek.cluster.image import PartitionImage
from odradek.cluster.nodes import LEADER_RECOVERING
from odradek.errors.codes import ErrorCode
from odradek.testing.cluster import Cluster
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from waiting import until_async

from ..live import append, batch, connect, create_topic, fetch, running
from ..net import run

STORAGE = ErrorCode.KAFKA_STORAGE_ERROR
RECORDS = 5


async def elect(broker: Broker, index: int) -> int:
    client = await connect(broker)
    topics = [TopicPartitions(topic="t", partitions=[index])]
    answer = await client.call(
        ElectLeadersRequest(election_type=1, topic_partitions=topics, timeout_ms=5_000), 1
    )
    client.close()
    return int(answer.replica_election_results[0].partition_result[0].error_code)


async def end_of(broker: Broker, index: int) -> tuple[int, int]:
    """The error with which a partition is read, and where it ends."""
    client = await connect(broker)
    read = (await client.call(fetch("t", 0, index=index, max_wait_ms=0), 12)).responses[0].partitions[0]
    client.close()
    return int(read.error_code), int(read.high_watermark)


async def fill(first: Path, second: Path) -> list[int]:
    """Two partitions in each of two folders; returns those in the second."""
    async with running(f"{first},{second}") as broker:  # type: ignore[arg-type]
        await create_topic(broker, "t", 4)
        client = await connect(broker)
        for index in range(4):
            for _ in range(RECORDS):
                assert (await append(client, "t", batch(), index=index)).error_code == 0
        client.close()
        return [int(path.name.rpartition("-")[2]) for path in second.glob("t-*")]


def replace_disk(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


async def check(broker: Broker, lost: list[int]) -> None:
    for index in range(4):
        assert await end_of(broker, index) == ((STORAGE, -1) if index in lost else (0, RECORDS))


def wait_until_nobody_leads(cluster: Cluster) -> PartitionImage:
    """Return the state of the partition then: a dead broker leads as long as its session lasts."""
    cluster.wait_until(lambda: cluster.partition("t").leader < 0)
    return cluster.partition("t")


@pytest.mark.parametrize("what", ["replaced", "left out"])
def test_a_broker_that_is_alone_serves_what_it_has(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    async def main() -> None:
        lost = await fill(first, second)
        assert len(lost) == 2
        if what == "replaced":
            replace_disk(second)
        folders = f"{first},{second}" if what == "replaced" else f"{first}"
        for _ in range(2):
            async with running(folders) as broker:  # type: ignore[arg-type]
                await check(broker, lost)
                partitions = broker.image.topics["t"].partitions
                assert {i for i, one in partitions.items() if one.leader < 0} == set(lost)
                await create_topic(broker, f"new{_}", 2)
            assert "2 partitions are lost" in caplog.text
            assert "leader-election --election-type unclean" in caplog.text

        async with running(folders) as broker:  # type: ignore[arg-type]
            assert await elect(broker, lost[0]) == 0
            assert (
                broker.controller.image.topics["t"].partitions[lost[0]].leader_recovery_state
                == LEADER_RECOVERING
            )
            assert await end_of(broker, lost[0]) == (0, 0)
            assert await end_of(broker, lost[1]) == (STORAGE, -1)
        async with running(folders) as broker:  # type: ignore[arg-type]
            assert await end_of(broker, lost[0]) == (0, 0)
            assert await end_of(broker, lost[1]) == (STORAGE, -1)

        async with running(folders, unclean_leader_election_enable=True) as broker:  # type: ignore[arg-type]
            assert await end_of(broker, lost[1]) == (0, 0)
        async with running(folders) as broker:  # type: ignore[arg-type]
            assert await end_of(broker, lost[1]) == (0, 0)

    run(main)


def test_one_election_is_for_one_loss(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    async def main() -> None:
        lost = await fill(first, second)
        for _ in range(2):
            replace_disk(second)
            async with running(f"{first},{second}") as broker:  # type: ignore[arg-type]
                await check(broker, lost)
                for index in lost:
                    assert await elect(broker, index) == 0
                    client = await connect(broker)
                    for _ in range(RECORDS):
                        assert (await append(client, "t", batch(), index=index)).error_code == 0
                    client.close()
                await check(broker, [])

    run(main)


def test_a_damaged_replica_does_not_begin_anew(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async def main() -> None:
        async with running(data, log_segment_bytes=1000) as broker:
            await create_topic(broker, "t", 1)
            client = await connect(broker)
            for _ in range(12):
                await append(client, "t", batch([b"x" * 300]))
            client.close()
        sorted((data / "t-0").glob("*.log"))[1].unlink()
        before = sorted(path.name for path in (data / "t-0").iterdir())
        async with running(data) as broker:
            assert await elect(broker, 0) == 0
            await asyncio.sleep(0)
            await until_async(
                lambda: broker.image.topics["t"].partitions[0], "no leader", holds=lambda one: one.leader < 0
            )
            assert await end_of(broker, 0) == (STORAGE, -1)
        assert sorted(path.name for path in (data / "t-0").iterdir()) == before

    run(main)


# ---------------------------------------------------------------------- among several


def empty(cluster: Cluster, broker_id: int) -> None:
    data = cluster.brokers[broker_id].data
    assert data is not None
    replace_disk(data)


def produce(cluster: Cluster, count: int = RECORDS) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        for future in [producer.send("t", b"%d" % one) for one in range(count)]:
            future.result(60)


def ends(cluster: Cluster) -> set[int]:
    return {
        cluster.brokers[one].call(lambda broker: broker.replicas.find("t", 0).log.log_end_offset)
        for one in cluster.live
    }


def test_all_die_and_the_one_with_the_empty_disk_comes_first() -> None:
    with Cluster(3, zookeeper_session_timeout_ms=1000) as cluster:
        cluster.create_topic("t")
        produce(cluster)
        first = cluster.leader("t")
        for one in range(3):
            cluster.kill(one)
        empty(cluster, first)
        cluster.restart(first)
        state = wait_until_nobody_leads(cluster)
        assert state.isr
        assert first not in state.isr
        for one in set(range(3)) - {first}:
            cluster.restart(one)
        assert cluster.leader("t") != first
        cluster.wait_for_isr("t", {0, 1, 2})
        assert ends(cluster) == {RECORDS}
        produce(cluster)


def test_all_have_lost_everything_and_somebody_decides() -> None:
    with Cluster(3, zookeeper_session_timeout_ms=1000) as cluster:
        cluster.create_topic("t")
        produce(cluster)
        for one in range(3):
            cluster.kill(one)
        for one in range(3):
            empty(cluster, one)
            cluster.restart(one)
        wait_until_nobody_leads(cluster)
        controller = cluster.brokers[cluster.controller]
        controller.call(
            lambda broker: broker.controller.event_queue.run(
                lambda: broker.controller.elect_leader("t", 0, unclean=True)
            )
        )
        cluster.leader("t")
        cluster.wait_for_isr("t", {0, 1, 2})
        assert ends(cluster) == {0}
        produce(cluster)


def test_the_last_of_an_isr_has_lost_it() -> None:
    """Whoever else has a replica is behind, and leads only by an unclean election as well."""
    with Cluster(2, zookeeper_session_timeout_ms=1000) as cluster:
        cluster.create_topic("t", configs={"min.insync.replicas": "1"})
        produce(cluster)
        last = cluster.leader("t")
        other = 1 - last
        cluster.stop(other)
        produce(cluster)
        cluster.kill(last)
        empty(cluster, last)
        cluster.restart(last)
        cluster.wait_until(lambda: cluster.partition("t").leader < 0)
        assert cluster.partition("t").isr == (last,)
        cluster.restart(other)
        cluster.wait_until(lambda: len(cluster.image(last).brokers) == 2)
        assert cluster.partition("t").leader < 0
        controller = cluster.brokers[cluster.controller]
        controller.call(
            lambda broker: broker.controller.event_queue.run(
                lambda: broker.controller.elect_leader("t", 0, unclean=True)
            )
        )
        assert cluster.leader("t") == other
        cluster.wait_for_isr("t", {0, 1})
        assert ends(cluster) == {RECORDS}


def test_a_rolling_restart_with_an_empty_disk() -> None:
    with Cluster(3) as cluster:
        cluster.create_topic("t")
        produce(cluster)
        for one in range(3):
            cluster.stop(one)
            empty(cluster, one)
            cluster.restart(one)
            cluster.wait_for_isr("t", {0, 1, 2})
        assert ends(cluster) == {RECORDS}
