"""Walks of the APIs of administrators that came after Kafka 2.2."""

from __future__ import annotations

from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    elect_leaders,
)
from odradek.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from odradek.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.wire.messages.describe_producers import DescribeProducersRequest
from odradek.wire.messages.describe_producers import TopicRequest as ProducersTopic
from odradek.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from odradek.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from odradek.wire.messages.list_config_resources import ListConfigResourcesRequest
from odradek.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.wire.messages.push_telemetry import PushTelemetryRequest
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

from .meaningful import GROUP, TOPIC, fine, walk
from .sweep import Sweeper, error_codes

REFUSED_KEYS = {
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.UPDATE_FEATURES,
    ApiKey.PUSH_TELEMETRY,
}
"""Those that have nothing to be about here, whatever is asked."""


@walk(ApiKey.ELECT_LEADERS)
async def elect(sweeper: Sweeper, version: int) -> None:
    answer = await fine(sweeper, elect_leaders.ElectLeadersRequest(topic_partitions=None), version)
    # Each topic is named, its partitions where they needed an election, or are said to have had one.
    assert any(one.partition_result for one in answer.replica_election_results) is (version == 0)
    wanted = [elect_leaders.TopicPartitions(topic=TOPIC, partitions=[0, 1])]
    answer = await sweeper.ask(elect_leaders.ElectLeadersRequest(topic_partitions=wanted), version)
    assert error_codes(answer).count(ErrorCode.ELECTION_NOT_NEEDED) == (2 if version >= 1 else 0)


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


@walk(ApiKey.UPDATE_FEATURES)
async def update_features(sweeper: Sweeper, version: int) -> None:
    await fine(sweeper, UpdateFeaturesRequest(), version)
    updates = [FeatureUpdateKey(feature="x", max_version_level=1)]
    answer = await sweeper.ask(UpdateFeaturesRequest(feature_updates=updates), version)
    assert ErrorCode.INVALID_UPDATE_VERSION in error_codes(answer)


@walk(ApiKey.DESCRIBE_PRODUCERS)
async def describe_producers(sweeper: Sweeper, version: int) -> None:
    request = DescribeProducersRequest(topics=[ProducersTopic(name=TOPIC, partition_indexes=[0, 1])])
    answer = await fine(sweeper, request, version)
    assert [one.active_producers for one in answer.topics[0].partitions] == [[], []]


@walk(ApiKey.CONSUMER_GROUP_DESCRIBE)
async def describe_consumer_group(sweeper: Sweeper, version: int) -> None:
    answer = await sweeper.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), version)
    assert error_codes(answer) == [ErrorCode.GROUP_ID_NOT_FOUND]


@walk(ApiKey.LIST_CONFIG_RESOURCES)
async def list_resources(sweeper: Sweeper, version: int) -> None:
    answer = await fine(sweeper, ListConfigResourcesRequest(), version)
    assert bool(answer.config_resources) is (version >= 1)


@walk(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
async def describe_partitions(sweeper: Sweeper, version: int) -> None:
    answer = await fine(sweeper, DescribeTopicPartitionsRequest(response_partition_limit=9), version)
    assert TOPIC in [topic.name for topic in answer.topics]


@walk(ApiKey.DESCRIBE_LOG_DIRS)
async def describe_log_dirs(sweeper: Sweeper, version: int) -> None:
    (result,) = (await fine(sweeper, DescribeLogDirsRequest(topics=None), version)).results
    assert TOPIC in [topic.name for topic in result.topics]


@walk(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)
async def subscribe_to_telemetry(sweeper: Sweeper, version: int) -> None:
    answer = await fine(sweeper, GetTelemetrySubscriptionsRequest(), version)
    assert answer.requested_metrics == []


@walk(ApiKey.PUSH_TELEMETRY)
async def push_telemetry(sweeper: Sweeper, version: int) -> None:
    known = await fine(sweeper, GetTelemetrySubscriptionsRequest(), 0)
    request = PushTelemetryRequest(
        client_instance_id=known.client_instance_id, subscription_id=known.subscription_id
    )
    await fine(sweeper, request, version)


@walk(ApiKey.ALTER_REPLICA_LOG_DIRS)
async def alter_log_dirs(sweeper: Sweeper, version: int) -> None:
    path = str(sweeper.broker.logs.data_dirs[0])
    topics = [alter_replica_log_dirs.AlterReplicaLogDirTopic(name=TOPIC, partitions=[0, 1])]
    wanted = [alter_replica_log_dirs.AlterReplicaLogDir(path=path, topics=topics)]
    await fine(sweeper, alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=wanted), version)
