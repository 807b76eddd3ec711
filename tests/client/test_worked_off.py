"""Steps of a login that a thread makes: the connection hears of them, however they end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.aio.connection import Connection
from odradek.client.config import CommonConfig, build
from odradek.client.core.handshake import Opening
from odradek.client.errors import ConnectionFailedError
from odradek.errors import SaslAuthenticationError
from waiting import within


class State:
    """Of a connection that waits for a login's step."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def worked_off(self, buffers: list[bytes]) -> list[bytes]:
        if self.fails:
            raise ZeroDivisionError("a bug")
        return buffers

    def abandon(self) -> list[Any]:
        return []


def waiting(end: Callable[[asyncio.Future[Any], Connection], object], fails: bool = False) -> list[Any]:
    """Have the step of a login end; returns how the handshake ended, and of what asyncio complains."""
    complaints: list[Any] = []

    async def main() -> BaseException | None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: complaints.append(context["message"]))
        connection = Connection(CommonConfig(), "h:1", loop, Opening.ASK)
        state: Any = State(fails)
        connection.state = state
        working = loop.create_future()
        working.add_done_callback(connection._worked_off)
        end(working, connection)
        for _ in range(3):
            await asyncio.sleep(0)
        handshake = connection._handshake
        assert handshake.done()
        del working
        gc.collect()
        return handshake.exception()

    return [asyncio.run(main()), complaints]


def test_a_refusal_ends_the_handshake() -> None:
    refused = SaslAuthenticationError("no")
    assert waiting(lambda working, _: working.set_exception(refused)) == [refused, []]


@pytest.mark.parametrize("how", ["cancelled", "fails"])
def test_what_is_given_up_or_fails_behind_it_ends_the_handshake(how: str) -> None:
    """It would wait until its time is over."""

    def end(working: asyncio.Future[Any], _: Connection) -> None:
        if how == "cancelled":
            working.cancel()
        else:
            working.set_result([b"x"])

    error, complaints = waiting(end, fails=how == "fails")
    assert isinstance(error, ConnectionFailedError)
    assert complaints == []


def test_nobody_is_told_of_a_refusal_behind_the_close() -> None:
    def end(working: asyncio.Future[Any], connection: Connection) -> None:
        connection.close()
        working.set_exception(SaslAuthenticationError("no"))

    assert waiting(end)[1] == []


def test_another_login_moves_no_request_s_deadline() -> None:
    """KIP-368: what is in flight already may have less time than the login has."""

    class LoggedIn(State):
        def log_in_again(self, mechanism: Any, deadline_ms: float) -> list[bytes]:
            return []

        def next_deadline_ms(self) -> float:
            return 0.0

    async def main() -> None:
        loop = asyncio.get_running_loop()
        options = {"security_protocol": "sasl_plaintext", "sasl_mechanism": "PLAIN"}
        login = {"sasl_plain_username": "alice", "sasl_plain_password": "secret"}
        configs = build(CommonConfig, {"bootstrap_servers": "h:1", **options, **login})
        connection = Connection(configs, "h:1", loop, Opening.ASK)
        state: Any = LoggedIn()
        connection.state = state
        connection._writelines = lambda buffers: None
        connection._arm(now_ms := loop.time() * 1000)
        connection._log_in_again()
        assert connection._timer_at == now_ms
        await within(asyncio.wait([connection._handshake]), "the end of the request that is late")
        assert connection.closed

    asyncio.run(main())
