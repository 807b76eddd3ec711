"""Asks the ACLs, and remembers what they said until one of them changes."""

from __future__ import annotations

import logging
from collections.abc import Collection

from odradek.broker.authorizer import audit
from odradek.broker.authorizer.acl_index import SUPER_USER, AclDecision, AclIndex
from odradek.broker.requests.action import Action
from odradek.broker.requests.authorization import (
    Operation,
    Resource,
    ResourceType,
)
from odradek.broker.requests.authorizer import AuthorizableRequestContext
from odradek.broker.requests.peer import Grants
from odradek.util.acl import AccessControlEntry, ResourcePattern

MOST_DECISIONS = 50_000
"""So many decisions are remembered: some 15 MB. With one more all are forgotten."""

MOST_PRINCIPALS = 10_000
"""Of so many principals, at so many addresses, grants are kept; with one more all are forgotten."""

LONGEST_NAME = 300
"""Decisions about longer names are not remembered. No topic has one."""

_SUPER_USER = AclDecision(True, SUPER_USER)

_Key = tuple[str, str, int, int, str | None]
"""Principal, address, operation, and the resource's type and name; None for any of that type. A plain tuple,
as one is made for each question."""


class AclAuthorizer:
    """See `odradek.broker.requests.authorizer.Authorizer`.

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
        self._grants: dict[tuple[str, str], Grants] = {}

    def replace(self, pattern: ResourcePattern, entries: frozenset[AccessControlEntry]) -> None:
        """Replace the entries of a pattern; every question from now on is answered by them."""
        if self.index.replace(pattern, entries):
            # Whoever decides right now by the ACLs before puts that into the table that nobody uses any more.
            self._decisions = {}
            self._take_back()

    def _take_back(self) -> None:
        """Invalidate what was granted before: who holds it asks again."""
        by_caller, self._grants = self._grants, {}
        for grants in list(by_caller.values()):
            grants.valid = False

    def grants_of(self, principal: str, client_host: str) -> Grants | None:
        """See `Authorizer.grants_of`."""
        if audit.logger.isEnabledFor(logging.DEBUG):
            return None
        key = (principal, client_host)
        grants = self._grants.get(key)
        if grants is None:
            if len(self._grants) >= MOST_PRINCIPALS:
                self._take_back()
            grants = self._grants[key] = Grants(principal)
        return grants

    def look_at_audit(self) -> None:
        """Take grants back once what is granted is to be logged, so that every question is asked again. To be
        called from time to time."""
        if self._grants and audit.logger.isEnabledFor(logging.DEBUG):
            self._take_back()

    def authorize(self, context: AuthorizableRequestContext, action: Action) -> bool:
        """See `Authorizer.authorize`."""
        principal, client_host = context.principal, context.client_host
        operation = action.operation
        resource_type, name = action.resource
        decisions = self._decisions
        key = (principal, client_host, operation, resource_type, name)
        decision = decisions.get(key)
        if decision is None:
            decision = self._decide(principal, client_host, operation, resource_type, name)
            self._remember(decisions, key, name, decision)
        level = audit.level_of(decision, action)
        if audit.logger.isEnabledFor(level):
            audit.tell(level, decision, context, action)
        return decision.allowed

    def _decide(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> AclDecision:
        if principal in self._super_users:
            return _SUPER_USER
        return self.index.decide(
            principal, host, operation, resource_type, name, without_acls=self._without_acls
        )

    def authorize_by_type(
        self, context: AuthorizableRequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """See `Authorizer.authorize_by_type`."""
        principal, client_host = context.principal, context.client_host
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
            self._remember(decisions, key, None, decision)
        action = Action(operation, Resource(resource_type, "NONE"), 0)
        level = audit.level_of(decision, action)
        if audit.logger.isEnabledFor(level):
            audit.tell(level, decision, context, action, pattern_type="UNKNOWN")
        return decision.allowed

    def _remember(
        self, decisions: dict[_Key, AclDecision], key: _Key, name: str | None, decision: AclDecision
    ) -> None:
        """Keep a decision, unless its resource has a name that no resource can have."""
        if name is not None and len(name) > LONGEST_NAME:
            return
        if len(decisions) >= MOST_DECISIONS:
            decisions.clear()
            # Each grant was a decision: so these are bounded, too.
            self._take_back()
        decisions[key] = decision
