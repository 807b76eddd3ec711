"""What a broker answers for groups and transactional ids that another one coordinates."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.handlers import (
    add_offsets_to_txn,
    delete_groups,
    describe_groups,
    describe_transactions,
    end_txn,
    heartbeat,
    init_producer_id,
    leave_group,
    list_groups,
    list_transactions,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.leave_group import LeaveGroupRequest
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.offset_delete import OffsetDeleteRequest
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.wire.messages.sync_group import SyncGroupRequest
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from ..coordinated import FIRST, GROUPS, SECOND, TRANSACTIONS, Cluster, begun
from ..coordination.test_coordinator_leadership import commit
from ..transactions.test_remote_markers import in_loop


def codes_in(response: Any) -> set[int]:
    """All error codes of a response in JSON, zero aside."""
    found: set[int] = set()

    def look(value: Any) -> None:
        if isinstance(value, dict):
            found.update(code for name, code in value.items() if name == "errorCode" and code)
            for one in value.values():
                look(one)
        elif isinstance(value, list):
            for one in value:
                look(one)

    look(response)
    return found


@pytest.mark.parametrize(
    ("handler", "request_", "version"),
    [
        (heartbeat, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
        (sync_group, SyncGroupRequest(group_id="g", generation_id=1, member_id="m"), 3),
        (leave_group, LeaveGroupRequest(group_id="g", member_id="m"), 2),
        (describe_groups, DescribeGroupsRequest(groups=["g"]), 5),
        (delete_groups, DeleteGroupsRequest(groups_names=["g"]), 2),
        (offset_delete, OffsetDeleteRequest(group_id="g"), 0),
        (offset_fetch, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")]), 8),
        (
            txn_offset_commit,
            TxnOffsetCommitRequest(
                transactional_id="x",
                group_id="g",
                producer_id=1,
                producer_epoch=0,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        name="t",
                        partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
                    )
                ],
            ),
            4,
        ),
        (describe_transactions, DescribeTransactionsRequest(transactional_ids=["x"]), 0),
        (init_producer_id, InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000), 4),
        (end_txn, EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0), 3),
        (
            add_offsets_to_txn,
            AddOffsetsToTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, group_id="g"),
            3,
        ),
    ],
    ids=lambda value: value.__name__.rpartition(".")[2] if hasattr(value, "handle") else None,
)
def test_who_does_not_coordinate_says_so(handler: Any, request_: Any, version: int) -> None:
    @in_loop
    async def main() -> None:
        cluster = Cluster(**{GROUPS: 1, TRANSACTIONS: 1, "t": 1})
        response = await cluster[SECOND].serve(handler.handle, request_, version)
        assert codes_in(response.to_json(version)) == {ErrorCode.NOT_COORDINATOR}

    main()


@in_loop
async def test_each_broker_lists_what_it_coordinates() -> None:
    cluster = Cluster(**{GROUPS: 1, TRANSACTIONS: 1, "a": 1})
    begun(cluster, ("a", 0))
    commit(cluster[FIRST], 5)
    for broker, groups, ids in ((FIRST, ["g"], ["x"]), (SECOND, [], [])):
        listed = await cluster[broker].serve(list_groups.handle, ListGroupsRequest(), 4)
        assert (listed.error_code, [one.group_id for one in listed.groups]) == (0, groups)
        found = await cluster[broker].serve(list_transactions.handle, ListTransactionsRequest(), 1)
        assert [one.transactional_id for one in found.transaction_states] == ids
    # The next leader does not list a part while it loads.
    cluster.copy(GROUPS, 0)
    cluster.lead(GROUPS, 0, SECOND, 1)
    cluster[SECOND].on_leadership(GROUPS)
    listed = await cluster[SECOND].serve(list_groups.handle, ListGroupsRequest(), 4)
    assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
