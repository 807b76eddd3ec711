"""`purge` gives up what a producer holds: each record's future tells it, and nothing hangs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from odradek.client import Consumer, Producer, TopicPartition
from odradek.client.core.backoff import Backoff
from odradek.client.core.record_accumulator import RecordAccumulator
from odradek.client.errors import PurgedError, PurgedInFlightError
from odradek.errors import ErrorCode, error_for
from odradek.testing import Broker
from odradek.wire.api import ApiKey
from waiting import happened, until

from .consuming import drain, metric
from .proxy import Proxy
from .sending import sender_state
from .twins import FACES, twin


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_waits_is_given_up(face: str, servers: str, topic: str) -> None:
    told: list[tuple[Any, Any]] = []
    with twin(face, Producer, bootstrap_servers=servers, linger_ms=600_000) as producer:
        futures = [producer.send(topic, b"x", partition=n % 3) for n in range(6)]
        futures.append(producer.send(topic, b"x", on_delivery=lambda *outcome: told.append(outcome)))
        assert producer.purge(in_queue=False) == 0
        assert producer.purge() == 7
        assert {type(future.exception(0)) for future in futures} == {PurgedError}
        assert [(metadata, type(error)) for metadata, error in told] == [(None, PurgedError)]
        assert producer.purge() == 0
        producer.send(topic, b"after")
        producer.flush()
        assert metric(producer.metrics(), "buffer-available-bytes") == metric(
            producer.metrics(), "buffer-total-bytes"
        )
    assert of(servers, topic, 1) == [b"after"]


def of(servers: str, topic: str, count: int) -> list[bytes]:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, n) for n in range(3)])
        return [record.value for record in drain(consumer, count)]


def test_what_is_on_its_way_is_given_up_and_may_be_written(face: str) -> None:
    held = threading.Event()
    let_go = threading.Event()

    def hold(key: int, frame: bytes) -> bool:
        if key == ApiKey.PRODUCE and not let_go.is_set():
            held.set()
            happened(let_go, "the word to let the answer go")
        return True

    with Proxy() as proxy, Broker(advertised_listeners=f"PLAINTEXT://{proxy.address}") as broker:
        broker.create_topic("t", 3)
        proxy.target = ("127.0.0.1", broker.port)
        proxy.on_response = hold
        with twin(face, Producer, bootstrap_servers=proxy.address) as producer:
            first = producer.send("t", b"first", partition=0)
            until(lambda: (producer.turn(), held.is_set())[1], what="the first batch is at the broker")
            second = producer.send("t", b"second", partition=0)
            assert producer.purge(in_flight=False) == 1
            assert type(second.exception(0)) is PurgedError
            assert producer.purge(in_queue=False) == 1
            assert type(first.exception(0)) is PurgedInFlightError
            let_go.set()
            producer.send("t", b"third", partition=0)
            producer.flush()
        assert of(proxy.address, "t", 2) == [b"first", b"third"]


def test_what_a_callback_purges_amid_a_lost_request_is_not_sent_again() -> None:
    tps = [TopicPartition("t", n) for n in range(2)]
    accumulator = RecordAccumulator(
        batch_size=300, linger_ms=0, buffer_memory=10**9, delivery_timeout_ms=10**9, backoff=Backoff(0, 0)
    )
    state = sender_state(accumulator, *tps, retries=1, delivery_timeout_ms=10**9)
    lost = error_for(ErrorCode.NETWORK_EXCEPTION)

    def send(tp: TopicPartition, callback: Any = None) -> Any:
        appended = accumulator.append(tp, 0, None, b"x", (), callback, 40, 0.0)
        assert appended is not None
        return appended[0]

    def requests() -> list[Any]:
        state.look(0.0)
        return list(state.requests_for(0, 0.0, lambda: True))

    first = send(tps[0], lambda *_: state.purge(in_queue=True, in_flight=True))
    [batches] = requests()
    state.unanswered(batches, lost, 0.0)
    second = send(tps[1])
    [batches] = requests()
    batches = sorted(batches, key=lambda batch: batch.tp)
    assert [batch.tp for batch in batches] == tps
    state.unanswered(batches, lost, 0.0)
    assert first.exception(0) is lost and type(second.exception(0)) is PurgedInFlightError
    assert requests() == []


def test_a_transaction_that_was_purged_is_only_aborted(face: str, servers: str, topic: str) -> None:
    configs: dict[str, Any] = {"bootstrap_servers": servers, "linger_ms": 600_000}
    with twin(face, Producer, transactional_id=f"purge-{face}", **configs) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"purged")
        assert producer.purge() == 1
        with pytest.raises(PurgedError, match="must be aborted"):
            producer.commit_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"after")
        producer.commit_transaction()
    assert of(servers, topic, 1) == [b"after"]
