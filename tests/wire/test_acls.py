"""Bindings and filters survive each of the ACL messages, in each version that can carry them."""

from itertools import product

import pytest

from odradek.errors import ErrorCode, UnknownServerError
from odradek.util.acl import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from odradek.wire import acls
from odradek.wire.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from odradek.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

VERSIONS = range(4)
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ENTRIES = [
    AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW),
    AccessControlEntry("User:b=c,d", "::1", AclOperation.TWO_PHASE_COMMIT, AclPermissionType.DENY),
]


def patterns(version: int) -> list[ResourcePattern]:
    kinds = [LITERAL, PREFIXED] if version else [LITERAL]
    types = [ResourceType.TOPIC, ResourceType.USER]
    return [ResourcePattern(resource, "ä-b", kind) for resource, kind in product(types, kinds)]


def bindings(version: int) -> list[AclBinding]:
    return [AclBinding(pattern, entry) for pattern in patterns(version) for entry in ENTRIES]


def filters(version: int) -> list[AclBindingFilter]:
    kinds = [one for one in PatternType if one] if version else [LITERAL]
    names = [None, "", "t"]
    return [
        AclBindingFilter(ResourcePatternFilter(ResourceType.ANY, name, kind), entry)
        for name, kind in product(names, kinds)
        for entry in (AccessControlEntryFilter(), AccessControlEntryFilter(*ENTRIES[1]))
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_bindings_that_are_created(version: int) -> None:
    request = CreateAclsRequest(creations=[acls.acl_creation(one) for one in bindings(version)])
    sent = CreateAclsRequest.decode(request.encode(version), version)
    assert [acls.created_binding(one) for one in sent.creations] == bindings(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_bindings_that_are_described(version: int) -> None:
    response = DescribeAclsResponse(
        error_message=None,
        resources=[acls.described_resource(pattern, ENTRIES) for pattern in patterns(version)],
    )
    sent = DescribeAclsResponse.decode(response.encode(version), version)
    assert [one for r in sent.resources for one in acls.described_bindings(r)] == bindings(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_bindings_that_are_deleted(version: int) -> None:
    error = UnknownServerError("no disk")
    gone, kept = bindings(version)[:2]
    matching = [acls.matching_acl(gone), acls.matching_acl(kept, error)]
    result = DeleteAclsFilterResult(error_message=None, matching_acls=matching)
    response = DeleteAclsResponse(filter_results=[result])
    sent = DeleteAclsResponse.decode(response.encode(version), version).filter_results[0].matching_acls
    assert [acls.matching_binding(one) for one in sent] == [gone, kept]
    assert [(one.error_code, one.error_message) for one in sent] == [
        (ErrorCode.NONE, None),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "no disk"),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_filters(version: int) -> None:
    for wanted in filters(version):
        describe = acls.describe_acls_request(wanted)
        delete = DeleteAclsRequest(filters=[acls.delete_acls_filter(wanted)])
        described = DescribeAclsRequest.decode(describe.encode(version), version)
        deleted = DeleteAclsRequest.decode(delete.encode(version), version)
        assert acls.binding_filter(described) == wanted
        assert acls.binding_filter(deleted.filters[0]) == wanted


def test_numbers_that_nobody_knows() -> None:
    unknown = AclBinding(
        ResourcePattern(ResourceType.UNKNOWN, "t", PatternType.UNKNOWN),
        AccessControlEntry("User:a", "*", AclOperation.UNKNOWN, AclPermissionType.UNKNOWN),
    )
    creation = AclCreation(
        resource_type=99,
        resource_name="t",
        resource_pattern_type=99,
        principal="User:a",
        host="*",
        operation=99,
        permission_type=99,
    )
    description = AclDescription(principal="User:a", host="*", operation=99, permission_type=99)
    resource = DescribeAclsResource(resource_type=99, resource_name="t", pattern_type=99, acls=[description])
    matching = DeleteAclsMatchingAcl(
        resource_type=99,
        resource_name="t",
        pattern_type=99,
        principal="User:a",
        host="*",
        operation=99,
        permission_type=99,
    )
    asked = DescribeAclsRequest(
        resource_type_filter=99,
        resource_name_filter="t",
        pattern_type_filter=99,
        principal_filter="User:a",
        host_filter="*",
        operation=99,
        permission_type=99,
    )
    assert acls.created_binding(creation) == unknown
    assert acls.described_bindings(resource) == [unknown]
    assert acls.matching_binding(matching) == unknown
    wanted = acls.binding_filter(asked)
    assert (tuple(wanted.pattern), tuple(wanted.entry)) == (tuple(unknown.pattern), tuple(unknown.entry))
