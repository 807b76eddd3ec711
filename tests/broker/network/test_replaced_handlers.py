"""A handler that is replaced while requests come: the dispatcher forgets the one that was there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from odradek.broker.apis.registry import Handler, Handlers
from odradek.broker.event_loop.slices import Steps
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.requests.answer import Answer, Buffers
from odradek.broker.requests.changed_answers import changed
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.headers import encode_response
from odradek.wire.messages.heartbeat import HeartbeatResponse

from ..dispatching import PEER, Later
from ..net import BrokerStandIn, heartbeat, run

HEARTBEAT = int(ApiKey.HEARTBEAT)


def at_once(code: int) -> Any:
    return HeartbeatResponse(error_code=code)


def steps(code: int) -> Steps[Any]:
    for _ in range(3):
        yield
    return HeartbeatResponse(error_code=code)


def late(code: int) -> Any:
    promise: Promise[Any] = Promise(asyncio.get_running_loop())
    asyncio.get_running_loop().call_soon(promise.set_result, at_once(code))
    return promise


def steps_to_a_promise(code: int) -> Steps[Any]:
    yield
    return late(code)


async def _asked(dispatcher: Dispatcher) -> bytes:
    later: Any = Later()
    answer = dispatcher.dispatch(PEER, memoryview(heartbeat(1)[4:]), later)
    for _ in range(20):
        await asyncio.sleep(0)
    answer = answer or later.answer
    assert isinstance(answer, Answer)
    return b"".join(answer.buffers or ())


def _answer(code: int) -> bytes:
    return b"".join(encode_response(HEARTBEAT, 0, 1, HeartbeatResponse(error_code=code)))


@pytest.mark.parametrize("way", [at_once, steps, late, steps_to_a_promise])
def test_the_next_request_meets_the_new_one_and_then_the_old_one_again(way: Any) -> None:
    async def main() -> None:
        broker: Any = BrokerStandIn()
        plain = Handler(ApiKey.HEARTBEAT, range(5), lambda context, request: way(25))
        handlers = Handlers({}, {HEARTBEAT: plain})
        dispatcher = Dispatcher(broker, handlers)
        assert await _asked(dispatcher) == _answer(25)

        def raised(response: Any) -> Any:
            return HeartbeatResponse(error_code=response.error_code + 2)

        def around(handler: Handler) -> Handler:
            return replace(
                handler, function=lambda context, request: changed(handler.function(context, request), raised)
            )

        for _ in range(2):  # around the first, not around itself
            handlers.replace(HEARTBEAT, around)
            assert await _asked(dispatcher) == _answer(27)
        handlers.replace(HEARTBEAT, None)
        assert await _asked(dispatcher) == _answer(25)

    run(main)


@pytest.mark.parametrize("way", [at_once, steps, late, steps_to_a_promise])
def test_the_bytes_of_an_answer_are_rewritten_however_it_is_made(way: Any) -> None:
    async def main() -> None:
        broker: Any = BrokerStandIn()

        def rewrite(response: Any, buffers: Buffers) -> Buffers:
            assert response.error_code == 25
            return [b"".join(buffers)[:-1]]

        handler = Handler(ApiKey.HEARTBEAT, range(5), lambda context, request: way(25), rewrite=rewrite)
        dispatcher = Dispatcher(broker, Handlers({}, {HEARTBEAT: handler}))
        assert await _asked(dispatcher) == _answer(25)[:-1]

    run(main)
