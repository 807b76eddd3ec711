"""Asks the ACLs, and remembers what they said until one of them changes."""

from __future__ import annotations

from collections.abc import Collection

from odradek.broker.authorization import Operation, Resource, ResourceType
from odradek.broker.authorizer import audit
from odradek.broker.authorizer.acl_index import SUPER_USER, AclDecision, AclIndex
from odradek.util.acl import AccessControlEntry, ResourcePattern

MOST_DECISIONS = 50_000
"""So many decisions are remembered: some 15 MB. With one more all are forgotten."""

LONGEST_NAME = 300
"""Decisions about longer names are not remembered. No topic has one."""

_SUPER_USER = AclDecision(True, SUPER_USER)

_Key = tuple[str, str, int, int, str | None]


class AclAuthorizer:
    """See `odradek.broker.authorization.Authorizer`.

    Questions may come from the event loop and from the controller's thread at once; changes come from one
    thread at a time.

    Attributes:
        index: the ACLs.
    """

    def __init__(self, super_users: Collection[str], allow_everyone_if_no_acl_found: bool) -> None:
        """
        Args:
            super_users: principals that may do everything (`super.users`).
            allow_everyone_if_no_acl_found: what holds for a resource without any ACL.
        """
        self.index = AclIndex()
        self._super_users = frozenset(super_users)
        self._without_acls = allow_everyone_if_no_acl_found
        self._decisions: dict[_Key, AclDecision] = {}

    def replace(self, pattern: ResourcePattern, entries: frozenset[AccessControlEntry]) -> None:
        """Have a pattern have these entries, from now on."""
        if self.index.replace(pattern, entries):
            # Whoever decides right now by the ACLs before puts that into the table that nobody uses any more.
            self._decisions = {}

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
        """See `Authorizer.authorize`."""
        resource_type, name = resource
        decisions = self._decisions
        key = (principal, client_host, operation, resource_type, name)
        decision = decisions.get(key)
        if decision is None:
            decision = self._decide(principal, client_host, operation, resource_type, name)
            _remember(decisions, key, decision)
        allowed = decision.allowed
        level = audit.level_of(allowed, log_if_allowed, log_if_denied)
        if audit.logger.isEnabledFor(level):
            audit.tell(
                level, decision, principal, client_host, operation, resource_type, name, api_key, count
            )
        return allowed

    def _decide(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> AclDecision:
        if principal in self._super_users:
            return _SUPER_USER
        return self.index.decide(
            principal, host, operation, resource_type, name, without_acls=self._without_acls
        )

    def authorize_by_type(
        self,
        principal: str,
        client_host: str,
        operation: Operation,
        resource_type: ResourceType,
        api_key: int,
    ) -> bool:
        """See `Authorizer.authorize_by_type`."""
        if principal in self._super_users:
            return True
        decisions = self._decisions
        key = (principal, client_host, operation, resource_type, None)
        decision = decisions.get(key)
        if decision is None:
            allowed = self.index.decide_by_type(
                principal, client_host, operation, resource_type, without_acls=self._without_acls
            )
            decision = AclDecision(allowed, "AnyResourceOfType")
            _remember(decisions, key, decision)
        level = audit.level_of(decision.allowed, True, True)
        if audit.logger.isEnabledFor(level):
            audit.tell(
                level,
                decision,
                principal,
                client_host,
                operation,
                resource_type,
                "NONE",
                api_key,
                0,
                pattern_type="UNKNOWN",
            )
        return decision.allowed


def _remember(decisions: dict[_Key, AclDecision], key: _Key, decision: AclDecision) -> None:
    name = key[4]
    if name is not None and len(name) > LONGEST_NAME:
        return
    if len(decisions) >= MOST_DECISIONS:
        decisions.clear()
    decisions[key] = decision
