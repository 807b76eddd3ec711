"""Others are asked about a broker that refuses this one: who, what counts, and when it is enough."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.broker.interbroker.channel import ChannelBroken
from odradek.broker.interbroker.witnesses import MOST, Witnesses, asked_about
from odradek.cluster.nodes import Endpoint
from odradek.wire.messages.api_versions import ApiVersionsResponse
from odradek.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse

ME, ABOUT = 0, 1


class Channel:
    """Takes one request; its answer comes when the test says so."""

    def __init__(self, broker_id: int, client_id: str) -> None:
        self.broker_id = broker_id
        self.client_id = client_id
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.is_closed = False

    def send(self, request: Any, version: int) -> asyncio.Future[Any]:
        return self.answer

    def close(self) -> None:
        self.is_closed = True
        if not self.answer.done():
            self.answer.set_exception(ChannelBroken("it is closed"))

    def describe(self, *brokers: int) -> None:
        self.answer.set_result(
            DescribeClusterResponse(brokers=[DescribeClusterBroker(broker_id=one) for one in brokers])
        )

    def break_off(self) -> None:
        self.answer.set_exception(ChannelBroken("refused", refused=True))


class World:
    """Broker 0 and those that it knows."""

    def __init__(self, *live: int) -> None:
        self.live = live
        self.channels: list[Channel] = []
        self.told: list[bool] = []
        self.witnesses = Witnesses(self, ME, lambda: self.live, lambda one: Endpoint("X", "host", one, "X"))

    def channel(self, broker_id: int, endpoint: object, client_id: str, timeout_ms: int) -> Any:
        self.channels.append(Channel(broker_id, client_id))
        return self.channels[-1]

    def ask(self) -> None:
        self.witnesses.ask(ABOUT, self.told.append)


async def turn() -> None:
    """Have callbacks called."""
    for _ in range(3):
        await asyncio.sleep(0)


def run(scenario: Callable[[World], Coroutine[Any, Any, None]], *live: int) -> None:
    async def main() -> None:
        await scenario(World(*live))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("client_id", "broker"),
    [
        ("broker-7-asks-about-12", 12),
        ("broker-7-asks-about-", None),
        ("broker-7-asks-about-12 ", None),
        ("broker-7-asks-about-99999999999", None),
        ("broker-7-watch", None),
        ("", None),
    ],
)
def test_about_whom_is_asked(client_id: str, broker: int | None) -> None:
    assert asked_about(client_id) == broker


def test_nobody_to_be_asked_is_nobody_who_reaches_it() -> None:
    async def scenario(world: World) -> None:
        world.ask()
        assert world.told == [False]

    run(scenario, ME, ABOUT)


def test_the_first_who_reaches_it_is_enough() -> None:
    async def scenario(world: World) -> None:
        world.ask()
        assert [one.broker_id for one in world.channels] == [2, 3]
        assert {asked_about(one.client_id) for one in world.channels} == {ABOUT}
        world.channels[1].describe(ABOUT)
        await turn()
        assert world.told == [True]
        assert all(one.is_closed for one in world.channels)
        # The other one's word comes too late, and changes nothing.
        await turn()
        assert world.told == [True]
        world.ask()
        assert len(world.channels) == 4

    run(scenario, ME, ABOUT, 2, 3)


def test_only_when_all_have_answered_does_nobody_reach_it() -> None:
    async def scenario(world: World) -> None:
        world.ask()
        world.channels[0].describe()
        await turn()
        assert world.told == []
        world.channels[1].break_off()
        await turn()
        assert world.told == [False]

    run(scenario, ME, ABOUT, 2, 3)


def test_a_description_of_the_whole_cluster_tells_nothing() -> None:
    """It is Kafka's: what it has been told by the controller, and not whom it reaches."""

    async def scenario(world: World) -> None:
        world.ask()
        world.channels[0].describe(ME, ABOUT, 2)
        await turn()
        assert world.told == [False]

    run(scenario, ME, ABOUT, 2)


def test_so_many_are_asked_at_most_and_once_at_a_time() -> None:
    async def scenario(world: World) -> None:
        world.ask()
        world.ask()
        assert len(world.channels) == MOST
        for one in world.channels:
            one.describe()
        await turn()
        assert world.told == [False, False]

    run(scenario, *range(100))


def test_after_the_end_nobody_is_told() -> None:
    async def scenario(world: World) -> None:
        world.ask()
        world.witnesses.close()
        await turn()
        assert world.told == []
        assert all(one.is_closed for one in world.channels)

    run(scenario, ME, ABOUT, 2, 3)


def test_who_is_asked_tries() -> None:
    async def scenario(world: World) -> None:
        reached = world.witnesses.reach(ABOUT)
        await turn()
        world.channels[0].answer.set_result(ApiVersionsResponse())
        assert await reached
        missed = world.witnesses.reach(ABOUT)
        await turn()
        world.channels[1].break_off()
        assert not await missed
        assert all(one.is_closed for one in world.channels)
        assert await world.witnesses.reach(ME)

    run(scenario, ME, ABOUT, 2)
