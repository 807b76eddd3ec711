"""DeleteGroups: delete empty groups (KIP-229)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@request(ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+")
class DeleteGroupsRequest(Message):
    """The groups."""

    groups_names: list[str] = array(string)


@struct
class DeletableGroupResult(Struct):
    """An element of `DeleteGroupsResponse.results`."""

    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string("3+", nullable="3+", default=None, ignorable=True)


@response(ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+")
class DeleteGroupsResponse(Message):
    """Per group, whether it is gone."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
