"""DescribeLogDirs: what lies in a broker's directories.

Version 4 tells the size of the volumes (KIP-827).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class DescribableLogDirTopic(Struct):
    """An element of `DescribeLogDirsRequest.topics`."""

    topic: str = string()
    partitions: list[int] = array(int32)


@request(ApiKey.DESCRIBE_LOG_DIRS, versions="0-5", flexible="2+")
class DescribeLogDirsRequest(Message):
    """The partitions, or null for all."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


@struct
class DescribeLogDirsPartition(Struct):
    """An element of `DescribeLogDirsTopic.partitions`."""

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@struct
class DescribeLogDirsTopic(Struct):
    """An element of `DescribeLogDirsResult.topics`."""

    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@struct
class DescribeLogDirsResult(Struct):
    """An element of `DescribeLogDirsResponse.results`."""

    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1, ignorable=True)
    usable_bytes: int = int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = boolean("5+", ignorable=True)


@response(ApiKey.DESCRIBE_LOG_DIRS, versions="0-5", flexible="2+")
class DescribeLogDirsResponse(Message):
    """Directories with sizes and lags."""

    throttle_time_ms: int = int32()
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
