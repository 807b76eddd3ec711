"""ACLs in the metadata store: loaded, changed under the guard of their version, and followed.

The nodes, the guards and the notices are those of Kafka's `AclAuthorizer`, so that brokers and tools of Kafka
over the same ZooKeeper see ours and we see theirs. A change and its notice are one transaction here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.cluster.access import acl_nodes
from odradek.cluster.nodes import NodeFormatError
from odradek.cluster.store.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    MetadataStore,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SetData,
    Stat,
    StoreError,
    ensure_path,
)
from odradek.util.acl import AccessControlEntry, ResourcePattern

logger = logging.getLogger(__name__)

CHANGE_EXPIRY_MS = 15 * 60 * 1000
"""How long a notice stays, for brokers that were away."""

MOST_TRIES = 11
"""So often a change is tried when others change the same node at the same time."""

_PATTERNS_AT_ONCE = 50
"""Changes of so many patterns share a transaction, and one sync of the disk."""

NO_VERSION = -1
"""The version of a node that does not exist."""


class VersionedAcls(NamedTuple):
    """The entries of a pattern, and the version of their node; `NO_VERSION` where there is none."""

    entries: frozenset[AccessControlEntry]
    version: int


NO_ACLS = VersionedAcls(frozenset(), NO_VERSION)


class AclChange(NamedTuple):
    """A change of a pattern's entries: makes the new ones of the present ones."""

    pattern: ResourcePattern
    change: Callable[[frozenset[AccessControlEntry]], frozenset[AccessControlEntry]]


def create_acl_paths(store: MetadataStore) -> None:
    """Create the nodes that all ACLs are below, where they are missing.

    Raises:
        StoreError: the store cannot be written.
    """
    for path in acl_nodes.PERSISTENT_PATHS:
        ensure_path(store, path)


def load_acls(store: MetadataStore) -> dict[ResourcePattern, VersionedAcls]:
    """All ACLs. Nodes of types of resources that are not known are passed over.

    Raises:
        StoreError: the store cannot be read.
        NodeFormatError: a node does not hold what Kafka writes there. An entry that denies might stand in it.
    """
    patterns: list[ResourcePattern] = []
    for pattern_type, root in acl_nodes.ROOTS.items():
        for kind in acl_nodes.RESOURCE_TYPES:
            try:
                names = store.children(f"{root}/{kind.pascal_name}")
            except NoNode:
                continue
            patterns += [ResourcePattern(kind, name, pattern_type) for name in names]
    contents = store.get_many([acl_nodes.acls_path(pattern) for pattern in patterns])
    return {
        pattern: VersionedAcls(
            acl_nodes.decode_acls(acl_nodes.acls_path(pattern), content.data), content.stat.version
        )
        for pattern, content in zip(patterns, contents, strict=True)
        if content is not None
    }


def load_pattern(store: MetadataStore, pattern: ResourcePattern) -> VersionedAcls:
    """The entries of one pattern.

    Raises:
        StoreError: the store cannot be read, or the node does not hold what Kafka writes there.
    """
    path = acl_nodes.acls_path(pattern)
    try:
        data, stat = store.get(path)
    except NoNode:
        return NO_ACLS
    return VersionedAcls(acl_nodes.decode_acls(path, data), stat.version)


def change_acls(
    store: MetadataStore,
    changes: Sequence[AclChange],
    known_acls: Mapping[ResourcePattern, VersionedAcls],
    *,
    old_names: bool = False,
) -> dict[ResourcePattern, VersionedAcls | StoreError]:
    """Change the entries of patterns, and give notice.

    Args:
        store: where they are.
        changes: one for each pattern.
        known_acls: what they are, as far as is known; what is not known, or not so any more, is read.
        old_names: see `acl_nodes.encode_change`.

    Returns:
        What they are now, or why they could not be changed.
    """
    results: dict[ResourcePattern, VersionedAcls | StoreError] = {}
    for start in range(0, len(changes), _PATTERNS_AT_ONCE):
        some = changes[start : start + _PATTERNS_AT_ONCE]
        try:
            present = {
                change.pattern: known_acls.get(change.pattern) or load_pattern(store, change.pattern)
                for change in some
            }
            results |= _change_together(store, some, present, old_names)
        except StoreError:
            # One of them is not as it was known, or cannot be: the others are not to suffer.
            for change in some:
                results[change.pattern] = _change_alone(store, change, old_names)
    return results


