"""`control.plane.listener.name` (KIP-291): the controller's requests have a listener of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from odradek import Consumer, Producer
from odradek.broker.apis.registry import Handler, Handlers
from odradek.broker.config.broker_config import BrokerConfig
from odradek.cluster.configs.config_def import ConfigError
from odradek.testing import Cluster, Security
from odradek.wire.api import ApiKey

CONTROL_REQUESTS = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA}
LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,INNER://127.0.0.1:0,CONTROL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT,CONTROL:PLAINTEXT",
    "inter.broker.listener.name": "INNER",
    "control.plane.listener.name": "CONTROL",
}


class Asked:
    """Which requests came by which listener, at all brokers."""

    def __init__(self) -> None:
        self.by: dict[str, set[int]] = defaultdict(set)
        self._noting: dict[int, Handler] = {}
        self._get = Handlers.get

    def get(self, handlers: Handlers, key: int) -> Handler | None:
        """Take the place of `Handlers.get`."""
        found = self._get(handlers, key)
        if found is None:
            return None
        if key not in self._noting:
            self._noting[key] = replace(found, function=partial(self._note, key, found.function))
        return self._noting[key]

    def _note(self, key: int, function: Any, context: Any, request: Any) -> Any:
        self.by[context.peer.listener_name].add(key)
        return function(context, request)


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    asked = Asked()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Handlers, "get", lambda handlers, key: asked.get(handlers, key))
        yield asked


@pytest.fixture(scope="module")
def cluster(asked: Asked) -> Iterator[Cluster]:
    with Cluster(3, security=Security(configs=LISTENERS)) as cluster:
        yield cluster


def test_the_controller_alone_comes_by_it(cluster: Cluster, asked: Asked) -> None:
    cluster.create_topic("clicks", 3)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        producer.send("clicks", b"home").result(60)
    controller = cluster.controller
    cluster.kill(controller)
    cluster.wait_until(lambda: cluster.controller != controller)
    cluster.restart(controller)
    cluster.create_topic("more", 3)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        producer.send("more", b"home").result(60)
    assert {ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA} <= asked.by["CONTROL"]
    assert asked.by["CONTROL"] <= {*CONTROL_REQUESTS, ApiKey.API_VERSIONS}
    assert ApiKey.FETCH in asked.by["INNER"]
    assert asked.by["INNER"].isdisjoint(CONTROL_REQUESTS)
    assert asked.by["PLAINTEXT"].isdisjoint({*CONTROL_REQUESTS, ApiKey.FETCH})


def test_a_client_is_served_by_it_as_by_any_other(cluster: Cluster) -> None:
    """Kafka keeps its own thread for this listener, and does not look at who asks by it."""
    port = cluster.broker(cluster.live[0]).call(
        lambda broker: next(one.port for one in broker.listeners if one.name == "CONTROL")
    )
    with Producer(bootstrap_servers=f"127.0.0.1:{port}", acks="all") as producer:
        producer.send("clicks", b"by the back door").result(60)
    with Consumer(
        "clicks", bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest", group_id="g"
    ) as consumer:
        assert next(record for record in consumer if record.value == b"by the back door")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"control.plane.listener.name": "OTHER"}, "OTHER is not a listener name defined in listeners"),
        ({"control.plane.listener.name": "INNER"}, "should have a different value from the inter broker"),
    ],
)
def test_what_it_may_not_be(changed: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        BrokerConfig({"log.dirs": "/tmp/x", **LISTENERS, **changed})
