"""The parts of the ACL messages (KIP-140) that are bindings, and filters of bindings.

An enumeration's number that only other releases have is UNKNOWN. Version 0 has no pattern types: in what it
sends they have to be LITERAL, as they are in what it brings.
Kafka: `CreateAclsRequest.aclBinding`, `DescribeAclsResponse.aclBindings`, `DeleteAclsResponse.aclBinding` and
their reverses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

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
from odradek.wire.messages.create_acls import AclCreation
from odradek.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsMatchingAcl
from odradek.wire.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource

if TYPE_CHECKING:
    from odradek.errors import KafkaError

_Filtering = TypeVar("_Filtering", DescribeAclsRequest, DeleteAclsFilter)


def acl_creation(binding: AclBinding) -> AclCreation:
    """The element of CreateAcls that adds a binding."""
    pattern, entry = binding
    return AclCreation(
        resource_type=int(pattern.resource_type),
        resource_name=pattern.name,
        resource_pattern_type=int(pattern.pattern_type),
        principal=entry.principal,
        host=entry.host,
        operation=int(entry.operation),
        permission_type=int(entry.permission_type),
    )


def created_binding(creation: AclCreation) -> AclBinding:
    """The binding that an element of CreateAcls adds."""
    pattern = _pattern(creation.resource_type, creation.resource_name, creation.resource_pattern_type)
    return AclBinding(pattern, _entry(creation))


def described_resource(
    pattern: ResourcePattern, entries: Sequence[AccessControlEntry]
) -> DescribeAclsResource:
    """The element of DescribeAcls that lists the entries of a pattern."""
    return DescribeAclsResource(
        resource_type=int(pattern.resource_type),
        resource_name=pattern.name,
        pattern_type=int(pattern.pattern_type),
        acls=[
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=int(entry.operation),
                permission_type=int(entry.permission_type),
            )
            for entry in entries
        ],
    )


def described_bindings(resource: DescribeAclsResource) -> list[AclBinding]:
    """The bindings that an element of DescribeAcls lists, in its order."""
    pattern = _pattern(resource.resource_type, resource.resource_name, resource.pattern_type)
    return [AclBinding(pattern, _entry(acl)) for acl in resource.acls]


def matching_acl(binding: AclBinding, failure: KafkaError | None = None) -> DeleteAclsMatchingAcl:
    """The element of DeleteAcls for a binding that a filter let through.

    Args:
        binding: the binding.
        failure: why it is still there; None where it was removed.
    """
    pattern, entry = binding
    return DeleteAclsMatchingAcl(
        error_code=0 if failure is None else int(failure.code),
        error_message=None if failure is None else failure.message,
        resource_type=int(pattern.resource_type),
        resource_name=pattern.name,
        pattern_type=int(pattern.pattern_type),
        principal=entry.principal,
        host=entry.host,
        operation=int(entry.operation),
        permission_type=int(entry.permission_type),
    )


def matching_binding(acl: DeleteAclsMatchingAcl) -> AclBinding:
    """The binding that an element of DeleteAcls names, removed or not."""
    return AclBinding(_pattern(acl.resource_type, acl.resource_name, acl.pattern_type), _entry(acl))


def describe_acls_request(acl_filter: AclBindingFilter) -> DescribeAclsRequest:
    """The request for the ACLs that a filter lets through."""
    return _set_filter(DescribeAclsRequest(), acl_filter)


def delete_acls_filter(acl_filter: AclBindingFilter) -> DeleteAclsFilter:
    """The element of DeleteAcls that removes what a filter lets through."""
    return _set_filter(DeleteAclsFilter(), acl_filter)


def binding_filter(message: DescribeAclsRequest | DeleteAclsFilter) -> AclBindingFilter:
    """The filter that DescribeAcls asks with, or one of those that DeleteAcls does."""
    return AclBindingFilter(
        ResourcePatternFilter(
            ResourceType.of_number(message.resource_type_filter),
            message.resource_name_filter,
            PatternType.of_number(message.pattern_type_filter),
        ),
        AccessControlEntryFilter(
            message.principal_filter,
            message.host_filter,
            AclOperation.of_number(message.operation),
            AclPermissionType.of_number(message.permission_type),
        ),
    )


def _set_filter(message: _Filtering, acl_filter: AclBindingFilter) -> _Filtering:
    pattern, entry = acl_filter
    message.resource_type_filter = int(pattern.resource_type)
    message.resource_name_filter = pattern.name
    message.pattern_type_filter = int(pattern.pattern_type)
    message.principal_filter = entry.principal
    message.host_filter = entry.host
    message.operation = int(entry.operation)
    message.permission_type = int(entry.permission_type)
    return message


def _pattern(resource_type: int, name: str, pattern_type: int) -> ResourcePattern:
    return ResourcePattern(ResourceType.of_number(resource_type), name, PatternType.of_number(pattern_type))


def _entry(acl: AclCreation | AclDescription | DeleteAclsMatchingAcl) -> AccessControlEntry:
    return AccessControlEntry(
        acl.principal,
        acl.host,
        AclOperation.of_number(acl.operation),
        AclPermissionType.of_number(acl.permission_type),
    )
