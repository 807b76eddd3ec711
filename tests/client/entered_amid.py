"""Every public method of a client, entered while any other is under way: what comes of it, without a broker.

The clients' servers refuse connections, or say nothing; times are short. So each method that waits does wait,
for a moment, and ends by itself. At the point where it has begun to wait (a signal's handler, a second thread
and a callback come no deeper), the other one is entered; whatever does not end in time is told by its name.
"""

from __future__ import annotations

import gc
import inspect
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from odradek.client import (
    Admin,
    Consumer,
    PreparedTxnState,
    Producer,
    RawReader,
    RawWriter,
    SimpleConsumer,
    TopicPartition,
    TransactionalWriter,
)
from odradek.client.blocking import BlockingConnection
from odradek.client.errors import SslAuthenticationError
from odradek.client.sync.loop_thread import LoopThread
from odradek.client.types import AbortTransactionSpec
from odradek.errors import OdradekError
from waiting import joined

BOUND_S = 60.0
"""Nothing here takes so long by itself, on any machine."""

TP = TopicPartition("t", 0)
REFUSED = "127.0.0.1:1"
COMMON = {"bootstrap_servers": REFUSED, "request_timeout_ms": 1, "retry_backoff_ms": 1}

Method = Callable[[Any], Any]


def table() -> Any:
    """Two rows."""
    import pyarrow as pa

    return pa.table({"value": [b"a", b"b"]})


CONSUMER: dict[str, Method] = {
    "config": lambda c: c.config,
    "subscribe": lambda c: c.subscribe(["t"]),
    "assign": lambda c: c.assign([TP]),
    "incremental_assign": lambda c: c.incremental_assign([("t", 1)]),
    "incremental_unassign": lambda c: c.incremental_unassign([TP]),
    "unsubscribe": lambda c: c.unsubscribe(),
    "subscription": lambda c: c.subscription(),
    "assignment": lambda c: c.assignment(),
    "poll": lambda c: c.poll(0),
    "poll_arrow": lambda c: c.poll_arrow(0),
    "getone": lambda c: c.getone(),
    "getmany": lambda c: c.getmany(TP, timeout_ms=0),
    "__iter__": lambda c: next(iter(c)),
    "__next__": lambda c: next(c),
    "wakeup": lambda c: c.wakeup(),
    "seek": lambda c: c.seek(TP, 0),
    "seek_to_beginning": lambda c: c.seek_to_beginning(),
    "seek_to_end": lambda c: c.seek_to_end(),
    "position": lambda c: c.position(TP, 1),
    "pause": lambda c: c.pause(TP),
    "resume": lambda c: c.resume(TP),
    "paused": lambda c: c.paused(),
    "commit": lambda c: c.commit({TP: 1}, 1),
    "commit_async": lambda c: c.commit_async({TP: 1}),
    "store_offsets": lambda c: c.store_offsets({TP: 1}),
    "committed": lambda c: c.committed([TP], 1),
    "beginning_offsets": lambda c: c.beginning_offsets([TP], 1),
    "end_offsets": lambda c: c.end_offsets([TP], 1),
    "offsets_for_times": lambda c: c.offsets_for_times({TP: 0}, 1),
    "partitions_for": lambda c: c.partitions_for("t", 1),
    "partitions_for_topic": lambda c: c.partitions_for_topic("t", 1),
    "topics": lambda c: c.topics(1),
    "lag": lambda c: c.lag(TP),
    "metrics": lambda c: c.metrics(),
    "enforce_rebalance": lambda c: c.enforce_rebalance(),
    "group_metadata": lambda c: c.group_metadata(),
    "group_generation": lambda c: c.group_generation(),
    "close": lambda c: c.close(1_000),
    "__enter__": lambda c: c.__enter__(),
    "__exit__": lambda c: c.__exit__(None, None, None),
}
ASKS = {
    "config",
    "subscription",
    "assignment",
    "paused",
    "lag",
    "metrics",
    "group_metadata",
    "group_generation",
}
"""What a Consumer tells whoever is in it."""

ENDS = {"close", "__exit__"}
TAKES = {"poll", "poll_arrow", "getone", "getmany", "__iter__", "__next__", "unsubscribe"}

PRODUCER: dict[str, Method] = {
    "config": lambda p: p.config,
    "send": lambda p: p.send("t", b"x"),
    "send_arrow": lambda p: p.send_arrow(table(), "t"),
    "flush": lambda p: p.flush(1),
    "purge": lambda p: p.purge(),
    "init_transactions": lambda p: p.init_transactions(),
    "begin_transaction": lambda p: p.begin_transaction(),
    "send_offsets_to_transaction": lambda p: p.send_offsets_to_transaction({TP: 1}, "g"),
    "commit_transaction": lambda p: p.commit_transaction(),
    "abort_transaction": lambda p: p.abort_transaction(),
    "prepare_transaction": lambda p: p.prepare_transaction(),
    "complete_transaction": lambda p: p.complete_transaction(PreparedTxnState(1, 1)),
    "partitions_for": lambda p: p.partitions_for("t"),
    "metrics": lambda p: p.metrics(),
    "close": lambda p: p.close(1),
    "__enter__": lambda p: p.__enter__(),
    "__exit__": lambda p: p.__exit__(None, None, None),
}

