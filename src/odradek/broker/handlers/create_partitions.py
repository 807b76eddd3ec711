"""CreatePartitions 0-3: give topics more partitions (KIP-195), or with `validate_only` say whether they could
have them.

A topic named twice: INVALID_REQUEST. Otherwise each for itself: UNKNOWN_TOPIC_OR_PARTITION,
INVALID_TOPIC_EXCEPTION (being deleted), INVALID_PARTITIONS (not more than it has),
INVALID_REPLICA_ASSIGNMENT, REASSIGNMENT_IN_PROGRESS, INVALID_REPLICATION_FACTOR, NOT_CONTROLLER; from
version 3 on THROTTLING_QUOTA_EXCEEDED, in place of which older clients wait (KIP-599).

In a cluster of several brokers the answer waits until this one has heard of the partitions and their leaders,
for `timeout_ms` at most: then REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, begin, wait
from odradek.broker.metadata.controller_thread import on_controller_thread
from odradek.broker.metadata.waits import lacks_leaders, wait_for_leaders
from odradek.broker.quotas.mutations import mutation_quota, throttle_mutations
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from odradek.broker.quotas.controller_mutation_quota_manager import ControllerMutationQuota
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused


def _error_response(refused: Refused[CreatePartitionsRequest]) -> CreatePartitionsResponse:
    names = dict.fromkeys(topic.name for topic in refused.request.topics)
    return CreatePartitionsResponse(results=[_failed(name, refused.error, refused.message) for name in names])


@handler(ApiKey.CREATE_PARTITIONS, versions=range(4), error_response=_error_response)
def handle(
    context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse | Steps[CreatePartitionsResponse]:
    """Add what can be added, and wait until it is known here."""
    return begin(_add_and_wait(context, request))


def _add_and_wait(
    context: RequestContext, request: CreatePartitionsRequest
) -> Steps[CreatePartitionsResponse]:
    broker = context.broker
    quota = mutation_quota(context, strict_from=3)
    response: CreatePartitionsResponse = yield from wait(_add_all(context, request, quota))
    if request.validate_only:
        return response
    added = {result.name for result in response.results if not result.error_code}
    counts = {topic.name: topic.count for topic in request.topics if topic.name in added}
    yield from wait_for_leaders(broker, counts, request.timeout_ms)
    for result in response.results:
        if result.name in counts and lacks_leaders(broker, result.name, counts[result.name]):
            result.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
    throttle_mutations(context, quota, response)
    return response


@on_controller_thread
def _add_all(
    context: RequestContext, request: CreatePartitionsRequest, quota: ControllerMutationQuota | None
) -> CreatePartitionsResponse:
    context.broker.controller.check_active()
    times = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatePartitionsTopicResult] = {}
    for topic in request.topics:
        if times[topic.name] > 1:
            results[topic.name] = _failed(
                topic.name, ErrorCode.INVALID_REQUEST, "Duplicate topic in request."
            )
        elif not context.authorize(Operation.ALTER, topic_resource(topic.name)):
            results[topic.name] = _failed(
                topic.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The topic authorization is failed."
            )
        else:
            results[topic.name] = _add(context, topic, request.validate_only, quota)
    return CreatePartitionsResponse(results=list(results.values()))


def _add(
    context: RequestContext,
    topic: CreatePartitionsTopic,
    validate_only: bool,
    quota: ControllerMutationQuota | None,
) -> CreatePartitionsTopicResult:
    assignments = topic.assignments
    try:
        context.broker.controller.create_partitions(
            topic.name,
            topic.count,
            None if assignments is None else [assignment.broker_ids for assignment in assignments],
            validate_only,
            admit=None if quota is None else quota.record,
        )
    except KafkaError as error:
        return _failed(topic.name, error.code, error.message)
    return CreatePartitionsTopicResult(name=topic.name, error_code=int(ErrorCode.NONE), error_message=None)


def _failed(name: str, error: ErrorCode, message: str) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=int(error), error_message=message)
