"""ACLs in the metadata store: Kafka's nodes and notices, guarded writes, what others change meanwhile."""

from __future__ import annotations

import json

import pytest

from odradek.cluster.access import acls
from odradek.cluster.access.acl_nodes import (
    acls_path,
    decode_acls,
    decode_change,
    encode_acls,
    encode_change,
    sequence_of,
)
from odradek.cluster.access.acls import AclChange, AclNotices, VersionedAcls
from odradek.cluster.nodes import NodeFormatError
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import StoreError
from odradek.util.acl import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from odradek.util.clock import ManualClock

ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
IDS = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "pay-", PatternType.PREFIXED)
ALICE = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
BOB = AccessControlEntry("User:bob", "10.0.0.1", AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY)


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer(ManualClock())


@pytest.fixture
def store(server: MemoryServer) -> MemoryStore:
    store = MemoryStore(server)
    acls.create_acl_paths(store)
    return store


def adding(pattern: ResourcePattern, *entries: AccessControlEntry) -> AclChange:
    return AclChange(pattern, lambda present: present | set(entries))


def removing(pattern: ResourcePattern, *entries: AccessControlEntry) -> AclChange:
    return AclChange(pattern, lambda present: present - set(entries))


def test_nodes_are_kafkas() -> None:
    assert acls_path(ORDERS) == "/kafka-acl/Topic/orders"
    assert acls_path(IDS) == "/kafka-acl-extended/prefixed/TransactionalId/pay-"
    assert json.loads(encode_acls([ALICE, BOB])) == {
        "version": 1,
        "acls": [
            {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"},
            {
                "principal": "User:bob",
                "permissionType": "Deny",
                "operation": "DescribeConfigs",
                "host": "10.0.0.1",
            },
        ],
    }
    assert decode_acls("/x", encode_acls([ALICE, BOB])) == {ALICE, BOB}
    assert decode_acls("/x", None) == frozenset()


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b'{"version":2,"acls":[]}',
        b'{"version":1}',
        b'{"version":1,"acls":[{"principal":"alice","permissionType":"Allow","operation":"Read","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:alice"}]}',
        b'{"version":1,"acls":[7]}',
    ],
)
def test_nodes_that_are_not_kafkas(data: bytes) -> None:
    with pytest.raises(NodeFormatError, match="/kafka-acl/Topic/t"):
        decode_acls("/kafka-acl/Topic/t", data)


def test_notices_of_every_release() -> None:
    literal, extended = "/kafka-acl-changes/acl_changes_1", "/kafka-acl-extended-changes/acl_changes_1"
    assert encode_change(ORDERS) == b"TOPIC:orders"
    assert encode_change(ORDERS, old_names=True) == b"Topic:orders"
    assert json.loads(encode_change(IDS)) == {
        "version": 1,
        "resourceType": "TRANSACTIONAL_ID",
        "name": "pay-",
        "patternType": "PREFIXED",
    }
    for old_names in (False, True):
        assert decode_change(literal, encode_change(ORDERS, old_names=old_names)) == ORDERS
        assert decode_change(extended, encode_change(IDS, old_names=old_names)) == IDS
    assert decode_change(literal, b"Group:a:b").name == "a:b"
    for path, data in ((literal, b"orders"), (literal, b"Thing:x"), (literal, b""), (extended, b"x")):
        with pytest.raises(NodeFormatError):
            decode_change(path, data)
    assert sequence_of("acl_changes_0000000012") == 12
    assert sequence_of("something") == -1


def test_what_is_written_is_loaded(store: MemoryStore) -> None:
    changes = [adding(ORDERS, ALICE, BOB), adding(IDS, ALICE)]
    changed = acls.change_acls(store, changes, {})
    assert changed == {
        ORDERS: VersionedAcls(frozenset((ALICE, BOB)), 0),
        IDS: VersionedAcls(frozenset((ALICE,)), 0),
    }
    assert acls.load_acls(store) == changed
    assert store.children("/kafka-acl-changes") == ["acl_changes_0000000000"]
    assert store.children("/kafka-acl-extended-changes") == ["acl_changes_0000000000"]


def test_a_pattern_without_entries_has_no_node(store: MemoryStore) -> None:
    known = acls.change_acls(store, [adding(ORDERS, ALICE)], {})
    changed = acls.change_acls(store, [removing(ORDERS, ALICE)], known)  # type: ignore[arg-type]
    assert changed == {ORDERS: acls.NO_ACLS}
    assert acls.load_acls(store) == {}
    assert len(store.children("/kafka-acl-changes")) == 2


