"""Every public method of a client, entered from what it calls itself: listeners, callbacks, serializers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from odradek.client import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    ConsumerRebalanceListener,
    Producer,
    TopicPartition,
)
from odradek.client.errors import ClosedError, ConcurrentModificationError, IllegalStateError, WakeupError
from odradek.errors import OdradekError
from waiting import until

from .conftest import new_topic
from .consuming import fill
from .entered_amid import BOUND_S, CONSUMER, PRODUCER, attempt, public, within_bound

ENDS = {"close", "__exit__"}
TAKES = {"poll", "poll_arrow", "getone", "getmany", "__iter__", "__next__", "unsubscribe"}
CHANGES = {
    *("subscribe", "assign", "seek", "seek_to_beginning", "seek_to_end", "pause", "resume"),
    *("commit", "commit_async", "enforce_rebalance", "incremental_assign", "incremental_unassign"),
}


#: What would keep the records from coming.
BESIDE = ("wakeup", "subscribe", "enforce_rebalance", "seek_to_end")


def reading(servers: str, topic: str, group: str, **more: Any) -> Consumer:
    return Consumer(
        *([topic] if "listener" not in more else []),
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        request_timeout_ms=500,  # commits to a topic that is not there are tried for so long
        **{name: value for name, value in more.items() if name != "listener"},
    )


def has_thread(client: Consumer | Producer) -> bool:
    """Whether the client's own thread lives, which is named after its id."""
    return any(thread.name == f"odradek-{client.config.client_id}" for thread in threading.enumerate())


@pytest.fixture
def filled(servers: str, admin: Admin) -> str:
    topic = new_topic(admin, 1)
    fill(servers, topic, 10)
    return topic


def test_a_rebalance_listener_may_call_all_but_what_takes_records(
    servers: str, filled: str, group: str
) -> None:
    came: dict[str, Any] = {}

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Any) -> None:
            for name in sorted(set(CONSUMER) - ENDS - set(BESIDE)):
                came[name] = attempt(lambda name=name: CONSUMER[name](consumer))

    consumer = reading(servers, filled, group, listener=Listener())
    with consumer:
        consumer.subscribe([filled], listener=Listener())
        outcome = within_bound("poll", lambda: until(lambda: consumer.poll(100), what="records"))
    assert [record.offset for record in outcome] == list(range(10))
    assert {name for name, one in came.items() if type(one) is IllegalStateError} >= TAKES
    assert all(isinstance(one, OdradekError) for one in came.values() if isinstance(one, BaseException))
    assert not [name for name, one in came.items() if isinstance(one, ConcurrentModificationError)]


@pytest.mark.parametrize("when", ["assigned", "revoked"])
def test_a_rebalance_listener_may_close(servers: str, filled: str, group: str, when: str) -> None:
    calls: list[str] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Any) -> None:
            calls.append("assigned")
            if when == "assigned":
                consumer.close()

        def on_partitions_revoked(self, partitions: Any) -> None:
            calls.append("revoked")
            consumer.close()

    consumer = reading(servers, filled, group, listener=Listener())
    consumer.subscribe([filled], listener=Listener())

    def work() -> None:
        until(lambda: consumer.poll(100), what="records")
        consumer.enforce_rebalance()
        until(lambda: consumer.poll(100), what="the end")

    outcome = within_bound("the work", work)
    assert isinstance(outcome, ClosedError)
    assert calls == ["assigned", "revoked"]


@pytest.mark.parametrize("what", ["deserializer", "interceptor"])
def test_amid_the_taking_of_records_nothing_changes(servers: str, filled: str, group: str, what: str) -> None:
    came: dict[str, Any] = {}

    def call_all() -> None:
        if not came:
            for name in sorted(set(CONSUMER) - ENDS - {"wakeup"}):
                came[name] = attempt(lambda name=name: CONSUMER[name](consumer))

    class Interceptor:
        def on_consume(self, records: Any) -> None:
            call_all()

    def deserialize(data: bytes) -> bytes:
        call_all()
        return data

    more = (
        {"value_deserializer": deserialize} if what == "deserializer" else {"interceptors": [Interceptor()]}
    )
    consumer = reading(servers, filled, group, **more)
    with consumer:
        outcome = within_bound("poll", lambda: until(lambda: consumer.poll(100), what="records"))
        assert [record.offset for record in outcome] == list(range(10))
        assert consumer.position(TopicPartition(filled, 0)) == 10
    refused = {name for name, one in came.items() if type(one) is IllegalStateError}
    assert refused >= TAKES | CHANGES
    assert all(isinstance(one, OdradekError) for one in came.values() if isinstance(one, BaseException))


