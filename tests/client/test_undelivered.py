"""Sends that fail do not fail in silence: closing tells, and so does a client that nobody closes."""

from __future__ import annotations

import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odradek.client import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    Producer,
    ProducerInterceptor,
    TopicPartition,
)
from odradek.client.core.delivery import BatchOutcome
from odradek.client.core.undelivered import Undelivered
from odradek.client.errors import DeliveryTimeoutError, UndeliveredError
from odradek.client.sync.loop_thread import LoopThread
from odradek.errors import KafkaError
from odradek.testing import Broker
from waiting import WITHIN_S, until, within

from .conftest import new_topic
from .consuming import drain, fill

QUICK = {"delivery_timeout_ms": 300, "request_timeout_ms": 200, "linger_ms": 0, "reconnect_backoff_ms": 10}


@pytest.fixture
def dying(request: pytest.FixtureRequest) -> Any:
    with Broker() as broker:
        broker.create_topic("t")
        yield broker


def connected(broker: Broker, **more: Any) -> Producer:
    producer = Producer(bootstrap_servers=broker.bootstrap_servers, **{**QUICK, **more})
    producer.partitions_for("t")
    broker.stop()
    return producer


def test_leaving_the_block_raises_with_counts(dying: Broker) -> None:
    with pytest.raises(UndeliveredError, match=r"^5 record.* 5 with DeliveryTimeoutError") as raised:  # noqa: SIM117
        with connected(dying) as producer:
            for _ in range(5):
                producer.send("t", b"x")
    assert raised.value.counts == {"DeliveryTimeoutError": 5}
    assert isinstance(raised.value, KafkaError)
    assert isinstance(raised.value.__cause__, DeliveryTimeoutError)
    producer.close()


def test_who_has_heard_is_not_told_again(dying: Broker) -> None:
    told: list[Any] = []
    called: list[Any] = []
    with connected(dying) as producer:
        futures = [producer.send("t", b"x") for _ in range(3)]
        producer.send("t", b"x", on_delivery=lambda metadata, error: told.append(error))
        producer.send("t", b"x").add_done_callback(called.append)
        rows = producer.send_arrow(pa.table({"value": [b"1", b"2"]}), "t")
        for future in futures[:2]:
            with pytest.raises(DeliveryTimeoutError):
                future.result(WITHIN_S)
        assert isinstance(futures[2].exception(WITHIN_S), DeliveryTimeoutError)
        with pytest.raises(DeliveryTimeoutError):
            rows.result(WITHIN_S)
    assert len(told) == len(called) == 1


def test_those_not_looked_at_are_told(dying: Broker) -> None:
    producer = connected(dying)
    first, *_ = [producer.send("t", b"x") for _ in range(3)]
    producer.send_arrow(pa.table({"value": [b"1", b"2"]}), "t")
    assert first.exception(WITHIN_S) is not None
    with pytest.raises(UndeliveredError, match=r"^4 record"):
        producer.close()


def test_another_exception_goes_first(dying: Broker, caplog: pytest.LogCaptureFixture) -> None:
    def work() -> None:
        with connected(dying) as producer:
            producer.send("t", b"x")
            raise LookupError("something else")

    with pytest.raises(LookupError):
        work()
    assert [r.getMessage()[:8] for r in caplog.records if r.levelno == logging.ERROR] == ["1 record"]


def test_interceptors_are_not_the_application(dying: Broker) -> None:
    class Stamps:
        def on_send(self, record: Any) -> Any:
            return record._replace(value=record.value + b"!")

    with pytest.raises(UndeliveredError, match=r"^5 record"):  # noqa: SIM117
        with connected(dying, interceptors=[Stamps()]) as producer:
            for _ in range(5):
                producer.send("t", b"x")


