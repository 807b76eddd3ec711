"""Who asks in the matrix, from where, and under which ACLs."""

from __future__ import annotations

from odradek.util.acl import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)

HOME, AWAY = "127.0.0.1", "127.0.0.2"
_O = AclOperation
TOPIC_OPERATIONS = (
    _O.READ,
    _O.WRITE,
    _O.CREATE,
    _O.DELETE,
    _O.ALTER,
    _O.DESCRIBE,
    _O.DESCRIBE_CONFIGS,
    _O.ALTER_CONFIGS,
)
GROUP_OPERATIONS = (_O.READ, _O.DESCRIBE, _O.DELETE, _O.ALL)
CLUSTER_OPERATIONS = (
    _O.CREATE,
    _O.ALTER,
    _O.DESCRIBE,
    _O.CLUSTER_ACTION,
    _O.DESCRIBE_CONFIGS,
    _O.ALTER_CONFIGS,
    _O.IDEMPOTENT_WRITE,
)
IDS_OPERATIONS = (_O.DESCRIBE, _O.WRITE, _O.ALL)
NOBODY, ADMIN = "nobody", "admin"
TOPIC_USERS = [f"t-{one.name.lower()}" for one in TOPIC_OPERATIONS]
GROUP_USERS = [f"g-{one.name.lower()}" for one in GROUP_OPERATIONS]
CLUSTER_USERS = [f"c-{one.name.lower()}" for one in CLUSTER_OPERATIONS]
IDS_USERS = [f"x-{one.name.lower()}" for one in IDS_OPERATIONS]
MIXED_USERS = ["all", "all-but", "hosted", "producer", "consumer"]
USERS = [ADMIN, NOBODY, *TOPIC_USERS, *GROUP_USERS, *CLUSTER_USERS, *IDS_USERS, *MIXED_USERS]
_T, _G, _C, _X = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
_LITERAL, _PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def _acl(
    user: str,
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    pattern: PatternType = _LITERAL,
    *,
    deny: bool = False,
    host: str = "*",
) -> AclBinding:
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    return AclBinding(
        ResourcePattern(kind, name, pattern),
        AccessControlEntry(f"User:{user}", host, operation, permission),
    )


def acls() -> list[AclBinding]:
    """The ACLs under which all is asked."""
    found = [
        _acl("*", _T, "public", _O.DESCRIBE),
        _acl("*", _G, "any-g", _O.READ),
        _acl("*", _G, "any-g", _O.DELETE),
        _acl("*", _X, "any-x", _O.WRITE),
    ]
    for user, operation in zip(TOPIC_USERS, TOPIC_OPERATIONS, strict=True):
        found += [_acl(user, _T, "lit", operation), _acl(user, _T, "pre-", operation, _PREFIXED)]
    for user, operation in zip(GROUP_USERS, GROUP_OPERATIONS, strict=True):
        found += [
            _acl(user, _G, "lit-g", operation),
            _acl(user, _G, "pre-", operation, _PREFIXED),
            _acl(user, _T, "public", _O.READ),
        ]
    for user, operation in zip(CLUSTER_USERS, CLUSTER_OPERATIONS, strict=True):
        found.append(_acl(user, _C, "kafka-cluster", operation))
    for user, operation in zip(IDS_USERS, IDS_OPERATIONS, strict=True):
        found += [
            _acl(user, _X, "lit-x", operation),
            _acl(user, _X, "pre-", operation, _PREFIXED),
            _acl(user, _T, "public", _O.WRITE),
        ]
    for kind in (_T, _G, _X):
        found += [
            _acl("all", kind, "*", _O.ALL),
            _acl("all-but", kind, "*", _O.ALL),
            _acl("all-but", kind, "pre-", _O.ALL, _PREFIXED, deny=True),
            _acl("hosted", kind, "*", _O.ALL, host=AWAY),
            _acl("hosted", kind, "pre-", _O.ALL, _PREFIXED),
            _acl("hosted", kind, "pre-", _O.READ, _PREFIXED, deny=True, host=HOME),
        ]
    found += [
        _acl("all", _C, "kafka-cluster", _O.ALL),
        _acl("all-but", _C, "kafka-cluster", _O.ALL),
        _acl("all-but", _C, "kafka-cluster", _O.ALTER, deny=True),
        _acl("all-but", _T, "lit", _O.WRITE, deny=True),
        _acl("all-but", _G, "lit-g", _O.READ, deny=True),
        _acl("all-but", _X, "lit-x", _O.DESCRIBE, deny=True),
        _acl("hosted", _C, "kafka-cluster", _O.DESCRIBE, host=AWAY),
    ]
    for operation in (_O.WRITE, _O.DESCRIBE, _O.CREATE):
        found.append(_acl("producer", _T, "pre-", operation, _PREFIXED))
    for operation in (_O.WRITE, _O.DESCRIBE):
        found.append(_acl("producer", _X, "lit-x", operation))
    for operation in (_O.READ, _O.DESCRIBE):
        found.append(_acl("consumer", _T, "lit", operation))
    found.append(_acl("consumer", _G, "lit-g", _O.READ))
    return found