def test_wakeup_ends_what_waits_and_the_next_call_where_nothing_does(
    servers: str, filled: str, group: str
) -> None:
    with reading(servers, filled, group) as consumer:
        until(lambda: consumer.poll(100), what="records")
        threading.Timer(0, consumer.wakeup).start()
        assert isinstance(within_bound("poll", lambda: consumer.poll(BOUND_S * 2_000)), WakeupError)
        consumer.seek((filled, 0), 0)
        records = iter(consumer)
        assert next(records).offset == 0
        consumer.wakeup()
        consumer.wakeup()
        assert isinstance(within_bound("the iteration", lambda: next(records)), WakeupError)
        assert next(iter(consumer)).offset == 1


def test_a_commits_callback_may_close(servers: str, filled: str, group: str) -> None:
    consumer = reading(servers, filled, group, client_id=f"closing-{group}")
    assert has_thread(consumer)

    def work() -> None:
        until(lambda: consumer.poll(100), what="records")
        consumer.commit_async(callback=lambda offsets, error: consumer.close())
        until(lambda: consumer.poll(100), what="the end")

    assert isinstance(within_bound("the work", work), ClosedError)
    until(lambda: not has_thread(consumer), what="the end of the thread")


@pytest.mark.parametrize("what", ["serializer", "partitioner", "interceptor"])
def test_what_a_send_calls_may_call_the_producer(servers: str, topic: str, what: str) -> None:
    came: dict[str, Any] = {}

    def call_all() -> None:
        if came:
            return
        came["begun"] = None
        for name in sorted(set(PRODUCER) - ENDS):
            call = (
                PRODUCER[name]
                if not name.startswith("send")
                else lambda p: p.send(topic, b"inner").result(60)
            )
            came[name] = attempt(lambda call=call: call(producer))

    class Interceptor:
        def on_send(self, record: Any) -> None:
            call_all()

    def serialize(data: bytes) -> bytes:
        call_all()
        return data

    def choose(*_: Any) -> int:
        call_all()
        return 0

    more = {
        "serializer": {"value_serializer": serialize},
        "partitioner": {"partitioner": choose},
        "interceptor": {"interceptors": [Interceptor()]},
    }[what]
    producer = Producer(bootstrap_servers=servers, max_block_ms=200, **more)
    with producer:
        producer.partitions_for(topic)
        sent = within_bound("send", lambda: producer.send(topic, b"outer").result(60))
    assert sent.offset >= 0
    assert came["send"].offset >= 0
    assert all(isinstance(one, OdradekError) for one in came.values() if isinstance(one, BaseException))


@pytest.mark.parametrize("what", ["on_delivery", "on_acknowledgement"])
def test_a_delivery_callback_is_told_what_would_never_return(servers: str, topic: str, what: str) -> None:
    came: dict[str, Any] = {}
    called = threading.Event()

    def call_all(*_: Any) -> None:
        if came:
            return
        came["begun"] = None
        for name in sorted(set(PRODUCER) - ENDS):
            came[name] = attempt(lambda name=name: PRODUCER[name](producer))
        later = producer.send(topic, b"later")
        came["result"] = attempt(lambda: later.result(60))
        called.set()

    class Interceptor:
        on_acknowledgement = staticmethod(call_all)

    more = {"interceptors": [Interceptor()]} if what == "on_acknowledgement" else {}
    with Producer(bootstrap_servers=servers, max_block_ms=200, **more) as producer:
        producer.partitions_for(topic)
        last = producer.send(topic, b"x", on_delivery=call_all if what == "on_delivery" else None)
        assert last.result(60).offset >= 0
        assert called.wait(BOUND_S)
        producer.flush(60)
    assert isinstance(came["flush"], IllegalStateError)
    assert isinstance(came["result"], IllegalStateError)
    assert all(isinstance(one, OdradekError) for one in came.values() if isinstance(one, BaseException))


