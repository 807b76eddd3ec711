"""DeleteTopics 0-6: delete topics by name, from version 6 on also by id (KIP-516).

With `delete.topic.enable=false` all are refused: TOPIC_DELETION_DISABLED, before version 3 INVALID_REQUEST.
An id that is not known gets UNKNOWN_TOPIC_ID, a name UNKNOWN_TOPIC_OR_PARTITION, a topic with both
INVALID_REQUEST. A topic that is deleted by its name is answered with its id, too; not as a release with
ZooKeeper, which answers what it was asked. Whoever may not describe a topic does not learn its name from its
id. Topics are gone when the answer goes out, except those with a replica on a broker that is down. In a
cluster of several brokers the answer waits for that, `timeout_ms` at most: REQUEST_TIMED_OUT for what this
broker still tells clients of.
Who has too much changed is refused from version 5 on, THROTTLING_QUOTA_EXCEEDED, and waits before (KIP-599).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, begin, wait
from odradek.broker.metadata.controller_thread import on_controller_thread
from odradek.broker.metadata.waits import is_still_there, wait_for_deletions
from odradek.broker.quotas.mutations import mutation_quota, throttle_mutations
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.errors import InvalidRequestError, KafkaError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.broker.quotas.controller_mutation_quota_manager import ControllerMutationQuota
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused


def _error_response(refused: Refused[DeleteTopicsRequest]) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            _result(topic.name, topic.topic_id, refused.error, refused.message)
            for topic in _wanted(refused.request, refused.version)
        ]
    )


@handler(ApiKey.DELETE_TOPICS, versions=range(7), error_response=_error_response)
def handle(
    context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse | Steps[DeleteTopicsResponse]:
    """Delete what can be deleted, and wait until it is gone."""
    return begin(_delete_and_wait(context, request))


def _delete_and_wait(context: RequestContext, request: DeleteTopicsRequest) -> Steps[DeleteTopicsResponse]:
    quota = mutation_quota(context, strict_from=5)
    response: DeleteTopicsResponse = yield from wait(_delete(context, request, quota))
    deleted = {result.name: result for result in response.responses if result.name and not result.error_code}
    yield from wait_for_deletions(context.broker, deleted.keys(), request.timeout_ms)
    for name, result in deleted.items():
        if is_still_there(context.broker, name):
            result.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
            result.error_message = ErrorCode.REQUEST_TIMED_OUT.message
    throttle_mutations(context, quota, response)
    return response


@on_controller_thread
def _delete(
    context: RequestContext, request: DeleteTopicsRequest, quota: ControllerMutationQuota | None
) -> DeleteTopicsResponse:
    # Who is not the controller may not have heard of a topic that there is.
    context.broker.controller.check_active()
    topics = _wanted(request, context.api_version)
    if not context.broker.config.delete_topic_enable:
        error = ErrorCode.TOPIC_DELETION_DISABLED if context.api_version >= 3 else ErrorCode.INVALID_REQUEST
        return DeleteTopicsResponse(
            responses=[_result(topic.name, topic.topic_id, error) for topic in topics]
        )
    for topic in topics:
        if topic.name is not None and topic.topic_id != ZERO_UUID:
            raise InvalidRequestError("Topic name and topic ID can not both be specified.")
    results = [_check(context, topic) for topic in topics]
    if quota is not None:
        _admit(context, results, quota)
    names = [r.name for r in results if r.error_code == ErrorCode.NONE and r.name is not None]
    errors: dict[str, KafkaError | None]
    try:
        errors = context.broker.controller.delete_topics(names)
    except KafkaError as error:
        errors = dict.fromkeys(names, error)
    for result in results:
        failure = errors.get(result.name) if result.name is not None else None
        if result.error_code == ErrorCode.NONE and failure is not None:
            result.error_code, result.error_message = int(failure.code), failure.message
    return DeleteTopicsResponse(responses=results)


def _admit(
    context: RequestContext, results: Iterable[DeletableTopicResult], quota: ControllerMutationQuota
) -> None:
    """Refuse, of the topics that could be deleted, those that the client's quota has no room for."""
    topics = context.broker.controller.image.topics
    for result in results:
        topic = topics.get(result.name or "")
        if result.error_code != ErrorCode.NONE or topic is None:
            continue
        try:
            quota.record(len(topic.partitions))
        except KafkaError as error:
            result.error_code, result.error_message = int(error.code), error.message


def _wanted(request: DeleteTopicsRequest, version: int) -> list[DeleteTopicState]:
    if version >= 6:
        return request.topics
    return [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]


def _check(context: RequestContext, topic: DeleteTopicState) -> DeletableTopicResult:
    image, topic_id = context.broker.controller.image, topic.topic_id
    name = image.topic_name(topic_id) if topic.name is None else topic.name
    if name is None:
        return _result(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
    # Both are asked of all topics, as Kafka does: whoever reads the audit log counts on it.
    may_describe = context.authorize(Operation.DESCRIBE, topic_resource(name))
    may_delete = context.authorize(Operation.DELETE, topic_resource(name))
    if topic.name is None and not may_describe:
        return _result(None, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not may_delete:
        return _result(name, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if name not in image.topics:
        return _result(name, topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.name is not None and not context.broker.handlers.with_zookeeper:
        topic_id = image.topics[name].topic_id
    return _result(name, topic_id, ErrorCode.NONE)


def _result(
    name: str | None, topic_id: bytes, error: ErrorCode, message: str | None = None
) -> DeletableTopicResult:
    if error != ErrorCode.NONE and message is None:
        message = error.message
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=int(error), error_message=message)
