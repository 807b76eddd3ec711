"""Kafka's operations and resources: may a request do this to that?

Every handler asks `RequestContext.authorize` before it acts; what each asks for stands in
`broker/authorizer/requirements.py`. Without `authorizer.class.name` the broker has no authorizer and every
question is answered with yes, at the price of one attribute check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from odradek.util.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, ResourceType
from odradek.util.acl import AclOperation as Operation

if TYPE_CHECKING:
    from odradek.broker.requests.peer import Grants

__all__ = [
    "CLUSTER",
    "GROUP_OPERATIONS_BEFORE_4_0",
    "SUPPORTED_OPERATIONS",
    "Authorizer",
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


class Authorizer(Protocol):
    """Decides what a principal may do, and writes the audit log; absent until ACLs are configured."""

    def authorize(
        self,
        principal: str,
        client_host: str,
        operation: Operation,
        resource: Resource,
        api_key: int,
        count: int,
        log_if_allowed: bool,
        log_if_denied: bool,
    ) -> bool:
        """Return whether `principal`, calling from `client_host`, may do `operation` to `resource`.

        Args:
            principal: such as `User:alice`.
            client_host: the address as text.
            operation, resource: what to what.
            api_key: of the request, for the audit log.
            count: how often the request names the resource.
            log_if_allowed: whether access is granted by this; not, where it only says what could be done.
            log_if_denied: whether access was asked for by name; not, where what is hidden is left out.
        """
        ...

    def grants_of(self, principal: str, client_host: str) -> Grants | None:
        """Return where to note what `principal` may do, from `client_host`, until an ACL changes.

        None: each question is to be asked, as each answer is to be logged.
        """
        ...

    def authorize_by_type(
        self,
        principal: str,
        client_host: str,
        operation: Operation,
        resource_type: ResourceType,
        api_key: int,
    ) -> bool:
        """Return whether `principal` may do `operation` to at least one resource of a type."""
        ...


GROUP_OPERATIONS_BEFORE_4_0 = (Operation.READ, Operation.DESCRIBE, Operation.DELETE)
"""Groups have configs since then."""
