"""Logins at a SASL listener, frame by frame, under a clock of the test's own."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import deque
from typing import Any

import pytest

from broker.net import receive, request
from odradek.broker.requests.peer import ANONYMOUS
from odradek.errors import ErrorCode
from odradek.sasl.scram import ScramClient
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest
from seeds import each_seed

from .logins import HEARTBEAT, METADATA, TOKEN, Client, Harness


def test_who_has_logged_in_is_served() -> None:
    harness = Harness()
    client = harness.connect()
    told = client.answer(ApiVersionsRequest(), 0)
    assert told.error_code == 0
    assert client.shake_hands().mechanisms == ["PLAIN", "SCRAM-SHA-256", "LASTING", "BREAKING", "WAITING"]
    assert client.peer.principal == ANONYMOUS
    answer = client.authenticate(b"\0alice\0secret")
    assert (answer.error_code, answer.error_message, answer.session_lifetime_ms) == (0, None, 0)
    assert client.peer.principal == "User:alice"
    assert client.is_served
    assert client.connection.gate is None
    assert harness.timers.pending == 0
    assert (harness.sasl.metrics.successful, harness.sasl.metrics.failed) == (1, 0)


def test_the_request_behind_the_login_may_come_with_it() -> None:
    client = Harness().connect()
    client.shake_hands()
    client.send(
        SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"),
        0,
        (HeartbeatRequest(group_id="g", generation_id=1), 0),
    )
    login, beat = client.frames()
    assert decode_response(login, ApiKey.SASL_AUTHENTICATE, 0)[1].error_code == 0
    assert decode_response(beat, ApiKey.HEARTBEAT, 0)[1].error_code == 7


def test_scram_takes_two_steps() -> None:
    client = Harness().connect()
    scram = ScramClient("SCRAM-SHA-256", "alice", "secret")
    client.shake_hands("SCRAM-SHA-256")
    first = client.authenticate(scram.evaluate(b"") or b"")
    second = client.authenticate(scram.evaluate(first.auth_bytes) or b"", 0)
    assert scram.evaluate(second.auth_bytes) is None
    assert client.is_served and client.peer.principal == "User:alice"


def test_bare_frames_behind_a_handshake_of_version_0() -> None:
    client = Harness().connect()
    assert client.shake_hands(version=0).error_code == 0
    token = b"\0alice\0secret"
    receive(client.connection, len(token).to_bytes(4) + token)
    assert client.frames() == [b""]
    assert client.is_served


def test_wrong_credentials_as_bare_frames_end_without_an_answer() -> None:
    harness = Harness()
    client = harness.connect()
    client.shake_hands(version=0)
    receive(client.connection, b"\0\0\0\x0a\0alice\0bad")
    harness.timers.advance(100)
    assert client.frames() == [] and client.transport.is_closed


@pytest.mark.parametrize(
    ("before", "message"),
    [
        *((before, one) for before in ("", "versions") for one in (METADATA, HEARTBEAT, TOKEN)),
        # A token has its place behind the handshake.
        ("handshake", METADATA),
        ("handshake", HEARTBEAT),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_nothing_else_is_taken_before_the_login(before: str, message: Any) -> None:
    client = Harness().connect()
    if before == "versions":
        client.answer(ApiVersionsRequest(), 0)
    if before == "handshake":
        client.shake_hands()
    client.send(message, 0)
    assert client.frames() == [] and client.transport.is_closed
    assert client.peer.principal == ANONYMOUS


def test_versions_are_told_once() -> None:
    client = Harness().connect()
    client.answer(ApiVersionsRequest(), 0)
    client.send(ApiVersionsRequest(), 0)
    assert client.frames() == [] and client.transport.is_closed


def test_versions_may_be_asked_again_when_the_version_was_not_known() -> None:
    client = Harness().connect()
    client.send(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    (refused,) = client.answers(ApiKey.API_VERSIONS, 0)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert client.answer(ApiVersionsRequest(), 0).error_code == 0


def test_a_mechanism_that_is_not_there_is_refused_after_a_while() -> None:
    harness = Harness()
    client = harness.connect()
    client.send(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert client.frames() == [] and not client.transport.is_closed
    harness.timers.advance(99)
    assert client.frames() == []
    harness.timers.advance(1)
    (refused,) = client.answers(ApiKey.SASL_HANDSHAKE, 1)
    assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM and "PLAIN" in refused.mechanisms
    assert client.transport.is_closed


@pytest.mark.parametrize(
    ("mechanism", "token", "told"),
    [
        ("PLAIN", b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        ("PLAIN", b"\0nobody\0wrong", "Authentication failed: Invalid username or password"),
        (
            "PLAIN",
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (
            "PLAIN",
            b"malformed",
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            "PLAIN",
        ),
        (
            "BREAKING",
            b"my-password",
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            "BREAKING",
        ),
    ],
)
def test_a_login_that_fails(
    mechanism: str, token: bytes, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    harness = Harness()
    client = harness.connect()
    client.shake_hands(mechanism)
    client.send(
        SaslAuthenticateRequest(auth_bytes=token), 2, (HeartbeatRequest(group_id="", generation_id=1), 0)
    )
    assert client.frames() == []
    harness.timers.advance(100)
    (refused,) = client.answers(ApiKey.SASL_AUTHENTICATE, 2)
    assert (refused.error_code, refused.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, told)
    assert client.transport.is_closed
    assert client.peer.principal == ANONYMOUS
    assert harness.sasl.metrics.failed == 1
    assert "authentication failed peer=10.0.0.1:4711" in caplog.text
    for secret in ("secret", "wrong", "malformed", "my-password"):
        assert secret not in caplog.text


def test_a_login_in_a_thread_lets_in() -> None:
    harness = Harness()
    client = harness.connect()
    assert client.shake_hands("WAITING").error_code == 0
    client.send(SaslAuthenticateRequest(auth_bytes=b"alice"), 2, (HeartbeatRequest(), 0))
    (waiting,) = harness.loop.in_threads
    assert client.frames() == []
    waiting.end()
    harness.loop.turn()
    first, second = client.frames()
    assert decode_response(first, ApiKey.SASL_AUTHENTICATE, 2)[1].error_code == 0
    assert decode_response(second, ApiKey.HEARTBEAT, 0)[1].error_code == 7
    client.lose()


@pytest.mark.parametrize("error", [None, asyncio.CancelledError(), SystemExit()])
def test_a_login_that_a_thread_lets_go_of_ends_its_connection(error: BaseException | None) -> None:
    """Nobody waits until its time is over: a broker that stops would wait with it."""
    harness = Harness()
    client = harness.connect()
    client.shake_hands("WAITING")
    client.send(SaslAuthenticateRequest(auth_bytes=b"alice"), 2)
    (waiting,) = harness.loop.in_threads
    if error is None:
        waiting.ended.cancel()
    else:
        waiting.ended.set_exception(error)
    harness.loop.turn()
    assert client.frames() == []
    assert client.transport.is_closed
    client.lose()
    assert (harness.open, harness.timers.pending) == (0, 0)


def test_a_login_whose_answer_cannot_be_made_ends_its_connection() -> None:
    harness = Harness(reauth_ms={"WAITING": "soon"})
    client = harness.connect()
    client.shake_hands("WAITING")
    client.send(SaslAuthenticateRequest(auth_bytes=b"alice"), 2)
    (waiting,) = harness.loop.in_threads
    waiting.end()
    harness.loop.turn()
    assert client.frames() == []
    assert client.transport.is_closed
    client.lose()


def test_frames_are_small_until_somebody_has_logged_in() -> None:
    client = Harness().connect()
    receive(client.connection, (1001).to_bytes(4) + b"\0\x11\0\x01" + bytes(996))
    assert client.transport.is_closed
    client = Harness().connect()
    client.log_in()
    receive(client.connection, (1_000_000).to_bytes(4) + b"\0\x0c\0\0")
    assert not client.transport.is_closed


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\0",
        b"\0\0\0\x03abc",
        b"\x16\x03\x01\x02\0",
        b"\0\0\0\x05\x60\x0a\x0b\x0c\x0d",
    ],
)
def test_whoever_speaks_something_else_is_hung_up_on(data: bytes) -> None:
    client = Harness().connect()
    receive(client.connection, data)
    assert client.frames() == [] and client.transport.is_closed


def test_a_login_has_its_time() -> None:
    harness = Harness()
    client = harness.connect()
    harness.timers.advance(29_999)
    client.shake_hands()
    assert not client.transport.is_closed
    harness.timers.advance(1)
    assert client.transport.is_aborted


def test_a_peer_that_goes_leaves_nothing_behind() -> None:
    harness = Harness()
    client = harness.connect()
    client.shake_hands()
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
    client.lose()
    assert harness.timers.pending == 0 and harness.memory_pool.used == 0
    harness.timers.advance(1000)
    assert client.frames() == []


def test_ten_thousand_logins_that_fail_leave_nothing_behind_and_hold_up_nobody() -> None:
    harness = Harness()
    other = harness.connect()
    other.log_in()
    waiting: deque[Client] = deque()

    def end_oldest() -> None:
        client = waiting.popleft()
        client.lose()

    for number in range(10_000):
        client = harness.connect()
        client.shake_hands(("PLAIN", "SCRAM-SHA-256")[number % 2])
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
        waiting.append(client)
        harness.timers.advance(6)  # ten thousand a minute
        while waiting and waiting[0].transport.is_closed:
            end_oldest()
        assert len(waiting) <= 18
        if number % 1000 == 0:
            assert other.is_served
    harness.timers.advance(100)
    while waiting:
        end_oldest()
    assert harness.open == 1
    assert harness.memory_pool.used == 0 and harness.partial_bytes == 0 and harness.timers.pending == 0
    assert harness.sasl.metrics.failed == 10_000
    client = None  # type: ignore[assignment]
    gc.collect()
    assert sum(1 for one in gc.get_objects() if type(one) is type(other)) == 1


def test_thousands_that_never_log_in_are_cut_off_in_time_and_leave_nothing_behind() -> None:
    harness = Harness()
    clients = [harness.connect() for _ in range(5_000)]
    for number, client in enumerate(clients):
        # Some say nothing, some begin a frame and leave it at that, some stop in the middle of a login.
        if number % 3 == 1:
            receive(client.connection, b"\0\0\1\0\0\x11")
        elif number % 3 == 2:
            client.shake_hands("SCRAM-SHA-256")
    other = harness.connect()
    other.log_in()
    harness.timers.advance(30_000)
    assert all(client.transport.is_aborted for client in clients)
    assert other.is_served
    for client in clients:
        client.lose()
    assert harness.open == 1
    assert harness.memory_pool.used == 0 and harness.partial_bytes == 0 and harness.timers.pending == 0


@each_seed(10)
def test_whatever_comes_before_the_login_ends_in_a_login_or_in_the_end_of_the_connection(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A conversation with bytes changed, left out, doubled: nobody is let in, and nothing breaks."""
    rng = random.Random(seed)
    harness = Harness()
    for _ in range(60):
        client = harness.connect()
        scram = ScramClient("SCRAM-SHA-256", "alice", "secret")
        mechanism = rng.choice(["PLAIN", "SCRAM-SHA-256"])
        token = b"\0alice\0wrong" if mechanism == "PLAIN" else scram.evaluate(b"") or b""
        version = rng.randrange(2)
        frames = [request(ApiVersionsRequest(), 0, 1)] if rng.random() < 0.7 else []
        frames.append(request(SaslHandshakeRequest(mechanism=mechanism), version, 2))
        if version:
            frames.append(request(SaslAuthenticateRequest(auth_bytes=token), rng.randrange(3), 3))
        else:
            frames.append(len(token).to_bytes(4) + token)
        frames.append(request(HeartbeatRequest(group_id="g", generation_id=1), 0, 4))
        data = bytearray(b"".join(frames))
        for _ in range(rng.randrange(6)):
            place = rng.randrange(len(data))
            if rng.random() < 0.5:
                data[place] = rng.randrange(256)
            elif rng.random() < 0.5:
                del data[place : place + rng.randrange(1, 9)]
            else:
                data[place:place] = data[place : place + rng.randrange(1, 9)]
        while data and not client.transport.is_closed:
            piece = rng.randrange(1, len(data) + 1)
            receive(client.connection, bytes(data[:piece]))
            del data[:piece]
            harness.loop.turn()
        assert client.peer.principal == ANONYMOUS
        harness.timers.advance(30_100)
        harness.loop.turn()
        assert client.transport.is_closed
        client.lose()
    assert "unforeseen" not in caplog.text
    assert harness.open == 0 and harness.memory_pool.used == 0 and harness.partial_bytes == 0
    assert harness.timers.pending == 0
