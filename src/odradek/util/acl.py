"""Kafka's access control lists: who may do what to which resource, from where (KIP-11, KIP-290, KIP-504).

An *entry* allows or denies a principal an operation from a host; a *pattern* names the resources that it is
about: one by its name (LITERAL, `*` for all of a type), or all whose names begin so (PREFIXED). Both together
are a *binding*. The numbers of the enumerations go over the wire.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Self, TypeVar

WILDCARD = "*"
"""All names, or all hosts."""

WILDCARD_PRINCIPAL = "User:*"
"""Everybody, whatever the type of the principal."""

CLUSTER_NAME = "kafka-cluster"
"""The only name of a resource of the type CLUSTER."""


class _Named(IntEnum):
    """An enumeration whose members have a name in nodes, tools and logs."""

    @property
    def pascal_name(self) -> str:
        """As in nodes and in what tools take: `DescribeConfigs`, `TransactionalId`."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @classmethod
    def of_number(cls, number: int) -> Self:
        """The member of a number on the wire; UNKNOWN for one that only other releases have."""
        try:
            return cls(number)
        except ValueError:
            return cls(0)


class AclOperation(_Named):
    """An operation on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(_Named):
    """The effect of an entry; one that denies is stronger than any that allows."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourceType(_Named):
    """The kinds of resources."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


_O = AclOperation
SUPPORTED_OPERATIONS: dict[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        _O.READ,
        _O.WRITE,
        _O.CREATE,
        _O.DESCRIBE,
        _O.DELETE,
        _O.ALTER,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DESCRIBE, _O.DELETE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _O.CREATE,
        _O.CLUSTER_ACTION,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
        _O.IDEMPOTENT_WRITE,
        _O.ALTER,
        _O.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.DESCRIBE, _O.WRITE, _O.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}
"""What can be done to a resource of each type."""


class PatternType(_Named):
    """The way in which a pattern names resources. ANY and MATCH stand in filters alone: patterns of this very
    name, and patterns that are about a resource of this name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class ResourcePattern(NamedTuple):
    """The resources that entries are about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        """In Kafka's words."""
        return (
            f"ResourcePattern(resourceType={self.resource_type.name}, name={self.name}, "
            f"patternType={self.pattern_type.name})"
        )


class AccessControlEntry(NamedTuple):
    """A principal and a host that are allowed or denied an operation.

    Attributes:
        principal: such as `User:alice`; `User:*` is everybody.
        host: an address as text; `*` is all of them.
        operation: what; ALL for everything.
        permission_type: ALLOW or DENY.
    """

    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType

    def __str__(self) -> str:
        """In Kafka's words."""
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission_type.name})"
        )


class AclBinding(NamedTuple):
    """An entry and what it is about."""

    pattern: ResourcePattern
    entry: AccessControlEntry


class ResourcePatternFilter(NamedTuple):
    """A choice of patterns; a name of None is any name."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY

    def matches(self, pattern: ResourcePattern) -> bool:
        """Return whether the filter lets a pattern through."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        exact = self.pattern_type in (PatternType.ANY, pattern.pattern_type)
        if not exact and self.pattern_type != PatternType.MATCH:
            return False
        if self.name is None:
            return True
        if exact:
            return self.name == pattern.name
        if pattern.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, WILDCARD)

    def definite_patterns(self) -> tuple[ResourcePattern, ...]:
        """The only patterns that the filter can let through, where that can be told; else none."""
        if self.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY) or self.name is None:
            return ()
        if self.pattern_type == PatternType.ANY:
            kinds: tuple[PatternType, ...] = (PatternType.LITERAL, PatternType.PREFIXED)
        elif self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            kinds = (self.pattern_type,)
        else:
            kinds = ()
        return tuple(ResourcePattern(self.resource_type, self.name, kind) for kind in kinds)


class AccessControlEntryFilter(NamedTuple):
    """A choice of entries; None is any principal or host."""

    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    def matches(self, entry: AccessControlEntry) -> bool:
        """Return whether the filter lets an entry through."""
        return (
            (self.principal is None or self.principal == entry.principal)
            and (self.host is None or self.host == entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission_type in (AclPermissionType.ANY, entry.permission_type)
        )


class AclBindingFilter(NamedTuple):
    """A choice of bindings; without arguments all of them."""

    pattern: ResourcePatternFilter = ResourcePatternFilter()
    entry: AccessControlEntryFilter = AccessControlEntryFilter()

    def matches(self, binding: AclBinding) -> bool:
        """Return whether the filter lets a binding through."""
        return self.pattern.matches(binding.pattern) and self.entry.matches(binding.entry)


_ANY_PATTERN_TYPE = (PatternType.LITERAL, PatternType.PREFIXED)


def is_concrete(binding: AclBinding) -> bool:
    """Return whether a binding can be kept: nothing in it is unknown, or means many things."""
    pattern, entry = binding
    return (
        pattern.resource_type > ResourceType.ANY
        and pattern.pattern_type in _ANY_PATTERN_TYPE
        and entry.operation > AclOperation.ANY
        and entry.permission_type > AclPermissionType.ANY
    )


def parse_principal(text: str) -> str:
    """A principal such as `User:alice`, checked.

    Raises:
        ValueError: the type or the name is missing.
    """
    kind, colon, name = text.partition(":")
    if not kind or not colon:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return f"{kind}:{name}"


_E = TypeVar("_E", bound=_Named)


def _by_name(kind: type[_E]) -> dict[str, _E]:
    return {member.name.replace("_", "").lower(): member for member in kind}


_OPERATIONS = _by_name(AclOperation)
_PERMISSIONS = _by_name(AclPermissionType)
_RESOURCE_TYPES = _by_name(ResourceType)
_PATTERN_TYPES = _by_name(PatternType)


def _key(text: str) -> str:
    return text.strip().replace("_", "").lower()


def parse_operation(text: str) -> AclOperation:
    """The operation of a name such as `Read`, `DESCRIBE_CONFIGS`; UNKNOWN if there is none."""
    return _OPERATIONS.get(_key(text), AclOperation.UNKNOWN)


def parse_permission_type(text: str) -> AclPermissionType:
    """The permission type of a name; UNKNOWN if there is none."""
    return _PERMISSIONS.get(_key(text), AclPermissionType.UNKNOWN)


def parse_resource_type(text: str) -> ResourceType:
    """The resource type of a name such as `Topic`, `TRANSACTIONAL_ID`; UNKNOWN if there is none."""
    return _RESOURCE_TYPES.get(_key(text), ResourceType.UNKNOWN)


def parse_pattern_type(text: str) -> PatternType:
    """The pattern type of a name; UNKNOWN if there is none."""
    return _PATTERN_TYPES.get(_key(text), PatternType.UNKNOWN)
