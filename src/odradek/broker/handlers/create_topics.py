"""CreateTopics 0-7: create topics, or with `validate_only` (1+) say whether they could be.

- -1 partitions or replicas mean the broker's defaults (in every version; clients send it from 4 on, KIP-464).
- A topic named twice, or the metadata log's name: INVALID_REQUEST; one that may not be created:
  TOPIC_AUTHORIZATION_FAILED. The answer has its topics in the order in which controllers say so.
- Otherwise each topic for itself: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
  INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, POLICY_VIOLATION (too many
  partitions at once), NOT_CONTROLLER.
- From 5 on the answer has the topic's size and configs, if these may be described (KIP-525); its id from 7
  on; with `validate_only` one that no topic has, and none as a release with ZooKeeper.
- Topics exist and have leaders when the answer goes out. In a cluster of several brokers the answer waits
  until this one has heard of them, for `timeout_ms` at most; REQUEST_TIMED_OUT says that it has not. Alone
  it has nothing to wait for.
- Who has too much changed is refused from version 6 on, THROTTLING_QUOTA_EXCEEDED, and waits before: KIP-599.
- A manual assignment names brokers that are there, and no partition twice: INVALID_REPLICA_ASSIGNMENT. As a
  release with ZooKeeper the broker takes others, too, and the last of two assignments; where a partition then
  has no leader, the topic exists and the answer is REQUEST_TIMED_OUT, without the wait for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.config.changes import is_before
from odradek.broker.config.description import describe_topic_configs
from odradek.broker.config.effect import warn_of_change
from odradek.broker.event_loop.slices import Steps, begin, wait
from odradek.broker.metadata.controller_thread import on_controller_thread
from odradek.broker.metadata.waits import lacks_leaders, wait_for_leaders
from odradek.broker.quotas.mutations import mutation_quota, throttle_mutations
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.controller.topics import CLUSTER_METADATA_TOPIC
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.broker.quotas.controller_mutation_quota_manager import ControllerMutationQuota
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused
    from odradek.cluster.controller.decisions import PlannedTopic

_LISTS_TWICE_FROM = "2.4"


def _error_response(refused: Refused[CreateTopicsRequest]) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            _failed(name, refused.error, refused.message)
            for name in dict.fromkeys(t.name for t in refused.request.topics)
        ]
    )


@handler(ApiKey.CREATE_TOPICS, versions=range(8), error_response=_error_response)
def handle(
    context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse | Steps[CreateTopicsResponse]:
    """Create what can be created, and wait until it is known here."""
    return begin(_create_and_wait(context, request))


def _create_and_wait(context: RequestContext, request: CreateTopicsRequest) -> Steps[CreateTopicsResponse]:
    broker = context.broker
    counts: dict[str, int] = {}
    quota = mutation_quota(context, strict_from=6)
    response: CreateTopicsResponse = yield from wait(_create(context, request, counts, quota))
    yield from wait_for_leaders(broker, counts, request.timeout_ms)
    for topic in response.topics:
        if topic.name in counts and lacks_leaders(broker, topic.name, counts[topic.name]):
            topic.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
    throttle_mutations(context, quota, response)
    return response


@on_controller_thread
def _create(
    context: RequestContext,
    request: CreateTopicsRequest,
    counts: dict[str, int],
    quota: ControllerMutationQuota | None,
) -> CreateTopicsResponse:
    """Create what can be created; what has been goes to `counts`, with the number of its partitions."""
    context.broker.controller.check_active()
    with_zookeeper = context.broker.handlers.with_zookeeper
    results, new_topics = _sort_out(context, request.topics)
    if with_zookeeper and context.api_version >= 5:
        _hide_configs(context, results)
    try:
        outcomes = context.broker.controller.create_topics(
            new_topics,
            request.validate_only,
            unknown_brokers=with_zookeeper,
            admit=None if quota is None else quota.record,
        )
    except KafkaError as error:
        outcomes = [error for _ in new_topics]
    for new, outcome in zip(new_topics, outcomes, strict=True):
        if isinstance(outcome, KafkaError):
            results[new.name] = _failed(new.name, outcome.code, outcome.message)
        elif with_zookeeper and not request.validate_only and _has_no_leader(context, outcome):
            results[new.name] = _failed(new.name, ErrorCode.REQUEST_TIMED_OUT, None)
        else:
            results[new.name] = _created(context, outcome, request.validate_only)
            if not request.validate_only:
                counts[new.name] = len(outcome.assignment)
                warn_of_change(f"topics/{new.name}", {}, outcome.configs)
    return CreateTopicsResponse(topics=_in_kafkas_order(context, request, results))


def _in_kafkas_order(
    context: RequestContext, request: CreateTopicsRequest, results: Mapping[str, CreatableTopicResult | None]
) -> list[CreatableTopicResult]:
    """Return the results as a controller lists them.

    KRaft's lists what it has looked at, then names that came twice, then those that may not be created. One
    on ZooKeeper lists them as the request does; from 2.4 on a name that came twice as often as it did.
    """
    names = [topic.name for topic in request.topics]
    if not context.broker.handlers.with_zookeeper:
        times = Counter(names)
        names = sorted(results, key=lambda name: 1 if times[name] > 1 else 2 * _is_refused(results[name]))
    elif is_before(context, _LISTS_TWICE_FROM):
        names = list(results)
    return [result for name in names if (result := results[name]) is not None]


def _is_refused(result: CreatableTopicResult | None) -> bool:
    """Return whether a topic may not be created by whoever asks, whatever else there is to say of it."""
    return result is not None and (
        result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED or result.name == CLUSTER_METADATA_TOPIC
    )


def _sort_out(
    context: RequestContext, topics: Sequence[CreatableTopic]
) -> tuple[dict[str, CreatableTopicResult | None], list[NewTopic]]:
    """Tell what is refused before the controller is asked.

    Returns:
        By name, in the request's order, the refusals, None for the others; and these others.
    """
    with_zookeeper = context.broker.handlers.with_zookeeper
    times = Counter(topic.name for topic in topics)
    may_create_any = context.authorize(Operation.CREATE, CLUSTER, log_if_denied=False)
    results: dict[str, CreatableTopicResult | None] = {}
    new_topics: list[NewTopic] = []
    for topic in topics:
        name = topic.name
        if name in results:
            continue
        if name == CLUSTER_METADATA_TOPIC and (with_zookeeper or times[name] == 1):
            results[name] = _failed(
                name, ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
            )
        elif times[name] > 1:
            message = "Found multiple entries for this topic." if with_zookeeper else "Duplicate topic name."
            results[name] = _failed(name, ErrorCode.INVALID_REQUEST, message)
        elif not may_create_any and not context.authorize(Operation.CREATE, topic_resource(name)):
            results[name] = _failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
        elif not with_zookeeper and (twice := _assigned_twice(topic)) is not None:
            results[name] = _failed(
                name,
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {twice}",
            )
        else:
            results[name] = None
            new_topics.append(_new_topic(topic))
    return results, new_topics


def _hide_configs(context: RequestContext, results: Mapping[str, CreatableTopicResult | None]) -> None:
    """Say of refused topics, too, that their configs are not shown, as a controller on ZooKeeper does."""
    for refused in results.values():
        if refused is None or refused.name == CLUSTER_METADATA_TOPIC:
            continue
        if not _shows_configs(context, refused.name):
            refused.topic_config_error_code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _assigned_twice(topic: CreatableTopic) -> int | None:
    times = Counter(assignment.partition_index for assignment in topic.assignments)
    return next((index for index, count in times.items() if count > 1), None)


def _has_no_leader(context: RequestContext, topic: PlannedTopic) -> bool:
    live = context.broker.controller.image.brokers
    return any(live.keys().isdisjoint(replicas) for replicas in topic.assignment.values())


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {a.partition_index: tuple(a.broker_ids) for a in topic.assignments},
        {config.name: config.value for config in topic.configs},
    )


def _failed(name: str, error: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=int(error), error_message=message, configs=[])


def _shows_configs(context: RequestContext, name: str) -> bool:
    return context.authorize(Operation.DESCRIBE_CONFIGS, topic_resource(name), log_if_denied=False)


def _created(context: RequestContext, topic: PlannedTopic, validate_only: bool) -> CreatableTopicResult:
    # With KRaft a topic has its id before it is known whether it is to be made.
    has_id = not validate_only or not context.broker.handlers.with_zookeeper
    result = CreatableTopicResult(
        name=topic.name, topic_id=topic.topic_id if has_id else ZERO_UUID, error_message=None
    )
    if context.api_version < 5:
        return result
    if not _shows_configs(context, topic.name):
        result.topic_config_error_code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        result.configs = []
        return result
    result.num_partitions = len(topic.assignment)
    result.replication_factor = len(topic.assignment[0])
    entries = describe_topic_configs(context.broker.config, topic.configs)
    if not context.broker.handlers.with_zookeeper:
        entries.sort(key=lambda entry: entry.name)
    result.configs = [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=int(entry.source),
            is_sensitive=entry.sensitive,
        )
        for entry in entries
    ]
    return result
