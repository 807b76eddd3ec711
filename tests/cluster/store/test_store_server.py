"""The store that the workers of one machine share: sessions, deaths, order of events, hostile peers."""

from __future__ import annotations

import contextlib
import json
import queue
import random
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.cluster.store import store_protocol
from odradek.cluster.store.embedded import EmbeddedStore
from odradek.cluster.store.remote_store import RemoteStore
from odradek.cluster.store.store import (
    BadArguments,
    Check,
    Create,
    Delete,
    NodeExists,
    SessionExpired,
    SetData,
    StoreUnavailable,
    WatchEvent,
)
from odradek.cluster.store.store_protocol import (
    FrameReader,
    StoreProtocolError,
    frame,
    op_from_json,
    op_to_json,
)
from odradek.cluster.store.store_server import StoreServer
from odradek.util.clock import ManualClock
from seeds import each_seed
from waiting import joined

LIMIT_S = 30
GREETING = frame([1, "connect", store_protocol.PROTOCOL_VERSION])


class World:
    """A store, its server, and sessions; all closed at the end."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "metadata.sqlite"
        self.path = folder / "store.sock"
        self.embedded = EmbeddedStore(self.file, ManualClock())
        self.server = StoreServer(self.embedded, self.path)
        self.server.start()
        self.sessions: list[RemoteStore] = []

    def session(self) -> RemoteStore:
        self.sessions.append(RemoteStore(self.path))
        return self.sessions[-1]

    def restart(self, session_timeout_ms: int = 18_000) -> None:
        self.server.stop()
        self.embedded.close()
        self.embedded = EmbeddedStore(self.file, ManualClock())
        self.server = StoreServer(self.embedded, self.path, session_timeout_ms=session_timeout_ms)
        self.server.start()

    def close(self) -> None:
        for session in self.sessions:
            session.close()
        self.server.stop()
        self.embedded.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


class Events:
    """A watcher whose events can be waited for."""

    def __init__(self) -> None:
        self._queue: queue.Queue[WatchEvent] = queue.Queue()

    def __call__(self, event: WatchEvent) -> None:
        self._queue.put(event)

    def next(self) -> tuple[str, str]:
        event = self._queue.get(timeout=LIMIT_S)
        return event.type.name, event.path


# ---------------------------------------------------------------------- sessions


def test_each_session_has_its_own_ephemerals_and_others_hear_of_its_end(world: World) -> None:
    one, two = world.session(), world.session()
    assert one.session_id != two.session_id
    one.create("/ids")
    one.create("/ids/1", ephemeral=True)
    two.create("/ids/2", ephemeral=True)
    stat = two.exists("/ids/1")
    assert stat is not None
    assert stat.ephemeral_owner == one.session_id
    events = Events()
    two.watch_persistent("/ids", events)
    told: list[str] = []
    one.on_expired(lambda: told.append("expired"))
    one.close()
    assert two.children("/ids") == ["2"], "closing waits until the nodes are gone"
    assert events.next() == ("CHILDREN", "/ids")
    assert told == []


def test_only_one_of_two_gets_the_same_ephemeral_node(world: World) -> None:
    one, two = world.session(), world.session()
    one.create("/controller", b"1", ephemeral=True)
    with pytest.raises(NodeExists):
        two.create("/controller", b"2", ephemeral=True)
    one.close()
    two.create("/controller", b"2", ephemeral=True)


def test_epochs_and_session_ids_grow_across_restarts(world: World) -> None:
    epochs, ids = [], []
    for _ in range(3):
        for _ in range(2):
            session = world.session()
            session.create("/id", ephemeral=True)
            found = session.exists("/id")
            assert found is not None
            epochs.append(found.czxid)
            ids.append(session.session_id)
            session.close()
        world.restart()
        ids.append(world.embedded.session_id)
    assert epochs == sorted(set(epochs))
    assert len(set(ids)) == len(ids)


def test_what_a_session_wrote_is_there_after_a_restart_but_for_ephemerals(world: World) -> None:
    session = world.session()
    session.multi([Create("/a", b"1"), Create("/a/b"), Create("/live", ephemeral=True)])
    world.restart()
    again = world.session()
    assert again.get("/a")[0] == b"1"
    assert again.exists("/a/b") is not None
    assert again.exists("/live") is None


def test_a_server_that_goes_ends_the_sessions_with_it(world: World) -> None:
    session = world.session()
    expired = threading.Event()
    session.on_expired(expired.set)
    world.server.stop()
    assert expired.wait(LIMIT_S)
    for call in (lambda: session.create("/a"), lambda: session.exists("/a"), lambda: session.get_many(["/"])):
        with pytest.raises(SessionExpired):
            call()
    late = threading.Event()
    session.on_expired(late.set)
    assert late.wait(LIMIT_S), "who asks late is told, too"
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        RemoteStore(world.path)


CHILD = """
import sys
from odradek.cluster.store.remote_store import RemoteStore
store = RemoteStore(sys.argv[1])
store.create("/ids/child", b"x", ephemeral=True)
print("registered", flush=True)
sys.stdin.read()
"""


def test_a_killed_process_loses_its_session_at_once(world: World) -> None:
    # With the default timeout of 18 s, which is not what ends it.
    session = world.session()
    session.create("/ids")
    command = [sys.executable, "-c", CHILD, str(world.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "registered\n"
        events = Events()
        assert session.exists("/ids/child", watch=events) is not None
        child.send_signal(signal.SIGKILL)
        assert events.next() == ("DELETED", "/ids/child")
    assert session.children("/ids") == []


def test_a_peer_that_hangs_is_given_up(world: World) -> None:
    world.restart(session_timeout_ms=150)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as hung:
        hung.connect(str(world.path))
        events = Events()
        world.embedded.watch_persistent("/hung", events)
        hung.sendall(GREETING + frame([2, "multi", [op_to_json(Create("/hung", ephemeral=True))]]))
        assert events.next() == ("CREATED", "/hung")
        assert events.next() == ("DELETED", "/hung"), "it never answers a ping"


def test_a_peer_that_answers_pings_may_be_quiet(world: World) -> None:
    world.restart(session_timeout_ms=900)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as quiet:
        quiet.settimeout(LIMIT_S)
        quiet.connect(str(world.path))
        quiet.sendall(GREETING)
        frames, pings = FrameReader(), 0
        while pings < 5:  # by then, more than the timeout has gone by
            while (message := frames.next_message()) is None:
                frames.feed(quiet.recv(65536))
            if message == [0, "ping"]:
                pings += 1
                quiet.sendall(frame([0, "pong"]))
        quiet.sendall(frame([2, "close"]))
        while (message := frames.next_message()) != [2, True, None]:
            if message is None:
                frames.feed(quiet.recv(65536))


def test_a_peer_that_does_not_read_is_cut_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.cluster.store.store_server.MAX_WAITING", 10)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as deaf:
        deaf.connect(str(world.path))
        made = Events()
        world.embedded.watch_persistent("/deaf", made)
        watch = frame([2, "watch", "/", True])
        deaf.sendall(GREETING + watch + frame([3, "multi", [op_to_json(Create("/deaf", ephemeral=True))]]))
        assert made.next() == ("CREATED", "/deaf")
        # What is sent fills the kernel's buffer, then the queue; the timeout of 18 s is not waited for.
        long = "/" + "x" * 1000
        for _ in range(5000):
            world.embedded.multi([Create(long, ephemeral=True), Delete(long)])
            if world.embedded.exists("/deaf") is None:
                break
        assert made.next() == ("DELETED", "/deaf")


def test_a_session_answers_pings(tmp_path: Path) -> None:
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        said: list[object] = []

        def serve() -> None:
            frames = FrameReader()
            with listener.accept()[0] as accepted:
                accepted.sendall(frame([1, True, [7, 60_000]]) + frame([0, "ping"]))
                while len(said) < 2:
                    frames.feed(accepted.recv(65536))
                    while (message := frames.next_message()) is not None:
                        said.append(message)

        server = threading.Thread(target=serve)
        server.start()
        session = RemoteStore(tmp_path / "s")
        joined(server)
        assert said == [[1, "connect", store_protocol.PROTOCOL_VERSION], [0, "pong"]]
        session.close()


def test_a_server_that_hangs_is_given_up(tmp_path: Path) -> None:
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def greet() -> None:
            accepted.append(listener.accept()[0])
            accepted[0].sendall(frame([1, True, [7, 100]]))

        accepted: list[socket.socket] = []
        server = threading.Thread(target=greet)
        server.start()
        session = RemoteStore(tmp_path / "s")
        joined(server)
        with pytest.raises(SessionExpired):
            session.create("/a")
        session.close()
        accepted[0].close()


# ---------------------------------------------------------------------- events


def test_events_come_in_the_order_of_the_changes_of_all(world: World) -> None:
    watching, one, two = world.session(), world.session(), world.session()
    events = Events()
    watching.watch_persistent("/", events, recursive=True)
    expected = []
    for number in range(50):
        store = one if number % 2 else two
        store.create(f"/n{number}")
        store.set(f"/n{number}", b"x")
        expected += [("CREATED", f"/n{number}"), ("CHANGED", f"/n{number}")]
    assert [events.next() for _ in expected] == expected


def test_a_watcher_sees_what_its_event_tells_of_and_may_write(world: World) -> None:
    one, two = world.session(), world.session()
    seen: queue.Queue[object] = queue.Queue()

    def watcher(event: WatchEvent) -> None:
        seen.put((event.path, one.get(event.path)[0]))
        one.create("/answer")

    one.watch_persistent("/a", watcher)
    two.multi([Create("/a", b"1"), Create("/b")])
    assert seen.get(timeout=LIMIT_S) == ("/a", b"1")
    events = Events()
    if two.exists("/answer", watch=events) is None:
        assert events.next() == ("CREATED", "/answer")


def test_a_watcher_that_breaks_does_not_stop_the_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    session = world.session()

    def breaks(event: WatchEvent) -> None:
        raise ValueError("no")

    events = Events()
    session.exists("/a", watch=breaks)
    session.exists("/a", watch=events)
    session.create("/a")
    assert events.next() == ("CREATED", "/a")
    assert "a watcher of the metadata store broke" in caplog.text


def test_one_of_two_watchers_of_a_node_is_taken_back(world: World) -> None:
    session = world.session()
    one, two = Events(), Events()
    session.watch_persistent("/a", one)
    session.watch_persistent("/a", two)
    session.unwatch("/a", one)
    session.create("/a")
    assert two.next() == ("CREATED", "/a")
    session.unwatch("/a", two)
    assert world.server._sessions[session.session_id]._watches.watches_for_good("/a") is False
    session.close()
    session.unwatch("/a", two)


def test_writes_of_many_threads_are_all_done(world: World) -> None:
    session = world.session()
    session.create("/s")

    def write() -> None:
        for _ in range(20):
            session.multi([Create("/s/n", sequence=True), SetData("/s", b"x")])

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        joined(thread)
    assert len(session.children("/s")) == 160
    assert session.get("/s")[1].version == 160


def test_many_nodes_are_read_beyond_one_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.cluster.store.store_server.BATCH_BYTES", 25)
    session = world.session()
    session.multi([Create(f"/n{number}", b"0123456789") for number in range(11)])
    session.create("/large", b"x" * 100)
    paths = [f"/n{number}" for number in range(11)] + ["/large", "/none", "/large"]
    found = session.get_many(paths)
    assert [None if one is None else one[0] for one in found] == [
        *[b"0123456789"] * 11,
        b"x" * 100,
        None,
        b"x" * 100,
    ]


def test_whether_many_nodes_exist_is_asked_in_parts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.cluster.store.remote_store._PATHS_AT_ONCE", 3)
    session = world.session()
    session.multi([Create(f"/n{number}") for number in range(7)])
    paths = [f"/n{number}" for number in range(9)]
    assert session.exists_many(paths) == [session.exists(path) for path in paths]


def test_a_transaction_that_is_too_large_is_refused_and_the_session_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_protocol, "MAX_FRAME_BYTES", 1000)
    session = world.session()
    with pytest.raises(BadArguments, match="at most 1000"):
        session.create("/a", b"x" * 1000)
    session.create("/a")
    for number in range(20):
        session.create(f"/a/{number}{'x' * 50}")
    with pytest.raises(StoreUnavailable, match="too much for one answer"):
        session.children("/a")
    assert session.exists("/a") is not None


# ---------------------------------------------------------------------- the socket


def test_only_the_owner_may_connect_and_a_dead_servers_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "store.sock"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))
    embedded = EmbeddedStore(tmp_path / "metadata.sqlite")
    server = StoreServer(embedded, path)
    server.start()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    RemoteStore(path).close()
    server.stop()
    server.stop()
    assert not path.exists()
    embedded.close()


def test_another_file_at_its_place_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.sock"
    path.write_text("mine", encoding="utf-8")
    embedded = EmbeddedStore(tmp_path / "metadata.sqlite")
    with pytest.raises(StoreUnavailable, match="cannot be made"):
        StoreServer(embedded, path).start()
    assert path.read_text(encoding="utf-8") == "mine"
    embedded.close()


def _raw(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


@pytest.mark.parametrize(
    "hostile",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        frame([1, "connect", 99]),
        frame([1, "get", "/", False]),
        frame([1]),
        frame([0, "pong", 1]),
        _raw(b"{}"),
        _raw(b"[]"),
        _raw(b"[" * 900),
        _raw(b"\xff\xfe"),
        GREETING + b"\xff\xff\xff\xff",
        GREETING + _raw(b"[" * 100_000),
        GREETING + _raw(b"1" * 10_000),
        GREETING + frame([2, "no such method"]),
        GREETING + frame([2, "get", "/"]),
        GREETING + frame([2, "get", 7, False]),
        GREETING + frame([2, "get", "/", 1]),
        GREETING + frame([2, "get_many", [None]]),
        GREETING + frame([2, "exists_many", "/"]),
        GREETING + frame([2, "multi", [["create", "/x", "no base64!", True, False]]]),
        GREETING + frame([2, "multi", [["create", "/x"]]]),
        GREETING + frame([2, "multi", [[]]]),
        GREETING + frame([2, "multi", [["set", "/", None, 2**64]]]),
        GREETING + frame([True, "get", "/", False]),
        GREETING + frame([-1, "get", "/", False]),
    ],
)
def test_hostile_bytes_close_their_own_connection_alone(world: World, hostile: bytes) -> None:
    session = world.session()
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as peer:
        peer.settimeout(LIMIT_S)
        peer.connect(str(world.path))
        peer.sendall(hostile)
        with contextlib.suppress(ConnectionResetError):
            while peer.recv(65536):
                pass
    session.create("/still", ephemeral=True)
    assert session.exists("/still") is not None
    world.session()


def test_a_path_that_is_none_is_refused_and_not_hostile(world: World) -> None:
    session = world.session()
    for path in ("/\ud800", "x", "/a//b"):
        with pytest.raises(BadArguments):
            session.multi([Create(path)])
        with pytest.raises(BadArguments):
            session.get_many([path])
    assert session.exists("/") is not None


# ---------------------------------------------------------------------- frames


@each_seed(20)
def test_any_bytes_are_messages_or_a_protocol_error(seed: int) -> None:
    rng = random.Random(seed)
    message = frame([1, "multi", [op_to_json(Create("/a", b"\x00\xff")), op_to_json(Delete("/b", 3))]])
    for _ in range(200):
        data = bytearray(message * 2)
        for _ in range(rng.randint(0, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        frames = FrameReader(4096)
        place = 0
        try:
            while place < len(data):
                step = rng.randint(1, 40)
                frames.feed(bytes(data[place : place + step]))
                place += step
                while (found := frames.next_message()) is not None:
                    for one in found[2] if len(found) > 2 and isinstance(found[2], list) else ():
                        op_from_json(one)
        except StoreProtocolError:
            continue


@pytest.mark.parametrize(
    "op",
    [
        Check("/a", 7),
        Create("/a"),
        Create("/a", b"", ephemeral=True),
        Create("/ü", bytes(range(256)), sequence=True),
        SetData("/a", None, 3),
        Delete("/a"),
    ],
)
def test_operations_are_read_as_they_were_written(op: Check | Create | SetData | Delete) -> None:
    assert op_from_json(json.loads(json.dumps(op_to_json(op)))) == op
