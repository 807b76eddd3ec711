"""Keeps the authorizer's ACLs as the metadata store has them: loads, follows and changes them.

All but `changed` runs in the controller's turn (`odradek.cluster.controller.event_queue`), one piece of work
at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from odradek.broker.authorizer.acl_authorizer import AclAuthorizer
from odradek.broker.authorizer.acl_index import super_users
from odradek.broker.config.protection import AUTHORIZERS
from odradek.cluster.access import acls
from odradek.cluster.access.acl_nodes import CHANGES
from odradek.cluster.access.acls import AclChange, AclNotices, VersionedAcls
from odradek.cluster.configs.config_def import ConfigError
from odradek.cluster.controller.event_queue import EventQueue
from odradek.cluster.inter_broker_versions import at_least
from odradek.cluster.nodes import NodeFormatError
from odradek.cluster.store.store import MetadataStore, StoreError, WatchEvent
from odradek.errors import InvalidRequestError, KafkaError, UnknownServerError
from odradek.util.acl import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
    is_concrete,
    parse_principal,
)
from odradek.util.clock import Clock

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig

logger = logging.getLogger(__name__)


class StoreAccess(Protocol):
    """The controller, as far as it says where the ACLs are: the present session, and whose turn it is."""

    store: MetadataStore
    event_queue: EventQueue


class AclKeeper:
    """The ACLs between the store and the authorizer.

    Attributes:
        authorizer: what is kept.
    """

    def __init__(
        self, authorizer: AclAuthorizer, access: StoreAccess, clock: Clock, *, old_names: bool = False
    ) -> None:
        """
        Args:
            authorizer: what is to be kept as the store says.
            access: the way to the store.
            clock: says which notices are old.
            old_names: see `acl_nodes.encode_change`.
        """
        self.authorizer = authorizer
        self._access = access
        self._clock = clock
        self._old_names = old_names
        self._notices = AclNotices()
        self._versions: dict[ResourcePattern, VersionedAcls] = {}
        """Patterns as their nodes were read or written; a write names the node's version, so that no other
        broker's change is lost. A pattern without a node is not in it."""
        self._unseen = False
        """Whether a look has failed, or has left something unread: `look_again` comes back to it."""
        self._is_posted = False
        """Whether a look waits for its turn, which will see all that is reported until then."""
        self._unread: dict[ResourcePattern, None] = {}
        """Patterns whose notices are counted as seen, and whose nodes could not be read."""
        self._watched: MetadataStore | None = None
        """The session that is followed: what an ended one had posted does nothing any more."""

    def load(self) -> None:
        """Read everything, and follow it from now on; again whenever there is a new session with the store.

        Raises:
            StoreError: the store cannot be read, or does not hold what Kafka writes there.
        """
        store = self._access.store
        acls.create_acl_paths(store)
        self._notices = AclNotices()
        for root in CHANGES:
            store.watch_persistent(root, self._on_event)
        self._watched = store
        self._notices.pass_over(store)
        loaded = acls.load_acls(store)
        for pattern in self.authorizer.index.patterns():
            if pattern not in loaded:
                self._take(pattern, acls.NO_ACLS)
        for pattern, versioned in loaded.items():
            self._take(pattern, versioned)
        self._unseen = False
        self._unread.clear()
        logger.info("acls loaded patterns=%d", len(loaded))

    def stop(self) -> None:
        """Follow nothing any more."""
        store, self._watched = self._watched, None
        if store is not None:
            for root in CHANGES:
                store.unwatch(root, self._on_event)

    def look_again(self) -> None:
        """Look at what could not be followed before, and at the audit log's level; from time to time."""
        self.authorizer.look_at_audit()
        if self._unseen:
            self._access.event_queue.post(self._follow)

    def _on_event(self, _event: WatchEvent) -> None:
        # On a thread of the store's. One look sees all that has come by then.
        if not self._is_posted:
            self._is_posted = True
            self._access.event_queue.post(self._follow)

    def _follow(self) -> None:
        """Read what others have changed."""
        self._is_posted = False
        store = self._access.store
        if store is not self._watched:
            return
        self._unseen = True
        try:
            self._unread |= dict.fromkeys(self._notices.fresh(store, self._clock.now_ms()))
            self._read_changed(store)
            self._unseen = bool(self._unread)
        except StoreError as error:
            logger.warning("changed ACLs cannot be read yet: %s", error)

    def _read_changed(self, store: MetadataStore) -> None:
        for pattern in list(self._unread):
            try:
                versioned = acls.load_pattern(store, pattern)
            except NodeFormatError as error:
                # What was known of it stays, and the other changes are not kept back.
                logger.warning("changed ACLs cannot be read yet: %s", error)
                continue
            self._take(pattern, versioned)
            del self._unread[pattern]

    def _take(self, pattern: ResourcePattern, versioned: VersionedAcls) -> None:
        if versioned.version == acls.NO_VERSION:
            self._versions.pop(pattern, None)
        else:
            self._versions[pattern] = versioned
        self.authorizer.replace(pattern, versioned.entries)

    # --- what clients ask for -------------------------------------------------------------------------------

    def create(self, bindings: Sequence[AclBinding]) -> list[KafkaError | None]:
        """Add bindings; those that are there already stay.

        Returns:
            For each, in order, why it could not be added.
        """
        results: list[KafkaError | None] = [None] * len(bindings)
        additions: dict[ResourcePattern, dict[int, AccessControlEntry]] = {}
        for at, binding in enumerate(bindings):
            try:
                _check(binding)
            except KafkaError as error:
                results[at] = error
            else:
                additions.setdefault(binding.pattern, {})[at] = binding.entry
        changes = [
            AclChange(pattern, partial(_with, frozenset(entries.values())))
            for pattern, entries in additions.items()
        ]
        for pattern, failure in self._change(changes).items():
            for at in additions[pattern]:
                results[at] = failure
        return results

    def delete(self, filters: Sequence[AclBindingFilter]) -> list[dict[AclBinding, KafkaError | None]]:
        """Remove what filters let through.

        Returns:
            For each filter, what it was the first to let through, and why that could not be removed.
        """
        patterns = dict.fromkeys(self.authorizer.index.patterns())
        # A filter that names its patterns reads their nodes: a notice of another broker may be under way.
        for acl_filter in filters:
            patterns |= dict.fromkeys(acl_filter.pattern.definite_patterns())
        outcomes: list[dict[AclBinding, KafkaError | None]] = [{} for _ in filters]
        removals: dict[ResourcePattern, _Removal] = {}
        for pattern in patterns:
            matching = {
                at: acl_filter for at, acl_filter in enumerate(filters) if acl_filter.pattern.matches(pattern)
            }
            if matching:
                removals[pattern] = _Removal(matching)
        failed = self._change([AclChange(pattern, removal.remove) for pattern, removal in removals.items()])
        for pattern, removal in removals.items():
            for entry, at in removal.removed.items():
                outcomes[at][AclBinding(pattern, entry)] = failed.get(pattern)
        return outcomes

    def _change(self, changes: Sequence[AclChange]) -> dict[ResourcePattern, KafkaError]:
        failed: dict[ResourcePattern, KafkaError] = {}
        store = self._access.store
        versions: Mapping[ResourcePattern, VersionedAcls] = self._versions
        for pattern, result in acls.change_acls(store, changes, versions, old_names=self._old_names).items():
            if isinstance(result, VersionedAcls):
                self._take(pattern, result)
            else:
                logger.warning("ACLs cannot be changed pattern=%s: %s", pattern, result)
                failed[pattern] = UnknownServerError(f"the ACLs of {pattern} cannot be written: {result}")
        return failed


