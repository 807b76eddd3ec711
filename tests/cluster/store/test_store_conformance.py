"""What every metadata store must do, run over each of them: ZooKeeper's semantics."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.settled_remote import served
from cluster.settled_zookeeper import settled
from odradek.cluster.store.embedded import EmbeddedStore
from odradek.cluster.store.memory import MemoryStore
from odradek.cluster.store.store import (
    BadArguments,
    BadVersion,
    Check,
    Create,
    Delete,
    EventType,
    MetadataStore,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    SetData,
    Stat,
    WatchEvent,
    ensure_path,
)
from odradek.cluster.store.zookeeper import ZooKeeperStore
from odradek.util.clock import ManualClock
from zookeeper_server import ZooKeeperServer, zookeeper

__all__ = ["zookeeper"]

NOW = 1_700_000_000_000


def _memory(_folder: Path, clock: ManualClock) -> MetadataStore:
    from odradek.cluster.store.memory import MemoryServer

    return MemoryStore(MemoryServer(clock))


def _embedded(folder: Path, clock: ManualClock) -> MetadataStore:
    return EmbeddedStore(folder / "metadata.sqlite", clock)


STORES: dict[str, Callable[[Path, ManualClock], MetadataStore]] = {
    "memory": _memory,
    "embedded": _embedded,
    "remote": served,
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


_chroots = itertools.count()


@pytest.fixture(params=[*STORES, "zookeeper"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[MetadataStore]:
    if request.param == "zookeeper":
        server: ZooKeeperServer = request.getfixturevalue("zookeeper")
        store = settled(f"{server.address}/conformance-{next(_chroots)}")
    else:
        store = STORES[request.param](tmp_path, clock)
    yield store
    store.close()


def _by_our_clock(store: MetadataStore, stat: Stat, created: int, changed: int) -> bool:
    """Are a node's times those of the test's clock? ZooKeeper has its own."""
    return (stat.ctime, stat.mtime) == (created, changed) or isinstance(store, ZooKeeperStore)


def _needs_recursive_watches(store: MetadataStore) -> None:
    if isinstance(store, ZooKeeperStore):
        pytest.skip("a session with ZooKeeper has no recursive watches")


class Log:
    """Records watch events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def __call__(self, event: WatchEvent) -> None:
        self.events.append((event.type.name, event.path))


def test_a_created_node_has_data_and_a_stat(store: MetadataStore, clock: ManualClock) -> None:
    assert store.create("/a", b"x") == "/a"
    data, stat = store.get("/a")
    assert data == b"x"
    assert stat.version == 0
    assert _by_our_clock(store, stat, NOW, NOW)
    assert stat.czxid == stat.mzxid > 0
    assert (stat.ephemeral_owner, stat.data_length, stat.num_children, stat.cversion) == (0, 1, 0, 0)


def test_data_may_be_null_and_is_not_empty_data(store: MetadataStore) -> None:
    store.create("/null")
    store.create("/empty", b"")
    assert store.get("/null")[0] is None
    assert store.get("/empty")[0] == b""


def test_creating_twice_or_without_a_parent_fails(store: MetadataStore) -> None:
    store.create("/a")
    with pytest.raises(NodeExists):
        store.create("/a")
    with pytest.raises(NoNode):
        store.create("/b/c")
    with pytest.raises(NodeExists):
        store.create("/")


def test_many_nodes_are_read_at_once(store: MetadataStore) -> None:
    ensure_path(store, "/n")
    for number in range(5):
        store.create(f"/n/{number}", b"%d" % number)
    wanted = ["/n/3", "/none", "/n/0", "/n/3", "/n/none/below", "/n"]
    assert store.get_many(wanted) == [
        store.get("/n/3"),
        None,
        store.get("/n/0"),
        store.get("/n/3"),
        None,
        store.get("/n"),
    ]
    assert store.exists_many(wanted) == [store.exists(path) for path in wanted]
    assert store.get_many([]) == store.exists_many([]) == []
    with pytest.raises(BadArguments):
        store.get_many(["/n", "n"])
    with pytest.raises(BadArguments):
        store.exists_many(["/n", "n"])


def test_a_set_counts_versions_and_is_conditional(store: MetadataStore, clock: ManualClock) -> None:
    store.create("/a", b"0")
    clock.advance(5)
    stat = store.set("/a", b"1", version=0)
    assert stat.version == 1
    assert _by_our_clock(store, stat, NOW, NOW + 5)
    assert stat.mzxid > stat.czxid
    with pytest.raises(BadVersion):
        store.set("/a", b"2", version=0)
    assert store.get("/a")[0] == b"1"
    assert store.set("/a", b"2").version == 2
    with pytest.raises(NoNode):
        store.set("/b", b"")


