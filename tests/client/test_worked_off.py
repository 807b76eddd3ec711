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
from odradek.sasl.client_authenticator import Work
from odradek.util.futures import error_of
from waiting import within


class Transport(asyncio.Transport):
    """Takes what is written, and keeps nothing."""

    def writelines(self, list_of_data: Any) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


class State:
    """Of a connection whose next answer is followed by a login's step."""

    versions = None
    login_is_next = False

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def start_handshake(self, deadline_ms: float) -> list[bytes]:
        return []

    def continue_handshake(self, frame: Any) -> Any:
        return Work(None, b"")  # type: ignore[arg-type]

    def work_off(self, work: Work) -> list[bytes]:
        raise AssertionError("the test ends the step")

    def worked_off(self, buffers: list[bytes]) -> list[bytes]:
        if self.fails:
            raise ZeroDivisionError("a bug")
        return buffers

    def abandon(self) -> list[Any]:
        return []


class Loop:
    """Gives a future of the test's where something is to be done in a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, working: asyncio.Future[Any]) -> None:
        self.loop = loop
        self.working: list[asyncio.Future[Any]] = [working]

    def run_in_executor(self, *_: Any) -> asyncio.Future[Any]:
        return self.working.pop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)


def connected(config: CommonConfig, loop: Any, state: Any) -> Connection:
    """A connection that has taken one answer."""
    connection = Connection(config, "h:1", loop, Opening.ASK)
    connection.state = state
    connection.connection_made(Transport())
    frame = b"\0\0\0\1x"
    connection.get_buffer(len(frame))[: len(frame)] = frame
    connection.buffer_updated(len(frame))
    return connection


def waiting(end: Callable[[asyncio.Future[Any], Connection], object], fails: bool = False) -> list[Any]:
    """Have the step of a login end; returns how the handshake ended, and of what asyncio complains."""
    complaints: list[Any] = []

    async def main() -> BaseException | None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: complaints.append(context["message"]))
        working = loop.create_future()
        connection = connected(CommonConfig(), Loop(loop, working), State(fails))
        end(working, connection)
        handshake = asyncio.ensure_future(connection.handshake())
        await within(asyncio.wait([handshake]), "the end of the handshake")
        del working
        gc.collect()
        return error_of(handshake)

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
        session_lifetime_ms = 1e-9
        """The next login is due at once, which still is before what is asked afterwards."""
        in_flight: tuple[Any, ...] = ()
        is_logging_in = False

        def continue_handshake(self, frame: Any) -> Any:
            return None

        def log_in_again(self, mechanism: Any, deadline_ms: float) -> list[bytes]:
            self.is_logging_in = True
            return []

        def deadline_ms(self, now_ms: float, timeout_ms: float) -> float:
            return now_ms + timeout_ms

        def request(self, *_: Any) -> list[bytes]:
            return []

        def next_deadline_ms(self) -> float:
            return 0.0

    async def main() -> None:
        options = {"security_protocol": "sasl_plaintext", "sasl_mechanism": "PLAIN"}
        login = {"sasl_plain_username": "alice", "sasl_plain_password": "secret"}
        day_ms = 86_400_000
        configs = build(
            CommonConfig, {"bootstrap_servers": "h:1", "request_timeout_ms": day_ms, **options, **login}
        )
        state = LoggedIn()
        closed = asyncio.Event()
        connection = connected(configs, asyncio.get_running_loop(), state)
        connection.on_close = lambda _: closed.set()
        connection.send(None, 0, timeout_ms=0)
        await within(closed.wait(), "the end of the request that is late")
        assert state.is_logging_in

    asyncio.run(main())