def test_closed_in_a_delivery_callback_it_still_sends_what_it_holds(servers: str, topic: str) -> None:
    closed = threading.Event()

    def close(*_: Any) -> None:
        producer.close()
        closed.set()

    producer = Producer(bootstrap_servers=servers, linger_ms=60_000, client_id=f"closing-{topic}")
    assert has_thread(producer)
    producer.partitions_for(topic)
    held = [producer.send(topic, b"held", partition=1) for _ in range(10)]
    # It fills its batch, and so does not wait for company.
    first = producer.send(topic, b"first" * 10_000, partition=0, on_delivery=close)
    assert closed.wait(BOUND_S)
    assert [future.result(BOUND_S).partition for future in held] == [1] * 10
    assert first.result(BOUND_S).partition == 0
    with pytest.raises(ClosedError):
        producer.send(topic, b"late")
    until(lambda: not has_thread(producer), what="the end of the thread")


# Coroutines


ASYNC_CONSUMER = {
    name: call for name, call in CONSUMER.items() if not name.startswith("__") and name != "wakeup"
}


def test_each_method_of_an_async_consumer_is_here() -> None:
    assert set(ASYNC_CONSUMER) | {"start", "__aiter__", "__anext__"} == public(AsyncConsumer)


def test_two_tasks_in_one_async_consumer(servers: str, filled: str, group: str) -> None:
    async def run() -> tuple[dict[str, Any], Any]:
        came: dict[str, Any] = {}
        consumer = AsyncConsumer(
            filled,
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            request_timeout_ms=500,
        )
        async with asyncio.timeout(BOUND_S):
            while not await consumer.poll(100):
                pass
            for name in sorted(set(ASYNC_CONSUMER) - {"close"}):
                waiting = asyncio.create_task(consumer.poll(BOUND_S * 1_000))
                await asyncio.sleep(0)  # it waits now
                try:
                    made = ASYNC_CONSUMER[name](consumer)
                    came[name] = await made if asyncio.iscoroutine(made) else made
                except OdradekError as problem:
                    came[name] = problem
                waiting.cancel()
                await asyncio.wait({waiting})
            waiting = asyncio.create_task(consumer.poll(BOUND_S * 1_000))
            await asyncio.sleep(0)
            await consumer.close()
            try:
                return came, await waiting
            except OdradekError as problem:
                return came, problem

    came, outcome = asyncio.run(run())
    refused = {name for name, one in came.items() if isinstance(one, ConcurrentModificationError)}
    assert refused == {"poll", "poll_arrow", "getone", "getmany", "unsubscribe"}
    assert isinstance(outcome, ClosedError)


