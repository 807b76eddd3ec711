"""A request is answered, or its connection closed, whatever becomes of the future that its answer is in."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from odradek.broker.apis.registry import Handler, Handlers
from odradek.broker.event_loop.slices import Slicer, Steps, wait
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.requests.answer import Answer
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.messages.heartbeat import HeartbeatResponse

from ..dispatching import PEER
from ..net import BrokerStandIn, heartbeat, run


class Later:
    """What a connection is told of one request."""

    def __init__(self) -> None:
        self.context: Any = None
        self.is_gone = False
        self.answers: list[Answer] = []
        self.refusals: list[str] = []
        self.held = 0

    def __call__(self, answer: Answer) -> None:
        self.answers.append(answer)

    def refuse(self, reason: str) -> None:
        self.refusals.append(reason)

    def hold(self, held: bool) -> None:
        self.held += 1 if held else -1

    def mute(self, timers: Any, mute_ms: float, answer: Answer | None) -> None:
        raise AssertionError

    def own(self, frame: Any) -> Any:
        return bytes(frame)


class Cancelling(Slicer):
    """Gives out futures that somebody cancels."""

    def run(self, steps: Any, *, large: bool = False) -> Any:
        steps.close()
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        return future


def begin(function: Any, slicer: Slicer | None = None, error_response: Any = None) -> Later:
    """Give a request, which is not answered at once, to a dispatcher with one handler."""
    broker: Any = BrokerStandIn()
    handler = Handler(ApiKey.HEARTBEAT, range(5), function, error_response)
    dispatcher = Dispatcher(broker, Handlers({}, {int(ApiKey.HEARTBEAT): handler}), slicer)
    later: Any = Later()
    assert dispatcher.dispatch(PEER, memoryview(heartbeat(1)[4:]), later) is None
    return later  # type: ignore[no-any-return]


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def in_steps(answer: Any) -> Steps[Any]:
    yield
    return (yield from wait(answer))


@pytest.mark.parametrize("sliced", [False, True])
def test_a_failure_that_cannot_be_told_closes_the_connection(
    sliced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The handler fails later, and whatever makes its error's response fails as well."""

    def make(refused: Any) -> Any:
        raise RuntimeError("no response can be made")

    async def main() -> None:
        awaited: Promise[Any] = Promise(asyncio.get_running_loop())

        def handle(context: Any, message: Any) -> Any:
            return in_steps(awaited) if sliced else awaited

        later = begin(handle, error_response=make)
        awaited.set_exception(ValueError("a bug"))
        await turns()
        assert (later.answers, later.refusals, later.held) == ([], ["unforeseen failure"], 0)

    with caplog.at_level(logging.ERROR):
        run(main)
    assert "no response can be made" in caplog.text


def test_steps_behind_a_promise_that_fail_are_answered_with_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def told(response: Any) -> Steps[Any]:
        yield
        raise RuntimeError(f"of no use: {response}")

    async def main() -> None:
        awaited: Promise[Any] = Promise(asyncio.get_running_loop())
        later = begin(lambda context, message: awaited)
        awaited.set_result(told("response"))
        await turns()
        assert [one.close for one in later.answers] == [False]
        assert (later.refusals, later.held) == ([], 0)

    with caplog.at_level(logging.ERROR):
        run(main)
    assert "of no use" in caplog.text


@pytest.mark.parametrize("sliced", [False, True])
def test_a_future_with_the_error_of_a_cancelled_one_closes_the_connection(sliced: bool) -> None:
    """Asyncio makes this of work in a thread that was let go: not cancelled, and raising all the same."""

    async def main() -> None:
        awaited: Promise[Any] = Promise(asyncio.get_running_loop())

        def handle(context: Any, message: Any) -> Any:
            return in_steps(awaited) if sliced else awaited

        later = begin(handle)
        awaited.set_exception(asyncio.CancelledError())
        await turns()
        assert [one.close for one in later.answers] == [True]
        assert (later.refusals, later.held) == ([], 0)

    run(main)


def test_slices_that_are_cancelled_close_the_connection() -> None:
    async def main() -> None:
        later = begin(lambda context, message: in_steps(HeartbeatResponse()), Cancelling())
        await turns()
        assert (later.answers, later.refusals, later.held) == ([], ["broken off"], 0)

    run(main)
