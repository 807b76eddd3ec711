"""A member that cannot read what its group tells it says so in each poll: it is not in the group."""

from __future__ import annotations

from typing import Any

import pytest

from client.scripted import ScriptedBroker
from odradek.client import Consumer
from odradek.errors import ProtocolError
from odradek.wire.api import ApiKey
from odradek.wire.messages.find_coordinator import FindCoordinatorResponse
from odradek.wire.messages.heartbeat import HeartbeatResponse
from odradek.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.wire.messages.leave_group import LeaveGroupResponse
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.messages.sync_group import SyncGroupResponse
from waiting import until


@pytest.mark.parametrize("leader", ["m", "another"])
def test_what_cannot_be_read_is_told_in_each_poll(leader: str) -> None:
    """The leader cannot read a subscription, or a member its assignment."""

    def metadata(request: Any, version: int) -> MetadataResponse:
        part = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)],
            topics=[MetadataResponseTopic(name="t", partitions=[part])],
        )

    def find(request: Any, version: int) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=broker.port)

    def join(request: Any, version: int) -> JoinGroupResponse:
        return JoinGroupResponse(
            generation_id=1,
            protocol_name=request.protocols[0].name,
            leader=leader,
            member_id="m",
            members=[JoinGroupResponseMember(member_id="n", metadata=b"?")] if leader == "m" else [],
        )

    answers: dict[int, Any] = {
        ApiKey.METADATA: metadata,
        ApiKey.FIND_COORDINATOR: find,
        ApiKey.JOIN_GROUP: join,
        ApiKey.SYNC_GROUP: lambda request, version: SyncGroupResponse(assignment=b"?"),
        ApiKey.HEARTBEAT: lambda request, version: HeartbeatResponse(),
        ApiKey.LEAVE_GROUP: lambda request, version: LeaveGroupResponse(),
    }
    versions = dict.fromkeys(answers, (0, 0))
    versions[ApiKey.METADATA] = (1, 1)
    broker = ScriptedBroker(answers, versions)
    with broker, Consumer(bootstrap_servers=broker.at, group_id="g") as consumer:
        consumer.subscribe(["t"])
        for _ in range(2):
            with pytest.raises(ProtocolError):
                until(lambda: consumer.poll(1), "an error")
