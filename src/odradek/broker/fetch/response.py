# compiled: mypyc
"""The form of a Fetch response, filled with what has been read of partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.broker.metadata.leader_hints import LeaderHints
from odradek.broker.metrics.applications import Positions
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from odradek.broker.fetch.sessions import FetchedPartition
    from odradek.broker.requests.context import RequestContext

_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def error_answer(index: int, code: ErrorCode, version: int) -> PartitionData:
    """That a partition cannot be read."""
    if code == ErrorCode.KAFKA_STORAGE_ERROR and version <= 5:
        # Clients from before KIP-112 do not know the code; this one makes them look for the leader and try
        # again. Kafka: `KafkaApis.maybeDownConvertStorageError`.
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return PartitionData(
        partition_index=index,
        error_code=int(code),
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )


class ResponseForm:
    """A response into which answers are put, topic by topic, and counted."""

    __slots__ = ("_by_topic", "_context", "_follower", "_hints", "_response")

    def __init__(
        self, context: RequestContext, error: ErrorCode, session_id: int, follower: int = -1
    ) -> None:
        """
        Args:
            context: of the request.
            error, session_id: of the response.
            follower: the broker id of who copies; -1 for a consumer.
        """
        self._follower = follower
        self._response = FetchResponse(session_id=session_id, responses=[])
        if error is not ErrorCode.NONE:
            self._response.error_code = int(error)
            context.has_errors = True
        self._context = context
        self._by_topic: dict[bytes | str | None, FetchableTopicResponse] = {}
        """By id from version 13 on, before by name. Answers of one topic may come apart, because a session's
        order is not that of topics."""
        self._hints: LeaderHints | None = None
        """Made by the first answer that says who leads."""

    def add(self, answers: Iterable[tuple[FetchedPartition, PartitionData]]) -> None:
        """Put some answers behind those that are there."""
        version = self._context.api_version
        by_topic, metrics = self._by_topic, self._context.broker.metrics.topics
        name: bytes | str | None = None
        topic: FetchableTopicResponse | None = None
        for partition, answer in answers:
            named = partition.topic_id if version >= 13 else partition.topic
            if topic is None or named != name:
                name, topic = named, by_topic.get(named)
                if topic is None:
                    topic = by_topic[named] = FetchableTopicResponse(
                        topic=partition.topic or "", topic_id=partition.topic_id, partitions=[]
                    )
                    self._response.responses.append(topic)
            topic.partitions.append(answer)
            if answer.records and partition.topic is not None:
                size = len(answer.records)
                if self._follower >= 0:
                    self._count_copied(partition, size)
                    continue
                metrics.of(partition.topic).bytes_out += size
                metrics.all.bytes_out += size
                self._count_for_application(partition, partition.topic, size)
            elif answer.error_code:
                self._context.has_errors = True
                if version >= 16 and answer.error_code in _LEADER_ERRORS and partition.topic is not None:
                    self._add_leader(partition.topic, answer)

    def _count_for_application(self, partition: FetchedPartition, topic: str, size: int) -> None:
        peer = self._context.peer
        application = peer.application
        if application is None:
            return
        positions = peer.positions
        if positions is None:
            positions = peer.positions = Positions()
        wanted = partition.fetch_partition
        records = positions.read_at((topic, wanted.partition), wanted.fetch_offset, size)
        application.count_consumed(topic, records, size, self._context.now_ms)

    def _count_copied(self, partition: FetchedPartition, size: int) -> None:
        """Count what a follower gets, in sync or not; where it is throttled, for the throttle as well."""
        broker, replica = self._context.broker, partition.replica
        metrics, quota = broker.metrics.replication, broker.replicas.quotas.leader
        metrics.bytes_out += size
        if replica is None:
            return
        if self._follower in replica.adding:
            metrics.reassignment_bytes_out += size
        if quota.is_throttled(replica.key):
            quota.record(size)

    def _add_leader(self, topic: str, answer: PartitionData) -> None:
        """Tell who leads the partition now (KIP-951)."""
        if self._hints is None:
            self._hints = LeaderHints(self._context.broker.image, self._context.listener_name)
        leader_id, epoch = self._hints.leader(topic, answer.partition_index)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)

    def whole(self) -> FetchResponse:
        """The response, when all answers are in it."""
        if self._hints is not None:
            self._response.node_endpoints = [NodeEndpoint(**endpoint) for endpoint in self._hints.endpoints()]
        return self._response
