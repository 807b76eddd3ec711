"""The ACLs in memory, found by resource and principal, and the rules by which they decide.

The rules are those of Kafka's `AclAuthorizer`:

- the entries that count for a resource are those of its own name, those of `*`, and those of all prefixes of
  its name; without any, `allow.everyone.if.no.acl.found` decides;
- an entry that denies is stronger than all that allow;
- what nobody allows is denied;
- allowing Read, Write, Delete or Alter allows Describe, allowing AlterConfigs allows DescribeConfigs; denying
  implies nothing.

Readers in other threads may look at any time: each pattern's entries are replaced as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from odradek.util.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
    parse_principal,
)
from odradek.util.hosts import same_host

_O = AclOperation

_IMPLIED_BY: Mapping[AclOperation, frozenset[AclOperation]] = {
    _O.DESCRIBE: frozenset((_O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER)),
    _O.DESCRIBE_CONFIGS: frozenset((_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS)),
}
"""Operation → the operations of which each, when allowed, allows it."""

DEFAULT_DENY = "DefaultDeny"
DEFAULT_ALLOW = "DefaultAllow"
SUPER_USER = "SuperUser"


class AclDecision(NamedTuple):
    """May it be done, and by which rule, in Kafka's words for the audit log."""

    allowed: bool
    rule: str


_DEFAULT_DENY = AclDecision(False, DEFAULT_DENY)
_DEFAULT_ALLOW = AclDecision(True, DEFAULT_ALLOW)


class _Rule(NamedTuple):
    """One entry, as it is asked: the host in one form, and the decision that all share whom it meets."""

    host: str
    operation: AclOperation
    permission_type: AclPermissionType
    decision: AclDecision


_About = tuple[ResourceType, PatternType, str, str, AclOperation, AclPermissionType]
"""What an entry is about, but for the name: both types, whom, from where, what, and whether it allows."""


class _Entries:
    """The entries of one pattern, and the rules of each principal."""

    __slots__ = ("all", "by_principal")

    def __init__(self, pattern: ResourcePattern, entries: frozenset[AccessControlEntry]) -> None:
        self.all = entries
        by_principal: dict[str, list[_Rule]] = {}
        for entry in sorted(entries):
            _, host, operation, permission = entry
            decision = AclDecision(permission == AclPermissionType.ALLOW, _matching(pattern, entry))
            rule = _Rule(same_host(host), operation, permission, decision)
            by_principal.setdefault(entry.principal, []).append(rule)
        self.by_principal = {name: tuple(some) for name, some in by_principal.items()}


