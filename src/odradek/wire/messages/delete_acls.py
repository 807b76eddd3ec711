"""DeleteAcls: remove the ACLs that match filters."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int8, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class DeleteAclsFilter(Struct):
    """An element of `DeleteAclsRequest.filters`."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@request(ApiKey.DELETE_ACLS, versions="0-3", flexible="2+")
class DeleteAclsRequest(Message):
    """The filters."""

    MOST_ELEMENTS = 4_000

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


@struct
class DeleteAclsMatchingAcl(Struct):
    """An element of `DeleteAclsFilterResult.matching_acls`."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@struct
class DeleteAclsFilterResult(Struct):
    """An element of `DeleteAclsResponse.filter_results`."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


@response(ApiKey.DELETE_ACLS, versions="0-3", flexible="2+")
class DeleteAclsResponse(Message):
    """Per filter, what was removed."""

    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
