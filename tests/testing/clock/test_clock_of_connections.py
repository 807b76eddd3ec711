"""Stories of the time of connections, logins, tokens, quotas, and of faults that take time."""

from __future__ import annotations

from typing import Any

import pytest

from odradek import Admin
from odradek.errors import KafkaError
from odradek.testing import Broker, ManualClock, Security
from odradek.wire.messages.metadata import MetadataRequest
from waiting import until

from ..faults.wire import Wire
from .in_hand import broker_in_hand

METADATA = MetadataRequest(topics=[])
SECRETS = {"alice": "secret", "bob": "secret"}


def administrator(broker: Broker) -> Admin:
    return Admin(broker.client_configs("alice"))


def test_connections_max_idle_ms() -> None:
    """A look at all connections comes every 30 s; one whose answer is still to come is not idle."""
    with broker_in_hand(connections_max_idle_ms=600_000) as broker, Wire(broker.port) as wire:
        for _ in range(2):
            assert wire.ask(METADATA, 1).brokers
            broker.advance(minutes=9, seconds=59)
        assert wire.ask(METADATA, 1).brokers
        broker.advance(minutes=10, seconds=31)
        assert wire.rest() == b""


def test_connections_max_reauth_ms() -> None:
    """A login runs out: a client that asks for something then, without another login, is cut off."""
    security = Security(
        users=SECRETS, mechanisms=("PLAIN",), configs={"connections.max.reauth.ms": "3600000"}
    )
    with Broker(clock=ManualClock(), security=security) as broker, administrator(broker) as admin:
        assert admin.describe_cluster().nodes

        def connections() -> int:
            return broker.call(lambda app: len(app.listeners[0].connections))

        assert connections() > 0
        broker.advance(hours=1)
        until(lambda: connections() == 0, "the end of the connections")
        # As after any end of a connection, the client begins another.
        assert admin.describe_cluster().nodes


def test_delegation_tokens_expire() -> None:
    """A token is good for `delegation.token.expiry.time.ms`, a day, and removed at the next hourly look."""
    security = Security(
        users=SECRETS,
        configs={"delegation.token.secret.key": "key", "delegation.token.max.lifetime.ms": "604800000"},
    )
    with Broker(clock=ManualClock(), security=security) as broker, administrator(broker) as admin:
        token = admin.create_delegation_token()
        broker.advance(hours=23)
        assert len(admin.describe_delegation_tokens()) == 1
        admin.renew_delegation_token(token.hmac)
        broker.advance(hours=23)
        assert len(admin.describe_delegation_tokens()) == 1
        broker.advance(hours=2, minutes=1)
        assert admin.describe_delegation_tokens() == []
        with pytest.raises(KafkaError):
            admin.renew_delegation_token(token.hmac)


def test_a_quotas_window_and_its_throttle() -> None:
    """Whoever is throttled waits for the broker's time to pass; with the window all is forgotten."""
    with broker_in_hand() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.alter_client_quotas({(("client-id", "greedy"),): {"producer_byte_rate": 1_000.0}})
        with Wire(broker.port, "greedy") as wire:
            produce = produced(broker, 20_000)
            throttled_ms = wire.ask(produce, 8).throttle_time_ms
            assert throttled_ms > 5_000
            wire.send(METADATA, 1)
            broker.advance(milliseconds=throttled_ms - 1)
            assert wire.has_nothing()
            broker.advance(milliseconds=1)
            assert wire.receive(METADATA, 1).brokers
            broker.advance(minutes=1)
            assert wire.ask(produced(broker, 100), 8).throttle_time_ms == 0


def produced(broker: Broker, size: int) -> Any:
    from odradek.records.builder import build_batch
    from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    assert broker.clock is not None
    batch = build_batch([(broker.clock.now_ms(), b"k", bytes(size), ())])
    records = b"".join(bytes(part) for part in batch) if isinstance(batch, list) else bytes(batch)
    return ProduceRequest(
        acks=1,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=records)])
        ],
    )


def test_a_delay_that_is_a_fault_is_in_hand_too() -> None:
    with broker_in_hand() as broker, Wire(broker.port) as wire, broker.delay("Metadata", 60_000):
        wire.send(METADATA, 1)
        until(lambda: broker.requests_by_api()["Metadata"] == 1, "the request")
        broker.advance(seconds=59)
        assert wire.has_nothing()
        broker.advance(seconds=1)
        assert wire.receive(METADATA, 1).brokers


def test_a_client_that_waits_for_a_failed_login_is_told_in_real_time() -> None:
    """`connection.failed.authentication.delay.ms`"""
    security = Security(users=SECRETS, mechanisms=("PLAIN",))
    with Broker(clock=ManualClock(), security=security) as broker:
        configs = broker.client_configs("alice") | {"sasl.password": "wrong"}
        with pytest.raises(KafkaError), Admin(configs) as admin:
            admin.describe_cluster()


def test_a_throttle_that_is_a_fault_is_in_hand_too() -> None:
    with broker_in_hand() as broker, Wire(broker.port) as wire, broker.throttle("Metadata", 60_000, times=1):
        assert wire.ask(METADATA, 3).throttle_time_ms == 60_000
        wire.send(METADATA, 3)
        broker.advance(seconds=59)
        assert wire.has_nothing()
        broker.advance(seconds=1)
        assert wire.receive(METADATA, 3).brokers