class AclIndex:
    """All ACLs of a cluster."""

    def __init__(self) -> None:
        self._entries: dict[PatternType, dict[ResourceType, dict[str, _Entries]]] = {
            kind: {resource_type: {} for resource_type in ResourceType}
            for kind in (PatternType.LITERAL, PatternType.PREFIXED)
        }
        self._lengths: dict[ResourceType, tuple[int, ...]] = dict.fromkeys(ResourceType, ())
        """The lengths of prefixes that have entries, in order: a name is cut to each, instead of being
        compared with every prefix. Replaced as a whole, since other threads may look at any time."""
        self._length_counts: dict[ResourceType, Counter[int]] = {kind: Counter() for kind in ResourceType}
        """How many prefixes have each length: `_lengths` loses a length with the last of them."""
        self._names: dict[_About, set[str]] = {}
        """The names of patterns by what an entry of theirs says, for `decide_by_type`; no set is empty."""

    def replace(self, pattern: ResourcePattern, entries: frozenset[AccessControlEntry]) -> bool:
        """Replace the entries of a pattern; none remove it. Returns whether that is a change."""
        table = self._entries[pattern.pattern_type][pattern.resource_type]
        before = table.get(pattern.name)
        present = before.all if before is not None else frozenset()
        if entries == present:
            return False
        if entries:
            table[pattern.name] = _Entries(pattern, entries)
        else:
            del table[pattern.name]
        for entry in present - entries:
            self._forget_name(_about(pattern, entry), pattern.name)
        for entry in entries:
            # Also those that were there: another way to write a host may be gone.
            self._names.setdefault(_about(pattern, entry), set()).add(pattern.name)
        if pattern.pattern_type == PatternType.PREFIXED and bool(entries) is not bool(present):
            self._count_length(pattern, 1 if entries else -1)
        return True

    def _forget_name(self, about: _About, name: str) -> None:
        names = self._names.get(about)
        if names is not None:
            names.discard(name)
            if not names:
                del self._names[about]

    def _count_length(self, pattern: ResourcePattern, change: int) -> None:
        counts = self._length_counts[pattern.resource_type]
        counts[len(pattern.name)] += change
        if counts[len(pattern.name)] in (0, change):
            self._lengths[pattern.resource_type] = tuple(
                sorted(length for length, count in counts.items() if count)
            )

    def patterns(self) -> list[ResourcePattern]:
        """The patterns that have entries."""
        return [
            ResourcePattern(resource_type, name, pattern_type)
            for pattern_type, types in self._entries.items()
            for resource_type, table in types.items()
            for name in list(table)
        ]

    def entries(self, pattern: ResourcePattern) -> frozenset[AccessControlEntry]:
        """The entries of a pattern."""
        table = self._entries.get(pattern.pattern_type, {}).get(pattern.resource_type, {})
        entries = table.get(pattern.name)
        return entries.all if entries is not None else frozenset()

    def bindings(self) -> Iterator[AclBinding]:
        """Everything there is."""
        for pattern in self.patterns():
            for entry in self.entries(pattern):
                yield AclBinding(pattern, entry)

    # --- one resource ---------------------------------------------------------------------------------------

    def _of_resource(self, resource_type: ResourceType, name: str) -> Iterator[_Entries]:
        """Yield what is about a resource: its own name, the prefixes of it, and `*`."""
        literal = self._entries[PatternType.LITERAL][resource_type]
        prefixed = self._entries[PatternType.PREFIXED][resource_type]
        entries = literal.get(name)
        if entries is not None:
            yield entries
        for length in self._lengths[resource_type]:
            if length > len(name):
                break
            entries = prefixed.get(name[:length])
            if entries is not None:
                yield entries
        entries = literal.get(WILDCARD)
        if entries is not None and name != WILDCARD:
            yield entries

    def decide(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        without_acls: bool,
    ) -> AclDecision:
        """May `principal`, calling from `host`, do `operation` to a resource?

        Args:
            principal: who.
            host: the address, as text.
            operation: what.
            resource_type, name: to what.
            without_acls: what holds for a resource that has no ACLs at all.
        """
        host = same_host(host)
        principals = (principal,) if principal == WILDCARD_PRINCIPAL else (principal, WILDCARD_PRINCIPAL)
        allowing = _IMPLIED_BY.get(operation)
        allowed: AclDecision | None = None
        any_found = False
        for entries in self._of_resource(resource_type, name):
            any_found = True
            for name_or_all in principals:
                rules = entries.by_principal.get(name_or_all, ())
                for rule_host, rule_operation, permission, decision in rules:
                    if rule_host not in (WILDCARD, host):
                        continue
                    is_it = rule_operation in (operation, AclOperation.ALL)
                    if permission == AclPermissionType.DENY:
                        # Denying implies nothing, and no rule that allows is looked for any more.
                        if is_it:
                            return decision
                    elif (
                        allowed is None
                        and permission == AclPermissionType.ALLOW
                        and (is_it or (allowing is not None and rule_operation in allowing))
                    ):
                        allowed = decision
        if allowed is not None:
            return allowed
        return _DEFAULT_ALLOW if not any_found and without_acls else _DEFAULT_DENY

    # --- any resource of a type -----------------------------------------------------------------------------

    def decide_by_type(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        *,
        without_acls: bool,
    ) -> bool:
        """May `principal` do `operation` to at least one resource of a type (KIP-679)?

        Args:
            principal: who.
            host: the address, as text.
            operation: what.
            resource_type: to any of which kind.
            without_acls: what holds for a resource that has no ACLs at all.
        """
        host = same_host(host)

        def names(pattern_type: PatternType, permission: AclPermissionType) -> set[str]:
            resources: set[str] = set()
            for entry_principal in {principal, WILDCARD_PRINCIPAL}:
                for entry_host in {host, WILDCARD}:
                    for entry_operation in (operation, AclOperation.ALL):
                        entry = (entry_principal, entry_host, entry_operation, permission)
                        some = self._names.get((resource_type, pattern_type, *entry))
                        if some:
                            resources |= some
            return resources

        denied_names = names(PatternType.LITERAL, AclPermissionType.DENY)
        if WILDCARD in denied_names:
            return False
        if without_acls:
            # There is always a name without ACLs, unless `*` has some that deny.
            return True
        denied_prefixes = names(PatternType.PREFIXED, AclPermissionType.DENY)
        allowed_names = names(PatternType.LITERAL, AclPermissionType.ALLOW)
        if WILDCARD in allowed_names:
            return True
        if any(not _is_below(name, denied_prefixes) for name in allowed_names - denied_names):
            return True
        allowed_prefixes = names(PatternType.PREFIXED, AclPermissionType.ALLOW)
        return any(not _is_below(prefix, denied_prefixes) for prefix in allowed_prefixes)


def _about(pattern: ResourcePattern, entry: AccessControlEntry) -> _About:
    principal, host, operation, permission = entry
    return (
        pattern.resource_type,
        pattern.pattern_type,
        principal,
        same_host(host),
        operation,
        permission,
    )


def _is_below(name: str, prefixes: set[str]) -> bool:
    """Return whether a name, or all that begins with it, is denied by a prefix."""
    return bool(prefixes) and any(name[:length] in prefixes for length in range(len(name) + 1))


def _matching(pattern: ResourcePattern, entry: AccessControlEntry) -> str:
    return (
        f"MatchingAcl(acl=StandardAcl[resourceType={pattern.resource_type.name}, "
        f"resourceName={pattern.name}, patternType={pattern.pattern_type.name}, "
        f"principal={entry.principal}, host={entry.host}, operation={entry.operation.name}, "
        f"permissionType={entry.permission_type.name}])"
    )


def super_users(text: str) -> Sequence[str]:
    """The principals of `super.users`, which semicolons separate.

    Raises:
        ValueError: one of them is no principal.
    """
    return [parse_principal(part.strip()) for part in text.split(";") if part.strip()]
