"""Lines of which a stranger can cause any number."""

from __future__ import annotations

import logging
from weakref import WeakSet

import pytest

from odradek.util.repeats import FORGOTTEN_AFTER_S, INTERVAL_S, MOST_KINDS, Repeats, tell_counts

log = logging.getLogger("tests.repeats")


class World:
    """Repeated lines on a clock of their own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.repeats = Repeats(log, lambda: self.now)

    def fail(self, kind: object = "k", what: str = "disk", error: BaseException | None = None) -> None:
        self.repeats.log(logging.ERROR, kind, "failed what=%s", what, exc_info=error)


@pytest.fixture
def world(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> World:
    # Those of other tests may not have been collected yet, and have counts of their own to tell.
    monkeypatch.setattr("odradek.util.repeats._all", WeakSet())
    caplog.set_level(logging.INFO, log.name)
    return World()


def test_the_first_is_written_and_the_others_are_counted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    error = OSError("gone")
    for number in range(1000):
        world.fail(what=f"disk {number}", error=error)
    (first,) = caplog.records
    assert first.getMessage() == "failed what=disk 0"
    assert first.exc_info is not None
    world.now += INTERVAL_S
    world.fail(what="last", error=error)
    assert caplog.records[1].getMessage() == "failed what=last repeated=1000"
    assert caplog.records[1].exc_info is None
    world.fail()
    assert len(caplog.records) == 2


def test_kinds_messages_and_levels_of_loggers_are_apart(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        world.fail("a")
        world.fail("b")
        world.repeats.log(logging.WARNING, "a", "other")
        world.repeats.log(logging.DEBUG, "a", "unseen")
    assert [one.getMessage() for one in caplog.records] == ["failed what=disk", "failed what=disk", "other"]


def test_counts_are_told_when_nothing_more_comes(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.fail()
    world.repeats.tell_counts(at_once=True)
    for _ in range(5):
        world.fail()
    world.repeats.tell_counts()
    assert len(caplog.records) == 1
    world.now += INTERVAL_S
    tell_counts()
    tell_counts()
    world.fail()
    tell_counts(at_once=True)
    assert [one.getMessage() for one in caplog.records[1:]] == [
        "failed what=disk repeated=5",
        "failed what=disk repeated=1",
    ]


def test_what_was_silent_for_long_is_told_anew(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.fail()
    world.now += FORGOTTEN_AFTER_S
    world.fail(error=OSError("again"))
    assert [one.getMessage() for one in caplog.records] == ["failed what=disk"] * 2
    assert caplog.records[1].exc_info is not None


def test_kinds_are_bounded(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(10 * MOST_KINDS):
        world.fail(number)
    assert len(caplog.records) == MOST_KINDS + 1
    world.now += FORGOTTEN_AFTER_S
    world.fail("new")
    assert len(world.repeats.kinds) == 1


def test_a_kind_may_come_while_counts_are_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The controller logs in a thread of its own."""

    class Another(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "repeated" in record.getMessage():
                world.fail("of another thread")

    another = Another()
    log.addHandler(another)
    try:
        for _ in range(2):
            world.fail()
        world.repeats.tell_counts(at_once=True)
    finally:
        log.removeHandler(another)
    assert [record.getMessage() for record in caplog.records] == [
        "failed what=disk",
        "failed what=disk",
        "failed what=disk repeated=1",
    ]
