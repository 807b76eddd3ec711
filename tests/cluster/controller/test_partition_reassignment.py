"""Reassignments: by request, and by the node that old tools write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from odradek.cluster import paths
from odradek.cluster.controller.partition_reassignment import is_moving
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.nodes import decode_partition_state, encode_partition_state, encode_reassignments
from odradek.cluster.store.store import BadVersion, Op, OpResult, StoreUnavailable
from odradek.errors import (
    InvalidReplicaAssignmentError,
    KafkaError,
    KafkaStorageError,
    NoReassignmentInProgressError,
    NotControllerError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)

from ..brokers import World


def test_a_reassignment_ends_when_its_target_is_in_sync() -> None:
    world = World()
    world.create("t", [1, 2])
    world.active.reassign("t", 0, [3, 1])
    world.settle()
    partition = world.active.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.adding, partition.removing) == ((3, 1, 2), (3,), (2,))
    assert (partition.leader, partition.leader_epoch) == (1, 1)
    world.take_told()
    world.join_isr("t", 0, 1, 2, 3)
    partition = world.active.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.adding, partition.removing) == ((3, 1), (), ())
    assert (set(partition.isr), partition.leader_epoch) == ({1, 3}, 2)
    assert (2, "StopReplica") in world.take_told()
    world.check()
    world.active.reassign("t", 0, [2])
    world.join_isr("t", 0, 1, 2, 3)
    partition = world.active.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((2,), (2,), 2)
    world.check()


def test_a_reassignment_taken_back_and_those_that_cannot_be() -> None:
    world = World()
    world.create("t", [1, 2])
    active = world.active
    with pytest.raises(NoReassignmentInProgressError):
        active.reassign("t", 0, None)
    with pytest.raises(NoReassignmentInProgressError):
        active.reassign("nothing", 0, None, partition_last=True)
    with pytest.raises(UnknownTopicOrPartitionError):
        active.reassign("nothing", 0, [1])
    with pytest.raises(InvalidReplicaAssignmentError):
        active.reassign("t", 0, [9], partition_last=True)
    active.reassign("t", 0, [3])
    active.reassign("t", 0, [3, 2])
    partition = active.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.adding, partition.removing) == ((3, 2, 1), (3,), (1,))
    active.reassign("t", 0, None)
    partition = active.image.topics["t"].partitions[0]
    # The first step has changed the order, as with Kafka.
    assert (partition.replicas, partition.adding, partition.removing) == ((2, 1), (), ())
    assert (3, "StopReplica") in world.take_told()
    # Another order only.
    active.reassign("t", 0, [1, 2])
    partition = active.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.leader_epoch, is_moving(partition)) == ((1, 2), 4, False)
    world.check()


@pytest.mark.parametrize("by", ["a request", "a node"])
def test_a_leader_that_has_just_changed_the_isr_does_not_keep_a_reassignment_back(by: str) -> None:
    """Before 2.7 leaders write ISRs themselves, and the controller hears of it later."""
    world = World()
    world.create("t", [1, 2])
    path = paths.partition_state("t", 0)
    state = decode_partition_state(path, world.reader.get(path).data)
    world.reader.set(path, encode_partition_state(state._replace(isr=(1,))))
    if by == "a request":
        world.active.reassign("t", 0, [3, 1])
    else:
        world.reader.create(paths.REASSIGN_PARTITIONS, encode_reassignments([("t", 0, (3, 1))]))
        world.settle()
    partition = world.active.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.adding, partition.isr) == ((3, 1, 2), (3,), (1,))
    assert (world.reader.exists(paths.REASSIGN_PARTITIONS) is not None) is (by == "a node")
    world.check()


@pytest.mark.parametrize("by", ["a request", "a node"])
def test_a_reassignment_is_begun_when_the_store_can_be_read_again(by: str) -> None:
    """A leader has changed the ISR, and the store goes away before the controller has seen how."""
    world = World()
    world.create("t", [1, 2])
    path = paths.partition_state("t", 0)
    state = decode_partition_state(path, world.reader.get(path).data)
    world.reader.set(path, encode_partition_state(state._replace(isr=(1,))))
    store = world.stores[world.active.broker_id]
    whole = store.multi

    def lose_the_store(ops: Sequence[Op]) -> list[OpResult]:
        try:
            return whole(ops)
        except BadVersion:
            store.away = True
            raise

    store.multi = lose_the_store  # type: ignore[method-assign]
    if by == "a request":
        with pytest.raises(KafkaStorageError):
            world.active.reassign("t", 0, [3, 1])
    else:
        world.reader.create(paths.REASSIGN_PARTITIONS, encode_reassignments([("t", 0, (3, 1))]))
        world.settle()
    store.multi, store.away = whole, False  # type: ignore[method-assign]
    world.do(world.active.broker_id, lambda controller: controller.look_again())
    if by == "a request":
        world.active.reassign("t", 0, [3, 1])
    assert world.active.image.topics["t"].partitions[0].adding == (3,)
    world.check()


def test_old_tools_ask_by_nodes_that_are_removed_when_it_is_done() -> None:
    world = World()
    world.create("t", [1, 2], [1, 2])
    asked = [("t", 0, (3, 2)), ("t", 7, (1,)), ("t", 1, (2, 1))]
    world.reader.create(paths.REASSIGN_PARTITIONS, encode_reassignments(asked))
    world.settle()
    data, _ = world.reader.get(paths.REASSIGN_PARTITIONS)
    assert data == encode_reassignments(asked[:1])
    world.everybody_catches_up()
    assert world.reader.exists(paths.REASSIGN_PARTITIONS) is None
    replicas = [p.replicas for p in world.active.image.topics["t"].partitions.values()]
    assert replicas == [(3, 2), (2, 1)]
    world.reader.create(
        paths.PREFERRED_REPLICA_ELECTION,
        b'{"version":1,"partitions":[{"topic":"t","partition":1},{"topic":"x","partition":0}]}',
    )
    world.settle()
    assert world.reader.exists(paths.PREFERRED_REPLICA_ELECTION) is None
    assert world.active.image.topics["t"].partitions[1].leader == 2
    world.reader.create(paths.PREFERRED_REPLICA_ELECTION, b"{}")
    world.settle()
    assert world.reader.exists(paths.PREFERRED_REPLICA_ELECTION) is None
    world.check()


@pytest.mark.parametrize(
    ("after", "store_is", "error"),
    [
        (paths.topic("t"), "away", KafkaStorageError),
        (paths.topic("t"), "over", NotControllerError),
        (paths.partition_state("t", 0), "away", KafkaStorageError),
        (paths.partition_state("t", 0), "away for a moment", UnknownServerError),
        (paths.partition_state("t", 0), "over", NotControllerError),
    ],
)
def test_new_replicas_that_are_written_come_to_lead_whatever_becomes_of_the_store(
    after: str, store_is: str, error: type[KafkaError]
) -> None:
    """A partition that nobody has ever led is given to brokers that live; Kafka's answer is an error, too."""
    world = World()
    world.active.create_topics([NewTopic("t", assignment={0: [9]})], unknown_brokers=True)
    controller = world.active
    store = world.stores[controller.broker_id]
    write, children = store.multi, store.children

    def write_and_lose(ops: Sequence[Op]) -> list[OpResult]:
        results = write(ops)
        if any(op.path == after for op in ops[1:]):
            store.multi = write  # type: ignore[method-assign]
            store.away = store_is == "away"
            store.children = children_later  # type: ignore[method-assign]
            if store_is == "over":
                store.expire()
        return results

    def children_later(path: str, watch: Any = None) -> Any:
        store.children = children  # type: ignore[method-assign]
        if store_is == "away for a moment":
            raise StoreUnavailable(path, "away for a moment")
        return children(path, watch)

    store.multi = write_and_lose  # type: ignore[method-assign]
    with pytest.raises(error):
        controller.reassign("t", 0, [1, 2, 3])
    store.away = False
    if store_is == "away for a moment":
        world.do(controller.broker_id, lambda active: active.look_again())
    else:
        # What was written is the next controller's to go on with.
        world.kill(controller.broker_id)
    partition = world.active.image.topics["t"].partitions[0]
    assert partition.replicas == (1, 2, 3)
    assert partition.leader in world.active.image.brokers
    world.check()
