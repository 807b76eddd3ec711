"""ACLs and quotas as pages and forms carry them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.util.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
    is_concrete,
    parse_operation,
    parse_pattern_type,
    parse_permission_type,
    parse_principal,
    parse_resource_type,
)

RESOURCE_TYPES = tuple(kind.pascal_name for kind in SUPPORTED_OPERATIONS)
OPERATIONS = tuple(
    operation.pascal_name
    for operation in AclOperation
    if operation not in (AclOperation.UNKNOWN, AclOperation.ANY)
)
QUOTAS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
#: A user, a client id, both, or an address: (type, name) pairs; a name of None stands for the default.
Entity = tuple[tuple[str, str | None], ...]
DEFAULT = "<default>"
"""The word of Kafka's tools for the default of users, client ids or addresses."""


def binding_fields(binding: AclBinding) -> dict[str, str]:
    """Return the fields of a form that mean an ACL."""
    pattern, entry = binding
    return {
        "type": pattern.resource_type.pascal_name,
        "name": pattern.name,
        "pattern": pattern.pattern_type.pascal_name,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.pascal_name,
        "permission": entry.permission_type.pascal_name,
    }


def parse_binding(fields: Mapping[str, str]) -> AclBinding:
    """Return the ACL that a form means.

    Raises:
        ValueError: it means none.
    """
    kind = parse_resource_type(fields.get("type", ""))
    name = CLUSTER_NAME if kind == ResourceType.CLUSTER else fields.get("name", "")
    binding = AclBinding(
        ResourcePattern(kind, name, parse_pattern_type(fields.get("pattern", ""))),
        AccessControlEntry(
            parse_principal(fields.get("principal", "").strip()),
            fields.get("host", "").strip() or "*",
            parse_operation(fields.get("operation", "")),
            parse_permission_type(fields.get("permission", "")),
        ),
    )
    if not name or not is_concrete(binding):
        raise ValueError("Resource: it has to have a type and a name.")
    supported = (*SUPPORTED_OPERATIONS.get(kind, ()), AclOperation.ALL)
    if binding.entry.operation not in supported:
        there = ", ".join(operation.pascal_name for operation in supported)
        raise ValueError(f"Operation: for {kind.pascal_name} there are only {there}.")
    return binding


def acl_words(binding: AclBinding) -> list[str]:
    """Return the words by which `odradek acls` means an ACL; none where it has no words for it."""
    pattern, entry = binding
    option = {
        ResourceType.TOPIC: "--topic",
        ResourceType.GROUP: "--group",
        ResourceType.TRANSACTIONAL_ID: "--transactional-id",
        ResourceType.DELEGATION_TOKEN: "--delegation-token",
        ResourceType.USER: "--user-principal",
    }
    if pattern.resource_type == ResourceType.CLUSTER:
        resource = ["--cluster"]
    elif pattern.resource_type in option:
        resource = [option[pattern.resource_type], pattern.name]
    else:
        return []
    if pattern.pattern_type != PatternType.LITERAL:
        resource += ["--resource-pattern-type", pattern.pattern_type.pascal_name.lower()]
    verb = "allow" if entry.permission_type == AclPermissionType.ALLOW else "deny"
    host = [] if entry.host == "*" else [f"--{verb}-host", entry.host]
    return [
        *resource,
        f"--{verb}-principal",
        entry.principal,
        *host,
        "--operation",
        entry.operation.pascal_name,
    ]


def parse_entity(fields: Mapping[str, str]) -> Entity:
    """Return the entity of a form; `<default>` stands for the default.

    Raises:
        ValueError: it names none, or parts that do not go together.
    """
    given = {kind: fields.get(kind.replace("-", "_"), "").strip() for kind in ("user", "client-id", "ip")}
    entity = tuple((kind, None if name == DEFAULT else name) for kind, name in sorted(given.items()) if name)
    if not entity:
        raise ValueError("Name a user, a client id or an address.")
    if given["ip"] and len(entity) > 1:
        raise ValueError("Address: its quotas are of no user or client id.")
    return entity


def entity_fields(entity: Entity) -> dict[str, str]:
    """Return the fields of a form that mean an entity."""
    return {kind.replace("-", "_"): DEFAULT if name is None else name for kind, name in entity}


def quota_words(entity: Entity) -> list[str]:
    """Return the words by which `odradek configs` means an entity."""
    options = {"user": "user", "client-id": "client", "ip": "ip"}
    words: list[str] = []
    for kind, name in entity:
        words += [f"--{options[kind]}-defaults"] if name is None else [f"--{options[kind]}", name]
    return words


def entity_text(entity: Iterable[tuple[str, str | None]]) -> str:
    """Return an entity for people."""
    return ", ".join(f"{kind} {DEFAULT if name is None else name}" for kind, name in entity)
