"""The users and ACLs of a test's cluster, in its metadata store before any broker runs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from odradek.cluster.access.acls import AclChange, change_acls, create_acl_paths
from odradek.cluster.nodes import decode_config, encode_config
from odradek.cluster.paths import entity_config, sanitize
from odradek.cluster.store.store import NoNode, StoreError, ensure_path
from odradek.util.acl import AccessControlEntry, ResourcePattern

if TYPE_CHECKING:
    from odradek.cluster.store.store import MetadataStore
    from odradek.testing.security import Security


def write_security(store: MetadataStore, security: Security) -> None:
    """Write the users' SCRAM credentials, unless they are there, and the ACLs.

    Raises:
        StoreError: the store cannot be written.
    """
    users: dict[str, dict[str, str]] = defaultdict(dict)
    for user in security.scram_users():
        users[user.name][user.mechanism] = user.credential.to_text()
    for name, made in users.items():
        path = entity_config(f"users/{sanitize(name)}")
        ensure_path(store, path)
        present = _configs(store, path)
        store.set(path, encode_config(made | present))
    entries: dict[ResourcePattern, set[AccessControlEntry]] = defaultdict(set)
    for binding in security.acls:
        entries[binding.pattern].add(binding.entry)
    if not entries:
        return
    create_acl_paths(store)
    changes = [AclChange(pattern, frozenset(added).union) for pattern, added in entries.items()]
    for result in change_acls(store, changes, {}).values():
        if isinstance(result, StoreError):
            raise result


def _configs(store: MetadataStore, path: str) -> dict[str, str]:
    try:
        return decode_config(path, store.get(path)[0])
    except NoNode:
        return {}
