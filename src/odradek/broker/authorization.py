"""Kafka's operations and resources: may a request do this to that?

Every handler asks `RequestContext.authorize` before it acts. Until ACLs are configured the broker has no
authorizer and every question is answered with yes, at the price of one attribute check.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol


class Operation(IntEnum):
    """Kafka's ACL operations; the numbers go over the wire (`AclOperation`)."""

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


class ResourceType(IntEnum):
    """Kinds of things that ACLs are about; the numbers go over the wire (`ResourceType`)."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Resource(NamedTuple):
    """One thing that an operation is about."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, "kafka-cluster")


def topic(name: str) -> Resource:
    """The topic called `name`."""
    return Resource(ResourceType.TOPIC, name)


def group(name: str) -> Resource:
    """The group called `name`."""
    return Resource(ResourceType.GROUP, name)


def transactional_id(name: str) -> Resource:
    """The transactional id `name`."""
    return Resource(ResourceType.TRANSACTIONAL_ID, name)


class Authorizer(Protocol):
    """Decides what a principal may do; absent until ACLs are configured."""

    def authorize(self, principal: str, client_host: str, operation: Operation, resource: Resource) -> bool:
        """Return whether `principal`, calling from `client_host`, may do `operation` to `resource`."""
        ...


_O = Operation
SUPPORTED_OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
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
