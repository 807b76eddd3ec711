"""Stories of a transaction's time, and of the ids'."""

from __future__ import annotations

from typing import Any

import pytest

from odradek import Consumer, Producer
from odradek.errors import KafkaError, ProducerFencedError
from odradek.testing import Broker
from waiting import WITHIN_S, gathered

from .in_hand import broker_in_hand, log

TRANSACTIONAL_ID = "billing"


def transactional(broker: Broker, timeout_ms: int = 60_000) -> Producer:
    producer = Producer(
        bootstrap_servers=broker.bootstrap_servers,
        transactional_id=TRANSACTIONAL_ID,
        transaction_timeout_ms=timeout_ms,
    )
    producer.init_transactions()
    return producer


def write(producer: Producer) -> None:
    producer.begin_transaction()
    producer.send("orders", b"tea").result(WITHIN_S)


def state(broker: Broker) -> str | None:
    """Of the transactional id; None where it is not known."""

    def look(app: Any) -> str | None:
        coordinator = app.transactions.coordinator
        shard = coordinator.runtime.shard(coordinator.partition_of(TRANSACTIONAL_ID))
        transaction = shard.transactions.get(TRANSACTIONAL_ID)
        return None if transaction is None else transaction.state.name

    return broker.call(look)


def test_transaction_timeout_ms() -> None:
    """It is aborted at the next look, every 10 s, with all that this takes: markers, and what readers get."""
    with broker_in_hand() as broker, transactional(broker) as producer:
        write(producer)
        broker.advance(seconds=59)
        assert state(broker) == "ONGOING"
        assert log(broker, lambda partition_log: partition_log.last_stable_offset) == 0
        broker.advance(seconds=11)
        assert state(broker) == "COMPLETE_ABORT"
        assert log(broker, lambda partition_log: partition_log.last_stable_offset) == 2
        with pytest.raises((ProducerFencedError, KafkaError)):
            producer.commit_transaction()
        with Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign([("orders", 0)])
            polled = gathered(
                lambda: consumer.poll(1), lambda: consumer.position(("orders", 0)) >= 2, "the end of the log"
            )
            assert not polled


def test_a_transaction_ends_in_its_own_time() -> None:
    with broker_in_hand() as broker, transactional(broker) as producer:
        for _ in range(2):
            write(producer)
            broker.advance(seconds=59)
            producer.commit_transaction()
            assert state(broker) in ("PREPARE_COMMIT", "COMPLETE_COMMIT")
        broker.advance()
        assert state(broker) == "COMPLETE_COMMIT"
        assert log(broker, lambda partition_log: partition_log.last_stable_offset) == 4


def test_transactional_id_expiration_ms() -> None:
    """An id at rest is forgotten after a week, at the next look (1 h)."""
    with broker_in_hand() as broker, transactional(broker) as producer:
        write(producer)
        producer.commit_transaction()
        broker.advance(days=6, hours=23)
        assert state(broker) == "COMPLETE_COMMIT"
        broker.advance(hours=2)
        assert state(broker) is None


def test_all_happens_in_its_order() -> None:
    """Within one `advance`: the transaction times out, and its id expires a week after that, not before."""
    with broker_in_hand() as broker, transactional(broker) as producer:
        write(producer)
        broker.advance(days=6, hours=23, minutes=59)
        assert state(broker) == "COMPLETE_ABORT"
        broker.advance(hours=2)
        assert state(broker) is None
