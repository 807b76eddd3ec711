"""AlterReplicaLogDirs 0-2: have replicas lie in other data folders of this broker (KIP-113).

Each partition for itself: LOG_DIR_NOT_FOUND for a folder that is not this broker's, KAFKA_STORAGE_ERROR for
one that has failed, or a replica that cannot be used, REPLICA_NOT_AVAILABLE for a partition that is not here,
INVALID_TOPIC_EXCEPTION where a folder's name would be too long. The move itself comes after the answer, slice
by slice (`odradek.log.folders.moving`); DescribeLogDirs shows the copy. A request for the folder that the
replica is in gives a move up, one for a third folder begins anew. For a partition that is not here yet it is
remembered.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, take_all
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.util.repeats import Repeats
from odradek.util.topic_partition import TopicPartition
from odradek.wire.api import ApiKey
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

_LONGEST_NAME = 255
_SUFFIX = len("-") + len(".") + 32 + len("-future")
"""What the folder of a copy has behind the topic, besides the partition's digits."""


def _error_response(refused: Refused[AlterReplicaLogDirsRequest]) -> AlterReplicaLogDirsResponse:
    return take_all(_response(dict.fromkeys(take_all(_wanted(refused.request)), refused.error)))


@handler(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=range(3), error_response=_error_response)
def handle(
    context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Steps[AlterReplicaLogDirsResponse]:
    """Begin to move what lies elsewhere."""
    allowed = context.authorize(Operation.ALTER, CLUSTER)
    errors: dict[TopicPartition, ErrorCode] = {}
    for key, path in (yield from _wanted(request)).items():
        errors[key] = _alter(context, *key, Path(path)) if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        yield
    return (yield from _response(errors))


def _wanted(request: AlterReplicaLogDirsRequest) -> Steps[dict[TopicPartition, str]]:
    """The folders asked for, by partition; the last word counts, as in Kafka."""
    log_dirs: dict[TopicPartition, str] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                log_dirs[topic.name, index] = directory.path
                yield
            yield
        yield
    return log_dirs


def _alter(context: RequestContext, topic: str, index: int, folder: Path) -> ErrorCode:
    if len(topic.encode()) + len(str(index)) + _SUFFIX > _LONGEST_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    logs = context.broker.logs
    if folder not in logs.data_dirs:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if logs.directories.failure_of(folder) is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        present = context.broker.replicas.get(topic, index).log.directory.parent
    except KafkaError as error:
        # Kafka says this of everything that is not here, whether it is elsewhere or nowhere.
        if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
            return error.code
        logs.moves.prefer((topic, index), folder)
        return ErrorCode.REPLICA_NOT_AVAILABLE
    moving = context.broker.moving
    if present == folder:
        if logs.moves.cancel((topic, index)):
            logger.info("move given up, as asked for topic=%s partition=%d", topic, index)
        return ErrorCode.NONE
    if moving is None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        moving.begin((topic, index), folder)
    except KafkaError as error:
        repeats.log(
            logging.WARNING, topic, "no move topic=%s partition=%d to=%s: %s", topic, index, folder, error
        )
        return error.code
    return ErrorCode.NONE


def _response(errors: dict[TopicPartition, ErrorCode]) -> Steps[AlterReplicaLogDirsResponse]:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), error in errors.items():
        topic = topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name, partitions=[]))
        topic.partitions.append(
            AlterReplicaLogDirPartitionResult(partition_index=index, error_code=int(error))
        )
        yield
    return AlterReplicaLogDirsResponse(results=list(topics.values()))
