"""What only a session over a network has: it is lost and found again, expires, is refused, and shares."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.store.losing_proxy import LosingProxy
from odradek.broker.assembly import metadata_access
from odradek.client import Admin
from odradek.cluster.store.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    EventType,
    NodeExists,
    NoNode,
    SessionExpired,
    SetData,
    StoreError,
    StoreUnavailable,
    WatchEvent,
)
from odradek.cluster.store.zookeeper import IN_FLIGHT, ZooKeeperStore
from odradek.testing import Broker
from waiting import joined
from zookeeper_server import ZooKeeperServer, available, ensemble, expire, zookeeper

from .zookeeper_sessions import LIMIT_S, Connect, Events, chroot, connect, proxy

__all__ = ["chroot", "connect", "proxy", "zookeeper"]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """A server that a test may kill."""
    server = available(tmp_path / "own")
    server.start()
    yield server
    server.kill()


# --- the end of a session ---------------------------------------------------------------------------------


def test_expiry_is_told_once_and_ends_the_object_but_not_the_broker(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect
) -> None:
    one, two = connect(zookeeper.address + chroot), connect(zookeeper.address + chroot)
    one.create("/ids", ephemeral=True)
    gone, told = Events(), queue.Queue[str]()
    two.exists("/ids", watch=gone)
    watched = Events()
    one.watch_persistent("/", watched)
    one.on_expired(lambda: told.put("expired"))
    expire(zookeeper.address, one.connection.session)
    assert told.get(timeout=LIMIT_S) == "expired"
    gone.until(EventType.DELETED, "/ids")
    for call in (
        lambda: one.create("/ids", ephemeral=True),
        lambda: one.get("/"),
        lambda: one.get_many(["/"]),
        lambda: one.multi([Check("/")]),
        lambda: one.watch_persistent("/", watched),
    ):
        with pytest.raises(SessionExpired):
            call()
    one.close()
    again = connect(zookeeper.address + chroot)
    assert again.session_id not in (one.session_id, two.session_id)
    again.create("/ids", ephemeral=True)
    assert told.empty()
    late = threading.Event()
    one.on_expired(late.set)
    assert late.wait(LIMIT_S), "who asks later is told, too"


def test_what_waits_for_a_connection_hears_of_the_expiry(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect, proxy: LosingProxy
) -> None:
    store = connect(proxy.address + chroot)
    session = store.connection.session
    outcome = queue.Queue[object]()

    def work() -> None:
        try:
            while True:
                store.exists("/x")
        except StoreError as error:
            outcome.put(type(error))

    thread = threading.Thread(target=work)
    thread.start()
    expire(zookeeper.address, session)
    assert outcome.get(timeout=LIMIT_S) is SessionExpired
    joined(thread)


def test_close_ends_the_session_at_once_and_is_no_expiry(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect
) -> None:
    one, two = connect(zookeeper.address + chroot), connect(zookeeper.address + chroot)
    told: list[str] = []
    one.on_expired(lambda: told.append("expired"))
    one.create("/e", ephemeral=True)
    one.close()
    assert two.exists("/e") is None
    assert told == []


def test_a_watcher_may_close_the_store(zookeeper: ZooKeeperServer, chroot: str, connect: Connect) -> None:
    store, other = connect(zookeeper.address + chroot), connect(zookeeper.address + chroot)
    closed = threading.Event()

    def watcher(event: WatchEvent) -> None:
        store.close()
        closed.set()

    store.create("/e", ephemeral=True)
    store.watch_persistent("/p", watcher)
    other.create("/p")
    assert closed.wait(LIMIT_S)
    assert other.exists("/e") is None


# --- a lost connection ------------------------------------------------------------------------------------


def test_a_session_survives_the_servers_restart_with_nodes_and_watches(
    own_server: ZooKeeperServer, connect: Connect
) -> None:
    store = connect(own_server.address)
    store.create("/e", b"mine", ephemeral=True)
    store.create("/p")
    node, children, none, persistent = Events(), Events(), Events(), Events()
    store.get("/p", watch=node)
    store.children("/p", watch=children)
    store.exists("/none", watch=none)
    store.watch_persistent("/p", persistent)
    told: list[str] = []
    store.on_expired(lambda: told.append("expired"))
    own_server.kill()
    own_server.start()
    assert store.get("/e")[1].ephemeral_owner == store.session_id
    # Nothing has changed; but who looked meanwhile could not see.
    persistent.until(EventType.CHANGED, "/p")
    node.until(EventType.CHANGED, "/p")
    children.until(EventType.CHILDREN, "/p")
    none.until(EventType.CHANGED, "/none")
    other = connect(own_server.address)
    other.create("/p/child")
    other.set("/p", b"new")
    persistent.until(EventType.CHILDREN, "/p")
    persistent.until(EventType.CHANGED, "/p")
    assert told == []


def test_a_session_outlives_a_server_that_accepts_a_connection_and_stays_silent(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect, proxy: LosingProxy
) -> None:
    store = connect(proxy.address + chroot, session_timeout_ms=9_000, request_timeout_ms=8_000)
    told: list[str] = []
    store.on_expired(lambda: told.append("expired"))
    store.create("/e", ephemeral=True)
    proxy.hold_next_connection()
    proxy.break_connections()
    assert proxy.held.wait(LIMIT_S)
    stat = store.exists("/e")
    assert stat is not None
    assert stat.ephemeral_owner == store.session_id
    assert told == []


def test_what_changes_while_the_connection_is_lost_is_told_afterwards(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect, proxy: LosingProxy
) -> None:
    store, other = connect(proxy.address + chroot), connect(zookeeper.address + chroot)
    for path in ("/deleted", "/changed", "/replaced"):
        store.create(path)
    events = {path: Events() for path in ("/created", "/deleted", "/changed", "/replaced")}
    for path, watcher in events.items():
        store.watch_persistent(path, watcher)
    proxy.break_connections()
    other.multi([Create("/created"), Delete("/deleted"), SetData("/changed", b"x"), Delete("/replaced")])
    other.create("/replaced")
    events["/created"].until(EventType.CREATED, "/created")
    events["/deleted"].until(EventType.DELETED, "/deleted")
    events["/changed"].until(EventType.CHANGED, "/changed")
    events["/replaced"].until(EventType.CREATED, "/replaced")


def test_a_session_goes_on_with_another_server_of_the_ensemble(tmp_path: Path, connect: Connect) -> None:
    servers = ensemble(tmp_path)
    try:
        for server in servers:
            server.launch()
        for server in servers:
            server.await_ready()
        address = ",".join(server.address for server in servers)
        store, other = connect(f"{address}/kafka"), connect(f"{address}/kafka")
        told: list[str] = []
        store.on_expired(lambda: told.append("expired"))
        store.create("/e", ephemeral=True)
        events = Events()
        store.watch_persistent("/p", events)
        for number in range(2):
            port = store.connection.peer[1]
            (its,) = (server for server in servers if server.port == port)
            its.kill()
            # The servers may have to elect a leader first; nobody is told more than that it takes time.
            other.create(f"/written-{number}")
            assert store.create(f"/too-{number}") == f"/too-{number}"
            stat = store.exists("/e")
            assert stat is not None
            assert stat.ephemeral_owner == store.session_id
            its.start()
        other.create("/p")
        events.until(EventType.CREATED, "/p")
        assert told == []
    finally:
        for server in servers:
            server.kill()


def test_operations_wait_for_a_connection_but_not_for_ever(
    own_server: ZooKeeperServer, connect: Connect
) -> None:
    store = connect(own_server.address, request_timeout_ms=300)
    patient = connect(own_server.address)
    own_server.kill()
    for call in (lambda: store.get("/"), lambda: store.get_many(["/"]), lambda: store.create("/a")):
        with pytest.raises(StoreUnavailable, match=own_server.address):
            call()
    result = queue.Queue[str]()
    thread = threading.Thread(target=lambda: result.put(patient.create("/b")))
    thread.start()
    own_server.start()
    assert result.get(timeout=LIMIT_S) == "/b"
    joined(thread)
    assert patient.exists("/a") is None


def test_a_write_whose_answer_does_not_come_may_have_been_done(
    own_server: ZooKeeperServer, connect: Connect
) -> None:
    store = connect(own_server.address, request_timeout_ms=300)
    own_server.pause()
    try:
        with pytest.raises(StoreUnavailable) as caught:
            store.create("/a")
    finally:
        own_server.resume()
    assert caught.value.outcome_unknown
    with pytest.raises(NodeExists):
        connect(own_server.address).create("/a")


def test_a_write_that_was_done_although_its_answer_was_lost_succeeds(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect, proxy: LosingProxy
) -> None:
    store, other = connect(proxy.address + chroot), connect(zookeeper.address + chroot)

    def losing(write: Callable[[], object]) -> object:
        lost = proxy.lost
        proxy.lose_next_answer()
        result = write()
        assert proxy.lost == lost + 1
        return result

    assert losing(lambda: store.create("/e", b"me", ephemeral=True)) == "/e"
    assert losing(lambda: store.create("/p", b"0")) == "/p"
    stat = losing(lambda: store.set("/p", b"1", 0))
    assert stat == other.exists("/p")
    epoch = store.exists("/p")
    assert epoch is not None
    results = losing(
        lambda: store.multi(
            [Check("/p", 1), Create("/n", ephemeral=True), SetData("/n", b"x"), SetData("/p", b"2", 1)]
        )
    )
    assert results == [None, "/n", other.exists("/n"), other.exists("/p")]
    assert other.get("/n")[0] == b"x"
    assert losing(lambda: store.multi([Check("/p", 2), Delete("/n")])) == [None, None]
    assert losing(lambda: store.delete("/p", 2)) is None
    assert other.exists("/p") is None


def test_a_write_of_another_is_not_taken_for_ones_own(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect, proxy: LosingProxy
) -> None:
    store, other = connect(proxy.address + chroot), connect(zookeeper.address + chroot)
    other.create("/controller", b"1", ephemeral=True)
    other.create("/p", b"same")
    for write, error in (
        (lambda: store.create("/controller", b"1", ephemeral=True), NodeExists),
        (lambda: store.create("/p", b"same"), NodeExists),
        (lambda: store.set("/p", b"same", 4), BadVersion),
        (lambda: store.multi([Create("/q"), SetData("/p", b"x", 4)]), BadVersion),
    ):
        proxy.lose_next_answer()
        with pytest.raises(error):
            write()
    assert other.exists("/q") is None


@pytest.mark.parametrize("together", [True, False])
def test_many_reads_outlive_a_lost_connection(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect, proxy: LosingProxy, together: bool
) -> None:
    store = connect(proxy.address + chroot)
    store.reads_together = together
    store.create("/n", b"x")
    wanted = ["/n", "/none"] * (IN_FLIGHT // 2 + 10)
    proxy.lose_next_answer()
    found = store.get_many(wanted)
    assert proxy.lost == 1
    assert [each and each[0] for each in found] == [b"x", None] * (IN_FLIGHT // 2 + 10)


def test_many_nodes_are_read_by_few_requests(own_server: ZooKeeperServer, connect: Connect) -> None:
    store = connect(own_server.address)
    store.create("/n", b"x")
    before = store.connection.requests_sent
    assert [each and each[0] for each in store.get_many(["/n", "/none"] * 500)] == [b"x", None] * 500
    assert store.connection.requests_sent - before < 20


# --- watches ----------------------------------------------------------------------------------------------


def test_no_change_is_missed_between_the_firing_of_a_watch_and_its_arming(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect
) -> None:
    store, other = connect(zookeeper.address + chroot), connect(zookeeper.address + chroot)
    store.create("/p", b"")
    seen = queue.Queue[tuple[bytes | None, list[str]]]()

    def look(event: WatchEvent) -> None:
        seen.put((store.get("/p")[0], store.children("/p")))

    store.watch_persistent("/p", look)
    for number in range(300):
        other.set("/p", b"%d" % number)
        other.create(f"/p/{number:03}")
    while seen.get(timeout=LIMIT_S) != (b"299", [f"{number:03}" for number in range(300)]):
        pass


def test_two_watchers_of_a_node_are_told_though_one_fails(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    store = connect(zookeeper.address + chroot)

    def fails(event: WatchEvent) -> None:
        raise ValueError("on purpose")

    events = Events()
    store.watch_persistent("/p", fails)
    store.watch_persistent("/p", events)
    store.create("/p")
    events.until(EventType.CREATED, "/p")
    assert "a watcher of /p has failed" in caplog.text
    store.unwatch("/p", fails)
    store.set("/p", b"")
    events.until(EventType.CHANGED, "/p")


def test_recursive_watches_are_refused(zookeeper: ZooKeeperServer, chroot: str, connect: Connect) -> None:
    store = connect(zookeeper.address + chroot)
    with pytest.raises(StoreError, match="no recursive watches"):
        store.watch_persistent("/", Events(), recursive=True)


def test_a_broker_starts_over_a_zookeeper_that_is_away_for_longer_than_a_session_meanwhile(
    own_server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has reached it once, and waits, as Kafka's do."""
    asked = 0
    adopt = metadata_access.adopt_cluster_id

    def kill_and_start(*args: Any) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            own_server.kill()
        elif asked == 2:
            # The first request has given up by now, after the length of a session.
            own_server.start()
        adopt(*args)

    monkeypatch.setattr(metadata_access, "adopt_cluster_id", kill_and_start)
    with (
        Broker(
            zookeeper_connect=own_server.address,
            zookeeper_connection_timeout_ms=1000 * LIMIT_S,
            zookeeper_session_timeout_ms=2_000,
        ) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        assert asked >= 2 and admin.list_topics() == []


# --- what is not there ------------------------------------------------------------------------------------


def test_without_kazoo_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import odradek.cluster.store

    monkeypatch.setitem(sys.modules, "kazoo", None)
    monkeypatch.delitem(sys.modules, "odradek.cluster.store.zookeeper_connection", raising=False)
    monkeypatch.delattr(odradek.cluster.store, "zookeeper_connection", raising=False)
    with pytest.raises(StoreError, match=r"-m pip install 'kazoo>=\S+ 'pure-sasl>="):
        ZooKeeperStore("127.0.0.1:2181")


def test_a_node_that_is_not_there_cannot_be_read(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect
) -> None:
    store = connect(zookeeper.address + chroot)
    for call in (lambda: store.get("/none"), lambda: store.children("/none")):
        with pytest.raises(NoNode, match="/none"):
            call()
