"""Who may do what with transactions, and what requests about partitions that are not there get."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from waiting import until_async

from ..admin_world import Denying
from ..live import create_topic
from ..transactional import Arena, Transactional, arena

E = ErrorCode


def on(tmp_path: Path, test: Callable[[Arena, Transactional], Awaitable[None]]) -> None:
    """Run `test` with a broker that has topics `t` and `secret`, and a producer that has initialised."""

    async def run() -> None:
        async with arena(tmp_path) as here:
            await create_topic(here.broker, "t", 2)
            await create_topic(here.broker, "secret")
            await test(here, await here.producer("id"))

    asyncio.run(run())


def deny(here: Arena, *denied: tuple[Operation, str]) -> None:
    """Deny these from now on."""
    here.broker.authorizer = Denying(*denied)


async def added(producer: Transactional, *partitions: tuple[str, int], version: int = 3) -> dict[Any, int]:
    """AddPartitionsToTxn, as clients or as brokers send it; errors by partition."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    named = [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()]
    if version < 4:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=named,
        )
    else:
        one = AddPartitionsToTxnTransaction(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=named,
        )
        request = AddPartitionsToTxnRequest(transactions=[one])
    answer = await producer.client.call(request, version)
    if answer.error_code:
        return {"all": answer.error_code}
    results = (
        answer.results_by_topic_v3_and_below
        if version < 4
        else answer.results_by_transaction[0].topic_results
    )
    return {
        (topic.name, one.partition_index): one.partition_error_code
        for topic in results
        for one in topic.results_by_partition
    }


def test_one_bad_partition_keeps_the_others_out(tmp_path: Path) -> None:
    async def test(here: Arena, producer: Transactional) -> None:
        assert await added(producer, ("t", 0), ("t", 2), ("none", 0)) == {
            ("t", 0): E.OPERATION_NOT_ATTEMPTED,
            ("t", 2): E.UNKNOWN_TOPIC_OR_PARTITION,
            ("none", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
        }
        deny(here, (Operation.WRITE, "secret"))
        assert await added(producer, ("t", 0), ("secret", 0), ("secret", 5)) == {
            ("t", 0): E.OPERATION_NOT_ATTEMPTED,
            ("secret", 0): E.TOPIC_AUTHORIZATION_FAILED,
            ("secret", 5): E.TOPIC_AUTHORIZATION_FAILED,
        }
        internal = ("__transaction_state", 0)
        assert await added(producer, internal) == {internal: E.TOPIC_AUTHORIZATION_FAILED}
        # Brokers have looked at that themselves.
        assert await added(producer, ("secret", 0), internal, version=4) == {("secret", 0): 0, internal: 0}
        assert await added(producer, ("t", 1)) == {("t", 1): 0}

    on(tmp_path, test)


def test_nothing_without_the_transactional_id(tmp_path: Path) -> None:
    refused = E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    async def test(here: Arena, producer: Transactional) -> None:
        deny(here, (Operation.WRITE, "id"))
        assert await producer.init() == refused
        assert await added(producer, ("t", 0), ("none", 0)) == {("t", 0): refused, ("none", 0): refused}
        assert await producer.end(commit=True) == refused
        offsets = AddOffsetsToTxnRequest(
            transactional_id="id", producer_id=producer.producer_id, producer_epoch=0, group_id="g"
        )
        assert (await producer.client.call(offsets, 3)).error_code == refused
        deny(here, (Operation.DESCRIBE, "id"))
        find = FindCoordinatorRequest(key_type=1, key="id")
        assert (await producer.client.call(find, 3)).error_code == refused
        describe = DescribeTransactionsRequest(transactional_ids=["id"])
        (state,) = (await producer.client.call(describe, 0)).transaction_states
        assert state.error_code == refused
        assert not (await producer.client.call(ListTransactionsRequest(), 1)).transaction_states
        deny(here, (Operation.TWO_PHASE_COMMIT, "id"))
        assert await producer.init(two_phase=True, version=6) == refused
        assert await producer.init(version=6) == E.NONE

    on(tmp_path, test)


def test_who_may_not_read_the_group(tmp_path: Path) -> None:
    async def test(here: Arena, producer: Transactional) -> None:
        deny(here, (Operation.READ, "g"))
        for version in range(5):
            offsets = AddOffsetsToTxnRequest(
                transactional_id="id",
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                group_id="g",
            )
            answer = await producer.client.call(offsets, version)
            assert answer.error_code == E.GROUP_AUTHORIZATION_FAILED

    on(tmp_path, test)


@pytest.mark.parametrize("version", range(3))
def test_markers_are_for_brokers_and_administrators(tmp_path: Path, version: int) -> None:
    async def test(here: Arena, producer: Transactional) -> None:
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        )

        async def error() -> int:
            answer = await producer.client.call(WriteTxnMarkersRequest(markers=[marker]), version)
            code: int = answer.markers[0].topics[0].partitions[0].error_code
            return code

        deny(here, (Operation.CLUSTER_ACTION, "kafka-cluster"))
        assert await error() == E.NONE
        assert await added(producer, ("t", 0), version=4) == {"all": E.CLUSTER_AUTHORIZATION_FAILED}
        deny(here, (Operation.ALTER, "kafka-cluster"))
        assert await error() == E.NONE
        deny(here, (Operation.ALTER, "kafka-cluster"), (Operation.CLUSTER_ACTION, "kafka-cluster"))
        assert await error() == E.CLUSTER_AUTHORIZATION_FAILED

    on(tmp_path, test)


def test_topics_that_may_not_be_seen(tmp_path: Path) -> None:
    async def test(here: Arena, producer: Transactional) -> None:
        assert await added(producer, ("t", 0), ("secret", 0)) == {("t", 0): 0, ("secret", 0): 0}
        deny(here, (Operation.DESCRIBE, "secret"))
        describe = DescribeTransactionsRequest(transactional_ids=["id"])
        (state,) = (await producer.client.call(describe, 0)).transaction_states
        assert [(one.topic, one.partitions) for one in state.topics] == [("t", [0])]

    on(tmp_path, test)


def test_offsets_join_before_there_is_a_topic_of_offsets(tmp_path: Path) -> None:
    """Producers ask for the group's coordinator afterwards."""

    async def test(here: Arena, producer: Transactional) -> None:
        assert here.broker.image.topic("__consumer_offsets") is None
        offsets = AddOffsetsToTxnRequest(
            transactional_id="id",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id="g",
        )
        assert (await producer.client.call(offsets, 3)).error_code == E.NONE
        find = FindCoordinatorRequest(key_type=0, key="g")
        await until_async(
            lambda: producer.client.call(find, 3),
            "the group's coordinator",
            holds=lambda answer: not answer.error_code,
            every_s=0,
        )
        assert await producer.end(commit=True) == E.NONE
        partition = here.broker.replicas.get("__consumer_offsets", 0)
        await until_async(lambda: partition.log.log_end_offset, "the marker in the group's log", every_s=0)

    on(tmp_path, test)
