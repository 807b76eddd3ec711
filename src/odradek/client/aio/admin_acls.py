"""ACLs, as the administrator sees them (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from odradek.client.aio.admin_base import AdminBase, check, failure, raise_first
from odradek.client.errors import UnsupportedByBrokerError
from odradek.errors import KafkaError
from odradek.util.acl import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from odradek.wire.api import ApiKey
from odradek.wire.messages import create_acls, delete_acls
from odradek.wire.messages.describe_acls import DescribeAclsRequest

EVERYTHING = AclBindingFilter()


class AclAdmin(AdminBase):
    """The calls about who may do what."""

    async def describe_acls(self, wanted: AclBindingFilter = EVERYTHING) -> list[AclBinding]:
        """The ACLs that a filter lets through; all of them without.

        Args:
            wanted: the filter.

        Raises:
            ClusterAuthorizationError: whoever asks may not describe the cluster.
            SecurityDisabledError: the brokers have no authorizer.
        """

        def message(version: int) -> DescribeAclsRequest:
            return DescribeAclsRequest(**_filter_fields(wanted, version))

        response = await self._any("describe ACLs", message, ApiKey.DESCRIBE_ACLS)
        check(response.error_code, "ACLs", response.error_message)
        return [_binding(resource, entry) for resource in response.resources for entry in resource.acls]

    async def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Add ACLs; those that are there already stay.

        Args:
            bindings: what is added (KIP-140).

        Raises:
            InvalidRequestError: one cannot be; the others are added.
            ClusterAuthorizationError: whoever asks may not alter the cluster.
            SecurityDisabledError: the brokers have no authorizer.
        """
        wanted = list(dict.fromkeys(bindings))

        def message(version: int) -> create_acls.CreateAclsRequest:
            return create_acls.CreateAclsRequest(creations=[_creation(one, version) for one in wanted])

        response = await self._any("create ACLs", message, ApiKey.CREATE_ACLS)
        problems: dict[AclBinding, KafkaError] = {}
        for binding, result in zip(wanted, response.results, strict=True):
            if result.error_code:
                problems[binding] = failure(binding.pattern, result.error_code, result.error_message)
        raise_first(problems)

    async def delete_acls(self, filters: Sequence[AclBindingFilter]) -> list[list[AclBinding]]:
        """Remove the ACLs that filters let through.

        Returns: for each filter, what was removed by it; an ACL that several let through counts once.

        Raises:
            ClusterAuthorizationError: whoever asks may not alter the cluster.
            SecurityDisabledError: the brokers have no authorizer.
            KafkaError: one could not be removed; the others are.
        """

        def message(version: int) -> delete_acls.DeleteAclsRequest:
            return delete_acls.DeleteAclsRequest(
                filters=[delete_acls.DeleteAclsFilter(**_filter_fields(one, version)) for one in filters]
            )

        response = await self._any("delete ACLs", message, ApiKey.DELETE_ACLS)
        problems: dict[Any, KafkaError] = {}
        removed: list[list[AclBinding]] = []
        for one, result in zip(filters, response.filter_results, strict=True):
            if result.error_code:
                problems[one] = failure(one.pattern, result.error_code, result.error_message)
            removed.append([])
            for acl in result.matching_acls:
                binding = _binding(acl, acl)
                if acl.error_code:
                    problems[binding] = failure(binding.pattern, acl.error_code, acl.error_message)
                else:
                    removed[-1].append(binding)
        raise_first(problems)
        return removed


def _creation(binding: AclBinding, version: int) -> create_acls.AclCreation:
    pattern, entry = binding
    if version == 0 and pattern.pattern_type != PatternType.LITERAL:
        raise UnsupportedByBrokerError(
            f"{pattern}: the brokers know literal patterns only (Kafka before 2.0)"
        )
    return create_acls.AclCreation(
        resource_type=int(pattern.resource_type),
        resource_name=pattern.name,
        resource_pattern_type=int(pattern.pattern_type),
        principal=entry.principal,
        host=entry.host,
        operation=int(entry.operation),
        permission_type=int(entry.permission_type),
    )


def _filter_fields(wanted: AclBindingFilter, version: int) -> dict[str, Any]:
    """The fields of a filter, which DescribeAcls and DeleteAcls have in common."""
    pattern, entry = wanted
    return {
        "resource_type_filter": int(pattern.resource_type),
        "resource_name_filter": pattern.name,
        "pattern_type_filter": _filtered(pattern.pattern_type, version),
        "principal_filter": entry.principal,
        "host_filter": entry.host,
        "operation": int(entry.operation),
        "permission_type": int(entry.permission_type),
    }


def _filtered(pattern_type: PatternType, version: int) -> int:
    """A pattern type in a filter: brokers before 2.0 have literal patterns only, so that ANY is LITERAL."""
    if version > 0:
        return int(pattern_type)
    if pattern_type not in (PatternType.ANY, PatternType.LITERAL):
        raise UnsupportedByBrokerError(
            f"pattern type {pattern_type.name}: the brokers know literal patterns only (Kafka before 2.0)"
        )
    return int(PatternType.LITERAL)


def _binding(resource: Any, entry: Any) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            ResourceType.of_number(resource.resource_type),
            resource.resource_name,
            PatternType.of_number(resource.pattern_type),
        ),
        AccessControlEntry(
            entry.principal,
            entry.host,
            AclOperation.of_number(entry.operation),
            AclPermissionType.of_number(entry.permission_type),
        ),
    )
