"""Every public method of every client, entered while any other is under way: it works, or says at once why
not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client import (
    Admin,
    Consumer,
    Producer,
    RawReader,
    RawWriter,
    SimpleConsumer,
    TransactionalWriter,
)
from odradek.client.core.ownership import Entry, Ownership
from odradek.client.errors import ClosedError, ConcurrentModificationError, IllegalStateError, WakeupError
from odradek.client.sync.consumer_thread import ConsumerThread
from odradek.errors import OdradekError
from waiting import until

from . import entered_amid as amid
from .entered_amid import ASKS, ENDS, METHODS, TAKES, Amid, attempt, in_another_thread, in_io_thread, make

THREADED = [Producer, Admin, RawWriter]
BLOCKING = [RawReader, SimpleConsumer, TransactionalWriter]
NESTED = ["a handler", "a finalizer"]
"""The ways into a client of the thread that is in it: a signal's handler, and a `__del__` that the garbage
collector calls.
"""
#: What needs nobody else, and so cannot be entered amid.
INSTANT = {
    Consumer: ASKS | {"wakeup", "store_offsets", "__enter__"},
    Producer: {"config", "metrics", "__enter__"},
    Admin: {"__enter__"},
    RawWriter: {"__enter__"},
    RawReader: {"close", "__enter__", "__exit__"},
    SimpleConsumer: {"close", "__enter__", "__exit__"},
    TransactionalWriter: {
        *("producer_id", "producer_epoch", "resume_transaction", "begin_transaction", "flush", "__enter__"),
        *("send_offsets_to_transaction", "prepare_transaction", "commit_transaction", "abort_transaction"),
        *("complete_transaction", "close", "abandon", "__exit__"),
    },
}


@pytest.mark.parametrize("client", METHODS, ids=lambda client: client.__name__)
def test_each_public_method_is_in_the_matrix(client: type) -> None:
    assert set(METHODS[client]) == amid.public(client)


def ended(client: type, name: str) -> bool:
    return name in ENDS or name in ("abort", "abandon")


def _kept(outcome: Any) -> Callable[[], Any]:
    return lambda: outcome


def is_refused(call: Callable[[], Any]) -> bool:
    return isinstance(attempt(call), ClosedError)


class Matrix:
    """The outer call of one client, entered by each other."""

    def __init__(self, client: type, patch: pytest.MonkeyPatch, servers: str = amid.REFUSED) -> None:
        self.client = client
        self.servers = servers
        self.amid = Amid(patch)
        self.wrong: list[str] = []
        self.made: Any = None

    def fresh(self) -> Any:
        if self.made is None:
            self.made = make(self.client, self.servers)
        return self.made

    def cell(self, outer: str, inner: str, entry: str) -> None:
        what = f"{self.client.__name__}.{inner}, from {entry}, amid {outer}"
        methods = METHODS[self.client]
        made = self.fresh()
        results: list[Any] = []

        def enter() -> None:
            def call() -> Any:
                return methods[inner](made)

            if entry == "a handler":
                results.append(_kept(attempt(call)))
            elif entry == "a finalizer":
                results.append(_kept(amid.in_a_finalizer(what, call)))
            elif entry == "a thread":
                waits = self.client is Consumer and ended(self.client, inner)

                def closes() -> None:
                    # Others are refused what changes a consumer from the moment on that it is being closed.
                    if not ended(self.client, outer):
                        until(lambda: is_refused(made.pause), what=what)

                began = closes if waits else None
                results.append(in_another_thread(what, call, began))
            else:
                assert self.amid.loop_thread is not None
                results.append(_kept(in_io_thread(what, self.amid.loop_thread, call)))
            if outer in ("__iter__", "__next__", "getone"):
                made.wakeup()  # it goes on for ever else

        try:
            outcome, waited = self.amid.run(lambda: methods[outer](made), enter)
        except Exception as problem:
            outcome, waited = problem, True
        if self.client is Consumer and not ended(self.client, outer) and not ended(self.client, inner):
            while isinstance(attempt(lambda: made.poll(0)), WakeupError):
                pass  # one that was not heard of would end the next call
        if not results:
            if waited or outer not in INSTANT[self.client]:
                self.wrong.append(f"{what}: not reached: {outcome!r}")
            if ended(self.client, outer):
                self.made = None
            return
        came = results[0]()
        problem = self.judge(outer, inner, entry, outcome, came)
        if problem:
            self.wrong.append(f"{what}: {problem}: {came!r}, and of the outer one came {outcome!r}")
        if ended(self.client, inner) or ended(self.client, outer):
            if self.client is not SimpleConsumer and self.client is not RawWriter:
                looks = {Consumer: "poll", Producer: "flush"}
                again = attempt(lambda: methods[looks.get(self.client, outer)](made))
                if not isinstance(again, ClosedError) and self.client in (Consumer, Producer):
                    self.wrong.append(f"{what}: it is not closed: {again!r}")
            self.made = None
        if self.client is TransactionalWriter:
            self.close()  # what it was refused is final

    def judge(self, outer: str, inner: str, entry: str, outcome: Any, came: Any) -> str | None:
        for one in (outcome, came):
            if isinstance(one, BaseException) and not isinstance(one, OdradekError):
                return "an error that is not ours"
        if self.client is Consumer:
            return self._judge_consumer(outer, inner, entry, outcome, came)
        if self.client in BLOCKING:
            free = INSTANT[self.client] & {
                "close",
                "abandon",
                "__enter__",
                "__exit__",
                "producer_id",
                "producer_epoch",
            }
            if inner in free:
                return None if not isinstance(came, BaseException) else "it may always be called"
            expected = ConcurrentModificationError if entry == "a thread" else IllegalStateError
            return None if isinstance(came, expected) else f"{expected.__name__} was awaited"
        if (
            entry == "the I/O thread"
            and inner == "flush"
            and not isinstance(came, IllegalStateError | ClosedError)
        ):
            return "KIP-1118"
        if ended(self.client, inner) and isinstance(came, BaseException):
            return "closing may be done anywhere"
        return None

    def _judge_consumer(self, outer: str, inner: str, entry: str, outcome: Any, came: Any) -> str | None:
        if inner in ASKS and inner != "lag" and isinstance(came, BaseException):
            return "a question is always answered"
        if inner in ENDS | {"wakeup"} and came is not None:
            return "it may be called anywhere"
        if inner in ASKS | ENDS | {"wakeup", "__enter__"}:
            return None
        if entry == "the I/O thread":
            return None if isinstance(came, IllegalStateError | ClosedError) else "it would wait for itself"
        if outer in ENDS:
            return None if isinstance(came, OdradekError) or entry in NESTED else "it is being closed"
        if entry == "a thread":
            return None if isinstance(came, ConcurrentModificationError) else "there are two owners"
        if inner in TAKES and type(came) is not IllegalStateError:
            return "records are taken by the outermost alone"
        return None

    def close(self) -> None:
        if self.made is not None:
            attempt(lambda: METHODS[self.client]["close"](self.made))
            self.made = None


def run(client: type, entries: list[str], outers: list[str], inners: list[str], servers: str) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        matrix = Matrix(client, patch, servers)
        try:
            for entry in entries:
                for outer in outers:
                    for inner in inners:
                        matrix.cell(outer, inner, entry)
        finally:
            matrix.close()
        return matrix.wrong


def pairs(client: type) -> list[tuple[list[str], list[str]]]:
    """All pairs; of the many alike of an Admin each as the outer and as the inner one."""
    names = sorted(METHODS[client])
    if client is Admin:
        return [(["list_topics"], names), (names, ["list_topics", "close"])]
    return [(names, names)]


@pytest.mark.parametrize("entry", [*NESTED, "a thread", "the I/O thread"])
@pytest.mark.parametrize("client", [Consumer, *THREADED], ids=lambda client: client.__name__)
def test_of_clients_with_a_thread(client: type, entry: str) -> None:
    def all_pairs() -> list[str]:
        return [
            wrong
            for outers, inners in pairs(client)
            for wrong in run(client, [entry], outers, inners, amid.REFUSED)
        ]

    outcome = amid.within_bound(f"{client.__name__}, entered from {entry}", all_pairs)
    assert outcome == []


@pytest.mark.parametrize("entry", [*NESTED, "a thread"])
@pytest.mark.parametrize("client", BLOCKING, ids=lambda client: client.__name__)
def test_of_clients_on_a_socket(client: type, entry: str) -> None:
    names = sorted(METHODS[client])
    with amid.mute_server() as servers:
        outcome = amid.within_bound(
            f"{client.__name__}, entered from {entry}", lambda: run(client, [entry], names, names, servers)
        )
    assert outcome == []


# Rules left out on purpose: the matrix has to find each


def _no_owner(patch: pytest.MonkeyPatch) -> None:
    """Whoever comes is let in."""
    patch.setattr(Ownership, "enter", lambda self, name, caller, nested=True: Entry(self, name, caller))


def _nested_takers(patch: pytest.MonkeyPatch) -> None:
    """Records are taken amid the taking of records."""
    enter = Ownership.enter
    patch.setattr(Ownership, "enter", lambda self, name, caller, nested=True: enter(self, name, caller))


def _close_by_the_owner_alone(patch: pytest.MonkeyPatch) -> None:
    """Closing amid another call does nothing, as if that would do it."""
    begin = ConsumerThread.begin_close

    def begin_close(self: ConsumerThread, timeout_s: float) -> bool:
        return self._ownership.holder is None and begin(self, timeout_s)

    patch.setattr(ConsumerThread, "begin_close", begin_close)


@pytest.mark.model
@pytest.mark.parametrize(
    ("mutant", "client", "entry", "outer", "inner"),
    [
        (_no_owner, Consumer, "a thread", "poll", "commit"),
        (_nested_takers, Consumer, "a handler", "commit", "poll"),
        (_nested_takers, Consumer, "a finalizer", "commit", "poll"),
        (_nested_takers, SimpleConsumer, "a handler", "fetch", "leaders"),
        (_close_by_the_owner_alone, Consumer, "a handler", "poll", "close"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_mutants_are_found(mutant: Any, client: type, entry: str, outer: str, inner: str) -> None:
    with pytest.MonkeyPatch.context() as patch, amid.mute_server() as servers:
        mutant(patch)
        where = servers if client in BLOCKING else amid.REFUSED
        wrong = amid.within_bound("the mutant", lambda: run(client, [entry], [outer], [inner], where))
    assert len(wrong) == 1
