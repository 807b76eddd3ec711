"""Kafka's operations and resources: may a request do this to that?

Every handler asks `RequestContext.authorize` before it acts; what each asks for stands in
`broker/authorizer/requirements.py`. Without `authorizer.class.name` the broker has no authorizer and every
question is answered with yes, at the price of one attribute check.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.util.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, ResourceType
from odradek.util.acl import AclOperation as Operation

__all__ = [
    "CLUSTER",
    "GROUP_OPERATIONS_BEFORE_4_0",
    "SUPPORTED_OPERATIONS",
    "Operation",
    "Resource",
    "ResourceType",
    "delegation_token",
    "group",
    "topic",
    "transactional_id",
    "user",
]


class Resource(NamedTuple):
    """One thing that an operation is about."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


def topic(name: str) -> Resource:
    """The topic called `name`."""
    return Resource(ResourceType.TOPIC, name)


def group(name: str) -> Resource:
    """The group called `name`."""
    return Resource(ResourceType.GROUP, name)


def transactional_id(name: str) -> Resource:
    """The transactional id `name`."""
    return Resource(ResourceType.TRANSACTIONAL_ID, name)


def delegation_token(token_id: str) -> Resource:
    """The delegation token `token_id`."""
    return Resource(ResourceType.DELEGATION_TOKEN, token_id)


def user(principal: str) -> Resource:
    """The user who is the principal `principal`, such as `User:alice`."""
    return Resource(ResourceType.USER, principal)


GROUP_OPERATIONS_BEFORE_4_0 = (Operation.READ, Operation.DESCRIBE, Operation.DELETE)
"""Groups have configs since then."""