RAW_WRITER: dict[str, Method] = {
    "write_columns": lambda w: w.write_columns(table(), "t"),
    "flush": lambda w: w.flush(),
    "close": lambda w: w.close(),
    "abort": lambda w: w.abort(),
    "__enter__": lambda w: w.__enter__(),
    "__exit__": lambda w: w.__exit__(None, None, None),
}

RAW_READER: dict[str, Method] = {
    "fetch_columns": lambda r: list(r.fetch_columns("t", 0, 0, 1)),
    "fetch_columns_many": lambda r: list(r.fetch_columns_many([("t", 0, 0, 1)])),
    "connect": lambda r: r.connect(),
    "beginning_offsets": lambda r: r.beginning_offsets([TP]),
    "end_offsets": lambda r: r.end_offsets([TP]),
    "offsets_for_times": lambda r: r.offsets_for_times({TP: 0}),
    "newest_timestamps": lambda r: r.newest_timestamps([TP]),
    "topic_configs": lambda r: r.topic_configs(["t"], "retention.ms"),
    "partitions_for": lambda r: r.partitions_for("t"),
    "look_up_topics": lambda r: r.look_up_topics(["t"]),
    "learn_topics": lambda r: r.learn_topics(["t"]),
    "topics": lambda r: r.topics(),
    "close": lambda r: r.close(),
    "__enter__": lambda r: r.__enter__(),
    "__exit__": lambda r: r.__exit__(None, None, None),
}

SIMPLE: dict[str, Method] = {
    "leaders": lambda s: s.leaders("t"),
    "find_coordinator": lambda s: s.find_coordinator("g"),
    "offsets_before": lambda s: s.offsets_before("t", 0),
    "last_offset": lambda s: s.last_offset("t", 0),
    "commit_offsets": lambda s: s.commit_offsets("g", {TP: 1}),
    "fetch_offsets": lambda s: s.fetch_offsets("g", [TP]),
    "fetch": lambda s: s.fetch("t", 0, 0),
    "close": lambda s: s.close(),
    "__enter__": lambda s: s.__enter__(),
    "__exit__": lambda s: s.__exit__(None, None, None),
}

WRITER: dict[str, Method] = {
    "producer_id": lambda w: w.producer_id,
    "producer_epoch": lambda w: w.producer_epoch,
    "init_transactions": lambda w: w.init_transactions(),
    "resume_transaction": lambda w: w.resume_transaction(PreparedTxnState(1, 1)),
    "begin_transaction": lambda w: w.begin_transaction(),
    "write_columns": lambda w: w.write_columns(table(), "t"),
    "flush": lambda w: w.flush(),
    "send_offsets_to_transaction": lambda w: w.send_offsets_to_transaction({}, None),
    "prepare_transaction": lambda w: w.prepare_transaction(),
    "commit_transaction": lambda w: w.commit_transaction(),
    "abort_transaction": lambda w: w.abort_transaction(),
    "complete_transaction": lambda w: w.complete_transaction(PreparedTxnState(1, 1)),
    "close": lambda w: w.close(),
    "abandon": lambda w: w.abandon(),
    "__enter__": lambda w: w.__enter__(),
    "__exit__": lambda w: w.__exit__(None, None, None),
}


def public(client: type) -> set[str]:
    """The names of what a client offers."""
    named = {name for name, _ in inspect.getmembers(client) if not name.startswith("_")}
    return named | {
        name
        for name in ("__iter__", "__next__", "__aiter__", "__anext__", "__enter__", "__exit__")
        if hasattr(client, name)
    }


def admin_methods() -> dict[str, Method]:
    """An `Admin`'s: all but the first few are made from those of `AsyncAdmin`, and need arguments of some
    kind.
    """
    own: dict[str, Method] = {
        "close": lambda a: a.close(),
        "__enter__": lambda a: a.__enter__(),
        "__exit__": lambda a: a.__exit__(None, None, None),
    }

    def calling(name: str) -> Method:
        parameters = inspect.signature(getattr(Admin, name)).parameters.values()
        needed = [p for p in parameters if p.default is p.empty and p.name != "self"]
        return lambda a: getattr(a, name)(*(_argument(p.annotation) for p in needed))

    return own | {name: calling(name) for name in public(Admin) - set(own)}


def _argument(annotation: Any) -> Any:
    kind = str(annotation)
    if kind.startswith(("Mapping", "ByPartition", "Offsets", "ReplicaFolders")):
        return {}
    if kind.startswith(("Iterable", "Sequence")):
        return []
    known = {"str": "x", "int": 0, "bytes": b"x", "AbortTransactionSpec": AbortTransactionSpec(TP, 1, 0, 0)}
    return known[kind]


class Failed(AssertionError):
    """A call that did not end, or not as it may."""


