"""Answers to OffsetCommit and TxnOffsetCommit, which say the same in messages of different names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, overload

from odradek.errors import ErrorCode
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

PartitionError = tuple[int, ErrorCode]
"""A partition's index, and what is said of it."""


@overload
def answer_topic(
    topic: OffsetCommitRequestTopic, errors: Iterable[PartitionError]
) -> OffsetCommitResponseTopic: ...


@overload
def answer_topic(
    topic: TxnOffsetCommitRequestTopic, errors: Iterable[PartitionError]
) -> TxnOffsetCommitResponseTopic: ...


def answer_topic(topic: Any, errors: Iterable[PartitionError]) -> Any:
    """The answer about a topic's partitions: an error of each, NONE among them."""
    answer: Any = OffsetCommitResponseTopic
    partition: Any = OffsetCommitResponsePartition
    if isinstance(topic, TxnOffsetCommitRequestTopic):
        answer, partition = TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition
    return answer(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[partition(partition_index=index, error_code=error) for index, error in errors],
    )


def commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """An OffsetCommit response that says `error` of every partition."""
    return OffsetCommitResponse(topics=[answer_topic(topic, _all(topic, error)) for topic in request.topics])


def transactional_commit_error(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """A TxnOffsetCommit response that says `error` of every partition."""
    return TxnOffsetCommitResponse(
        topics=[answer_topic(topic, _all(topic, error)) for topic in request.topics]
    )


def _all(
    topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic, error: ErrorCode
) -> list[PartitionError]:
    return [(partition.partition_index, error) for partition in topic.partitions]
