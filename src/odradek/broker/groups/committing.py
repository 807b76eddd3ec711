"""The steps of OffsetCommit and TxnOffsetCommit before and after the coordinator.

Partitions that cannot be committed are refused by themselves, and their answers come with the others'. What
is left goes to the coordinator in pieces of at most `PARTITIONS_AT_ONCE` partitions, each a command and a
batch of its own, so that a long commit does not hold the event loop. Kafka writes one batch; here a commit of
more partitions than that may succeed for some of them and fail for others, each of which is told.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar, overload

from odradek.broker.event_loop.slices import Steps, wait
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.broker.requests.untold import is_untold
from odradek.coordinators.groups.commit_answers import PartitionError, answer_topic
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponseTopic,
)
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext

ResponseTopic = TypeVar("ResponseTopic", OffsetCommitResponseTopic, TxnOffsetCommitResponseTopic)
Request = TypeVar("Request", OffsetCommitRequest, TxnOffsetCommitRequest)

PARTITIONS_AT_ONCE = 50
"""Partitions that one command of the coordinator commits: some 2 ms of work."""


@overload
def take_refused(
    context: RequestContext, topics: list[OffsetCommitRequestTopic], *, by_id: bool
) -> Steps[list[OffsetCommitResponseTopic]]: ...


@overload
def take_refused(
    context: RequestContext, topics: list[TxnOffsetCommitRequestTopic], *, by_id: bool
) -> Steps[list[TxnOffsetCommitResponseTopic]]: ...


def take_refused(context: RequestContext, topics: list[Any], *, by_id: bool) -> Steps[list[Any]]:
    """Take the partitions that cannot be committed out of `topics`, and topics that have no others.

    Args:
        context: of the request.
        topics: a request's; they have their names afterwards.
        by_id: whether the request names topics by id.

    Returns:
        What is answered of those partitions.
    """
    refused = []
    for topic in topics:
        error, there = _look(context, topic, by_id)
        valid: list[Any] = []
        left: list[PartitionError] = []
        for partition in topic.partitions:
            if partition.partition_index in there:
                valid.append(partition)
            else:
                left.append((partition.partition_index, error))
            yield
        if left:
            refused.append(answer_topic(topic, left))
        topic.partitions = valid
        yield
    topics[:] = [topic for topic in topics if topic.partitions]
    return refused


def _look(context: RequestContext, topic: Any, by_id: bool) -> tuple[ErrorCode, Container[int]]:
    """The partitions that can be committed, and what is said of others."""
    if is_untold(context.broker):
        # It coordinates nothing either: of that it is told after all topics.
        return ErrorCode.NOT_COORDINATOR, ()
    image = context.broker.image
    if by_id:
        topic.name = image.topic_name(topic.topic_id) or ""
        if not topic.name:
            return ErrorCode.UNKNOWN_TOPIC_ID, ()
    if not context.authorize(Operation.READ, topic_resource(topic.name)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, ()
    topic_image = image.topic(topic.name)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic_image.partitions if topic_image is not None else ()


def commit_in_pieces(
    request: Request, commit: Callable[[Request], Any | Promise[Any]], refused: list[ResponseTopic]
) -> Steps[list[ResponseTopic]]:
    """Commit what a request names, piece by piece.

    Args:
        request: what is left of it.
        commit: commits a request, and returns the response or a promise of it.
        refused: what is answered of the partitions that were taken out.

    Returns:
        What is answered of all topics.
    """
    answered: list[ResponseTopic] = []
    for topics, goes_on in pieces(request.topics):
        piece = request
        if topics is not request.topics:
            piece = copy(request)
            piece.topics = topics
        response = yield from wait(commit(piece))
        new = response.topics
        if goes_on and new:
            answered[-1].partitions += new[0].partitions
            new = new[1:]
        answered += new
        yield
    return (yield from _merge(refused, answered))


def pieces(topics: list[Any]) -> Iterator[tuple[list[Any], bool]]:
    """Topics with about `PARTITIONS_AT_ONCE` partitions together, and whether the first of them goes on
    with the partitions of the last one before."""
    if len(topics) + sum(len(topic.partitions) for topic in topics) <= PARTITIONS_AT_ONCE:
        yield topics, False
        return
    piece: list[Any] = []
    room, goes_on = PARTITIONS_AT_ONCE, False
    for topic in topics:
        at = 0
        while at < len(topic.partitions):
            part = copy(topic)
            part.partitions = topic.partitions[at : at + room]
            at += len(part.partitions)
            room -= len(part.partitions)
            piece.append(part)
            if not room:
                yield piece, goes_on
                piece, room, goes_on = [], PARTITIONS_AT_ONCE, at < len(topic.partitions)
    if piece:
        yield piece, goes_on


def _merge(refused: list[ResponseTopic], answered: list[ResponseTopic]) -> Steps[list[ResponseTopic]]:
    """Both in one list, in Kafka's order: what was refused beforehand comes first."""
    if not refused:
        return answered
    by_topic: dict[tuple[str, bytes], ResponseTopic] = {}
    for topic in refused:
        by_topic[topic.name, topic.topic_id] = topic
        yield
    merged = list(refused)
    for topic in answered:
        present = by_topic.get((topic.name, topic.topic_id))
        if present is None:
            merged.append(topic)
        else:
            present.partitions += topic.partitions
        yield
    return merged
