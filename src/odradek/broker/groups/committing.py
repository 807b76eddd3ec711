"""What OffsetCommit and TxnOffsetCommit do alike before and after the coordinator: partitions that cannot be
committed are refused by themselves, and their answers come with those of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from odradek.broker.authorization import Operation
from odradek.broker.authorization import topic as topic_resource
from odradek.coordinators.groups.commit_answers import answer_topic
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.offset_commit import OffsetCommitRequestTopic, OffsetCommitResponseTopic
from odradek.wire.messages.txn_offset_commit import TxnOffsetCommitRequestTopic, TxnOffsetCommitResponseTopic

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext

ResponseTopic = TypeVar("ResponseTopic", OffsetCommitResponseTopic, TxnOffsetCommitResponseTopic)


@overload
def take_refused(
    context: RequestContext, topics: list[OffsetCommitRequestTopic], *, by_id: bool
) -> list[OffsetCommitResponseTopic]: ...


@overload
def take_refused(
    context: RequestContext, topics: list[TxnOffsetCommitRequestTopic], *, by_id: bool
) -> list[TxnOffsetCommitResponseTopic]: ...


def take_refused(context: RequestContext, topics: list[Any], *, by_id: bool) -> list[Any]:
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
        error, valid = _look(context, topic, by_id)
        if len(valid) < len(topic.partitions):
            known = {one.partition_index for one in valid}
            left = [one.partition_index for one in topic.partitions if one.partition_index not in known]
            refused.append(answer_topic(topic, [(index, error) for index in left]))
        topic.partitions = valid
    topics[:] = [topic for topic in topics if topic.partitions]
    return refused


def _look(context: RequestContext, topic: Any, by_id: bool) -> tuple[ErrorCode, list[Any]]:
    """The partitions that can be committed, and what is said of the others."""
    image = context.broker.image
    if by_id:
        topic.name = image.topic_name(topic.topic_id) or ""
        if not topic.name:
            return ErrorCode.UNKNOWN_TOPIC_ID, []
    if not context.authorize(Operation.READ, topic_resource(topic.name)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, []
    found = image.topic(topic.name)
    there = found.partitions if found is not None else {}
    return (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        [one for one in topic.partitions if one.partition_index in there],
    )


def merge(refused: list[ResponseTopic], answered: list[ResponseTopic]) -> list[ResponseTopic]:
    """Both in one list, in Kafka's order: what was refused beforehand comes first."""
    if not refused:
        return answered
    by_topic = {(topic.name, topic.topic_id): topic for topic in refused}
    merged = list(refused)
    for topic in answered:
        present = by_topic.get((topic.name, topic.topic_id))
        if present is None:
            merged.append(topic)
        else:
            present.partitions += topic.partitions
    return merged
