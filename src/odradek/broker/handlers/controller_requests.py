"""LeaderAndIsr 0-7, StopReplica 0-4, UpdateMetadata 0-8: what a controller tells the brokers of its cluster.

A broker of a cluster of several does what it is told (`odradek.broker.membership.state_changes`). One that is
alone is its own controller and needs to be told nothing: it takes leaderships and metadata from its own
image, and nobody may give it others. So:

- a broker epoch before the present one is STALE_BROKER_EPOCH (LeaderAndIsr from 2, StopReplica from 1,
  UpdateMetadata from 5 on say one);
- any sender but the controller that the metadata store names, at its epoch, is STALE_CONTROLLER_EPOCH. Kafka
  believes in a higher epoch without asking; here the store knows better;
- what is left tells what is known already. LeaderAndIsr: STALE_CONTROLLER_EPOCH for a partition whose leader
  epoch is no news, as in Kafka, INCONSISTENT_TOPIC_ID for another topic of the same name,
  UNKNOWN_TOPIC_OR_PARTITION for one that is not assigned to this broker. StopReplica: FENCED_LEADER_EPOCH for
  a partition that is, nothing to be done for any other. UpdateMetadata: no error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.membership.control_messages import (
    leader_and_isr_response,
    replicas_to_stop,
    topic_states,
    update_metadata_response,
)
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.errors.codes import ErrorCode
from odradek.util.futures import then
from odradek.util.promise import Promise, promised
from odradek.wire.api import ApiKey
from odradek.wire.epochs import NO_EPOCH
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from odradek.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from odradek.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext


@handler(ApiKey.LEADER_AND_ISR, versions=range(8))
def leader_and_isr(
    context: RequestContext, request: LeaderAndIsrRequest
) -> LeaderAndIsrResponse | Promise[LeaderAndIsrResponse]:
    """Answer for each partition; a refusal as a whole is repeated for each."""
    error = _check_authorized(context, request.controller_id)
    state_changes = context.broker.state_changes
    if state_changes is not None and not error:
        return promised(state_changes.lead_or_follow(request, context.api_version))
    error = error or _check_sender(context, request)
    topics = topic_states(request, context.api_version)
    return leader_and_isr_response(topics, context.api_version, error, partial(_partition_error, context))


def _partition_error(context: RequestContext, topic: LeaderAndIsrTopicState, index: int) -> ErrorCode:
    image = context.broker.image
    partition = image.partition(topic.topic_name, index)
    if partition is None or context.broker.broker_id not in partition.replicas:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    known_id = image.topic_id(topic.topic_name)
    if ZERO_UUID not in (topic.topic_id, known_id) and topic.topic_id != known_id:
        return ErrorCode.INCONSISTENT_TOPIC_ID
    return ErrorCode.STALE_CONTROLLER_EPOCH


@handler(ApiKey.STOP_REPLICA, versions=range(5))
def stop_replica(
    context: RequestContext, request: StopReplicaRequest
) -> StopReplicaResponse | Promise[StopReplicaResponse]:
    """Stop replicas; a broker that is alone stops nothing that the metadata assigns to it."""
    error = _check_authorized(context, request.controller_id)
    if error:
        # As Kafka answers an error of this request; who is stale only is told of no partition.
        return _stopped(context, request, error, lambda _name, _index: error)
    state_changes = context.broker.state_changes
    if state_changes is not None:
        return promised(state_changes.stop_replicas(request, context.api_version))
    error = _check_sender(context, request)
    if error:
        return StopReplicaResponse(error_code=int(error), partition_errors=[])
    image, own = context.broker.image, context.broker.broker_id

    def fenced(name: str, index: int) -> ErrorCode:
        partition = image.partition(name, index)
        assigned = partition is not None and own in partition.replicas
        return ErrorCode.FENCED_LEADER_EPOCH if assigned else ErrorCode.NONE

    return _stopped(context, request, ErrorCode.NONE, fenced)


def _stopped(
    context: RequestContext,
    request: StopReplicaRequest,
    error: ErrorCode,
    error_of: Callable[[str, int], ErrorCode],
) -> StopReplicaResponse:
    return StopReplicaResponse(
        error_code=int(error),
        partition_errors=[
            StopReplicaPartitionError(
                topic_name=name, partition_index=index, error_code=int(error_of(name, index))
            )
            for name, index, _, _ in replicas_to_stop(request, context.api_version)
        ],
    )


@handler(ApiKey.UPDATE_METADATA, versions=range(9))
def update_metadata(
    context: RequestContext, request: UpdateMetadataRequest
) -> UpdateMetadataResponse | Promise[UpdateMetadataResponse]:
    """Take note of the cluster, of which a broker that is alone knows all."""
    error = _check_authorized(context, request.controller_id)
    state_changes = context.broker.state_changes
    if not error and state_changes is not None:
        outcome = state_changes.update_metadata(request, context.api_version)
        if isinstance(outcome, asyncio.Future):
            return promised(then(outcome, update_metadata_response))
        error = outcome
    elif not error:
        error = _check_sender(context, request)
    return update_metadata_response(error)


def _check_authorized(context: RequestContext, controller_id: int) -> ErrorCode:
    if not context.authorize(Operation.CLUSTER_ACTION, CLUSTER):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if context.broker.channels is not None:
        context.broker.channels.presence.note(controller_id, context.peer)
    return ErrorCode.NONE


def _check_sender(
    context: RequestContext, request: LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
) -> ErrorCode:
    image = context.broker.controller.image
    own = image.brokers.get(context.broker.broker_id)
    if request.broker_epoch != NO_EPOCH and own is not None and request.broker_epoch < own.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if (request.controller_id, request.controller_epoch) != (image.controller_id, image.controller_epoch):
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return ErrorCode.NONE
