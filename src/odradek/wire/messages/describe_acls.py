"""DescribeAcls: which ACLs match a filter."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int8, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@request(ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+")
class DescribeAclsRequest(Message):
    """The filter."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@struct
class AclDescription(Struct):
    """An element of `DescribeAclsResource.acls`."""

    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@struct
class DescribeAclsResource(Struct):
    """An element of `DescribeAclsResponse.resources`."""

    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    acls: list[AclDescription] = array(AclDescription)


@response(ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+")
class DescribeAclsResponse(Message):
    """The ACLs by resource."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)
