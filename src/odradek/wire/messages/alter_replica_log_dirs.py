"""AlterReplicaLogDirs: move replicas to another directory of the same broker (KIP-113)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class AlterReplicaLogDirTopic(Struct):
    """An element of `AlterReplicaLogDir.topics`."""

    name: str = string()
    partitions: list[int] = array(int32)


@struct
class AlterReplicaLogDir(Struct):
    """An element of `AlterReplicaLogDirsRequest.dirs`."""

    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


@request(ApiKey.ALTER_REPLICA_LOG_DIRS, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest(Message):
    """Directories and their new replicas."""

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


@struct
class AlterReplicaLogDirPartitionResult(Struct):
    """An element of `AlterReplicaLogDirTopicResult.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class AlterReplicaLogDirTopicResult(Struct):
    """An element of `AlterReplicaLogDirsResponse.results`."""

    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


@response(ApiKey.ALTER_REPLICA_LOG_DIRS, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse(Message):
    """Per partition, whether it moves."""

    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
