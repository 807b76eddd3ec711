"""The other side of a fetcher: what a leader answers, by the code with which brokers answer."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from odradek.broker.fetch.sessions import FetchedPartition, FetchSessionCache
from odradek.errors import KafkaError, NotLeaderOrFollowerError, UnknownTopicIdError
from odradek.replication.lookups import look_up
from odradek.replication.partition import Partition
from odradek.replication.reading import note_follower, read_partition, reader_of
from odradek.replication.replica_fetcher import NextRequest, ReplicaFetcher
from odradek.wire.api import ApiKey
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from .replicas import NOW

ID = bytes(range(16))


class LeadingBroker:
    """A broker with partitions of the topic `t`, which is asked by followers."""

    def __init__(self, partitions: Iterable[Partition], seed: int = 1) -> None:
        self.partitions = {one.index: one for one in partitions}
        self.sessions = FetchSessionCache(rng=random.Random(seed))
        self.failing: dict[int, int] = {}
        """An error code by partition."""
        self.asked: list[tuple[Any, int]] = []
        self.now_ms = NOW

    def answer(self, request: Any, version: int) -> Any:
        """What it answers, both having gone over the wire."""
        request = type(request).decode(request.encode(version), version)
        self.asked.append((request, version))
        if isinstance(request, FetchRequest):
            response: Any = self._fetch(request, version)
        elif isinstance(request, ListOffsetsRequest):
            response = self._offsets(request)
        else:
            response = self._epochs(request)
        return type(response).decode(response.encode(version), version)

    def _find(self, index: int, epoch: int, now_failing: bool = True) -> Partition:
        one = self.partitions.get(index)
        if one is None:
            raise NotLeaderOrFollowerError("not here")
        one.check_leader_epoch(epoch)
        one.require_leader()
        return one

    def _fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        by_id = version >= 13
        replica_id = request.replica_state.replica_id if version >= 15 else request.replica_id
        wanted = [
            FetchedPartition("t" if not by_id or topic.topic_id == ID else None, topic.topic_id, one)
            for topic in request.topics
            for one in topic.partitions
        ]
        forgotten: list[Any] = [
            (gone.topic_id if by_id else gone.topic, index)
            for gone in request.forgotten_topics_data
            for index in gone.partitions
        ]
        context = self.sessions.open(
            request.session_id,
            request.session_epoch,
            named_partitions=wanted,
            forgotten=forgotten,
            uses_topic_ids=by_id,
            privileged=True,
            now_ms=self.now_ms,
        )
        answers, left = [], request.max_bytes
        for one in context.partitions:
            found = self._read(one, replica_id, version, left)
            left -= len(found.records or b"")
            answers.append((one, found))
        error, session_id, chosen = self.sessions.finish(context, answers, now_ms=self.now_ms)
        response = FetchResponse(error_code=error, session_id=session_id)
        for one, found in chosen:
            response.responses.append(
                FetchableTopicResponse(topic_id=one.topic_id, partitions=[found])
                if by_id
                else FetchableTopicResponse(topic="t", partitions=[found])
            )
        return response

    def _read(self, one: FetchedPartition, replica_id: int, version: int, left: int) -> PartitionData:
        wanted = one.fetch_partition
        try:
            if one.topic is None:
                raise UnknownTopicIdError("unknown")
            replica = self._find(wanted.partition, wanted.current_leader_epoch)
            code = self.failing.get(wanted.partition)
            if code is None:
                note_follower(replica, wanted, replica_id, self.now_ms)
                return read_partition(
                    replica,
                    wanted,
                    reader_of(replica_id, 0, version),
                    min(left, wanted.partition_max_bytes),
                    min_one_batch=left == 10485760,
                )
        except KafkaError as error:
            code = error.code
        return PartitionData(
            partition_index=wanted.partition, error_code=code, high_watermark=-1, records=b""
        )

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        response = ListOffsetsResponse()
        for topic in request.topics:
            answered = ListOffsetsTopicResponse(name=topic.name)
            response.topics.append(answered)
            for one in topic.partitions:
                found = ListOffsetsPartitionResponse(partition_index=one.partition_index)
                answered.partitions.append(found)
                try:
                    replica = self._find(one.partition_index, one.current_leader_epoch)
                    found.offset = look_up(replica, one.timestamp, isolation=None).offset
                except KafkaError as error:
                    found.error_code = error.code
        return response

    def _epochs(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        response = OffsetForLeaderEpochResponse()
        for topic in request.topics:
            answered = OffsetForLeaderTopicResult(topic=topic.topic)
            response.topics.append(answered)
            for one in topic.partitions:
                found = EpochEndOffset(partition=one.partition)
                answered.partitions.append(found)
                try:
                    replica = self._find(one.partition, one.current_leader_epoch)
                    found.leader_epoch, found.end_offset = replica.end_offset_for_epoch(one.leader_epoch)
                except KafkaError as error:
                    found.error_code = error.code
        return response


def round_trip(fetcher: ReplicaFetcher, leader: LeadingBroker, now_ms: float = 0) -> NextRequest | None:
    """One request and its response; returns the request."""
    request = fetcher.next_request(now_ms)
    if request is not None:
        response = leader.answer(request.message, request.version)
        for _ in fetcher.take(response, NOW, now_ms):
            pass
    return request


def settle(fetcher: ReplicaFetcher, leader: LeadingBroker, now_ms: float = 0) -> list[ApiKey]:
    """Round trips until nothing new comes; returns what was asked."""
    asked = []
    for _ in range(50):
        before = [(one.state, one.replica.log_end_offset) for one in fetcher.followed]
        request = round_trip(fetcher, leader, now_ms)
        if request is None:
            return asked
        asked.append(request.message.API_KEY)
        after = [(one.state, one.replica.log_end_offset) for one in fetcher.followed]
        if before == after and asked.count(ApiKey.FETCH) > 1:
            return asked
    raise AssertionError("it never settles")
