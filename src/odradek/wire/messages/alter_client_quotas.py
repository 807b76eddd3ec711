"""AlterClientQuotas: set and remove quotas (KIP-546)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, float64, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class EntityData(Struct):
    """An element of `EntryData.entity`."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct
class OpData(Struct):
    """An element of `EntryData.ops`."""

    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@struct
class EntryData(Struct):
    """An element of `AlterClientQuotasRequest.entries`."""

    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


@request(ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Message):
    """The changes."""

    entries: list[EntryData] = array(EntryData)
    validate_only: bool = boolean()


@struct
class ResponseEntryData(Struct):
    """An element of `AlterClientQuotasResponse.entries`."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[EntityData] = array(EntityData)


@response(ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    """Per entity, whether it was changed."""

    throttle_time_ms: int = int32()
    entries: list[ResponseEntryData] = array(ResponseEntryData)
