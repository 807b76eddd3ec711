"""OffsetCommit and OffsetFetch: the requests from plain values, and what the answers say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from odradek.client.errors import left_out
from odradek.client.types import OffsetAndMetadata, TopicPartition
from odradek.errors import ErrorCode, error_for
from odradek.errors.codes import to_code
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)


def offset_fetch_request(
    group_id: str, partitions: Iterable[TopicPartition] | None, version: int, require_stable: bool
) -> OffsetFetchRequest:
    """For some partitions, or (from version 2 on) for all: None."""
    by_topic: dict[str, list[int]] = {}
    for tp in partitions or ():
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    stable = require_stable and version >= 7
    if version >= 8:
        topics = [OffsetFetchRequestTopics(name=n, partition_indexes=p) for n, p in by_topic.items()]
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(group_id=group_id, topics=None if partitions is None else topics)
            ],
            require_stable=stable,
        )
    else:
        old = [OffsetFetchRequestTopic(name=n, partition_indexes=p) for n, p in by_topic.items()]
        request = OffsetFetchRequest(
            group_id=group_id, topics=None if partitions is None else old, require_stable=stable
        )
    return request


def committed_in(
    answer: Any, version: int, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets in an answer for one group; partitions without one are left out.

    Args:
        partitions: what was asked for; None: all partitions that have an offset.

    Raises:
        KafkaError: the answer is an error, or has one for a partition, or does not name a wanted one: that
            would not have been told to have no offset.
    """
    groups = answer.groups if version >= 8 else [answer]
    if not groups:
        raise error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker did not answer for the group")
    for group in groups:
        if group.error_code:
            raise error_for(group.error_code)
    results = {
        TopicPartition(topic.name, p.partition_index): p
        for group in groups
        for topic in group.topics
        for p in topic.partitions
    }
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for tp, p in results.items():
        if version == 0 and p.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue  # nothing in ZooKeeper
        if p.error_code:
            code = to_code(p.error_code)
            raise error_for(code, f"{tp}: {code.message}")
        if p.committed_offset >= 0:
            offsets[tp] = OffsetAndMetadata(p.committed_offset, p.metadata or "", p.committed_leader_epoch)
    for problem in left_out(partitions or (), results).values():
        raise problem
    return offsets


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    generation: int = -1,
    member_id: str = "",
    group_instance_id: str | None = None,
) -> OffsetCommitRequest:
    """An OffsetCommit; without a member, for a group that has none."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for tp, committed in offsets.items():
        topics.setdefault(tp.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=p) for name, p in topics.items()],
    )


def not_committed(
    answer: Any, partitions: Iterable[TopicPartition]
) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    """Yield the partitions whose offsets an answer to OffsetCommit refuses, and with UNKNOWN_SERVER_ERROR
    those that it leaves out: nobody has said that they are committed.
    """
    codes = {
        TopicPartition(topic.name, p.partition_index): p.error_code
        for topic in answer.topics
        for p in topic.partitions
    }
    for tp, code in codes.items():
        if code:
            yield tp, to_code(code)
    for tp in left_out(partitions, codes):
        yield tp, ErrorCode.UNKNOWN_SERVER_ERROR
