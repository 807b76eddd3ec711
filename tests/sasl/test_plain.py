"""PLAIN: what is let in, and what each wrong message gets."""

from __future__ import annotations

import pytest

from odradek.sasl.mechanisms import SaslError, SaslRefusal
from odradek.sasl.plain import PlainClient, PlainServer

USERS = {"alice": "s3cret", "bob": "päss wörd"}


@pytest.mark.parametrize("name", USERS)
def test_a_known_user_is_let_in(name: str) -> None:
    server, client = PlainServer(USERS), PlainClient(name, USERS[name])
    assert server.evaluate(client.evaluate(b"") or b"") == b""
    assert (server.is_complete, server.user, client.is_complete) == (True, name, True)
    assert client.evaluate(b"") is None


@pytest.mark.parametrize(
    "message", [b"\0alice\0wrong", b"\0carol\0s3cret", b"\0alice\0s3cret ", b"\0bob\0\xff\xfe"]
)
def test_a_wrong_password_and_an_unknown_user_are_told_the_same(message: bytes) -> None:
    server = PlainServer(USERS)
    with pytest.raises(SaslRefusal, match=r"^Authentication failed: Invalid username or password$"):
        server.evaluate(message)
    assert not server.is_complete


def test_nobody_is_somebody_else() -> None:
    with pytest.raises(SaslRefusal, match="authorization id that is different from username"):
        PlainServer(USERS).evaluate(b"bob\0alice\0s3cret")
    server = PlainServer(USERS)
    server.evaluate(b"alice\0alice\0s3cret")
    assert server.user == "alice"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"alice",
        b"alice\0s3cret",
        b"\0alice\0s3cret\0",
        b"\0\0s3cret",
        b"\0alice\0",
        b"\0\xff\0s3cret",
        b"\0" * 1000,
    ],
)
def test_a_malformed_message_ends_the_exchange(message: bytes) -> None:
    server = PlainServer(USERS)
    with pytest.raises(SaslError) as raised:
        server.evaluate(message)
    assert not isinstance(raised.value, SaslRefusal)
    assert "s3cret" not in str(raised.value)
    assert not server.is_complete


def test_nothing_comes_behind_the_end() -> None:
    server = PlainServer(USERS)
    server.evaluate(b"\0alice\0s3cret")
    with pytest.raises(SaslError, match="behind the end"):
        server.evaluate(b"\0bob\0x")
