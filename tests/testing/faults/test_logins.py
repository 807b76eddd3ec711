"""Faults at listeners where clients log in: before the login only ApiVersions comes to a handler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek import Admin, Producer
from odradek.errors import ErrorCode
from odradek.testing import Broker, Security
from odradek.wire.messages.api_versions import ApiVersionsRequest
from waiting import WITHIN_S, until

from .wire import Wire

ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security=Security(users={"alice": "secret"})) as running:
        running.create_topic("orders")
        yield running


@pytest.mark.parametrize("version", [0, 5])
def test_each_effect_before_the_login(broker: Broker, version: int) -> None:
    ask = ASK if version >= 3 else ApiVersionsRequest()
    with broker.fail("ApiVersions", "INVALID_REQUEST"), Wire(broker.port) as wire:
        assert wire.ask(ask, version).error_code == ErrorCode.INVALID_REQUEST
    for after in (False, True):
        with broker.drop("ApiVersions", after=after), Wire(broker.port) as wire:
            wire.send(ask, version)
            assert wire.rest() == b""
    with broker.truncate("ApiVersions", 9), Wire(broker.port) as wire:
        wire.send(ask, version)
        assert len(wire.rest()) == 9
    with broker.delay("ApiVersions", 1), broker.throttle("ApiVersions", 1), Wire(broker.port) as wire:
        assert wire.ask(ask, version).api_keys
    with broker.hang("ApiVersions") as fault, Wire(broker.port) as wire:
        wire.send(ask, version)
        until(lambda: fault.met, "a request that hangs")
        assert wire.has_nothing()


def test_clients_log_in_through_faults_and_their_requests_meet_them(broker: Broker) -> None:
    configs = broker.client_configs()
    with (
        broker.delay("ApiVersions", 1, times=1),
        broker.throttle("ApiVersions", 1, nth=2, may_be_unmet=True),
        broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1),
        broker.drop("Produce", nth=1, after=True),
        Producer(configs) as producer,
    ):
        producer.send("orders", b"v").result(WITHIN_S)


def test_a_producer_is_fenced_and_a_client_cut_off_where_one_logs_in(broker: Broker) -> None:
    with Producer(broker.client_configs(), transactional_id="secured", client_id="me") as producer:
        producer.init_transactions()
        broker.fence_producer("secured")
    with broker.cut_client("me"), Wire(broker.port, "me") as wire:
        wire.send(ASK, 3)
        assert wire.rest() == b""
    with Admin(broker.client_configs()) as admin:
        assert "orders" in admin.list_topics()
