"""DescribeCluster: id, controller and brokers (KIP-700)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int8, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@request(ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+")
class DescribeClusterRequest(Message):
    """Brokers or controllers (1, KIP-919); fenced ones too (2, KIP-1073)."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


@struct
class DescribeClusterBroker(Struct):
    """An element of `DescribeClusterResponse.brokers`."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


@response(ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+")
class DescribeClusterResponse(Message):
    """The cluster."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-(2**31))
