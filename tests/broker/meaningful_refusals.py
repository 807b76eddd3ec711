"""Walks of the APIs that a broker without security and without other brokers refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages import (
    alter_partition,
    controlled_shutdown,
    create_acls,
    create_delegation_token,
    delete_acls,
    leader_and_isr,
    stop_replica,
)
from odradek.wire.messages.describe_acls import DescribeAclsRequest
from odradek.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from odradek.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest
from odradek.wire.messages.update_metadata import UpdateMetadataRequest

from .meaningful import TOPIC, fine, topic_id, walk
from .sweep import Sweeper, error_codes

_NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
_REFUSALS: dict[ApiKey, tuple[Callable[[], Any], ErrorCode]] = {
    ApiKey.SASL_HANDSHAKE: (
        lambda: SaslHandshakeRequest(mechanism="PLAIN"),
        ErrorCode.ILLEGAL_SASL_STATE,
    ),
    ApiKey.SASL_AUTHENTICATE: (
        lambda: SaslAuthenticateRequest(auth_bytes=b"\0u\0p"),
        ErrorCode.ILLEGAL_SASL_STATE,
    ),
    ApiKey.DESCRIBE_ACLS: (
        lambda: DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1),
        ErrorCode.SECURITY_DISABLED,
    ),
    ApiKey.CREATE_ACLS: (
        lambda: create_acls.CreateAclsRequest(
            creations=[
                create_acls.AclCreation(resource_type=2, resource_name=TOPIC, operation=3, permission_type=3)
            ]
        ),
        ErrorCode.SECURITY_DISABLED,
    ),
    ApiKey.DELETE_ACLS: (
        lambda: delete_acls.DeleteAclsRequest(
            filters=[delete_acls.DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)]
        ),
        ErrorCode.SECURITY_DISABLED,
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: (
        lambda: create_delegation_token.CreateDelegationTokenRequest(max_lifetime_ms=-1),
        _NOT_ALLOWED,
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: (lambda: RenewDelegationTokenRequest(hmac=b"h"), _NOT_ALLOWED),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (lambda: ExpireDelegationTokenRequest(hmac=b"h"), _NOT_ALLOWED),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (DescribeDelegationTokenRequest, _NOT_ALLOWED),
}

KEYS = _REFUSALS.keys() | {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
}


def _refused(key: ApiKey) -> None:
    make, code = _REFUSALS[key]

    @walk(key)
    async def refused(sweeper: Sweeper, version: int) -> None:
        answer = await sweeper.ask(make(), version)
        assert error_codes(answer) == [code]


for _key in _REFUSALS:
    _refused(_key)


def _sender(sweeper: Sweeper) -> dict[str, int]:
    image = sweeper.broker.image
    return {"controller_id": image.controller_id, "controller_epoch": image.controller_epoch}


@walk(ApiKey.LEADER_AND_ISR)
async def tell_leaders(sweeper: Sweeper, version: int) -> None:
    state = leader_and_isr.LeaderAndIsrPartitionState(
        topic_name=TOPIC, partition_index=0, leader_epoch=9, isr=[0], replicas=[0]
    )
    topic = leader_and_isr.LeaderAndIsrTopicState(
        topic_name=TOPIC, topic_id=topic_id(sweeper), partition_states=[state]
    )
    where: dict[str, Any] = (
        {"topic_states": [topic]} if version >= 2 else {"ungrouped_partition_states": [state]}
    )
    answer = await sweeper.ask(leader_and_isr.LeaderAndIsrRequest(**_sender(sweeper), **where), version)
    assert answer.error_code == ErrorCode.NONE
    assert ErrorCode.STALE_CONTROLLER_EPOCH in error_codes(answer)


@walk(ApiKey.STOP_REPLICA)
async def stop(sweeper: Sweeper, version: int) -> None:
    if version == 0:
        old = stop_replica.StopReplicaPartitionV0(topic_name=TOPIC, partition_index=1)
        where: dict[str, Any] = {"ungrouped_partitions": [old]}
    elif version <= 2:
        where = {"topics": [stop_replica.StopReplicaTopicV1(name=TOPIC, partition_indexes=[1])]}
    else:
        state = stop_replica.StopReplicaPartitionState(partition_index=1, delete_partition=True)
        where = {
            "topic_states": [stop_replica.StopReplicaTopicState(topic_name=TOPIC, partition_states=[state])]
        }
    answer = await sweeper.ask(stop_replica.StopReplicaRequest(**_sender(sweeper), **where), version)
    assert error_codes(answer) == [ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH]
    assert sweeper.broker.replicas.get(TOPIC, 1).log.log_end_offset == 5


@walk(ApiKey.UPDATE_METADATA)
async def tell_metadata(sweeper: Sweeper, version: int) -> None:
    await fine(sweeper, UpdateMetadataRequest(**_sender(sweeper)), version)
    answer = await sweeper.ask(UpdateMetadataRequest(controller_id=7, controller_epoch=99), version)
    assert error_codes(answer) == [ErrorCode.STALE_CONTROLLER_EPOCH]


@walk(ApiKey.CONTROLLED_SHUTDOWN)
async def leave_the_cluster(sweeper: Sweeper, version: int) -> None:
    own = sweeper.broker.broker_id
    answer = await fine(sweeper, controlled_shutdown.ControlledShutdownRequest(broker_id=own), version)
    assert answer.remaining_partitions == []


@walk(ApiKey.ALTER_PARTITION)
async def change_the_isr(sweeper: Sweeper, version: int) -> None:
    broker = sweeper.broker
    own, known = broker.broker_id, broker.image.topics[TOPIC].partitions[0]
    members: dict[str, Any] = (
        {"new_isr": [own]}
        if version < 3
        else {"new_isr_with_epochs": [alter_partition.BrokerState(broker_id=own)]}
    )
    partition = alter_partition.PartitionData(
        partition_index=0, leader_epoch=known.leader_epoch, partition_epoch=known.partition_epoch, **members
    )
    topic = alter_partition.TopicData(topic_name=TOPIC, partitions=[partition])
    if version >= 2:
        topic.topic_id = topic_id(sweeper)
    request = alter_partition.AlterPartitionRequest(
        broker_id=own, broker_epoch=broker.controller.broker_epoch, topics=[topic]
    )
    answer = await fine(sweeper, request, version)
    (changed,) = answer.topics[0].partitions
    assert (changed.leader_id, changed.isr) == (own, [own])
    request.broker_epoch -= 1
    assert error_codes(await sweeper.ask(request, version)) == [ErrorCode.STALE_BROKER_EPOCH]
