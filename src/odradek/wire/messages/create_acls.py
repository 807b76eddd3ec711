"""CreateAcls: add ACLs."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int8, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class AclCreation(Struct):
    """An element of `CreateAclsRequest.creations`."""

    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@request(ApiKey.CREATE_ACLS, versions="0-3", flexible="2+")
class CreateAclsRequest(Message):
    """The ACLs."""

    MOST_ELEMENTS = 4_000

    creations: list[AclCreation] = array(AclCreation)


@struct
class AclCreationResult(Struct):
    """An element of `CreateAclsResponse.results`."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@response(ApiKey.CREATE_ACLS, versions="0-3", flexible="2+")
class CreateAclsResponse(Message):
    """Per ACL, whether it was added."""

    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
