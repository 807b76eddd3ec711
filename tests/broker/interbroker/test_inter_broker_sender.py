"""One request at a time to each broker, with all that has come by then."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from odradek.broker.interbroker.inter_broker_sender import InterBrokerSender

MOST = 3


class World:
    """Brokers that answer when they are told to; a request carries `MOST` items."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.under_way: dict[int, tuple[list[str], asyncio.Future[Any]]] = {}
        self.answered: list[tuple[int, list[str], asyncio.Future[Any]]] = []
        self.failure: Exception | None = None
        self.sender: InterBrokerSender[list[str], list[str]] = InterBrokerSender(
            self.loop, new_queue=list, take=self._take, send=self._send, on_answer=self._on_answer
        )

    def _take(self, queue: list[str]) -> list[str]:
        taken = queue[:MOST]
        del queue[:MOST]
        return taken

    def _send(self, broker_id: int, batch: list[str]) -> asyncio.Future[Any]:
        assert broker_id not in self.under_way
        future: asyncio.Future[Any] = self.loop.create_future()
        self.under_way[broker_id] = batch, future
        return future

    def _on_answer(self, broker_id: int, batch: list[str], answer: asyncio.Future[Any]) -> None:
        self.answered.append((broker_id, batch, answer))
        if self.failure is not None:
            raise self.failure

    def put(self, broker_id: int, *items: str) -> None:
        for item in items:
            self.sender.queue_of(broker_id).append(item)

    @property
    def sent(self) -> dict[int, list[str]]:
        return {broker_id: batch for broker_id, (batch, _) in self.under_way.items()}

    async def answer(self, broker_id: int, error: Exception | None = None) -> asyncio.Future[Any]:
        _, answer = self.under_way.pop(broker_id)
        if error is None:
            answer.set_result("yes")
        else:
            answer.set_exception(error)
        await turn()
        return answer


async def turn() -> None:
    await asyncio.sleep(0)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_the_items_of_a_turn_go_together() -> None:
    async def scenario() -> None:
        world = World()
        world.put(1, "a", "b")
        world.put(2, "c")
        assert world.sent == {}
        await turn()
        assert world.sent == {1: ["a", "b"], 2: ["c"]}

    run(scenario())


def test_later_items_wait_for_the_answer() -> None:
    async def scenario() -> None:
        world = World()
        world.put(1, "a")
        await turn()
        world.put(1, "b", "c")
        await turn()
        world.put(1, "d", "e")
        await turn()
        assert world.sent == {1: ["a"]}
        assert [list(queue) for queue in world.sender.queues] == [["b", "c", "d", "e"]]
        first = await world.answer(1)
        assert world.sent == {1: ["b", "c", "d"]}
        error = ConnectionError("gone")
        second = await world.answer(1, error)
        assert world.sent == {1: ["e"]}
        third = await world.answer(1)
        assert world.answered == [(1, ["a"], first), (1, ["b", "c", "d"], second), (1, ["e"], third)]
        assert second.exception() is error

    run(scenario())


def test_a_queue_goes_with_its_last_answer() -> None:
    async def scenario() -> None:
        world = World()
        world.put(1, "a")
        await turn()
        assert len(world.sender.queues) == 1
        await world.answer(1)
        assert (len(world.sender.queues), world.sent) == (0, {})
        world.put(1, "b")
        await turn()
        assert world.sent == {1: ["b"]}

    run(scenario())


def test_an_answer_that_cannot_be_taken_stops_nobody() -> None:
    async def scenario() -> None:
        world = World()
        heard: list[object] = []
        world.loop.set_exception_handler(lambda _loop, context: heard.append(context.get("exception")))
        world.failure = RuntimeError("not foreseen")
        world.put(1, "a")
        await turn()
        world.put(1, "b")
        await world.answer(1)
        assert heard == [world.failure]
        assert world.sent == {1: ["b"]}

    run(scenario())
