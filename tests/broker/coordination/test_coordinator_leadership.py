"""Coordinators follow the replicas' leadership; what is not committed yet is told to nobody."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.coordinators.runtime import ShardState
from odradek.coordinators.transactions.states import TransactionState
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics

from ..coordinated import FIRST, GROUPS, SECOND, TRANSACTIONS, Cluster, Node, Producer, begun, described
from ..transactions.test_remote_markers import in_loop

ACTIVE, LOADING = ShardState.ACTIVE, ShardState.LOADING


def state(node: Node, index: int = 0) -> ShardState | None:
    return node.groups.coordinator.runtime.state(index)


def commit(node: Node, offset: int) -> list[int]:
    """The error codes that have come back so far; grows when the answer comes later."""
    codes: list[int] = []
    topic = OffsetCommitRequestTopic(
        name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
    )
    node.groups.coordinator.commit_offsets(
        8,
        OffsetCommitRequest(group_id="g", topics=[topic]),
        lambda response: codes.extend(p.error_code for t in response.topics for p in t.partitions),
    )
    return codes


def fetch(node: Node) -> list[int]:
    """The offset, or minus the error code and a hundred, once it has come."""
    found: list[int] = []

    def deliver(response: Any) -> None:
        if response.error_code:
            found.append(-100 - response.error_code)
        found.extend(p.committed_offset for t in response.topics for p in t.partitions)

    node.groups.coordinator.fetch_offsets(
        OffsetFetchRequestGroup(
            group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        ),
        deliver,
        require_stable=False,
    )
    return found


@in_loop
async def test_the_replicas_say_who_leads_not_the_image() -> None:
    cluster = Cluster(**{GROUPS: 2})
    first, second = cluster[FIRST], cluster[SECOND]
    assert [state(first), state(second)] == [ACTIVE, None]
    # The image is ahead: LeaderAndIsr is still to come.
    cluster.show(GROUPS, {0: (SECOND, 1), 1: (FIRST, 0)})
    cluster.follow()
    assert [state(first), state(second)] == [ACTIVE, None]
    # It has come; the image has it already.
    cluster.lead(GROUPS, 0, SECOND, 1)
    first.on_leadership(GROUPS)
    second.on_leadership(GROUPS)
    assert [state(first), state(second)] == [None, ACTIVE]
    assert [state(first, 1), state(second, 1)] == [ACTIVE, None]
    # The image is behind.
    cluster.lead(GROUPS, 0, FIRST, 2)
    first.on_leadership(GROUPS)
    second.on_leadership(GROUPS)
    assert [state(first), state(second)] == [ACTIVE, None]


@in_loop
async def test_a_replica_that_leads_before_the_image_knows_the_topic_waits_for_the_image() -> None:
    cluster = Cluster(**{GROUPS: 1})
    known, first = cluster.image, cluster[FIRST]
    cluster.image = known._replace(topics={})
    first.follow()
    assert state(first) is None
    first.on_leadership(GROUPS)
    assert state(first) is None
    assert commit(first, 5) == [ErrorCode.NOT_COORDINATOR]
    cluster.image = known
    first.follow()
    assert state(first) is ACTIVE


@in_loop
async def test_what_concerns_other_topics_changes_nothing() -> None:
    cluster = Cluster(**{GROUPS: 1, TRANSACTIONS: 1})
    cluster.lead(GROUPS, 0, SECOND, 1)
    cluster.lead(TRANSACTIONS, 0, SECOND, 1)
    first = cluster[FIRST]
    first.on_leadership("t", "u")
    assert state(first) is ACTIVE
    first.on_leadership("t", TRANSACTIONS)
    assert state(first) is ACTIVE
    assert first.transactions.coordinator.runtime.partitions() == []


@in_loop
async def test_a_replica_that_is_gone_is_given_up() -> None:
    cluster = Cluster(**{GROUPS: 1})
    first = cluster[FIRST]
    waiting = commit(first, 5)
    del first.replicas.partitions[GROUPS, 0]
    first.on_leadership(GROUPS)
    assert state(first) is None
    assert waiting == [ErrorCode.NOT_COORDINATOR]


@in_loop
async def test_whoever_waits_for_the_commit_is_told_that_the_coordinator_has_moved() -> None:
    cluster = Cluster(**{GROUPS: 1})
    waiting = commit(cluster[FIRST], 5)
    assert waiting == []
    cluster.copy(GROUPS, 0)
    cluster.move(GROUPS, 0, SECOND, 1)
    assert waiting == [ErrorCode.NOT_COORDINATOR]
    assert commit(cluster[FIRST], 6) == [ErrorCode.NOT_COORDINATOR]


@in_loop
async def test_a_new_leader_tells_of_what_it_has_loaded_when_that_is_committed() -> None:
    cluster = Cluster(**{GROUPS: 1})
    commit(cluster[FIRST], 5)
    # The follower has it, and the leader dies before it knows.
    cluster.copy(GROUPS, 0)
    cluster.move(GROUPS, 0, SECOND, 1)
    second = cluster[SECOND]
    assert state(second) is ACTIVE
    told, refused = fetch(second), fetch(cluster[FIRST])
    assert told == []
    assert refused == [-100 - ErrorCode.NOT_COORDINATOR]
    cluster.commit(GROUPS, 0)
    assert told == [5]
    assert fetch(second) == [5]


@in_loop
async def test_what_the_new_leader_does_not_have_is_forgotten() -> None:
    cluster = Cluster(**{GROUPS: 1})
    done = commit(cluster[FIRST], 5)
    cluster.commit(GROUPS, 0)
    lost = commit(cluster[FIRST], 6)
    cluster.move(GROUPS, 0, SECOND, 1)
    told = fetch(cluster[SECOND])
    # The old leader cuts off what nobody else has.
    cluster[FIRST].replicas.get(GROUPS, 0).log.truncate_to(1)
    cluster.commit(GROUPS, 0)
    assert (done, lost, told) == ([0], [ErrorCode.NOT_COORDINATOR], [5])
    cluster.move(GROUPS, 0, FIRST, 2)
    told = fetch(cluster[FIRST])
    cluster.commit(GROUPS, 0)
    assert told == [5]


@in_loop
async def test_a_leader_that_goes_on_in_the_next_epoch_is_not_disturbed() -> None:
    cluster = Cluster(**{GROUPS: 1})
    first = cluster[FIRST]
    runtime = first.groups.coordinator.runtime
    shard = runtime.shard(0)
    waiting = commit(first, 5)
    cluster.move(GROUPS, 0, FIRST, 1)
    cluster.move(GROUPS, 0, FIRST, 2)
    assert runtime.shard(0) is shard
    cluster.commit(GROUPS, 0)
    assert waiting == [0]


@pytest.mark.parametrize("between", [[], [(SECOND, 1)]], ids=["unheard of", "another leader"])
def test_a_leader_that_leads_again_loads_anew(between: list[tuple[int, int]]) -> None:
    @in_loop
    async def main() -> None:
        cluster = Cluster(**{GROUPS: 1})
        first = cluster[FIRST]
        runtime = first.groups.coordinator.runtime
        shard = runtime.shard(0)
        for leader, epoch in between:
            cluster.lead(GROUPS, 0, leader, epoch)
        cluster.lead(GROUPS, 0, FIRST, 2)
        first.on_leadership(GROUPS)
        assert runtime.shard(0) is not shard

    main()


@in_loop
async def test_a_load_that_is_under_way_is_given_up() -> None:
    cluster = Cluster(**{GROUPS: 1})
    commit(cluster[FIRST], 5)
    cluster.copy(GROUPS, 0)
    second = cluster[SECOND]
    cluster.lead(GROUPS, 0, SECOND, 1)
    second.on_leadership(GROUPS)
    assert state(second) is LOADING
    cluster.lead(GROUPS, 0, FIRST, 2)
    second.on_leadership(GROUPS)
    assert state(second) is None
    cluster.lead(GROUPS, 0, SECOND, 3)
    second.on_leadership(GROUPS)
    assert state(second) is LOADING
    cluster.timers.advance(0)
    assert state(second) is ACTIVE
    told = fetch(second)
    cluster.commit(GROUPS, 0)
    assert told == [5]


# ---------------------------------------------------------------------- transactions


@in_loop
async def test_markers_of_a_decision_that_was_taken_over_wait_until_it_is_committed() -> None:
    """Before, the next leader could find the transaction ongoing."""
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    producer = begun(cluster, ("a", 0))
    producer.end(commit=True)
    cluster.copy(TRANSACTIONS, 0)
    cluster.move(TRANSACTIONS, 0, SECOND, 1)
    assert producer.results == [ErrorCode.NOT_COORDINATOR]
    second = cluster[SECOND]
    assert described(second) is TransactionState.PREPARE_COMMIT
    cluster.timers.advance(0)
    assert await second.channels.take() == []
    cluster.commit(TRANSACTIONS, 0)
    sent = await second.channels.take_one()
    assert sent.broker_id == FIRST
    (marker,) = sent.request.markers
    assert (marker.producer_id, marker.coordinator_epoch) == (producer.producer_id, 1)


@in_loop
async def test_a_coordinator_that_has_lost_its_partition_sends_no_markers_until_it_leads_again() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    cluster.move("a", 0, SECOND, 1)
    producer = begun(cluster, ("a", 0))
    producer.end(commit=True)
    cluster.commit(TRANSACTIONS, 0)
    # Given out; before they are sent somebody else leads.
    first = cluster[FIRST]
    cluster.lead(TRANSACTIONS, 0, SECOND, 1)
    first.on_leadership(TRANSACTIONS)
    assert await first.channels.take() == []
    cluster.move(TRANSACTIONS, 0, FIRST, 2)
    cluster.commit(TRANSACTIONS, 0)
    (marker,) = (await first.channels.take_one()).request.markers
    assert marker.coordinator_epoch == 2


@in_loop
async def test_markers_of_an_earlier_leader_epoch_are_not_sent() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    cluster.move("a", 0, SECOND, 1)
    producer = begun(cluster, ("a", 0))
    producer.end(commit=True)
    cluster.commit(TRANSACTIONS, 0)
    # Given out; before they are sent this broker leads anew.
    cluster.lead(TRANSACTIONS, 0, SECOND, 1)
    cluster.move(TRANSACTIONS, 0, FIRST, 2)
    cluster.commit(TRANSACTIONS, 0)
    (marker,) = (await cluster[FIRST].channels.take_one()).request.markers
    assert marker.coordinator_epoch == 2


def test_a_transaction_at_rest_is_described_by_its_coordinator_alone() -> None:
    async def main() -> None:
        cluster = Cluster(**{TRANSACTIONS: 1})
        producer = Producer(cluster[FIRST])
        producer.init()
        cluster.commit(TRANSACTIONS, 0)
        assert described(cluster[FIRST]) is TransactionState.EMPTY
        there = Producer(cluster[SECOND], producer.producer_id, producer.epoch)
        there.init()
        there.add(("a", 0))
        there.end(commit=True)
        refused = ErrorCode.NOT_COORDINATOR
        assert there.results == [refused, {("a", 0): refused}, refused]
        assert cluster[SECOND].transactions.coordinator.list().transactions == []

    asyncio.run(main())