def test_what_interceptors_hear_the_application_has_not_heard(dying: Broker) -> None:
    heard: list[Any] = []

    class Counts(ProducerInterceptor):
        def on_acknowledgement(self, metadata: Any, error: Any, headers: Any = ()) -> None:
            heard.append(error)

    told: list[Any] = []
    with pytest.raises(UndeliveredError, match=r"^5 record"):  # noqa: SIM117
        with connected(dying, interceptors=[Counts()]) as producer:
            for _ in range(5):
                producer.send("t", b"x")
            producer.send("t", b"x", on_delivery=lambda metadata, error: told.append(error))
    assert [type(error) for error in told] == [DeliveryTimeoutError]
    assert len(heard) == 6


def test_an_interceptor_that_raises_keeps_nothing_from_the_application(dying: Broker) -> None:
    class Broken:
        def on_send(self, record: Any) -> Any:
            raise LookupError("on_send is broken")

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            raise LookupError("on_acknowledgement is broken")

    told: list[Any] = []
    with connected(dying, interceptors=[Broken()]) as producer:
        producer.send("t", b"x", on_delivery=lambda metadata, error: told.append(error))
    assert [type(error) for error in told] == [DeliveryTimeoutError]


def test_giving_up_is_logged(dying: Broker, caplog: pytest.LogCaptureFixture) -> None:
    producer = connected(dying, delivery_timeout_ms=60_000)
    producer.send("t", b"x")
    producer.close(0)
    assert "1 with ClosedError" in caplog.text


