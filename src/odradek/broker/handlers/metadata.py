"""Metadata 0-13: the brokers, the topics, and who leads their partitions.

- All topics: version 0 an empty list, from version 1 on null; an empty list then asks for no topic.
- Unknown topics are created if the request (4+) and `auto.create.topics.enable` allow it, and answered with
  LEADER_NOT_AVAILABLE; otherwise UNKNOWN_TOPIC_OR_PARTITION, or INVALID_TOPIC_EXCEPTION for what is no name.
- By id from version 12 on: UNKNOWN_TOPIC_ID. Before that an id or a null name is INVALID_REQUEST.
- A partition without a leader has LEADER_NOT_AVAILABLE and leader -1; one whose leader lacks the listener
  that the request came in by has LISTENER_NOT_FOUND from version 6 on. In version 0 a dead replica means
  REPLICA_NOT_AVAILABLE and is left out.
- A broker of a cluster of several that is not told of all topics within 10 s of a request knows of no brokers
  and no topics; what is asked for by name or id is LEADER_NOT_AVAILABLE: nobody is to take it for deleted.
- Allowed operations (8+; of the cluster 8-10 only) when asked for, else -2147483648.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import AT_ONCE, Steps, begin, wait
from odradek.broker.metadata.auto_creation import MAX_TOPICS_AT_ONCE
from odradek.broker.metadata.remote_creation import have_created
from odradek.broker.metadata.waits import wait_for_cluster
from odradek.broker.quotas.mutations import mutation_quota
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.broker.requests.untold import is_untold
from odradek.cluster.controller import topics as topic_rules
from odradek.errors import InvalidRequestError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused
    from odradek.cluster.image import ClusterImage, TopicImage

_BY_ID_FROM = 12


def _error_response(refused: Refused[MetadataRequest]) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            _failed(
                refused.error, topic.name or ("" if refused.version < _BY_ID_FROM else None), topic.topic_id
            )
            for topic in refused.request.topics or []
        ],
        error_code=int(refused.error) if refused.version >= 13 else 0,
    )


@handler(ApiKey.METADATA, versions=range(14), error_response=_error_response)
def handle(context: RequestContext, request: MetadataRequest) -> MetadataResponse | Steps[MetadataResponse]:
    """Describe the cluster as this broker knows it."""
    return begin(_answer(context, request))


def _answer(context: RequestContext, request: MetadataRequest) -> Steps[MetadataResponse]:
    yield from wait_for_cluster(context.broker)
    if is_untold(context.broker):
        return (yield from _untold(context, request))
    image = context.broker.image
    version = context.api_version
    requested_topics = request.topics
    missing: list[str] = []
    topics: list[MetadataResponseTopic] = []
    if requested_topics is None or (version == 0 and not requested_topics):
        for number, (name, topic) in enumerate(tuple(image.topics.items()), 1):
            if name not in image.marked and context.authorize(
                Operation.DESCRIBE, topic_resource(name), log_if_denied=False
            ):
                topics.append((yield from _describe(context, image, topic)))
            if not number % AT_ONCE:
                yield
    else:
        ids, names = yield from _asked_for(requested_topics, version)
        for number, topic_id in enumerate(ids, 1):
            topics.append((yield from _by_id(context, image, topic_id)))
            if not number % AT_ONCE:
                yield
        # Ids are stronger.
        may_create = request.allow_auto_topic_creation and context.broker.config.auto_create_topics_enable
        for number, topic_name in enumerate(names if not ids else (), 1):
            topics.append((yield from _by_name(context, image, topic_name, may_create, missing)))
            if not number % AT_ONCE:
                yield
    if missing:
        yield from _create(context, missing, topics)
    return (yield from _respond(context, request, image, topics))


def _untold(context: RequestContext, request: MetadataRequest) -> Steps[MetadataResponse]:
    """Say nothing that a client could take for an answer."""
    ids, names = yield from _asked_for(request.topics or (), context.api_version)
    later = ErrorCode.LEADER_NOT_AVAILABLE
    topics = [_failed(later, None, topic_id) for topic_id in ids]
    topics += [_failed(later, name) for name in (names if not ids else ())]
    return MetadataResponse(
        brokers=[], cluster_id=context.broker.image.cluster_id, controller_id=-1, topics=topics
    )


def _create(
    context: RequestContext, missing: list[str], topics: Iterable[MetadataResponseTopic]
) -> Steps[None]:
    """Create topics, and say in their answers what came of it."""
    # The controller may have created them by the time that it is this one's turn; that is no error.
    # What comes into being by being asked for counts, and is not refused.
    quota = mutation_quota(context, strict_from=None)
    admit = None if quota is None else quota.record
    created = yield from wait(have_created(context.broker, missing, admit))
    for answer in topics:
        if answer.name in created:
            answer.error_code = int(created[answer.name])
        yield


def _respond(
    context: RequestContext,
    request: MetadataRequest,
    image: ClusterImage,
    topics: list[MetadataResponseTopic],
) -> Steps[MetadataResponse]:
    version = context.api_version
    if request.include_topic_authorized_operations and version >= 8:
        for topic in topics:
            if topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED and topic.name is not None:
                topic.topic_authorized_operations = context.authorized_operations(topic_resource(topic.name))
            yield
    response = MetadataResponse(
        brokers=_brokers(context),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
    )
    if 8 <= version <= 10 and request.include_cluster_authorized_operations:
        allowed = context.authorize(Operation.DESCRIBE, CLUSTER)
        response.cluster_authorized_operations = context.authorized_operations(CLUSTER) if allowed else 0
    return response


def _asked_for(
    requested_topics: Iterable[MetadataRequestTopic], version: int
) -> Steps[tuple[dict[bytes, None], dict[str, None]]]:
    """The ids and the names of the topics that are asked for, each once."""
    ids: dict[bytes, None] = {}
    names: dict[str, None] = {}
    for number, topic in enumerate(requested_topics, 1):
        if not number % AT_ONCE:
            yield
        if version < _BY_ID_FROM:
            if topic.name is None:
                raise InvalidRequestError(f"Topic name can not be null for version {version}")
            if topic.topic_id != ZERO_UUID:
                raise InvalidRequestError(f"Topic IDs are not supported in requests for version {version}")
        if topic.topic_id != ZERO_UUID:
            ids[topic.topic_id] = None
        if topic.name is not None:
            names[topic.name] = None
    return ids, names


def _brokers(context: RequestContext) -> list[MetadataResponseBroker]:
    # The image may have moved on by an automatic creation; brokers have not.
    brokers = context.broker.image.brokers.values()
    return [
        MetadataResponseBroker(
            node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
        for broker in brokers
        if (endpoint := broker.endpoint(context.listener_name)) is not None
    ]


def _by_id(context: RequestContext, image: ClusterImage, topic_id: bytes) -> Steps[MetadataResponseTopic]:
    topic = image.topic_by_id(topic_id)
    if topic is None:
        return _failed(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    if not context.authorize(Operation.DESCRIBE, topic_resource(topic.name)):
        return _failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
    return (yield from _describe(context, image, topic))


def _by_name(
    context: RequestContext, image: ClusterImage, name: str, may_create: bool, missing: list[str]
) -> Steps[MetadataResponseTopic]:
    """Describe a topic; one that is to be created is added to `missing`, and told to be on its way."""
    resource = topic_resource(name)
    if not context.authorize(Operation.DESCRIBE, resource):
        return _hidden(name)
    topic = image.topic(name)
    if topic is not None:
        return (yield from _describe(context, image, topic))
    if (
        may_create
        and not context.authorize(Operation.CREATE, CLUSTER, log_if_denied=False)
        and not context.authorize(Operation.CREATE, resource)
    ):
        return _failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    if topic_rules.why_invalid(name) is not None:
        return _failed(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
    if not may_create or name in image.marked:
        return _failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    if len(missing) < MAX_TOPICS_AT_ONCE:
        missing.append(name)
    # The client asks again; those beyond the limit are created then.
    return _failed(ErrorCode.LEADER_NOT_AVAILABLE, name)


def _hidden(name: str) -> MetadataResponseTopic:
    """A topic of which nothing is told, not even whether it is there."""
    return MetadataResponseTopic(error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), name=name)


def _failed(error: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=int(error),
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and topic_rules.is_internal(name),
    )


def _describe(
    context: RequestContext, image: ClusterImage, topic: TopicImage
) -> Steps[MetadataResponseTopic]:
    version, listener = context.api_version, context.listener_name
    descriptions = context.broker.topic_descriptions
    partitions = descriptions.kept(image, topic.name, version, listener)
    if partitions is None:
        partitions = yield from descriptions.describe(image, topic, version, listener)
    # A tuple, for other answers have it too; it is written as a list is.
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,  # type: ignore[arg-type]
    )
