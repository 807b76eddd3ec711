"""DescribeConfigs: configurations of topics, brokers, loggers, groups and clients.

Version 1 tells where a value comes from (KIP-226), 3 its type and documentation (KIP-569).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int8, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class DescribeConfigsResource(Struct):
    """An element of `DescribeConfigsRequest.resources`."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, nullable="0+")


@request(ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+")
class DescribeConfigsRequest(Message):
    """The resources and keys."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


@struct
class DescribeConfigsSynonym(Struct):
    """An element of `DescribeConfigsResourceResult.synonyms`."""

    name: str = string("1+")
    value: str | None = string("1+", nullable="1+")
    source: int = int8("1+")


@struct
class DescribeConfigsResourceResult(Struct):
    """An element of `DescribeConfigsResult.configs`."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    is_default: bool = boolean("0")
    config_source: int = int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", ignorable=True)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="3+", ignorable=True)


@struct
class DescribeConfigsResult(Struct):
    """An element of `DescribeConfigsResponse.results`."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@response(ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+")
class DescribeConfigsResponse(Message):
    """The values."""

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
