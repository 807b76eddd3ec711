"""Changes of nodes are handled one after the other, never inside a write, and not lost when they fail."""

from __future__ import annotations

import pytest

from odradek.cluster import paths
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.controller.node_watchers import NodeWatchers
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import SessionExpired, StoreUnavailable
from odradek.errors import NotControllerError
from odradek.util.clock import ManualClock

from ..scenario import Config


class Watched:
    """Watchers of two nodes, `/a` and `/b`, and what they have done."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.store = MemoryStore(MemoryServer(clock))
        self.context = ControllerContext(self.store, 0, Config(), clock)
        self.context.broker_epoch = 1
        self.deposed = 0
        self.done: list[str] = []
        self.fails: Exception | None = None
        self.watchers = NodeWatchers(self.context, self._depose)
        self.store.create("/a")
        self.store.create("/b")
        self.watchers.watch("/a", self._a)
        self.watchers.watch("/b", lambda: self.done.append("b"))

    def _depose(self) -> None:
        self.deposed += 1

    def _a(self) -> None:
        self.done.append("a begins")
        if self.fails is not None:
            raise self.fails
        # It writes, and the watch of what it writes reports so at once.
        self.store.set("/b", b"")
        self.done.append("a ends")


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_change_that_comes_while_another_one_is_handled_has_its_turn_after_it(watched: Watched) -> None:
    watched.store.set("/a", b"")
    assert watched.done == ["a begins", "a ends", "b"]


def test_nothing_is_handled_inside_a_write(watched: Watched) -> None:
    watched.watchers.is_held = True
    watched.store.set("/b", b"1")
    watched.store.set("/b", b"2")
    assert watched.done == []
    watched.watchers.is_held = False
    watched.watchers.handle_pending()
    assert watched.done == ["b"]


def test_what_could_not_be_followed_is_looked_at_again_when_asked(watched: Watched) -> None:
    watched.fails = StoreUnavailable("/", "away")
    watched.store.set("/a", b"")
    watched.watchers.handle_pending()
    assert watched.done == ["a begins"]
    watched.fails = None
    watched.watchers.look_again()
    assert watched.done == ["a begins", "a begins", "a ends", "b"]
    watched.watchers.look_again()
    assert watched.done[4:] == []


def test_who_controls_is_looked_at_each_time(watched: Watched) -> None:
    looked: list[str] = []
    watched.watchers.watch(paths.CONTROLLER, lambda: looked.append("controller"))
    watched.watchers.look_again()
    watched.watchers.look_again()
    assert looked == ["controller", "controller"]


@pytest.mark.parametrize(("error", "deposed"), [(SessionExpired("/"), 1), (NotControllerError(), 0)])
def test_a_term_that_is_over_leaves_nothing_to_look_at(
    error: Exception, deposed: int, watched: Watched
) -> None:
    watched.fails = error
    watched.store.set("/a", b"")
    assert watched.deposed == deposed
    watched.fails = None
    watched.watchers.look_again()
    assert watched.done == ["a begins"]


def test_what_is_not_watched_any_more_is_forgotten(watched: Watched) -> None:
    watched.watchers.is_held = True
    watched.store.set("/b", b"")
    watched.watchers.note_unseen("/b")
    watched.watchers.unwatch("/b")
    watched.watchers.is_held = False
    watched.store.set("/b", b"")
    watched.watchers.look_again()
    assert watched.done == []


def test_a_broker_that_is_not_registered_follows_nothing(watched: Watched) -> None:
    watched.context.broker_epoch = -1
    watched.store.set("/b", b"")
    assert watched.done == []
    watched.context.broker_epoch = 2
    watched.watchers.handle_pending()
    assert watched.done == ["b"]
    watched.watchers.is_held = True
    watched.store.set("/b", b"")
    watched.watchers.forget_events()
    watched.watchers.is_held = False
    watched.watchers.handle_pending()
    assert watched.done == ["b"]


def test_what_comes_during_work_waits_for_its_end(watched: Watched) -> None:
    def work() -> None:
        watched.store.set("/b", b"")
        watched.done.append("work")

    watched.watchers.during(work)
    assert watched.done == ["work", "b"]
