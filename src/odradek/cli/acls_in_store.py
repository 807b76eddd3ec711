"""The ACLs in ZooKeeper, without a broker: for a cluster that nobody may change yet, or that does not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from odradek.broker.assembly.store_choice import open_store
from odradek.broker.config.broker_config import BrokerConfig
from odradek.cluster.access import acls
from odradek.cluster.access.acls import AclChange, VersionedAcls
from odradek.errors import OdradekError
from odradek.util.acl import AccessControlEntry, AclBinding, AclBindingFilter, ResourcePattern, is_concrete
from odradek.util.clock import SystemClock


class AclsInStore:
    """The calls of `Admin` about ACLs, on the nodes themselves. A context manager.

    Args:
        properties: a broker's configs that tell of ZooKeeper: `zookeeper.connect`, `zookeeper.ssl.…`,
            `zookeeper.set.acl`, `odradek.zookeeper.…`, `odradek.jaas.config.file`.

    Raises:
        StoreError: it cannot be reached.
        ConfigError: something among them that there is not, or that cannot be.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._store = open_store(BrokerConfig(properties), Path(), SystemClock())
        acls.create_acl_paths(self._store)

    def __enter__(self) -> AclsInStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session."""
        self._store.close()

    def describe_acls(self, acl_filter: AclBindingFilter) -> list[AclBinding]:
        """See `Admin.describe_acls`."""
        return [binding for binding in self._load() if acl_filter.matches(binding)]

    def _load(self) -> list[AclBinding]:
        return [
            AclBinding(pattern, entry)
            for pattern, versioned in acls.load_acls(self._store).items()
            for entry in versioned.entries
        ]

    def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """See `Admin.create_acls`."""
        entries_by_pattern: dict[ResourcePattern, set[AccessControlEntry]] = {}
        for binding in bindings:
            if not is_concrete(binding) or not binding.pattern.name or "/" in binding.pattern.name:
                raise OdradekError(f"there can be no ACL for {binding.pattern}")
            entries_by_pattern.setdefault(binding.pattern, set()).add(binding.entry)
        self._change(
            {pattern: (frozenset(entries), frozenset()) for pattern, entries in entries_by_pattern.items()}
        )

    def delete_acls(self, filters: list[AclBindingFilter]) -> list[list[AclBinding]]:
        """See `Admin.delete_acls`."""
        present = self._load()
        removed = [[binding for binding in present if acl_filter.matches(binding)] for acl_filter in filters]
        gone: dict[ResourcePattern, set[AccessControlEntry]] = {}
        for binding in (binding for some in removed for binding in some):
            gone.setdefault(binding.pattern, set()).add(binding.entry)
        self._change({pattern: (frozenset(), frozenset(entries)) for pattern, entries in gone.items()})
        return removed

    def _change(
        self,
        changes: dict[ResourcePattern, tuple[frozenset[AccessControlEntry], frozenset[AccessControlEntry]]],
    ) -> None:
        def change(pattern: ResourcePattern) -> AclChange:
            added, gone = changes[pattern]
            return AclChange(pattern, lambda present: (present | added) - gone)

        for result in acls.change_acls(
            self._store, [change(acl_change) for acl_change in changes], {}
        ).values():
            if not isinstance(result, VersionedAcls):
                raise result
