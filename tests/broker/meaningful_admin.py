"""Walks of the APIs of administrators that came after Kafka 2.2."""

from __future__ import annotations

from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages import alter_partition_reassignments, elect_leaders
from odradek.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

from .meaningful import TOPIC, fine, walk
from .sweep import Sweeper, error_codes

REFUSED_KEYS: set[ApiKey] = set()
"""Those that have nothing to be about here, whatever is asked."""


@walk(ApiKey.ELECT_LEADERS)
async def elect(sweeper: Sweeper, version: int) -> None:
    answer = await fine(sweeper, elect_leaders.ElectLeadersRequest(topic_partitions=None), version)
    assert answer.replica_election_results == []
    wanted = [elect_leaders.TopicPartitions(topic=TOPIC, partitions=[0, 1])]
    answer = await sweeper.ask(elect_leaders.ElectLeadersRequest(topic_partitions=wanted), version)
    assert error_codes(answer).count(ErrorCode.ELECTION_NOT_NEEDED) == 2


@walk(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
async def reassign(sweeper: Sweeper, version: int) -> None:
    own = sweeper.broker.broker_id
    for replicas, error in (([own], ErrorCode.NONE), ([own + 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT)):
        one = alter_partition_reassignments.ReassignablePartition(partition_index=1, replicas=replicas)
        topics = [alter_partition_reassignments.ReassignableTopic(name=TOPIC, partitions=[one])]
        request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=topics)
        assert error_codes(await sweeper.ask(request, version)) == [ErrorCode.NONE, error]


@walk(ApiKey.LIST_PARTITION_REASSIGNMENTS)
async def list_reassignments(sweeper: Sweeper, version: int) -> None:
    answer = await fine(sweeper, ListPartitionReassignmentsRequest(topics=None), version)
    assert answer.topics == []
