"""DescribeClientQuotas: quotas that match a filter (KIP-546)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, float64, int8, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class ComponentData(Struct):
    """An element of `DescribeClientQuotasRequest.components`."""

    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+")


@request(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Message):
    """The filter."""

    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


@struct
class EntityData(Struct):
    """An element of `EntryData.entity`."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct
class ValueData(Struct):
    """An element of `EntryData.values`."""

    key: str = string()
    value: float = float64()


@struct
class EntryData(Struct):
    """An element of `DescribeClientQuotasResponse.entries`."""

    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


@response(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    """The quotas."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[EntryData] | None = array(EntryData, nullable="0+")
