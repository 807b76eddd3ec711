"""To whom a channel leads, and for how long it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.interbroker.channel import ChannelBroken, EndpointOf
from odradek.broker.interbroker.channels import InterBrokerChannels
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage
from odradek.cluster.nodes import BrokerRegistration, Endpoint


class Channel:
    """Answers what it is told to."""

    def __init__(self, broker_id: int, endpoint: EndpointOf, client_id: str, timeout_ms: int) -> None:
        self.broker_id = broker_id
        self.endpoint = endpoint
        self.client_id = client_id
        self.timeout_ms = timeout_ms
        self.answer: Any = "an answer"
        self.asked: list[tuple[Any, int]] = []
        self.is_closed = False

    async def send_negotiated(self, request: Any, newest: int) -> Any:
        self.asked.append((request, newest))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None:
        self.is_closed = True


class World:
    """The channels of broker 1, in a cluster of 1, 2 and 3."""

    def __init__(self) -> None:
        self.made: list[Channel] = []
        self.refused: list[int] = []
        self.image = ClusterImage().apply(
            ClusterDelta(
                brokers={one: BrokerImage(one, 1, registration(9000 + one)) for one in (1, 2, 3)},
                controller=(2, 1),
            )
        )
        config = BrokerConfig({"broker.id": "1", "request.timeout.ms": "1234"})
        transport: Any = self
        self.channels = InterBrokerChannels(
            transport, config, "INSIDE", lambda: self.image, self.refused.append
        )

    def channel(self, broker_id: int, endpoint: EndpointOf, client_id: str, timeout_ms: int) -> Channel:
        self.made.append(Channel(broker_id, endpoint, client_id, timeout_ms))
        return self.made[-1]


def registration(port: int) -> BrokerRegistration:
    return BrokerRegistration((Endpoint("OUTSIDE", "out", 1), Endpoint("INSIDE", "in", port)), None)


def run(scenario: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(scenario)


def test_a_channel_is_kept_for_its_purpose_and_leads_where_the_broker_is_now() -> None:
    world = World()
    one = world.channels.to_broker(3, "markers")
    assert world.channels.to_broker(3, "markers") is one
    assert world.channels.to_broker(3, "another") is not one
    made = world.made[0]
    assert (made.broker_id, made.client_id, made.timeout_ms) == (3, "broker-1-markers", 1234)
    assert made.endpoint() == Endpoint("INSIDE", "in", 9003)
    moved = {3: BrokerImage(3, 2, registration(9999))}
    world.image = world.image.apply(ClusterDelta(brokers=moved))
    assert made.endpoint() == Endpoint("INSIDE", "in", 9999)
    world.image = world.image.apply(ClusterDelta(brokers_gone=frozenset((3,))))
    assert made.endpoint() is None and world.channels.endpoint(3) is None


def test_the_controller_is_asked_whoever_it_is() -> None:
    world = World()
    assert run(world.channels.to_controller("a request", 3)) == "an answer"
    assert world.made[0].broker_id == 2 and world.made[0].asked == [("a request", 3)]
    world.image = world.image.apply(ClusterDelta(controller=(3, 2)))
    run(world.channels.to_controller("a request", 3))
    assert world.made[1].broker_id == 3


def test_without_a_controller_nobody_is_asked() -> None:
    world = World()
    world.image = world.image.apply(ClusterDelta(controller=(-1, 2)))
    with pytest.raises(ChannelBroken, match="no controller"):
        run(world.channels.to_controller("a request", 3))
    assert world.made == []


@pytest.mark.parametrize("refused", [True, False])
def test_a_controller_that_refuses_is_reported_one_that_is_slow_is_not(refused: bool) -> None:
    world = World()
    world.channels.to_broker(2, "controller")
    world.made[0].answer = ChannelBroken("broken", refused=refused)
    with pytest.raises(ChannelBroken):
        run(world.channels.to_controller("a request", 3))
    assert world.refused == ([2] if refused else [])


def test_who_is_gone_is_forgotten_and_reached_anew_when_it_comes_back() -> None:
    world = World()
    gone = world.channels.to_broker(3, "a"), world.channels.to_broker(3, "b")
    stays = world.channels.to_broker(2, "a")
    world.channels.forget(3)
    assert [one.is_closed for one in world.made] == [True, True, False]
    assert world.channels.to_broker(3, "a") not in gone
    assert world.channels.to_broker(2, "a") is stays
    world.channels.close()
    assert all(one.is_closed for one in world.made)
