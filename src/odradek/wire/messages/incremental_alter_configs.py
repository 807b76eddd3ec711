"""IncrementalAlterConfigs: set, delete, append to or subtract from single configurations (KIP-339)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int8, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class AlterableConfig(Struct):
    """An element of `AlterConfigsResource.configs`."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource(Struct):
    """An element of `IncrementalAlterConfigsRequest.resources`."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@request(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Message):
    """The changes."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse(Struct):
    """An element of `IncrementalAlterConfigsResponse.responses`."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@response(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Message):
    """Per resource, whether it was changed."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
