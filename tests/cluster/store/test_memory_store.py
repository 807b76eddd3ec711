"""Several sessions over one tree, and a random walk that holds the tree to a plain model."""

from __future__ import annotations

import random
import threading

import pytest

from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import (
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SessionExpired,
    SetData,
    StoreError,
    WatchEvent,
)
from odradek.util.clock import ManualClock
from seeds import each_seed
from waiting import joined


def _server(auto_deliver: bool = True) -> MemoryServer:
    return MemoryServer(ManualClock(), auto_deliver)


def test_ephemeral_nodes_go_with_their_session_and_others_hear_of_it() -> None:
    server = _server()
    one, two = MemoryStore(server), MemoryStore(server)
    one.create("/ids")
    one.create("/ids/1", ephemeral=True)
    two.create("/ids/2", ephemeral=True)
    events: list[WatchEvent] = []
    two.watch_persistent("/ids", events.append)
    one.close()
    assert two.children("/ids") == ["2"]
    assert [(e.type.name, e.path) for e in events] == [("CHILDREN", "/ids")]


def test_only_one_of_two_gets_the_same_ephemeral_node() -> None:
    server = _server()
    one, two = MemoryStore(server), MemoryStore(server)
    one.create("/controller", b"1", ephemeral=True)
    with pytest.raises(NodeExists):
        two.create("/controller", b"2", ephemeral=True)
    one.expire()
    two.create("/controller", b"2", ephemeral=True)
    assert two.get("/controller")[0] == b"2"


def test_expiry_tells_the_session_and_makes_it_useless() -> None:
    server = _server()
    store = MemoryStore(server)
    told: list[str] = []
    store.on_expired(lambda: told.append("expired"))
    store.expire()
    store.expire()
    assert told == ["expired"]
    with pytest.raises(SessionExpired):
        store.create("/a")


def test_closing_is_not_expiring() -> None:
    store = MemoryStore(_server())
    told: list[str] = []
    store.on_expired(lambda: told.append("expired"))
    store.close()
    assert told == []


def test_held_back_events_come_in_order() -> None:
    server = _server(auto_deliver=False)
    one, two = MemoryStore(server), MemoryStore(server)
    events: list[tuple[str, str]] = []
    two.watch_persistent("/", lambda e: events.append((e.type.name, e.path)), recursive=True)
    one.create("/a")
    one.set("/a", b"1")
    one.delete("/a")
    assert events == []
    server.deliver()
    assert events == [("CREATED", "/a"), ("CHANGED", "/a"), ("DELETED", "/a")]


@each_seed(8)
def test_random_transactions_agree_with_a_plain_model(seed: int) -> None:
    rng = random.Random(seed)
    store = MemoryStore(_server())
    model: dict[str, tuple[bytes | None, int]] = {}
    names = ["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/deep"]
    for step in range(400):
        ops: list[Op] = []
        for _ in range(rng.randint(1, 4)):
            path, version = rng.choice(names), rng.choice([-1, -1, 0, 1])
            data = str(step).encode()
            ops.append(rng.choice([Create(path, data), SetData(path, data, version), Delete(path, version)]))
        draft = dict(model)
        expected: type[StoreError] | None = None
        for op in ops:
            expected = _model(draft, op)
            if expected is not None:
                break
        if expected is None:
            store.multi(ops)
            model = draft
        else:
            with pytest.raises(expected):
                store.multi(ops)
        for path in names:
            stat = store.exists(path)
            assert (stat is not None) == (path in model), f"seed {seed} step {step} {path}"
            if stat is not None:
                assert (store.get(path)[0], stat.version) == model[path]
                assert stat.num_children == sum(1 for other in model if other.rpartition("/")[0] == path)


def _model(model: dict[str, tuple[bytes | None, int]], op: Op) -> type[StoreError] | None:
    from odradek.cluster.store.store import BadVersion

    if isinstance(op, Create):
        parent = op.path.rpartition("/")[0]
        if parent and parent not in model:
            return NoNode
        if op.path in model:
            return NodeExists
        model[op.path] = (op.data, 0)
        return None
    if op.path not in model:
        return NoNode
    _data, version = model[op.path]
    if op.version not in (-1, version):
        return BadVersion
    if isinstance(op, SetData):
        model[op.path] = (op.data, version + 1)
    elif any(other.startswith(op.path + "/") for other in model):
        return NotEmpty
    else:
        del model[op.path]
    return None


def test_sessions_in_several_threads_hear_of_every_change_in_order() -> None:
    server = MemoryServer()
    seen: list[int] = []
    watching = MemoryStore(server)
    watching.create("/n")
    watching.watch_persistent("/n", lambda event: seen.append(watching.get("/n")[1].version))

    def write() -> None:
        store = MemoryStore(server)
        for _ in range(200):
            store.set("/n", b"x")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        joined(thread)
    assert seen == list(range(1, 801))
