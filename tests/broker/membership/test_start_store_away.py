"""The metadata store goes away at any request of a broker that starts: for a while, or with the session."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker import app
from odradek.broker.app import Broker, StartError
from odradek.broker.authorizer.acl_authorizer import AclAuthorizer
from odradek.broker.authorizer.acl_keeper import AclKeeper
from odradek.broker.membership import membership, start_sessions
from odradek.broker.requests.authorization import Operation
from odradek.broker.sasl.token_keeper import TokenKeeper
from odradek.cluster.features import FeatureLevels, read_features
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import SessionExpired, StoreError, StoreUnavailable

from ..authorizer.acl_world import acl
from .member import Member, run, until

WITH_USERS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "odradek.insecure": "true",
    "delegation.token.secret.key": "secret",
}
REQUESTS = (
    *("get", "exists", "children", "get_many", "exists_many", "create", "set", "delete", "multi"),
    "watch_persistent",
)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "_REJOIN_S", 0.001)
    monkeypatch.setattr(membership, "AGAIN_S", 0.001)
    monkeypatch.setattr(start_sessions, "AGAIN_S", 0.001)


class Losing:
    """Loses the n-th request of all sessions from now on.

    Attributes:
        left: how many requests are left until then.
    """

    def __init__(self, n: int, error: StoreError) -> None:
        """
        Args:
            n: 1 for the next.
            error: how the request ends. A write is done if its outcome is unknown.
        """
        self.left = n
        self._error = error
        self._within = threading.local()

    def ask(self, store: MemoryStore, whole: Any, *args: Any, **kwargs: Any) -> Any:
        """Make a request, or lose it."""
        if getattr(self._within, "a_request", False):
            return whole(store, *args, **kwargs)
        self._within.a_request = True
        try:
            return self._ask(store, whole, *args, **kwargs)
        finally:
            self._within.a_request = False

    def _ask(self, store: MemoryStore, whole: Any, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left != 0:
            return whole(store, *args, **kwargs)
        if isinstance(self._error, SessionExpired):
            store.expire()
        elif isinstance(self._error, StoreUnavailable) and self._error.outcome_unknown:
            whole(store, *args, **kwargs)
        raise copy(self._error)


@contextmanager
def lost(losing: Losing) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in REQUESTS:
            whole = getattr(MemoryStore, name)
            patch.setattr(
                MemoryStore,
                name,
                lambda store, *args, _whole=whole, **kwargs: losing.ask(store, _whole, *args, **kwargs),
            )
        yield


async def follows_others(broker: Broker, server: MemoryServer) -> None:
    """The broker follows the ACLs and the tokens of others, in whichever session it has by now."""
    authorizer, tokens = broker.authorizer, broker.delegation_tokens
    assert authorizer is not None and tokens is not None
    store = MemoryStore(server)
    access = SimpleNamespace(store=store, event_queue=broker.controller.event_queue)
    theirs = acl("t", Operation.READ)
    others_acls = AclKeeper(AclAuthorizer([], False), access, broker.clock)
    others_acls.load()
    others_acls.create([theirs])
    await until(lambda: theirs in set(authorizer.index.bindings()))
    others_tokens = TokenKeeper("secret", access, broker.clock, expiry_ms=60_000, max_lifetime_ms=60_000)
    others_tokens.load()
    token, _ = others_tokens.create("User:a", "User:a", [], -1)
    await until(lambda: tokens.find(token.token_id, "SCRAM-SHA-256") is not None)
    store.close()


async def start_and_stop(data: Path, losing: Losing, server: MemoryServer) -> None:
    member = Member(data, server, **{name.replace(".", "_"): text for name, text in WITH_USERS.items()})
    with lost(losing):
        await member.broker.start()
    await until(member.is_member)
    await follows_others(member.broker, server)
    await member.broker.stop()
    assert member.open_sessions == 0


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailable("/", "not sent"),
        StoreUnavailable("/", "no answer", outcome_unknown=True),
        SessionExpired("/", "the session is over"),
    ],
    ids=str,
)
def test_a_start_goes_on_after_the_loss_of_any_request(tmp_path: Path, error: StoreError) -> None:
    async def scenario() -> None:
        for n in range(1, 1000):
            losing = Losing(n, error)
            await start_and_stop(tmp_path / f"{n}", losing, MemoryServer())
            if losing.left > 0:
                assert n > 40
                return

    run(scenario())


@pytest.mark.parametrize("method", ["exists", "watch_persistent"], ids=["at first", "with ACLs"])
def test_a_stop_ends_a_start_that_waits(tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def ask(*_: Any, **__: Any) -> Any:
        nonlocal asked
        asked += 1
        raise StoreUnavailable("/", "no answer")

    async def scenario() -> None:
        monkeypatch.setattr(MemoryStore, method, ask)
        member = Member(tmp_path, **{name.replace(".", "_"): text for name, text in WITH_USERS.items()})
        starting = asyncio.ensure_future(member.broker.start())
        await until(lambda: asked > 2)
        await member.broker.stop()
        with pytest.raises(StartError):
            await starting
        assert member.open_sessions == 0

    run(scenario())


@pytest.mark.parametrize("method", ["exists", "watch_persistent"], ids=["at first", "with ACLs"])
@pytest.mark.parametrize(
    "error", [StoreUnavailable("/", "no answer"), SessionExpired("/", "the session is over")], ids=str
)
def test_a_start_that_was_stopped_asks_no_more_when_the_store_is_back(
    tmp_path: Path, method: str, error: StoreError, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    whole = getattr(MemoryStore, method)
    is_back = False

    def ask(*args: Any, **kwargs: Any) -> Any:
        nonlocal asked
        asked += 1
        if is_back:
            return whole(*args, **kwargs)
        raise copy(error)

    async def scenario() -> None:
        nonlocal is_back
        monkeypatch.setattr(MemoryStore, method, ask)
        member = Member(tmp_path, **{name.replace(".", "_"): text for name, text in WITH_USERS.items()})
        starting = asyncio.ensure_future(member.broker.start())
        await until(lambda: asked > 2)
        await member.broker.stop()
        is_back, opened = True, len(member.sessions)
        with pytest.raises(StartError):
            await starting
        assert len(member.sessions) == opened
        assert member.open_sessions == 0

    run(scenario())


def test_a_stop_that_comes_with_the_last_answer_before_the_broker_joins_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        member = Member(tmp_path)
        loop = asyncio.get_running_loop()
        stopping: list[asyncio.Task[None]] = []

        def answer_and_stop(store: MemoryStore) -> FeatureLevels:
            levels, stop = read_features(store), member.broker.stop
            loop.call_soon_threadsafe(lambda: stopping.append(loop.create_task(stop())))
            return levels

        monkeypatch.setattr(app, "read_features", answer_and_stop)
        with pytest.raises(StartError, match="was stopped"):
            await member.broker.start()
        await asyncio.gather(*stopping)
        assert member.registered is None and member.open_sessions == 0

    run(scenario())
