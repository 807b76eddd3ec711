"""A metadata store restored from an older backup: what goes up for ever goes on above what the logs know."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import pytest

from odradek import Consumer, Producer, TopicPartition
from odradek.broker.membership.restored_store import Known, KnownEpoch, tell_store
from odradek.cluster import nodes, paths
from odradek.cluster.nodes import (
    ControllerNode,
    PartitionState,
    ProducerIdBlock,
    ReplicaAssignment,
    TopicNode,
    encode_controller,
    encode_epoch,
    encode_partition_state,
    encode_producer_id_block,
    encode_topic,
)
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import Stat, ensure_path
from odradek.testing.cluster import Cluster
from waiting import gathered

from ..live import append, batch, connect, create_topic, running
from ..net import run

KEY = ("t", 0)
TOPIC_ID = bytes(range(16))


# ---------------------------------------------------------------------- what is written


def store_with(leader_epoch: int = 3, last_id: int = 999, controller_epoch: int = 5) -> MemoryStore:
    store = MemoryStore(MemoryServer())
    for path in (paths.ISR_CHANGES, paths.partition("t", 0), paths.BROKER_IDS):
        ensure_path(store, path)
    store.set(paths.topic("t"), encode_topic(TopicNode({0: ReplicaAssignment((0, 1))}, TOPIC_ID)))
    state = PartitionState(1, leader_epoch, (0, 1), 5)
    store.create(paths.partition_state("t", 0), encode_partition_state(state))
    store.create(
        paths.PRODUCER_ID_BLOCK, encode_producer_id_block(ProducerIdBlock(2, last_id - 999, last_id))
    )
    store.create(paths.CONTROLLER_EPOCH, encode_epoch(controller_epoch))
    store.create(paths.CONTROLLER, encode_controller(ControllerNode(1, 0)), ephemeral=True)
    return store


def epoch_in(store: MemoryStore) -> int:
    path = paths.partition_state("t", 0)
    return nodes.decode_partition_state(path, store.get(path).data).leader_epoch


def block_in(store: MemoryStore) -> ProducerIdBlock | None:
    return nodes.decode_producer_id_block(paths.PRODUCER_ID_BLOCK, store.get(paths.PRODUCER_ID_BLOCK).data)


@pytest.mark.parametrize(("known", "expected"), [(2, 3), (3, 3), (4, 5), (7, 8), (2**31 - 2, 3)])
def test_leader_epochs(known: int, expected: int) -> None:
    store = store_with()
    raised = tell_store(store, 0, Known({KEY: KnownEpoch(known, TOPIC_ID)}, -1))
    assert epoch_in(store) == expected
    assert len(store.children(paths.ISR_CHANGES)) == raised == (expected > 3)


@pytest.mark.parametrize("key", [KEY, ("gone", 0), ("t", 7)])
def test_a_topic_made_anew_begins_with_its_own_epochs(key: tuple[str, int]) -> None:
    store = store_with()
    assert tell_store(store, 0, Known({key: KnownEpoch(7, bytes(15) + b"x")}, -1)) == 0
    assert tell_store(store, 0, Known({("t", 7): KnownEpoch(7, None)}, -1)) == 0
    assert epoch_in(store) == 3


@pytest.mark.parametrize(
    ("known", "first", "last"), [(-1, 0, 999), (999, 0, 999), (1000, 1000, 1999), (7654, 7000, 7999)]
)
def test_producer_ids(known: int, first: int, last: int) -> None:
    store = store_with()
    tell_store(store, 0, Known({}, known))
    block = block_in(store)
    assert block is not None
    assert (block.first, block.last) == (first, last)


def test_the_controller_epoch() -> None:
    store = store_with()
    tell_store(store, 0, Known({}, -1, 5))
    assert store.exists(paths.CONTROLLER) is not None
    tell_store(store, 0, Known({}, -1, 9))
    assert nodes.decode_epoch("", store.get(paths.CONTROLLER_EPOCH).data) == 9
    assert store.exists(paths.CONTROLLER) is None, "another one is elected, in a newer epoch"


def test_who_is_faster_wins(caplog: pytest.LogCaptureFixture) -> None:
    class Late(MemoryStore):
        done = False

        def set(self, path: str, data: bytes | None, version: int = -1) -> Stat:
            if path == paths.partition_state("t", 0) and not self.done:
                self.done = True
                super().set(path, encode_partition_state(PartitionState(0, 12, (0,), 6)))
            return super().set(path, data, version)

    store = Late(store_with().server)
    assert tell_store(store, 0, Known({KEY: KnownEpoch(7, TOPIC_ID)}, -1)) == 0
    assert epoch_in(store) == 12
    assert not caplog.text


# ---------------------------------------------------------------------- brokers


def back_up(cluster: Cluster) -> Any:
    with cluster.server.lock:
        return copy.deepcopy(cluster.server.tree)


def restore(cluster: Cluster, backup: Any) -> None:
    with cluster.server.lock:
        for session in list(cluster.server.sessions.values()):
            session.expire()
        cluster.server.tree = backup
        for session in range(1, cluster.server.next_session_id()):
            cluster.server.end_session(session)


def produce(cluster: Cluster, count: int = 5) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        for future in [producer.send("t", b"%d" % one) for one in range(count)]:
            future.result(60)


def read(cluster: Cluster) -> int:
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", 0)])
        end = consumer.end_offsets([TopicPartition("t", 0)])[TopicPartition("t", 0)]
        return len(gathered(lambda: consumer.poll(1_000), end, f"the records up to {end}"))


def logs(cluster: Cluster) -> list[tuple[int, list[Any]]]:
    return [
        cluster.brokers[one].call(
            lambda broker: (
                (log := broker.replicas.find("t", 0).log).log_end_offset,
                [epoch for epoch in log.epochs.entries if epoch.start_offset < log.log_end_offset],
            )
        )
        for one in cluster.live
    ]


def producers_of(cluster: Cluster) -> set[int]:
    return cluster.brokers[0].call(lambda broker: set(broker.replicas.find("t", 0).log.producers.entries))


@pytest.mark.parametrize("how", ["all are started anew", "all go on"])
def test_brokers_of_a_restored_store(how: str, caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(3, controlled_shutdown_enable=True) as cluster:
        cluster.create_topic("t")
        produce(cluster)
        backup = back_up(cluster)
        for _ in range(2):
            for one in range(3):
                cluster.stop(one)
                produce(cluster)
                cluster.restart(one)
                cluster.wait_for_isr("t", {0, 1, 2})
        before = cluster.partition("t").leader_epoch
        ids = producers_of(cluster)
        assert before >= 6
        if how == "all are started anew":
            for one in range(3):
                cluster.kill(one)
            restore(cluster, backup)
            for one in range(3):
                cluster.restart(one)
        else:
            restore(cluster, backup)
        assert "restored from an older backup" in caplog.text or how == "all go on"
        cluster.wait_until(lambda: cluster.partition("t").leader_epoch > before)
        cluster.wait_for_isr("t", {0, 1, 2})
        produce(cluster)
        assert read(cluster) == 40
        cluster.wait_until(lambda: logs(cluster)[0] == logs(cluster)[1] == logs(cluster)[2])
        assert len(producers_of(cluster)) == len(ids) + 1, "the last producer has an id of its own"


def test_a_broker_that_is_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = tmp_path / "data"
    store_files = ["metadata.sqlite", "metadata.sqlite-wal", "metadata.sqlite-shm"]

    async def main() -> None:
        async with running(data) as broker:
            await create_topic(broker, "t", 1)
        backup = {name: (data / name).read_bytes() for name in store_files if (data / name).exists()}
        async with running(data) as broker:
            client = await connect(broker)
            answer = await append(client, "t", batch(producer_id=4321, producer_epoch=0, base_sequence=0))
            assert answer.error_code == 0
            broker.replicas.find("t", 0).make_leader(  # type: ignore[union-attr]
                9, replicas=(0,), isr=(0,), partition_epoch=9, now_ms=0
            )
            assert (await append(client, "t", batch())).error_code == 0
            client.close()
        for name in store_files:
            (data / name).unlink(missing_ok=True)
        for name, content in backup.items():
            (data / name).write_bytes(content)
        with caplog.at_level(logging.ERROR):
            async with running(data) as broker:
                assert broker.replicas.find("t", 0).leader_epoch > 9  # type: ignore[union-attr]
                assert broker.producer_ids.next() == 5000
        assert "restored from an older backup" in caplog.text

    run(main)


def test_topics_that_are_younger_than_the_backup_come_back(caplog: pytest.LogCaptureFixture) -> None:
    """As docs/cluster.md says: by a node with the id that their folders have."""
    with Cluster(3) as cluster:
        cluster.create_topic("before")
        backup = back_up(cluster)
        cluster.create_topic("t")
        produce(cluster)
        behind = cluster.leader("t")
        cluster.kill(behind)
        produce(cluster)
        longest = cluster.leader("t")
        for one in cluster.live:
            cluster.kill(one)
        restore(cluster, backup)
        for one in range(3):
            cluster.restart(one)
        assert "are of topics that the metadata store does not know" in caplog.text
        folder = cluster.brokers[0].data / "t-0"  # type: ignore[operator]
        (line,) = [
            one
            for one in (folder / "partition.metadata").read_text(encoding="utf-8").split("\n")
            if "topic_id" in one
        ]
        topic_id = nodes.topic_id_from_text(line.partition(": ")[2])
        store = MemoryStore(cluster.server)
        replicas = (longest, *({0, 1, 2} - {longest}))
        store.create(paths.topic("t"), encode_topic(TopicNode({0: ReplicaAssignment(replicas)}, topic_id)))
        store.create(paths.entity_config("topics/t"), nodes.encode_config({}))

        def leads_again() -> bool:
            try:
                return cluster.partition("t").leader_epoch > 1
            except KeyError:  # the controller has not seen the node yet
                return False

        cluster.wait_until(leads_again)
        cluster.wait_for_isr("t", {0, 1, 2})
        produce(cluster)
        assert read(cluster) == 15
        assert len({str(one) for one in logs(cluster)}) == 1
        store.close()


def test_a_topic_of_a_broker_that_is_alone_comes_back(tmp_path: Path) -> None:
    """As docs/cluster.md says: by a topic made anew, whose folders are exchanged."""
    data = tmp_path / "data"

    async def main() -> None:
        async with running(data) as broker:
            await create_topic(broker, "t", 1)
            client = await connect(broker)
            assert (await append(client, "t", batch())).error_code == 0
            client.close()
        for path in data.glob("metadata.sqlite*"):
            path.unlink()
        (data / "t-0").rename(tmp_path / "kept")
        async with running(data) as broker:
            await create_topic(broker, "before", 1)
        (tmp_path / "kept").rename(data / "t-0")
        async with running(data) as broker:
            await create_topic(broker, "t", 1)
            assert broker.replicas.find("t", 0).log.log_end_offset == 0  # type: ignore[union-attr]
        (stray,) = data.glob("t-0.*-stray")
        (data / "t-0").rename(tmp_path / "empty")
        (stray / "partition.metadata").unlink()
        stray.rename(data / "t-0")
        async with running(data) as broker:
            log = broker.replicas.find("t", 0).log  # type: ignore[union-attr]
            assert (log.log_end_offset, log.high_watermark) == (1, 1)
            assert log.topic_id == broker.image.topic_id("t")

    run(main)
