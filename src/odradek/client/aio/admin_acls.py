"""ACLs, as the administrator sees them (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from odradek.client.aio.admin_base import AdminBase, check, failure, raise_first
from odradek.client.errors import UnsupportedByBrokerError, left_out
from odradek.errors import KafkaError
from odradek.util.acl import AclBinding, AclBindingFilter, PatternType
from odradek.wire.acls import (
    acl_creation,
    delete_acls_filter,
    describe_acls_request,
    described_bindings,
    matching_binding,
)
from odradek.wire.api import ApiKey
from odradek.wire.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.wire.messages.delete_acls import DeleteAclsRequest
from odradek.wire.messages.describe_acls import DescribeAclsRequest

EVERYTHING = AclBindingFilter()


class AclAdmin(AdminBase):
    """The calls about who may do what."""

    async def describe_acls(self, acl_filter: AclBindingFilter = EVERYTHING) -> list[AclBinding]:
        """The ACLs that a filter lets through; all of them without.

        Args:
            acl_filter: the filter.

        Raises:
            ClusterAuthorizationError: whoever asks may not describe the cluster.
            SecurityDisabledError: the brokers have no authorizer.
        """

        def message(version: int) -> DescribeAclsRequest:
            return describe_acls_request(_filter(acl_filter, version))

        response = await self._any("describe ACLs", message, ApiKey.DESCRIBE_ACLS)
        check(response.error_code, "ACLs", response.error_message)
        return [binding for resource in response.resources for binding in described_bindings(resource)]

    async def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Add ACLs; those that are there already stay.

        Args:
            bindings: what is added (KIP-140).

        Raises:
            InvalidRequestError: one cannot be; the others are added.
            ClusterAuthorizationError: whoever asks may not alter the cluster.
            SecurityDisabledError: the brokers have no authorizer.
        """
        unique = list(dict.fromkeys(bindings))

        def message(version: int) -> CreateAclsRequest:
            return CreateAclsRequest(creations=[_creation(binding, version) for binding in unique])

        response = await self._any("create ACLs", message, ApiKey.CREATE_ACLS)
        # The answer names none: its results are in the order of what was asked.
        problems = left_out(unique[len(response.results) :], ())
        for binding, result in zip(unique, response.results, strict=False):
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

        def message(version: int) -> DeleteAclsRequest:
            return DeleteAclsRequest(
                filters=[delete_acls_filter(_filter(binding_filter, version)) for binding_filter in filters]
            )

        response = await self._any("delete ACLs", message, ApiKey.DELETE_ACLS)
        problems: dict[Any, KafkaError] = {**left_out(filters[len(response.filter_results) :], ())}
        removed: list[list[AclBinding]] = []
        for binding_filter, result in zip(filters, response.filter_results, strict=False):
            if result.error_code:
                problems[binding_filter] = failure(
                    binding_filter.pattern, result.error_code, result.error_message
                )
            removed.append([])
            for acl in result.matching_acls:
                binding = matching_binding(acl)
                if acl.error_code:
                    problems[binding] = failure(binding.pattern, acl.error_code, acl.error_message)
                else:
                    removed[-1].append(binding)
        raise_first(problems)
        return removed


def _creation(binding: AclBinding, version: int) -> AclCreation:
    pattern = binding.pattern
    if version == 0 and pattern.pattern_type != PatternType.LITERAL:
        raise UnsupportedByBrokerError(
            f"{pattern}: the brokers know literal patterns only (Kafka before 2.0)"
        )
    return acl_creation(binding)


def _filter(acl_filter: AclBindingFilter, version: int) -> AclBindingFilter:
    """Return a filter as `version` can say it.

    Brokers before 2.0 have literal patterns only, so that ANY is LITERAL.
    """
    pattern = acl_filter.pattern
    if version > 0:
        return acl_filter
    if pattern.pattern_type not in (PatternType.ANY, PatternType.LITERAL):
        raise UnsupportedByBrokerError(
            f"pattern type {pattern.pattern_type.name}: the brokers know literal patterns only"
            " (Kafka before 2.0)"
        )
    return acl_filter._replace(pattern=pattern._replace(pattern_type=PatternType.LITERAL))