def test_delete_is_conditional_and_wants_no_children(store: MetadataStore) -> None:
    ensure_path(store, "/a/b")
    with pytest.raises(NotEmpty):
        store.delete("/a")
    with pytest.raises(BadVersion):
        store.delete("/a/b", version=1)
    store.delete("/a/b", version=0)
    store.delete("/a")
    assert store.exists("/a") is None
    with pytest.raises(NoNode):
        store.delete("/a")
    with pytest.raises(BadArguments):
        store.delete("/")


def test_children_are_names_in_order(store: MetadataStore) -> None:
    for name in ("b", "a", "c"):
        ensure_path(store, f"/x/{name}")
    assert store.children("/x") == ["a", "b", "c"]
    assert "x" in store.children("/")
    with pytest.raises(NoNode):
        store.children("/y")


def test_cversion_counts_creations_and_deletions_of_children(store: MetadataStore) -> None:
    store.create("/x")
    store.create("/x/a")
    store.create("/x/b")
    store.delete("/x/a")
    stat = store.exists("/x")
    assert stat is not None
    assert (stat.cversion, stat.num_children, stat.version) == (3, 1, 0)


def test_sequence_nodes_grow_and_never_repeat(store: MetadataStore) -> None:
    store.create("/s")
    assert store.create("/s/n_", sequence=True) == "/s/n_0000000000"
    store.create("/s/other")
    assert store.create("/s/n_", sequence=True) == "/s/n_0000000002"
    store.delete("/s/n_0000000002")
    assert store.create("/s/n_", sequence=True) == "/s/n_0000000003"


def test_an_ephemeral_node_has_an_owner_and_no_children(store: MetadataStore) -> None:
    store.create("/e", b"1", ephemeral=True)
    stat = store.exists("/e")
    assert stat is not None
    assert stat.ephemeral_owner == store.session_id != 0
    with pytest.raises(NoChildrenForEphemerals):
        store.create("/e/child")


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/a\0b", "/a\x1f"])
def test_what_is_no_path_is_refused(store: MetadataStore, path: str) -> None:
    with pytest.raises(BadArguments):
        store.create(path)
    with pytest.raises(BadArguments):
        store.exists(path)


def test_a_multi_does_all_with_one_zxid(store: MetadataStore) -> None:
    store.create("/v", b"0")
    results = store.multi(
        [
            Check("/v", 0),
            Create("/a", b"1"),
            Create("/a/b"),
            Create("/a/n", sequence=True),
            SetData("/v", b"1", 0),
            Delete("/a/b"),
        ]
    )
    assert results[:4] == [None, "/a", "/a/b", "/a/n0000000001"]
    assert results[5] is None
    a, v = store.exists("/a"), store.exists("/v")
    assert a is not None
    assert v is not None
    assert a.czxid == v.mzxid
    assert v.version == 1
    assert store.children("/a") == ["n0000000001"]


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (Check("/v", 7), BadVersion),
        (Check("/none"), NoNode),
        (Create("/v"), NodeExists),
        (Create("/none/x"), NoNode),
        (SetData("/v", b"", 7), BadVersion),
        (Delete("/none"), NoNode),
        (Delete("/p"), NotEmpty),
        (Create("bad"), BadArguments),
    ],
)
def test_a_multi_with_one_bad_operation_does_nothing(
    store: MetadataStore, op: Create | SetData | Delete | Check, error: type[Exception]
) -> None:
    ensure_path(store, "/p/q")
    store.create("/v", b"0")
    before = store.exists("/v")
    with pytest.raises(error) as caught:
        store.multi([SetData("/v", b"1"), Create("/new"), op, Delete("/p/q")])
    assert caught.value.op_index == 2  # type: ignore[attr-defined]
    assert store.exists("/v") == before
    assert store.exists("/new") is None
    assert store.exists("/p/q") is not None
    store.create("/after")
    after = store.exists("/after")
    assert after is not None
    assert before is not None
    if not isinstance(store, ZooKeeperStore):
        assert after.czxid == before.czxid + 1, "a refused transaction has no number"
    else:
        assert after.czxid > before.czxid


def test_a_multi_sees_its_own_operations(store: MetadataStore) -> None:
    store.multi([Create("/a"), SetData("/a", b"1", 0), SetData("/a", b"2", 1), Delete("/a", 2)])
    assert store.exists("/a") is None
    with pytest.raises(NoNode):
        store.multi([Create("/a"), Delete("/a"), Check("/a")])
    assert store.multi([]) == []


def test_a_one_shot_watch_fires_once_for_the_first_change(store: MetadataStore) -> None:
    store.create("/a", b"0")
    log = Log()
    store.get("/a", watch=log)
    store.set("/a", b"1")
    store.set("/a", b"2")
    assert log.events == [("CHANGED", "/a")]