def test_what_changes_nothing_gives_no_notice(store: MemoryStore) -> None:
    acls.change_acls(store, [adding(ORDERS, ALICE)], {})
    acls.change_acls(store, [adding(ORDERS, ALICE)], {})
    acls.change_acls(store, [removing(IDS, ALICE)], {})
    assert len(store.children("/kafka-acl-changes")) == 1
    assert store.children("/kafka-acl-extended-changes") == []


def test_what_others_have_done_meanwhile_is_not_lost(server: MemoryServer, store: MemoryStore) -> None:
    other = MemoryStore(server)
    known = acls.change_acls(store, [adding(ORDERS, ALICE)], {})
    acls.change_acls(other, [adding(ORDERS, BOB)], {})
    changed = acls.change_acls(store, [removing(ORDERS, ALICE), adding(IDS, BOB)], known)  # type: ignore[arg-type]
    assert changed[ORDERS] == VersionedAcls(frozenset((BOB,)), 2)
    assert changed[IDS] == VersionedAcls(frozenset((BOB,)), 0)
    # Known to be there, and gone: the removal has nothing to do, the addition all.
    acls.change_acls(other, [removing(ORDERS, BOB)], {})
    changed = acls.change_acls(store, [adding(ORDERS, BOB)], changed)  # type: ignore[arg-type]
    assert changed[ORDERS] == VersionedAcls(frozenset((BOB,)), 0)


def test_one_that_cannot_be_written_does_not_keep_the_others_back(store: MemoryStore) -> None:
    bad = ResourcePattern(ResourceType.GROUP, "..")
    changed = acls.change_acls(store, [adding(bad, ALICE), adding(ORDERS, ALICE)], {})
    assert isinstance(changed[bad], StoreError)
    assert changed[ORDERS] == VersionedAcls(frozenset((ALICE,)), 0)


def test_somebody_who_always_comes_first(store: MemoryStore) -> None:
    def change(present: frozenset[AccessControlEntry]) -> frozenset[AccessControlEntry]:
        entry = ALICE._replace(host=f"10.0.0.{len(present)}")
        path = acls_path(ORDERS)
        if store.exists(path) is None:
            store.create(path, encode_acls([entry]))
        else:
            store.set(path, encode_acls([*present, entry]))
        return present | {BOB}

    changed = acls.change_acls(store, [AclChange(ORDERS, change)], {})
    assert isinstance(changed[ORDERS], StoreError)
    assert "was changed by others" in str(changed[ORDERS])


def test_more_patterns_than_one_transaction_takes(store: MemoryStore) -> None:
    patterns = [ResourcePattern(ResourceType.TOPIC, f"t{number}") for number in range(120)]
    changed = acls.change_acls(store, [adding(one, ALICE) for one in patterns], {})
    assert acls.load_acls(store) == changed
    assert len(changed) == 120


def test_notices_are_read_once_and_removed_when_they_are_old(store: MemoryStore) -> None:
    notices = AclNotices()
    acls.change_acls(store, [adding(ORDERS, ALICE)], {})
    assert notices.fresh(store, 0) == [ORDERS]
    assert notices.fresh(store, 0) == []
    store.create("/kafka-acl-changes/acl_changes_", b"nonsense", sequence=True)
    acls.change_acls(store, [adding(ORDERS, BOB), adding(IDS, BOB)], {})
    later = AclNotices()
    later.pass_over(store)
    assert notices.fresh(store, 0) == [ORDERS, IDS]
    created = store.get("/kafka-acl-changes/acl_changes_0000000002")[1].ctime
    assert later.fresh(store, created + acls.CHANGE_EXPIRY_MS) == []
    assert len(store.children("/kafka-acl-changes")) == 3
    assert later.fresh(store, created + acls.CHANGE_EXPIRY_MS + 1) == []
    assert store.children("/kafka-acl-changes") == []


def test_notices_that_were_seen_are_not_read_again(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices = AclNotices()
    patterns = [ResourcePattern(ResourceType.TOPIC, f"t{number}") for number in range(60)]
    acls.change_acls(store, [adding(one, ALICE) for one in patterns], {})
    assert notices.fresh(store, 0) == patterns
    read: list[int] = []
    get_many = store.get_many
    monkeypatch.setattr(store, "get_many", lambda paths: (read.append(len(paths)), get_many(paths))[1])
    acls.change_acls(store, [adding(ORDERS, ALICE)], {})
    assert notices.fresh(store, 0) == [ORDERS]
    assert sum(read) == 1