@pytest.mark.parametrize("before", [True, False], ids=["before it is handed over", "after it"])
def test_ctrl_c_while_closing_is_handed_over(
    dying: Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    producer = connected(dying, delivery_timeout_ms=3_600_000)
    producer.send("t", b"x")
    submit = LoopThread.submit

    def interrupted(self: LoopThread, coroutine: Any) -> Any:
        monkeypatch.undo()
        if before:
            coroutine.close()
        else:
            submit(self, coroutine)
        raise KeyboardInterrupt

    monkeypatch.setattr(LoopThread, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        producer.close()
    assert "1 with ClosedError" in caplog.text


def test_the_asyncio_producer_tells_too(dying: Broker) -> None:
    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=dying.bootstrap_servers, **QUICK) as producer:
            await producer.partitions_for("t")
            await asyncio.to_thread(dying.stop)
            delivery = await producer.send("t", b"x")
            await producer.send("t", b"x")
            with pytest.raises(DeliveryTimeoutError):
                await delivery

    with pytest.raises(UndeliveredError, match=r"^1 record"):
        asyncio.run(work())


def test_a_cancelled_task_is_not_held_up(dying: Broker, caplog: pytest.LogCaptureFixture) -> None:
    async def work(sent: asyncio.Event) -> None:
        async with AsyncProducer(
            bootstrap_servers=dying.bootstrap_servers, delivery_timeout_ms=3_600_000
        ) as producer:
            await producer.partitions_for("t")
            await asyncio.to_thread(dying.stop)
            await producer.send("t", b"x")
            sent.set()
            await asyncio.Event().wait()

    async def cancel() -> None:
        sent = asyncio.Event()
        task = asyncio.create_task(work(sent))
        await within(sent.wait(), "the first record")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert "1 with ClosedError" in caplog.text


def test_parts_of_a_split_batch_are_heard_of() -> None:
    undelivered = Undelivered()
    whole, left, right = (BatchOutcome("t", 0) for _ in range(3))
    whole.hear(2)
    whole.move([(left, 0), (left, 1), (right, 0)])
    for part, count in ((left, 2), (right, 1)):
        part.count = count
        part.fail(DeliveryTimeoutError("late"))
        part.count_unheard(undelivered)
    left.hear(0)
    left.hear(0)
    problem = undelivered.take()
    assert problem is not None
    assert problem.counts == {"DeliveryTimeoutError": 1}
    assert undelivered.take() is None


def test_each_record_s_own_error_counts() -> None:
    undelivered = Undelivered()
    outcome = BatchOutcome("t", 0)
    outcome.count = 3
    outcome.fail(KafkaError("the batch"), {1: ValueError("this one")})
    outcome.count_unheard(undelivered)
    problem = undelivered.take()
    assert problem is not None
    assert problem.counts == {"KafkaError": 2, "ValueError": 1}


def test_a_transaction_that_closing_aborts_is_told(
    servers: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"x").result(60)
    assert "closed amid a transaction" in caplog.text
    caplog.clear()
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.begin_transaction():
            producer.send(topic, b"x")
    assert "amid" not in caplog.text


# Clients that nobody closes


def test_a_producer_let_go_of_still_sends(
    servers: str, admin: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(admin, 1)

    def forget() -> None:
        producer = Producer(bootstrap_servers=servers, linger_ms=60_000, client_id="forgotten")
        for n in range(10):
            producer.send(topic, str(n))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        forget()
        gc.collect()
    # The collector may find what other tests have left as well.
    told = [(w.category, str(w.message)) for w in caught if "producer" in str(w.message)]
    assert told == [(ResourceWarning, "producer 'forgotten' was not closed")]
    until(lambda: not any("forgotten" in t.name for t in threading.enumerate()))
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [r.value for r in drain(consumer, 10)] == [b"%d" % n for n in range(10)]
    assert "producer 'forgotten' was not closed; 10 sends have no answer yet" in caplog.text


def test_a_consumer_and_an_admin_let_go_of(servers: str, topic: str, group: str, admin: Admin) -> None:
    fill(servers, topic, 10)

    def forget() -> None:
        consumer = Consumer(
            topic,
            group_id=group,
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            client_id="forgotten",
        )
        drain(consumer, 10)
        Admin(bootstrap_servers=servers, client_id="forgotten too").list_topics()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        forget()
        gc.collect()
    assert {str(w.message) for w in caught} == {
        "consumer 'forgotten' was not closed",
        "admin client 'forgotten too' was not closed",
    }
    until(lambda: not any("forgotten" in t.name for t in threading.enumerate()))
    assert not admin.describe_groups([group])[group].members


def test_asyncio_clients_let_go_of(servers: str, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    async def forget() -> None:
        producer = AsyncProducer(bootstrap_servers=servers, linger_ms=60_000, client_id="p")
        await producer.send(topic, b"x")
        consumer = AsyncConsumer(bootstrap_servers=servers, client_id="c")
        await consumer.assign([TopicPartition(topic, 0)])

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(forget())
        for _ in range(5):  # what the clients held comes after them
            gc.collect()
    assert {str(w.message) for w in caught} >= {"producer 'p' was not closed", "consumer 'c' was not closed"}
    assert "producer 'p' was not closed; 1 sends have no answer yet" in caplog.text


def run(tmp_path: Path, script: str, *args: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "script.py"
    path.write_text(script, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-X", "dev", path, *args], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("loop", ["uvloop", "stock"])
def test_a_script_that_ends_without_closing_loses_nothing(
    tmp_path: Path, servers: str, admin: Admin, loop: str
) -> None:
    topic = new_topic(admin, 1)
    ended = run(
        tmp_path,
        f"""
import sys
if {loop == "stock"}:
    sys.modules["uvloop"] = None
from odradek import Producer
producer = Producer(bootstrap_servers="{servers.replace("127.0.0.1", "localhost")}", linger_ms=60_000)
for n in range(100):
    producer.send("{topic}", str(n))
""",
    )
    assert ended.returncode == 0
    assert "was not closed; 100 sends have no answer yet" in ended.stderr
    assert "ResourceWarning" in ended.stderr
    assert "Traceback" not in ended.stderr
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [r.value for r in drain(consumer, 100)] == [b"%d" % n for n in range(100)]


def test_warnings_that_are_errors_do_not_keep_producers_from_sending(
    tmp_path: Path, servers: str, admin: Admin
) -> None:
    topic = new_topic(admin, 1)
    ended = run(
        tmp_path,
        f"""
import warnings
warnings.simplefilter("error")
from odradek import Producer
producers = [Producer(bootstrap_servers="{servers}", linger_ms=60_000) for _ in range(2)]
for producer in producers:
    producer.send("{topic}", "x")
""",
    )
    assert ended.stderr.count("was not closed; 1 sends have no answer yet") == 2
    assert "Traceback" not in ended.stderr
    with Consumer(bootstrap_servers=servers) as consumer:
        assert consumer.end_offsets([(topic, 0)]) == {(topic, 0): 2}


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("kept", [True, False])
def test_so_does_a_worker_process(
    tmp_path: Path, servers: str, admin: Admin, method: str, kept: bool
) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    topic = new_topic(admin, 1)
    ended = run(
        tmp_path,
        f"""
import multiprocessing, warnings
from odradek import Producer
kept = []
def work():
    producer = Producer(bootstrap_servers="{servers}", linger_ms=60_000)
    if {kept}:
        kept.append(producer)
    for n in range(5):
        producer.send("{topic}", str(n))
if __name__ == "__main__":
    worker = multiprocessing.get_context("{method}").Process(target=work)
    worker.start()
    worker.join()
    print(worker.exitcode)
""",
    )
    assert ended.stdout == "0\n"
    assert "was not closed; 5 sends have no answer yet" in ended.stderr
    assert "Traceback" not in ended.stderr
    with Consumer(bootstrap_servers=servers) as consumer:
        assert consumer.end_offsets([(topic, 0)]) == {(topic, 0): 5}


def test_a_script_that_ends_beside_a_dead_broker_ends_and_tells(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        """
from odradek import Producer
from odradek.client.sync import unclosed
from odradek.testing import Broker
unclosed.EXIT_TIMEOUT_S = 0.5
with Broker() as broker:
    broker.create_topic("t")
    producer = Producer(bootstrap_servers=broker.bootstrap_servers)
    producer.partitions_for("t")
for n in range(7):
    producer.send("t", b"x")
""",
    )
    assert ended.returncode == 0
    assert "the process ends, and 7 sends are lost or in doubt" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_leaves_its_parent_s_clients_alone(tmp_path: Path, servers: str, topic: str) -> None:
    ended = run(
        tmp_path,
        f"""
import atexit, os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from odradek import Producer
with Producer(bootstrap_servers="{servers}", linger_ms=60_000) as producer:
    producer.send("{topic}", b"x")
    child = os.fork()
    if child == 0:
        atexit._run_exitfuncs()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print("ended")
""",
    )
    assert ended.stdout == "ended\n"
    assert "was not closed" not in ended.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("where", ["sleeping", "waiting for a future", "leaving the block", "sending"])
def test_ctrl_c_beside_a_dead_broker(tmp_path: Path, where: str) -> None:
    step = {
        "sleeping": "print('now', flush=True); time.sleep(3600)",
        "waiting for a future": "print('now', flush=True); producer.send('t', b'x').result()",
        "leaving the block": "print('now', flush=True)",
        "sending": "print('now', flush=True); producer.send('never seen', b'x')",
    }[where]
    path = tmp_path / "script.py"
    path.write_text(
        f"""
import time
from odradek import Producer
from odradek.testing import Broker
broker = Broker().__enter__()
broker.create_topic("t")
with Producer(
    bootstrap_servers=broker.bootstrap_servers, delivery_timeout_ms=3_600_000, max_block_ms=3_600_000
) as producer:
    producer.partitions_for("t")
    broker.close()
    for n in range(5):
        producer.send("t", b"x")
    {step}
""",
        encoding="utf-8",
    )
    process = subprocess.Popen(
        [sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "now\n"
        process.send_signal(signal.SIGINT)
        # It would wait for an hour; how quick it is on this machine is not the question.
        _, errors = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    assert "with ClosedError" in errors
