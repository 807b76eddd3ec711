"""FindCoordinator 0-6: which broker coordinates a group or a transactional id.

- 1 has key types: 0 groups, 1 transactions, 2 share groups (from version 6). 4 asks for several keys at once.
- `__consumer_offsets` and `__transaction_state` are created when they are first asked for; until they have
  leaders the answer is COORDINATOR_NOT_AVAILABLE, upon which clients ask again.
- There is no coordinator of share groups, which Kafka answers with INVALID_REQUEST when they are off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, take_all, wait
from odradek.broker.metadata.remote_creation import have_internal_created
from odradek.broker.metadata.waits import wait_for_cluster
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.broker.requests.authorization import transactional_id as transactional_id_resource
from odradek.broker.requests.untold import is_untold
from odradek.coordinators.partitioner import partition_for
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from odradek.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused

FIRST_VERSION_WITH_SEVERAL_KEYS = 4
GROUP_KEY, TRANSACTION_KEY = 0, 1
_TOPICS = {GROUP_KEY: GROUP_METADATA_TOPIC, TRANSACTION_KEY: TRANSACTION_STATE_TOPIC}


class _Found(NamedTuple):
    error: ErrorCode
    message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1


def _error_response(refused: Refused[FindCoordinatorRequest]) -> FindCoordinatorResponse:
    coordinators = {
        key: _Found(refused.error, refused.message or refused.error.message)
        for key in _keys(refused.request, refused.version)
    }
    return take_all(_response(refused.request, refused.version, coordinators))


@handler(ApiKey.FIND_COORDINATOR, versions=range(7), error_response=_error_response)
def handle(context: RequestContext, request: FindCoordinatorRequest) -> Steps[FindCoordinatorResponse]:
    """Name the coordinator of each key."""
    broker = context.broker
    yield from wait_for_cluster(broker)
    topic = _TOPICS.get(request.key_type)
    if (
        topic is not None
        and not is_untold(broker)
        and broker.image.topic(topic) is None
        and any(
            _refusal(context, request.key_type, key) is None for key in _keys(request, context.api_version)
        )
    ):
        # The coordinator is to be there when the topic comes into being; what fails is said of each key.
        _ = broker.groups if request.key_type == GROUP_KEY else broker.transactions
        yield from wait(have_internal_created(broker, topic))
    coordinators: dict[str, _Found] = {}
    for key in _keys(request, context.api_version):
        coordinators[key] = _find(context, request.key_type, key)
        yield
    return (yield from _response(request, context.api_version, coordinators))


def _keys(request: FindCoordinatorRequest, version: int) -> list[str]:
    return request.coordinator_keys if version >= FIRST_VERSION_WITH_SEVERAL_KEYS else [request.key]


def _response(
    request: FindCoordinatorRequest, version: int, coordinators: dict[str, _Found]
) -> Steps[FindCoordinatorResponse]:
    if version < FIRST_VERSION_WITH_SEVERAL_KEYS:
        only = coordinators[request.key]
        # Kafka names even the absence of an error here, and from version 4 on says nothing.
        message = only.message if only.error else ErrorCode.NONE.name
        return FindCoordinatorResponse(
            error_code=only.error,
            error_message=message,
            node_id=only.node_id,
            host=only.host,
            port=only.port,
        )
    response = FindCoordinatorResponse(coordinators=[])
    for key in request.coordinator_keys:
        response.coordinators.append(
            Coordinator(
                key=key,
                node_id=coordinators[key].node_id,
                host=coordinators[key].host,
                port=coordinators[key].port,
                error_code=coordinators[key].error,
                error_message=coordinators[key].message or "",
            )
        )
        yield
    return response


def _find(context: RequestContext, key_type: int, key: str) -> _Found:
    error = _refusal(context, key_type, key)
    return _find_leader(context, _TOPICS[key_type], key) if error is None else _refused(error)


def _refusal(context: RequestContext, key_type: int, key: str) -> ErrorCode | None:
    """Return why a key's coordinator is not told."""
    if key_type == GROUP_KEY:
        allowed = context.authorize(Operation.DESCRIBE, group_resource(key))
        return None if allowed else ErrorCode.GROUP_AUTHORIZATION_FAILED
    if key_type == TRANSACTION_KEY:
        allowed = context.authorize(Operation.DESCRIBE, transactional_id_resource(key))
        return None if allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.INVALID_REQUEST


def _refused(error: ErrorCode) -> _Found:
    return _Found(error, error.message)


def _find_leader(context: RequestContext, topic_name: str, key: str) -> _Found:
    """The leader of the partition that a group or transactional id belongs to."""
    broker = context.broker
    topic = broker.image.topic(topic_name)
    if topic is None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partition = topic.partitions.get(partition_for(key, len(topic.partitions)))
    leader = None if partition is None else broker.image.brokers.get(partition.leader)
    endpoint = None if leader is None else leader.endpoint(context.listener_name)
    if leader is None or endpoint is None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _Found(ErrorCode.NONE, None, leader.broker_id, endpoint.host, endpoint.port)
