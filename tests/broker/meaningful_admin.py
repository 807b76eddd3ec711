"""Walks of the APIs of administrators that came after Kafka 2.2."""

from __future__ import annotations

from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    elect_leaders,
)
from odradek.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from odradek.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
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


@walk(ApiKey.ALTER_CLIENT_QUOTAS)
async def alter_quotas(sweeper: Sweeper, version: int) -> None:
    entity = [alter_client_quotas.EntityData(entity_type="client-id", entity_name="somebody else")]
    ops = [alter_client_quotas.OpData(key="producer_byte_rate", value=2.0**40)]
    entries = [alter_client_quotas.EntryData(entity=entity, ops=ops)]
    await fine(sweeper, alter_client_quotas.AlterClientQuotasRequest(entries=entries), version)
    answer = await fine(sweeper, DescribeClientQuotasRequest(), version)
    assert answer.entries[0].values[0].value == 2.0**40


@walk(ApiKey.DESCRIBE_CLIENT_QUOTAS)
async def describe_quotas(sweeper: Sweeper, version: int) -> None:
    answer = await fine(sweeper, DescribeClientQuotasRequest(), version)
    assert answer.entries == []


@walk(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
async def alter_credentials(sweeper: Sweeper, version: int) -> None:
    one = alter_user_scram_credentials.ScramCredentialUpsertion(
        name="bob", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p"
    )
    request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(upsertions=[one])
    await fine(sweeper, request, version)


@walk(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
async def describe_credentials(sweeper: Sweeper, version: int) -> None:
    answer = await fine(sweeper, DescribeUserScramCredentialsRequest(users=None), version)
    assert answer.results == []