def within_bound(what: str, call: Callable[[], Any]) -> Any:
    """Make a call in a thread of its own. Returns what came of it: a result, or the error that it raised."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as problem:
            outcome.append(problem)

    thread = threading.Thread(target=run, name=what, daemon=True)
    thread.start()
    thread.join(BOUND_S)
    if not outcome:
        raise Failed(f"{what} did not end within {BOUND_S:.0f} s")
    return outcome[0]


def attempt(call: Callable[[], Any]) -> Any:
    """Return what a call gives, or the error of ours that it raises."""
    try:
        return call()
    except OdradekError as problem:
        return problem


@contextmanager
def mute_server() -> Iterator[str]:
    """Takes connections, each in the place of the one before, and says nothing."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with ExitStack() as last:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                last.close()
                last.enter_context(connection)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        joined(thread, BOUND_S)


class Amid:
    """Enters something where a call begins to wait, once.

    Args:
        patch: of the test.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._enter: Callable[[], None] | None = None
        self._thread = 0
        self.loop_thread: LoopThread | None = None
        """Where the call that waits is done, if a client's own thread does it."""
        submit, in_use = LoopThread.submit, BlockingConnection.in_use

        def submitted(thread: LoopThread, coroutine: Any) -> Any:
            call = submit(thread, coroutine)
            self._reached(thread)
            return call

        @contextmanager
        def used(connection: BlockingConnection) -> Iterator[None]:
            # First to write.
            with in_use(connection):
                yield
            if self._reached():
                # Nobody answers: there is nothing to wait for, nor to try again.
                connection.close()
                raise SslAuthenticationError("cut")

        patch.setattr(LoopThread, "submit", submitted)
        patch.setattr(BlockingConnection, "in_use", used)

    def _reached(self, loop_thread: LoopThread | None = None) -> bool:
        if self._enter is None or threading.get_ident() != self._thread:
            return False
        enter, self._enter = self._enter, None
        self.loop_thread = loop_thread
        enter()
        return True

    def run(self, outer: Callable[[], Any], enter: Callable[[], None]) -> tuple[Any, bool]:
        """Make the outer call in this thread. Returns what came of it, and whether it waited at all."""
        self._enter, self._thread = enter, threading.get_ident()
        try:
            outcome = attempt(outer)
        finally:
            waited = self._enter is None
            self._enter = None
        return outcome, waited


def in_another_thread(what: str, call: Callable[[], Any], began: Callable[[], Any] | None = None) -> Any:
    """Make a call in a second thread, and wait for its end, or only until it has begun.

    Returns: a function that gives what came of it, when that is here.
    """
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.append(attempt(call)), name=what, daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(BOUND_S)
        if not outcome:
            raise Failed(f"{what} did not end within {BOUND_S:.0f} s")
        return outcome[0]

    if began is None:
        result()
    else:
        began()
    return result


def in_a_finalizer(what: str, call: Callable[[], Any]) -> Any:
    """Make a call while garbage is collected, from the `__del__` of what is collected, in this thread.

    Returns: what came of it.
    """
    outcome: list[Any] = []

    class Dying:
        def __init__(self) -> None:
            self.itself = self  # a cycle, which only the collector ends

        def __del__(self) -> None:
            outcome.append(attempt(call))

    Dying()
    gc.collect(0)
    if not outcome:
        gc.collect()  # a collection in between has made it old
    if not outcome:
        raise Failed(f"{what}: the finalizer has not run, or has failed with an error that is not ours")
    return outcome[0]


def in_io_thread(what: str, loop_thread: LoopThread, call: Callable[[], Any]) -> Any:
    """Make a call where callbacks run. Returns what came of it."""
    outcome: list[Any] = []
    done = threading.Event()

    def run() -> None:
        outcome.append(attempt(call))
        done.set()

    loop_thread.call_soon(run)
    if not done.wait(BOUND_S):
        raise Failed(f"{what} in the I/O thread did not end within {BOUND_S:.0f} s")
    return outcome[0]


def make(client: type, servers: str = REFUSED) -> Any:
    """A client that reaches nobody, and does not try for long."""
    if client is Consumer:
        made = Consumer(**COMMON, group_id="g", default_api_timeout_ms=1, enable_auto_commit=False)
        made.assign([TP])
        return made
    if client is Producer:
        return Producer(**COMMON, transactional_id="x", max_block_ms=1, delivery_timeout_ms=2, linger_ms=0)
    if client is RawWriter:
        return RawWriter(REFUSED, {"max_block_ms": 1, "delivery_timeout_ms": 2, "linger_ms": 0, **SHORT})
    if client is RawReader:
        return RawReader(servers)
    if client is SimpleConsumer:
        host, _, port = servers.rpartition(":")
        return SimpleConsumer(host, int(port))
    if client is TransactionalWriter:
        return TransactionalWriter(servers, "x")
    return Admin(**COMMON, default_api_timeout_ms=1)


SHORT = {"request_timeout_ms": 1, "retry_backoff_ms": 1, "linger_ms": 0}

METHODS: Mapping[type, Mapping[str, Method]] = {
    Consumer: CONSUMER,
    Producer: PRODUCER,
    Admin: admin_methods(),
    RawWriter: RAW_WRITER,
    RawReader: RAW_READER,
    SimpleConsumer: SIMPLE,
    TransactionalWriter: WRITER,
}
