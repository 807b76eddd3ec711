"""OffsetFetch 0-10: how far groups have read.

- 0 reads the metadata store (`broker.stored_offsets`), all others the group's coordinator.
- 2 has a null list of topics for all of them, and an error on top instead of one per partition.
- 7 may ask for stable offsets only: UNSTABLE_OFFSET_COMMIT while a transaction is open (KIP-447).
- 8 asks for several groups at once (KIP-709; one that is named twice gets INVALID_REQUEST), 9 names a member
  of a server-side group, 10 has topic ids (UNKNOWN_TOPIC_ID).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from copy import copy
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.broker.event_loop.slices import Steps, count_each, each, take_all, wait
from odradek.broker.metadata.waits import wait_for_cluster
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.broker.requests.untold import unknown_topic
from odradek.cluster.store.store import StoreError
from odradek.coordinators.groups.coordinator import fetch_error
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.util.repeats import Repeats
from odradek.wire.api import ApiKey
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.broker.groups.stored_offsets import StoredOffsets
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused
    from odradek.coordinators.groups.coordinator import GroupCoordinator

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

FIRST_VERSION_WITH_ERROR_ON_TOP = 2  # KIP-88
FIRST_VERSION_WITH_SEVERAL_GROUPS = 8  # KIP-709
FIRST_VERSION_WITH_TOPIC_IDS = 10

PARTITIONS_AT_ONCE = 250
"""Partitions whose offsets the coordinator looks up before others get their turn."""


def _error_response(refused: Refused[OffsetFetchRequest]) -> OffsetFetchResponse:
    groups = take_all(_groups(refused.request, refused.version))
    return take_all(
        _response(refused.request, refused.version, [fetch_error(g.group_id, refused.error) for g in groups])
    )


@handler(ApiKey.OFFSET_FETCH, versions=range(11), error_response=_error_response)
def handle(context: RequestContext, request: OffsetFetchRequest) -> Steps[OffsetFetchResponse]:
    """Answer with the offsets once whatever is being committed has been."""
    version = context.api_version
    groups = yield from _groups(request, version)
    if version == 0:
        return (yield from _response(request, version, [(yield from _fetch_from_store(context, groups[0]))]))
    answers: list[OffsetFetchResponseGroup] = []
    times = yield from count_each(groups, attrgetter("group_id"))
    for group in groups:
        # Refused before the coordinator is asked: a request could name one large group a thousand times.
        if times[group.group_id] > 1:
            answers.append(fetch_error(group.group_id, ErrorCode.INVALID_REQUEST))
        else:
            answers.append((yield from _fetch_group(context, group, request.require_stable)))
        yield
    if not groups:
        return OffsetFetchResponse()
    return (yield from _response(request, version, answers))


def _groups(request: OffsetFetchRequest, version: int) -> Steps[list[OffsetFetchRequestGroup]]:
    """Return the groups in the form of versions that ask for several, which is all that the rest knows."""
    if version >= FIRST_VERSION_WITH_SEVERAL_GROUPS:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = yield from each(
            request.topics,
            lambda t: OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes),
        )
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def _response(
    request: OffsetFetchRequest, version: int, groups: list[OffsetFetchResponseGroup]
) -> Steps[OffsetFetchResponse]:
    if version >= FIRST_VERSION_WITH_SEVERAL_GROUPS:
        return OffsetFetchResponse(groups=groups)
    (only,) = groups
    # Without a place for the group's error it is that of each partition that was named.
    if version < FIRST_VERSION_WITH_ERROR_ON_TOP and only.error_code:
        for topic in request.topics or ():
            refused = yield from _refused(topic.name, ZERO_UUID, topic.partition_indexes, only.error_code)
            only.topics.append(refused)
    response = OffsetFetchResponse(error_code=only.error_code, topics=[])
    for topic_of_group in only.topics:
        answered = OffsetFetchResponseTopic(name=topic_of_group.name, partitions=[])
        response.topics.append(answered)
        for partition in topic_of_group.partitions:
            answered.partitions.append(
                OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
            )
            yield
        yield
    return response


def _refused(
    name: str, topic_id: bytes, partitions: list[int], error: int
) -> Steps[OffsetFetchResponseTopics]:
    failed = yield from each(partitions, lambda index: _partition(index, error))
    return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=failed)


def _partition(index: int, error: int, offset: int = -1) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=offset, metadata="", error_code=error
    )


def _fetch_group(
    context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> Steps[OffsetFetchResponseGroup]:
    if not context.authorize(Operation.DESCRIBE, group_resource(group.group_id)):
        return fetch_error(group.group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused: list[OffsetFetchResponseTopics] = []
    requested_topics: list[OffsetFetchRequestTopics] | None = None
    if group.topics is not None:
        requested_topics = []
        for topic in group.topics:
            error = _error_of(context, topic)
            if error is None:
                requested_topics.append(topic)
            else:
                refused.append(
                    (yield from _refused(topic.name, topic.topic_id, topic.partition_indexes, error))
                )
            yield
    # Asked also where no topic may be seen: the group itself may be refused.
    response = yield from _fetch_in_pieces(context, group, requested_topics, require_stable)
    if not response.error_code:
        if requested_topics is None:
            response.topics = yield from _visible(context, response.topics)
        response.topics += refused
    return response


def _fetch_in_pieces(
    context: RequestContext,
    group: OffsetFetchRequestGroup,
    requested_topics: list[OffsetFetchRequestTopics] | None,
    require_stable: bool,
) -> Steps[OffsetFetchResponseGroup]:
    """Ask the coordinator for at most `PARTITIONS_AT_ONCE` partitions at a time.

    Where no topics are named, all partitions that have an offset are asked for. The first error is the
    group's, and what was answered of it before is left out: it may be another coordinator's by now.
    """
    whole: OffsetFetchResponseGroup | None = None
    coordinator = context.broker.groups.coordinator
    try:
        pieces = _pieces(
            _committed(coordinator, group.group_id) if requested_topics is None else requested_topics
        )
    except KafkaError as error:
        return fetch_error(group.group_id, error.code)
    for topics, goes_on in pieces:
        answer: ResponseFuture[OffsetFetchResponseGroup] = ResponseFuture()
        piece = copy(group)
        piece.topics = topics
        coordinator.fetch_offsets(
            piece, answer.deliver, require_stable=require_stable, only_committed=requested_topics is None
        )
        response = yield from wait(answer.result(context.broker.loop))
        if whole is None or response.error_code:
            whole = response
        else:
            # A topic that was cut between two pieces is one topic to the client.
            if (
                goes_on
                and response.topics
                and whole.topics
                and response.topics[0].name == whole.topics[-1].name
            ):
                whole.topics[-1].partitions += response.topics.pop(0).partitions
            whole.topics += response.topics
        if response.error_code:
            break
        yield
    assert whole is not None
    return whole


def _committed(coordinator: GroupCoordinator, group_id: str) -> Iterator[OffsetFetchRequestTopics]:
    """The partitions of which a group has offsets.

    Raises:
        KafkaError: the group is not coordinated here.
    """
    return (
        OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
        for topic, indexes in coordinator.committed_partitions(group_id)
    )


def _pieces(
    requested_topics: Iterable[OffsetFetchRequestTopics],
) -> Iterator[tuple[list[OffsetFetchRequestTopics], bool]]:
    """Cut topics into pieces of at most `PARTITIONS_AT_ONCE` partitions; a topic counts as one more.

    Each piece comes with whether its first topic goes on with the last one of the piece before. Without
    topics there is one piece, which is empty: the group's errors are to be told all the same.
    """
    any_yet = False
    piece: list[OffsetFetchRequestTopics] = []
    room, goes_on = PARTITIONS_AT_ONCE, False
    for topic in requested_topics:
        indexes, at = topic.partition_indexes, 0
        while True:
            part = indexes if len(indexes) <= room else indexes[at : at + room]
            at += len(part)
            room -= len(part) + 1
            piece.append(
                OffsetFetchRequestTopics(name=topic.name, topic_id=topic.topic_id, partition_indexes=part)
            )
            if room <= 0:
                any_yet = True
                yield piece, goes_on
                piece, room, goes_on = [], PARTITIONS_AT_ONCE, at < len(indexes)
            if at >= len(indexes):
                break
    if piece or not any_yet:
        yield piece, goes_on


def _error_of(context: RequestContext, topic: OffsetFetchRequestTopics) -> ErrorCode | None:
    """Return why nothing is told of a topic; None where nothing is wrong.

    A topic that the request names by its id gets its name.
    """
    if context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        name = context.broker.image.topic_name(topic.topic_id)
        topic.name = name or ""
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
    if not context.authorize(Operation.DESCRIBE, topic_resource(topic.name)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return None


def _visible(
    context: RequestContext, topics: list[OffsetFetchResponseTopics]
) -> Steps[list[OffsetFetchResponseTopics]]:
    """Keep of all topics of a group those that the client may see and that its version can name.

    The others are left out without an error, as in Kafka: their names are not to be told.
    """
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    seen: list[OffsetFetchResponseTopics] = []
    for topic in topics:
        if context.authorize(Operation.DESCRIBE, topic_resource(topic.name)):
            # Of a topic that is deleted by now there is no id, and nothing to read any more.
            if by_id:
                topic.topic_id = context.broker.image.topic_id(topic.name)
            if not by_id or any(topic.topic_id):
                seen.append(topic)
        yield
    return seen


def _fetch_from_store(
    context: RequestContext, group: OffsetFetchRequestGroup
) -> Steps[OffsetFetchResponseGroup]:
    # Kafka: `KafkaApis.handleOffsetFetchRequestFromZookeeper`.
    yield from wait_for_cluster(context.broker)
    allowed = context.authorize(Operation.DESCRIBE, group_resource(group.group_id))
    topics = []
    for topic in group.topics or ():
        if not allowed:
            error = ErrorCode.GROUP_AUTHORIZATION_FAILED
        elif not context.authorize(Operation.DESCRIBE, topic_resource(topic.name)):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            stored = yield from _stored(context, group.group_id, topic.name, topic.partition_indexes)
            topics.append(OffsetFetchResponseTopics(name=topic.name, partitions=stored))
            continue
        topics.append((yield from _refused(topic.name, topic.topic_id, topic.partition_indexes, error)))
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _stored(
    context: RequestContext, group_id: str, topic: str, indexes: list[int]
) -> Steps[list[OffsetFetchResponsePartitions]]:
    """The offsets of a topic's partitions.

    The store is waited for in the controller's thread (docs/decisions/disk-beside-the-loop.md).
    """
    answered: list[OffsetFetchResponsePartitions] = []
    offsets, queue = context.broker.groups.stored_offsets, context.broker.controller.event_queue
    for start in range(0, len(indexes), PARTITIONS_AT_ONCE):
        some = indexes[start : start + PARTITIONS_AT_ONCE]
        image = context.broker.image
        known_indexes = [index for index in some if image.partition(topic, index) is not None]
        read = yield from wait(queue.run(partial(_read, offsets, group_id, topic, known_indexes)))
        if isinstance(read, ErrorCode):
            by_index = {index: _partition(index, read) for index in known_indexes}
        else:
            by_index = {index: _partition(index, ErrorCode.NONE, offset) for index, offset in read.items()}
        # Version 0 knows no other way to say that there is none.
        none = unknown_topic(context.broker).code
        answered += [by_index[index] if index in by_index else _partition(index, none) for index in some]
    return answered


def _read(
    offsets: StoredOffsets, group_id: str, topic: str, indexes: list[int]
) -> dict[int, int] | ErrorCode:
    try:
        return offsets.fetch(group_id, topic, indexes)
    except KafkaError as error:
        return error.code
    except StoreError as error:
        # Kafka's too: what ZooKeeper raises is no error of the protocol (`Errors.forException`).
        repeats.log(
            logging.WARNING, topic, "stored offsets not read group=%s topic=%s: %s", group_id, topic, error
        )
        return ErrorCode.UNKNOWN_SERVER_ERROR
