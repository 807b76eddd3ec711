"""A broker whose session ends: it comes back under another one, or stays away when it stops."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.folders import failures
from odradek.broker.membership import membership
from odradek.cluster.store.memory import MemoryStore
from odradek.cluster.store.store import SessionExpired, StoreError, StoreUnavailable

from .member import Member, in_member, run, until

pytestmark = pytest.mark.usefixtures("short_pauses")


def test_a_session_that_ends_is_followed_by_another(tmp_path: Path) -> None:
    async def use(member: Member) -> None:
        before = member.registered
        member.sessions[0].expire()
        await until(lambda: len(member.sessions) == 2 and member.is_member())
        assert member.registered != before

    in_member(tmp_path, use)


def test_a_session_that_ends_as_soon_as_it_has_begun_is_followed_by_another_as_well(tmp_path: Path) -> None:
    async def use(member: Member) -> None:
        start = member.broker.controller.start

        def start_and_expire(registration: Any) -> None:
            start(registration)
            if len(member.sessions) == 2:
                member.sessions[-1].expire()

        member.broker.controller.start = start_and_expire  # type: ignore[method-assign]
        member.sessions[0].expire()
        await until(lambda: len(member.sessions) == 3 and member.is_member())
        assert member.open_sessions == 1

    in_member(tmp_path, use)


@pytest.mark.parametrize("error", [StoreUnavailable("/"), OSError("no network"), ValueError("a bug")])
def test_a_store_that_is_away_is_tried_until_it_is_back(tmp_path: Path, error: Exception) -> None:
    tried = 0

    def fail() -> None:
        nonlocal tried
        tried += 1
        if tried <= 3:
            raise error

    async def use(member: Member) -> None:
        member.before_open = fail
        member.sessions[0].expire()
        await until(lambda: len(member.sessions) == 2 and member.is_member())
        assert tried == 4

    in_member(tmp_path, use)


def test_a_session_that_ends_while_the_broker_joins_is_replaced(tmp_path: Path) -> None:
    async def scenario() -> None:
        member = Member(tmp_path, broker_id="0")
        opened = MemoryStore.watch_persistent

        def expire(store: MemoryStore, path: str, watcher: Any, recursive: bool = False) -> None:
            # It is registered by now, and nothing else.
            if store is member.sessions[0]:
                store.expire()
            opened(store, path, watcher, recursive)

        MemoryStore.watch_persistent = expire  # type: ignore[method-assign]
        try:
            await member.broker.start()
        finally:
            MemoryStore.watch_persistent = opened  # type: ignore[method-assign]
        await until(member.is_member)
        assert len(member.sessions) == 2
        await member.broker.stop()
        assert member.open_sessions == 0

    run(scenario())


class Away:
    """Makes each of the next calls of a method of the store end with the next error, if there is one."""

    def __init__(self, method: str, *errors: StoreError | None) -> None:
        self.method = method
        self.errors = list(errors)

    def __enter__(self) -> Away:
        whole = self._whole = getattr(MemoryStore, self.method)

        def call(store: MemoryStore, *args: Any, **kwargs: Any) -> Any:
            error = self.errors.pop(0) if self.errors else None
            if isinstance(error, SessionExpired):
                store.expire()
            elif error is not None and error.outcome_unknown:
                whole(store, *args, **kwargs)
            if error is not None:
                raise error
            return whole(store, *args, **kwargs)

        setattr(MemoryStore, self.method, call)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(MemoryStore, self.method, self._whole)


AWAY = StoreUnavailable("/", "no answer")
OVER = SessionExpired("/", "the session is over")


@pytest.mark.parametrize("step", ["tell_store", "be_missed"])
@pytest.mark.parametrize(
    ("errors", "sessions"), [([AWAY] * 5, 1), ([OVER], 2), ([AWAY, OVER, AWAY, OVER], 4)], ids=str
)
def test_a_start_goes_on_when_the_store_is_back(
    tmp_path: Path, errors: list[StoreError], sessions: int, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's brokers wait for a ZooKeeper that they have reached before, however long it is away."""
    looking = Away("get_many", *errors)
    whole = getattr(membership, step)

    with ExitStack() as stack:

        def lose_and_go_on(*args: Any, **kwargs: Any) -> Any:
            # From the first request of this step on.
            monkeypatch.setattr(membership, step, whole)
            stack.enter_context(looking)
            return whole(*args, **kwargs)

        monkeypatch.setattr(membership, step, lose_and_go_on)

        async def use(member: Member) -> None:
            assert looking.errors == [] and len(member.sessions) == sessions

        in_member(tmp_path, use)


@pytest.mark.parametrize("is_done", [False, True])
def test_a_registration_of_which_nobody_knows_whether_it_was_done_is_made_anew(
    tmp_path: Path, is_done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the new session takes: this broker's own one before is no other broker."""
    monkeypatch.setattr(membership, "_IN_THE_WAY_SESSIONS", -1)
    away = Away("multi", None, StoreUnavailable("/", "no answer", is_done))

    async def scenario() -> None:
        member = Member(tmp_path, broker_id="0")
        with away:
            await member.broker.start()
        await until(member.is_member)
        # Where it was done, the second session finds the first one's registration, and ends that.
        assert away.errors == [] and len(member.sessions) == 2 + is_done
        await member.broker.stop()
        assert member.registered is None and member.open_sessions == 0

    run(scenario())


def test_a_session_that_ends_while_the_broker_leaves_is_not_replaced(tmp_path: Path) -> None:
    async def use(member: Member) -> None:
        stopping = asyncio.ensure_future(member.broker.stop())
        await asyncio.sleep(0)
        member.sessions[0].expire()
        await stopping
        assert len(member.sessions) == 1

    in_member(tmp_path, use)


def test_a_broker_that_stops_while_it_tries_to_come_back_stays_away(tmp_path: Path) -> None:
    async def use(member: Member) -> None:
        def fail() -> None:
            raise StoreUnavailable("/")

        member.before_open = fail
        member.sessions[0].expire()
        await until(lambda: member.broker.controller.broker_epoch < 0)

    in_member(tmp_path, use)


def test_a_stop_ends_though_the_store_is_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        member = Member(tmp_path, broker_id="0")
        await member.broker.start()
        await until(member.is_member)

        def away(*args: Any) -> Any:
            raise StoreUnavailable("/")

        store: Any = member.sessions[0]
        store.get = store.exists = store.children = store.multi = store.unwatch = away
        await member.broker.stop()
        again = Member(tmp_path, member.server, broker_id="0")
        await again.broker.start()
        await again.broker.stop()

    run(scenario())


def test_the_loss_of_a_folder_is_noted_until_the_store_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "NOTE_AGAIN_MS", 10)
    tried = 0

    async def use(member: Member) -> None:
        controller: Any = member.broker.controller
        notify = controller.notify_log_dir_failure

        def fail_at_first() -> None:
            nonlocal tried
            tried += 1
            if tried <= 3:
                raise StoreUnavailable("/")
            notify()

        controller.notify_log_dir_failure = fail_at_first
        member.broker.logs.directories.fail(tmp_path / "b", "the disk is gone")
        await until(lambda: tried == 4)

    in_member(tmp_path / "a", use, log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}")
    assert tried == 4
