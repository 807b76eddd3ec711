"""AlterConfigs: replace a resource's configuration; what is left out goes back to its default."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int8, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class AlterableConfig(Struct):
    """An element of `AlterConfigsResource.configs`."""

    name: str = string()
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource(Struct):
    """An element of `AlterConfigsRequest.resources`."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@request(ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+")
class AlterConfigsRequest(Message):
    """The whole configurations."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse(Struct):
    """An element of `AlterConfigsResponse.responses`."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@response(ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+")
class AlterConfigsResponse(Message):
    """Per resource, whether it was changed."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
