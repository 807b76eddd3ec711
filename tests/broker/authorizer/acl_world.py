"""A broker's metadata with an authorizer over it, and short words for ACLs."""

from __future__ import annotations

from typing import NamedTuple

from odradek.broker.authorizer.acl_authorizer import AclAuthorizer
from odradek.broker.authorizer.acl_keeper import AclKeeper
from odradek.util.acl import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from odradek.wire.api import ApiKey

from ..admin_world import World

ADMIN = "User:admin"


class Asker(NamedTuple):
    """An `AuthorizableRequestContext`."""

    principal: str
    client_host: str = "1.2.3.4"
    api_key: int = ApiKey.PRODUCE


def acl(
    name: str,
    operation: AclOperation,
    principal: str = "User:alice",
    *,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
    deny: bool = False,
) -> AclBinding:
    """One binding."""
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    return AclBinding(
        ResourcePattern(kind, name, pattern), AccessControlEntry(principal, host, operation, permission)
    )


def guarded(world: World | None = None, *bindings: AclBinding) -> World:
    """A world that has an authorizer, with `User:admin` as super user."""
    world = world or World()
    world.acls = AclKeeper(AclAuthorizer([ADMIN], False), world.controller, world.clock)
    world.acls.load()
    world.authorizer = world.acls.authorizer
    assert world.acls.create(bindings) == [None] * len(bindings)
    return world
