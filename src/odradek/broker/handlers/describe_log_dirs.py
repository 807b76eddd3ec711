"""DescribeLogDirs 0-5: the data folders and the partitions in them (KIP-113); null for topics: all of them.

A folder that has failed is KAFKA_STORAGE_ERROR and holds nothing. Version 4 adds the size of its file system
and what is free of it (KIP-827), 5 whether it takes new partitions: all do. Version 3 has an error for all:
CLUSTER_AUTHORIZATION_FAILED; earlier ones then name no folders.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.errors.codes import ErrorCode
from odradek.util.topic_partition import TopicPartition
from odradek.wire.api import ApiKey
from odradek.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.log.storage.data_directory import DirectoryState

_ERROR_ON_TOP_FROM = 3
_SPACE_FROM = 4


@handler(ApiKey.DESCRIBE_LOG_DIRS, versions=range(6))
def handle(context: RequestContext, request: DescribeLogDirsRequest) -> Steps[DescribeLogDirsResponse]:
    """Describe every folder."""
    response = DescribeLogDirsResponse(results=[])
    if not context.authorize(Operation.DESCRIBE, CLUSTER):
        if context.api_version >= _ERROR_ON_TOP_FROM:
            response.error_code = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return response
    partitions: set[TopicPartition] | None = None
    if request.topics is not None:
        partitions = set()
        for topic in request.topics:
            for index in topic.partitions:
                partitions.add((topic.topic, index))
                yield
            yield
    for state in (yield from context.broker.logs.describe()):
        result = yield from _describe(state, partitions)
        if context.api_version >= _SPACE_FROM:
            result.total_bytes, result.usable_bytes = state.total_bytes, state.usable_bytes
        response.results.append(result)
    return response


def _describe(
    state: DirectoryState, partitions: Container[TopicPartition] | None
) -> Steps[DescribeLogDirsResult]:
    if state.failure is not None:
        error = int(ErrorCode.KAFKA_STORAGE_ERROR)
        return DescribeLogDirsResult(error_code=error, log_dir=str(state.path), topics=[])
    topics: dict[str, DescribeLogDirsTopic] = {}
    for replica in state.replicas:
        yield
        if partitions is None or (replica.topic, replica.partition) in partitions:
            topic = topics.setdefault(replica.topic, DescribeLogDirsTopic(name=replica.topic, partitions=[]))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=replica.partition,
                    partition_size=replica.size_bytes,
                    # As in Kafka: how far the log is behind what is committed, which a leader's never is.
                    offset_lag=replica.offset_lag if replica.is_future else 0,
                    is_future_key=replica.is_future,
                )
            )
    return DescribeLogDirsResult(log_dir=str(state.path), topics=list(topics.values()))