def _change_together(
    store: MetadataStore,
    changes: Sequence[AclChange],
    present: Mapping[ResourcePattern, VersionedAcls],
    old_names: bool,
) -> dict[ResourcePattern, VersionedAcls]:
    results: dict[ResourcePattern, VersionedAcls] = {}
    ops: list[Op] = []
    for pattern, change in changes:
        acls = results[pattern] = present[pattern]
        entries = change(acls.entries)
        if entries != acls.entries:
            ops += _ops(pattern, acls, entries, old_names)
            results[pattern] = VersionedAcls(entries, acls.version + 1) if entries else NO_ACLS
        elif acls.version != NO_VERSION:
            # Somebody else may have changed them, and there is something to do after all.
            ops.append(Check(acl_nodes.acls_path(pattern), acls.version))
    if ops:
        store.multi(ops)
    return results


def _change_alone(store: MetadataStore, change: AclChange, old_names: bool) -> VersionedAcls | StoreError:
    failure: StoreError | None = None
    for _ in range(MOST_TRIES):
        try:
            present = {change.pattern: load_pattern(store, change.pattern)}
            return _change_together(store, [change], present, old_names)[change.pattern]
        except (BadVersion, NodeExists, NoNode, NotEmpty) as error:
            failure = error
        except StoreError as error:
            return error
    path = acl_nodes.acls_path(change.pattern)
    return StoreError(path, f"{path} was changed by others each of {MOST_TRIES} times: {failure}")


def _ops(
    pattern: ResourcePattern,
    present: VersionedAcls,
    entries: frozenset[AccessControlEntry],
    old_names: bool,
) -> Iterable[Op]:
    path = acl_nodes.acls_path(pattern)
    if not entries:
        yield Delete(path, present.version)
    elif present.version == NO_VERSION:
        yield Create(path, acl_nodes.encode_acls(entries))
    else:
        yield SetData(path, acl_nodes.encode_acls(entries), present.version)
    notice = acl_nodes.encode_change(pattern, old_names=old_names)
    yield Create(acl_nodes.change_path(pattern), notice, sequence=True)


class AclNotices:
    """The notices of changes that have been seen; one object for each session with the store."""

    def __init__(self) -> None:
        self._seen = dict.fromkeys(acl_nodes.CHANGES, -1)

    def pass_over(self, store: MetadataStore) -> None:
        """Take what is there as seen: everything is about to be loaded.

        Raises:
            StoreError: the store cannot be read.
        """
        for root in self._seen:
            numbers = map(acl_nodes.sequence_of, store.children(root))
            self._seen[root] = max(numbers, default=-1)

    def fresh(self, store: MetadataStore, now_ms: int) -> list[ResourcePattern]:
        """The patterns that have changed since the last time; old notices are removed.

        Args:
            store: where the notices are.
            now_ms: wall-clock milliseconds, by which they are old.

        Raises:
            StoreError: the store cannot be read; nothing counts as seen then.
        """
        changed: dict[ResourcePattern, None] = {}
        seen = dict(self._seen)
        for root in seen:
            names = sorted(store.children(root), key=acl_nodes.sequence_of)
            fresh = [name for name in names if acl_nodes.sequence_of(name) > seen[root]]
            paths = [f"{root}/{name}" for name in fresh]
            for name, path, notice in zip(fresh, paths, store.get_many(paths), strict=True):
                seen[root] = acl_nodes.sequence_of(name)
                if notice is None:
                    continue
                try:
                    changed[acl_nodes.decode_change(path, notice.data)] = None
                except NodeFormatError as error:
                    logger.warning("a notice of changed ACLs is passed over: %s", error)
            _remove_old(store, [f"{root}/{name}" for name in names], now_ms)
        self._seen = seen
        return list(changed)


def _remove_old(store: MetadataStore, notices: Iterable[str], now_ms: int) -> None:
    """Remove notices that are old, of all of them in their order: behind one that is not, none is."""
    for path in notices:
        try:
            stat = store.exists(path)
            if stat is not None and not _is_old(stat, now_ms):
                return
            store.delete(path)
        except NoNode:
            continue  # another broker was faster


def _is_old(stat: Stat, now_ms: int) -> bool:
    return now_ms - stat.ctime > CHANGE_EXPIRY_MS
