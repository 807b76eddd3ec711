"""A controller that has not heard that another one follows it, and a leader likewise: neither is heeded."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from odradek.cluster.store.memory import MemoryStore
from odradek.errors import NotControllerError
from odradek.errors.codes import ErrorCode
from odradek.testing import Cluster
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from odradek.wire.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.wire.messages.stop_replica import StopReplicaRequest
from odradek.wire.messages.update_metadata import UpdateMetadataRequest
from waiting import happened

from .cluster_records import produce, read_alone

ALL = {0, 1, 2}
STATE = "/brokers/topics/clicks/partitions/0/state"


def ask(cluster: Cluster, one: int, other: int, request: Any, version: int) -> Any:
    """What a broker answers another one."""
    return cluster.broker(one).call(lambda b: b.channels.to_broker(other, "test").send(request, version))


def depose(cluster: Cluster, controller: int) -> int:
    """Have another one elected; returns which."""
    asker = min(ALL - {controller})
    before = cluster.broker(controller).call(lambda b: b.controller.epoch)
    cluster.broker(asker).call(
        lambda b: b.controller.event_queue.run(lambda: b.controller.remove_dead_controller(controller))
    )

    def look() -> int | None:
        for one in sorted(ALL - {controller}):
            active, epoch = cluster.broker(one).call(lambda b: (b.controller.is_active, b.controller.epoch))
            if active and epoch > before and cluster.image(asker).controller_id == one:
                return one
        return None

    found: int = cluster.wait_until(look)
    return found


@pytest.mark.parametrize("protocol", ["3.9", "2.6"])
def test_a_deposed_controller_writes_nothing_and_nobody_does_what_it_says(protocol: str) -> None:
    with Cluster(3, inter_broker_protocol_version=protocol, min_insync_replicas=2) as cluster:
        cluster.create_topic("clicks")
        produce(cluster, "clicks", [b"before"])
        controller = cluster.controller
        old_epoch = cluster.broker(controller).call(lambda b: b.controller.epoch)
        store = MemoryStore(cluster.server)
        waiting, go, ended = threading.Event(), threading.Event(), threading.Event()
        outcome: list[BaseException] = []

        def post(b: Any) -> None:
            def work() -> None:
                waiting.set()
                happened(go, "another controller")
                try:
                    b.controller.reassign("clicks", 0, [controller])
                except NotControllerError as error:
                    outcome.append(error)
                ended.set()

            b.controller.event_queue.post(work)

        cluster.broker(controller).call(post)
        try:
            assert waiting.wait(60)
            following = depose(cluster, controller)
            before = store.get(STATE)
        finally:
            go.set()
        assert ended.wait(60)
        assert outcome
        assert store.get(STATE) == before
        cluster.wait_until(lambda: cluster.image(controller).controller_id == following)

        versions = {"3.9": (7, 4, 8), "2.6": (4, 3, 6)}[protocol]
        stale = {"controller_id": controller, "controller_epoch": old_epoch}
        for request, version in zip(
            (LeaderAndIsrRequest(**stale), StopReplicaRequest(**stale), UpdateMetadataRequest(**stale)),
            versions,
            strict=True,
        ):
            for other in sorted(ALL - {controller}):
                answer = ask(cluster, controller, other, request, version)
                assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH, (request, other)
        assert cluster.image(following).controller_id == following
        produce(cluster, "clicks", [b"after"])
        assert read_alone(cluster, "clicks", 2) == [b"before", b"after"]
        store.close()


def test_a_leader_of_before_changes_no_isr() -> None:
    with Cluster(3, auto_leader_rebalance_enable=False) as cluster:
        cluster.create_topic("clicks")
        old = cluster.leader("clicks")
        epochs = cluster.partition("clicks")
        broker_epoch = cluster.broker(old).call(lambda b: b.controller.broker_epoch)
        topic_id = cluster.image(old).topic_id("clicks")
        cluster.expire(old)
        cluster.wait_until(lambda: cluster.partition("clicks").leader not in (-1, old))
        cluster.wait_for_isr("clicks", ALL)
        now = cluster.broker(old).call(lambda b: b.controller.broker_epoch)

        def wish(of_broker: int, leader_epoch: int, partition_epoch: int) -> Any:
            data = PartitionData(
                partition_index=0,
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
                new_isr_with_epochs=[BrokerState(broker_id=old)],
            )
            request = AlterPartitionRequest(
                broker_id=old,
                broker_epoch=of_broker,
                topics=[TopicData(topic_id=topic_id, partitions=[data])],
            )
            return ask(cluster, old, cluster.controller, request, 3)

        before = cluster.partition("clicks")
        assert wish(broker_epoch, 0, 0).error_code == ErrorCode.STALE_BROKER_EPOCH
        answers = [
            wish(now, epochs.leader_epoch, epochs.partition_epoch),
            wish(now, before.leader_epoch + 1, before.partition_epoch),
            wish(now, before.leader_epoch, before.partition_epoch),
        ]
        assert [ErrorCode(one.topics[0].partitions[0].error_code) for one in answers] == [
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.INVALID_REQUEST,
        ]
        follower = next(one for one in sorted(ALL) if one != cluster.controller)
        request = AlterPartitionRequest(broker_id=old, broker_epoch=now, topics=[])
        answer = cluster.broker(old).call(lambda b: b.channels.to_broker(follower, "x").send(request, 3))
        assert answer.error_code == ErrorCode.NOT_CONTROLLER
        assert cluster.partition("clicks") == before