@pytest.mark.parametrize("what", ["poll", "close"])
def test_a_coroutine_as_listener(servers: str, filled: str, group: str, what: str) -> None:
    came: list[Any] = []

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, partitions: Any) -> None:  # type: ignore[override]
            try:
                came.append(await (consumer.commit() if what == "commit" else getattr(consumer, what)()))
            except OdradekError as problem:
                came.append(problem)

    async def run() -> Any:
        nonlocal consumer
        consumer = AsyncConsumer(bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest")
        async with asyncio.timeout(BOUND_S):
            await consumer.subscribe([filled], listener=Listener())
            try:
                while not (records := await consumer.poll(100)):
                    pass
                return records
            except OdradekError as problem:
                return problem
            finally:
                await consumer.close()

    consumer: Any = None
    outcome = asyncio.run(run())
    if what == "close":
        assert came == [None]
        assert isinstance(outcome, ClosedError)
    else:
        assert isinstance(came[0], IllegalStateError)
        assert len(outcome) == 10


def test_an_async_client_belongs_to_its_loop(servers: str, topic: str) -> None:
    async def begin() -> tuple[Any, Any]:
        producer = AsyncProducer(bootstrap_servers=servers)
        consumer = AsyncConsumer(bootstrap_servers=servers)
        await producer.start()
        await consumer.start()
        future = await producer.send(topic, b"x")
        with pytest.raises(IllegalStateError):
            future.result()  # where it is settled
        await future
        await producer.close()
        await consumer.close()
        return producer, consumer

    async def go_on(clients: tuple[Any, Any]) -> None:
        producer, consumer = clients
        for call in (consumer.poll(0), consumer.close(), producer.close()):
            with pytest.raises(IllegalStateError, match="another one"):
                await call

    asyncio.run(go_on(asyncio.run(begin())))


# A process that was forked

FORKED = """
import json, os, select, sys
sys.path.insert(0, sys.argv[2])
from client.entered_amid import METHODS, REFUSED, SHORT, attempt
from odradek import Admin, Consumer, Producer
from odradek.client import RawReader, RawWriter, SimpleConsumer, TransactionalWriter

host, _, port = sys.argv[1].rpartition(":")
servers = {"bootstrap_servers": sys.argv[1]}
clients = [
    Admin(**servers), Producer(**servers, linger_ms=60_000), Consumer(**servers, group_id="g"),
    RawReader(sys.argv[1]), RawWriter(sys.argv[1]), SimpleConsumer(host, int(port)),
    TransactionalWriter(sys.argv[1], "x"),
]
clients[0].create_topics(["t"])
clients[1].send("t", b"x")
clients[1].flush(60)
clients[3].partitions_for("t")
clients[5].leaders("t")
clients[6].init_transactions()
waiting = clients[1].send("t", b"y")
reading, writing = os.pipe()
child = os.fork()
if not child:
    said = {}
    for client in clients:
        methods = METHODS[type(client)]
        last = {"close", "__exit__", "abort", "abandon"}
        for name in [*sorted(set(methods) - last), *sorted(last & set(methods))]:
            came = attempt(lambda: methods[name](client))
            said[f"{type(client).__name__}.{name}"] = type(came).__name__
    said["future"] = type(attempt(lambda: waiting.result())).__name__
    os.write(writing, json.dumps(said).encode())
    os._exit(0)
ready, _, _ = select.select([reading], [], [], 60)
if not ready:
    os.kill(child, 9)
    sys.exit("the child has not ended within 60 s")
print(os.read(reading, 65536).decode())
os.waitpid(child, 0)
clients[1].flush(60)
waiting.result(0)
clients[3].partitions_for("t")
clients[5].leaders("t")
clients[6].begin_transaction()
for client in clients:
    client.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_in_a_process_that_was_forked(servers: str, admin: Admin) -> None:
    from odradek.testing import Broker

    with Broker() as broker:
        done = subprocess.run(
            [
                *(sys.executable, "-W", "ignore", "-c", FORKED),
                *(broker.bootstrap_servers, str(Path(__file__).parents[1])),
            ],
            capture_output=True,
            text=True,
            timeout=180,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout)
    asks = {
        *(f"Consumer.{name}" for name in ("__enter__", "config", "subscription", "assignment", "paused")),
        *("Consumer.lag", "Consumer.metrics", "Consumer.group_metadata", "Consumer.group_generation"),
        *("Producer.__enter__", "Producer.config", "Producer.metrics", "Admin.__enter__"),
        *("TransactionalWriter.producer_id", "TransactionalWriter.producer_epoch"),
        *("RawWriter.__enter__", "RawReader.__enter__", "SimpleConsumer.__enter__"),
        "TransactionalWriter.__enter__",
    }
    ends = {name for name in said if name.endswith((".close", ".__exit__", ".abandon", ".abort"))}
    refused = {name for name, came in said.items() if came == "IllegalStateError"}
    assert set(said) - asks - ends - refused == set()
    assert {name for name in ends if said[name] not in ("NoneType", "IllegalStateError")} == set()
