"""What a handler's outcome comes to is the same, whether it returns that, a promise of it, or steps to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.apis.registry import Handler, Handlers
from odradek.broker.event_loop.slices import Steps
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.requests.answer import Answer
from odradek.errors import CoordinatorNotAvailableError
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.messages.heartbeat import HeartbeatResponse

from ..dispatching import PEER, Later
from ..net import BrokerStandIn, heartbeat, run


class Outcome:
    """How a handler ends: with a response, with none, or with an error."""

    def __init__(self, response: Any = None, error: Exception | None = None, *, closes: bool = False) -> None:
        self.response = response
        self.error = error
        self.closes = closes

    def take(self, context: Any) -> Any:
        context.close_connection = self.closes
        if self.error is not None:
            raise self.error
        return self.response


OUTCOMES = {
    "response": Outcome(HeartbeatResponse(error_code=27)),
    "last response": Outcome(HeartbeatResponse(error_code=27), closes=True),
    "none": Outcome(),
    "close": Outcome(closes=True),
    "error": Outcome(error=CoordinatorNotAvailableError()),
    "unforeseen": Outcome(error=ZeroDivisionError("a bug")),
}


def promise_of(outcome: Outcome, context: Any, *, is_late: bool) -> Promise[Any]:
    loop = asyncio.get_running_loop()
    promise: Promise[Any] = Promise(loop)

    def end() -> None:
        try:
            promise.set_result(outcome.take(context))
        except Exception as error:
            promise.set_exception(error)

    if is_late:
        loop.call_soon(end)
    else:
        end()
    return promise


def steps_to(make: Callable[[], Any], pauses: int) -> Steps[Any]:
    for _ in range(pauses):
        yield
    return make()


WAYS: dict[str, Callable[[Outcome, Any], Any]] = {
    "at once": lambda outcome, context: outcome.take(context),
    "promise": lambda outcome, context: promise_of(outcome, context, is_late=False),
    "late promise": lambda outcome, context: promise_of(outcome, context, is_late=True),
    "a step": lambda outcome, context: steps_to(lambda: outcome.take(context), 0),
    "steps": lambda outcome, context: steps_to(lambda: outcome.take(context), 3),
    "steps to a promise": lambda outcome, context: steps_to(
        lambda: promise_of(outcome, context, is_late=False), 3
    ),
    "steps to a late promise": lambda outcome, context: steps_to(
        lambda: promise_of(outcome, context, is_late=True), 3
    ),
}


async def told(outcome: Outcome, way: str, error_response: Any) -> tuple[Any, ...]:
    """What a client is told, and what is counted."""
    broker: Any = BrokerStandIn()
    handler = Handler(
        ApiKey.HEARTBEAT, range(5), lambda context, _: WAYS[way](outcome, context), error_response
    )
    dispatcher = Dispatcher(broker, Handlers({}, {int(ApiKey.HEARTBEAT): handler}))
    later: Any = Later()
    answer = dispatcher.dispatch(PEER, memoryview(heartbeat(1)[4:]), later)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (answer is None) != (later.answer is None)
    answer = answer or later.answer
    assert isinstance(answer, Answer)
    metrics = broker.metrics.requests.of("Heartbeat")
    counts = metrics.requests, metrics.responses, metrics.request_bytes, metrics.response_bytes
    return b"".join(answer.buffers or ()), answer.close, counts


@pytest.mark.parametrize("way", [way for way in WAYS if way != "at once"])
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("error_response", [None, lambda refused: None])
def test_each_way_to_an_outcome_is_told_alike(error_response: Any, outcome: str, way: str) -> None:
    async def main() -> None:
        at_once = await told(OUTCOMES[outcome], "at once", error_response)
        assert await told(OUTCOMES[outcome], way, error_response) == at_once
        assert at_once[2][:2] == (1, 1)

    run(main)