def test_exists_watches_for_creation_and_deletion(store: MetadataStore) -> None:
    log = Log()
    assert store.exists("/a", watch=log) is None
    store.create("/a")
    store.exists("/a", watch=log)
    store.delete("/a")
    assert log.events == [("CREATED", "/a"), ("DELETED", "/a")]


def test_a_get_that_fails_watches_nothing(store: MetadataStore) -> None:
    log = Log()
    with pytest.raises(NoNode):
        store.get("/a", watch=log)
    store.create("/a")
    assert log.events == []


def test_child_watches_see_creation_and_deletion_but_not_data(store: MetadataStore) -> None:
    ensure_path(store, "/p/a")
    log = Log()
    store.children("/p", watch=log)
    store.set("/p/a", b"1")
    store.set("/p", b"1")
    assert log.events == []
    store.create("/p/b")
    store.create("/p/c")
    assert log.events == [("CHILDREN", "/p")]


def test_who_watches_a_node_and_its_children_hears_of_its_deletion_once(store: MetadataStore) -> None:
    store.create("/p")
    log = Log()
    store.get("/p", watch=log)
    store.children("/p", watch=log)
    store.delete("/p")
    assert log.events == [("DELETED", "/p")]


def test_the_same_watcher_twice_is_told_once(store: MetadataStore) -> None:
    store.create("/a")
    log = Log()
    store.get("/a", watch=log)
    store.exists("/a", watch=log)
    store.set("/a", b"")
    assert log.events == [("CHANGED", "/a")]


def test_a_persistent_watch_stays_until_taken_back(store: MetadataStore) -> None:
    log = Log()
    store.watch_persistent("/p", log)
    store.create("/p")
    store.create("/p/a")
    store.set("/p/a", b"")
    store.set("/p", b"")
    store.delete("/p/a")
    store.delete("/p")
    store.unwatch("/p", log)
    store.unwatch("/p", log)
    store.create("/p")
    assert log.events == [
        ("CREATED", "/p"),
        ("CHILDREN", "/p"),
        ("CHANGED", "/p"),
        ("CHILDREN", "/p"),
        ("DELETED", "/p"),
    ]


def test_a_recursive_watch_sees_every_node_below_and_no_children_events(store: MetadataStore) -> None:
    _needs_recursive_watches(store)
    log = Log()
    store.watch_persistent("/p", log, recursive=True)
    ensure_path(store, "/p/a/b")
    store.set("/p/a/b", b"")
    store.delete("/p/a/b")
    store.create("/q")
    assert log.events == [
        ("CREATED", "/p"),
        ("CREATED", "/p/a"),
        ("CREATED", "/p/a/b"),
        ("CHANGED", "/p/a/b"),
        ("DELETED", "/p/a/b"),
    ]


def test_a_multi_fires_its_events_in_order_after_it_is_done(store: MetadataStore) -> None:
    _needs_recursive_watches(store)
    store.create("/v", b"0")
    seen: list[tuple[str, bytes | None]] = []

    def watcher(event: WatchEvent) -> None:
        assert store.exists("/a/b") is not None, "all of it is done before any event"
        seen.append((event.path, store.get("/v")[0]))

    store.watch_persistent("/", watcher, recursive=True)
    store.multi([Create("/a"), SetData("/v", b"1"), Create("/a/b")])
    assert seen == [("/a", b"1"), ("/v", b"1"), ("/a/b", b"1")]


def test_a_watcher_that_writes_does_not_reorder_events(store: MetadataStore) -> None:
    _needs_recursive_watches(store)
    log = Log()

    def writes(event: WatchEvent) -> None:
        if event.path == "/a":
            store.create("/b")

    store.watch_persistent("/a", writes)
    store.watch_persistent("/", log, recursive=True)
    store.create("/a")
    assert log.events == [("CREATED", "/a"), ("CREATED", "/b")]


def test_a_refused_transaction_fires_nothing(store: MetadataStore) -> None:
    _needs_recursive_watches(store)
    log = Log()
    store.watch_persistent("/", log, recursive=True)
    with pytest.raises(NoNode):
        store.multi([Create("/a"), Check("/none")])
    assert log.events == []


def test_a_closed_session_does_nothing_more(store: MetadataStore) -> None:
    store.create("/a")
    log = Log()
    store.get("/a", watch=log)
    store.close()
    store.close()
    for call in (
        lambda: store.create("/b"),
        lambda: store.get("/a"),
        lambda: store.exists("/a"),
        lambda: store.children("/"),
        lambda: store.set("/a", b""),
        lambda: store.delete("/a"),
        lambda: store.multi([]),
        lambda: store.watch_persistent("/a", log),
    ):
        with pytest.raises(SessionExpired):
            call()
    assert log.events == []


def test_event_types_are_the_four_of_zookeeper() -> None:
    assert {kind.name for kind in EventType} == {"CREATED", "DELETED", "CHANGED", "CHILDREN"}