class _Removal:
    """The removal of what filters let through of one pattern's entries.

    Attributes:
        removed: what, and by which filter.
    """

    def __init__(self, filters: Mapping[int, AclBindingFilter]) -> None:
        self._filters = filters
        self.removed: dict[AccessControlEntry, int] = {}

    def remove(self, entries: frozenset[AccessControlEntry]) -> frozenset[AccessControlEntry]:
        """See `AclChange.change`. The last call counts."""
        self.removed = {}
        for entry in sorted(entries):
            for at, acl_filter in self._filters.items():
                if acl_filter.entry.matches(entry):
                    self.removed[entry] = at
                    break
        return entries - self.removed.keys()


def _with(
    added: frozenset[AccessControlEntry], entries: frozenset[AccessControlEntry]
) -> frozenset[AccessControlEntry]:
    return entries | added


def _check(binding: AclBinding) -> None:
    """Check that a binding can be kept.

    Raises:
        InvalidRequestError: it cannot; the message says why.
    """
    pattern, entry = binding
    if not is_concrete(binding):
        raise InvalidRequestError("ACL binding contains unknown elements")
    if "/" in pattern.name:
        raise InvalidRequestError(f"ACL binding contains invalid resource name: {pattern.name}")
    try:
        parse_principal(entry.principal)
    except ValueError as error:
        raise InvalidRequestError(f"Could not parse principal: {error}") from None


def make_authorizer(config: BrokerConfig, access: StoreAccess, clock: Clock) -> AclKeeper | None:
    """The authorizer of `authorizer.class.name`, its ACLs not loaded yet; None where nothing is named.

    `super.users` and `allow.everyone.if.no.acl.found` are configs of the authorizer's, not of the broker's:
    in Kafka, too, the class that is named reads them.

    Args:
        config: the broker's configs.
        access: the controller, whose store has the ACLs.
        clock: wall-clock time.

    Raises:
        ConfigError: `super.users` or `allow.everyone.if.no.acl.found` is not what it must be.
    """
    if config.authorizer_class_name.strip() not in AUTHORIZERS:
        # Another one has been refused, unless `odradek.insecure` says that there need be none.
        return None
    everyone = config.given.get("allow.everyone.if.no.acl.found", "false").strip().lower()
    try:
        supers = super_users(config.given.get("super.users", ""))
    except ValueError as error:
        raise ConfigError(
            f"super.users: {error}. Separate principals such as User:admin by semicolons."
        ) from None
    return AclKeeper(
        AclAuthorizer(supers, everyone == "true"),
        access,
        clock,
        old_names=not at_least(config.inter_broker_protocol_version, "2.4-IV0"),
    )
