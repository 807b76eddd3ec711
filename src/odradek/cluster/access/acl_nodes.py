"""The nodes in which ACLs are kept, and the notices of their changes, as Kafka's `AclAuthorizer` has them.

| node | data |
|---|---|
| `/kafka-acl/<Type>/<name>` | the entries of a literal pattern, JSON |
| `/kafka-acl-extended/prefixed/<Type>/<name>` | those of a prefix |
| `/kafka-acl-changes/acl_changes_<10 digits>` | `TOPIC:orders`; releases before 2.4 write `Topic:orders` |
| `/kafka-acl-extended-changes/acl_changes_<10 digits>` | the pattern, JSON |
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.cluster.nodes import NodeFormatError, dump, load
from odradek.util.acl import (
    AccessControlEntry,
    PatternType,
    ResourcePattern,
    ResourceType,
    parse_operation,
    parse_pattern_type,
    parse_permission_type,
    parse_principal,
    parse_resource_type,
)

LITERAL_ACLS = "/kafka-acl"
PREFIXED_ACLS = "/kafka-acl-extended/prefixed"
LITERAL_CHANGES = "/kafka-acl-changes"
EXTENDED_CHANGES = "/kafka-acl-extended-changes"

ROOTS = {PatternType.LITERAL: LITERAL_ACLS, PatternType.PREFIXED: PREFIXED_ACLS}
CHANGES = (LITERAL_CHANGES, EXTENDED_CHANGES)

_SEQUENCE = "acl_changes_"
_VERSION = 1

RESOURCE_TYPES = tuple(kind for kind in ResourceType if kind > ResourceType.ANY)

PERSISTENT_PATHS = (
    *(f"{root}/{kind.pascal_name}" for root in ROOTS.values() for kind in RESOURCE_TYPES),
    *CHANGES,
)
"""The nodes that an authorizer creates at its start where they are missing."""


def acls_path(pattern: ResourcePattern) -> str:
    """The node that holds the entries of a pattern."""
    return f"{ROOTS[pattern.pattern_type]}/{pattern.resource_type.pascal_name}/{pattern.name}"


def encode_acls(entries: Iterable[AccessControlEntry]) -> bytes:
    """The data of a pattern's node, version 1."""
    return dump(
        {
            "version": _VERSION,
            "acls": [
                {
                    "principal": entry.principal,
                    "permissionType": entry.permission_type.pascal_name,
                    "operation": entry.operation.pascal_name,
                    "host": entry.host,
                }
                for entry in sorted(entries)
            ],
        }
    )


def decode_acls(path: str, data: bytes | None) -> frozenset[AccessControlEntry]:
    """Read a pattern's node; one without data has no entries.

    Raises:
        NodeFormatError: it does not hold what Kafka writes there.
    """
    if not data:
        return frozenset()
    value = load(path, data)
    if value.get("version") != _VERSION:
        raise NodeFormatError(path, f"node {path} has ACLs of the unknown version {value.get('version')!r}")
    try:
        return frozenset(
            AccessControlEntry(
                parse_principal(entry["principal"]),
                entry["host"],
                parse_operation(entry["operation"]),
                parse_permission_type(entry["permissionType"]),
            )
            for entry in value["acls"]
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise NodeFormatError(path, f"node {path} does not hold ACLs: {error}") from error


def change_path(pattern: ResourcePattern) -> str:
    """The beginning of the sequence node that tells of a change of a pattern's entries."""
    root = LITERAL_CHANGES if pattern.pattern_type == PatternType.LITERAL else EXTENDED_CHANGES
    return f"{root}/{_SEQUENCE}"


def encode_change(pattern: ResourcePattern, *, old_names: bool = False) -> bytes:
    """The data of a notice.

    Args:
        pattern: what has changed.
        old_names: write `TransactionalId`, as releases before 2.4 do, which know no `TRANSACTIONAL_ID`.
    """
    kind = pattern.resource_type.pascal_name if old_names else pattern.resource_type.name
    if pattern.pattern_type == PatternType.LITERAL:
        return f"{kind}:{pattern.name}".encode()
    return dump(
        {
            "version": _VERSION,
            "resourceType": kind,
            "name": pattern.name,
            "patternType": pattern.pattern_type.name,
        }
    )


def decode_change(path: str, data: bytes | None) -> ResourcePattern:
    """Read a notice, of whatever release.

    Raises:
        NodeFormatError: it does not hold what Kafka writes there.
    """
    if path.startswith(f"{LITERAL_CHANGES}/"):
        kind, colon, name = (data or b"").decode(errors="replace").partition(":")
        pattern = ResourcePattern(parse_resource_type(kind), name, PatternType.LITERAL)
        if not colon:
            pattern = pattern._replace(resource_type=ResourceType.UNKNOWN)
    else:
        value = load(path, data)
        pattern = ResourcePattern(
            parse_resource_type(str(value.get("resourceType"))),
            str(value.get("name")),
            parse_pattern_type(str(value.get("patternType"))),
        )
    if pattern.resource_type <= ResourceType.ANY or pattern.pattern_type not in ROOTS or not pattern.name:
        raise NodeFormatError(path, f"node {path} does not tell of a change of ACLs: {data!r}")
    return pattern


def sequence_of(name: str) -> int:
    """The number of a notice; -1 for a node that is none."""
    digits = name.removeprefix(_SEQUENCE)
    return int(digits) if digits != name and digits.isdecimal() else -1
