"""ListConfigResources: the resources that have configurations of their own.

Version 0 is what was called ListClientMetricsResources and lists only those; 1 takes types (KIP-1142).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int8, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@request(ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Message):
    """The types; none means all."""

    MOST_ELEMENTS = 1_000

    resource_types: list[int] = array(int8, "1+")


@struct
class ConfigResource(Struct):
    """An element of `ListConfigResourcesResponse.config_resources`."""

    resource_name: str = string()
    resource_type: int = int8("1+", default=16, ignorable=True)


@response(ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Message):
    """The resources."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
