"""The decider of what a principal may do, as requests see it: a protocol, and what it is told of who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from odradek.broker.requests.action import Action
    from odradek.broker.requests.authorization import Operation, ResourceType
    from odradek.broker.requests.peer import Grants


class AuthorizableRequestContext(Protocol):
    """The asker of a question, and the request that it is asked for: `RequestContext`.

    Kafka: `org.apache.kafka.server.authorizer.AuthorizableRequestContext`.
    """

    @property
    def principal(self) -> str:
        """The user, such as `User:alice`."""

    @property
    def client_host(self) -> str:
        """The address as text."""

    @property
    def api_key(self) -> int:
        """The number of the request's API, for the audit log."""


class Authorizer(Protocol):
    """Decides what a principal may do, and writes the audit log; absent until ACLs are configured."""

    def authorize(self, context: AuthorizableRequestContext, action: Action) -> bool:
        """Return whether the principal of `context`, calling from there, may do `action`."""
        ...

    def grants_of(self, principal: str, client_host: str) -> Grants | None:
        """Return where to note what `principal` may do, from `client_host`, until an ACL changes.

        None: each question is to be asked, as each answer is to be logged.
        """
        ...

    def authorize_by_type(
        self, context: AuthorizableRequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether the principal of `context` may do `operation` to at least one resource of a type."""
        ...
