"""Another login on the same connection, and how long a login lasts (KIP-368)."""

from __future__ import annotations

import pytest

from odradek.errors import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest

from .logins import HOUR_MS, Harness


def test_a_login_lasts_as_long_as_the_config_says() -> None:
    harness = Harness(reauth_ms={"PLAIN": 60_000})
    client = harness.connect()
    assert client.log_in().session_lifetime_ms == 60_000
    harness.timers.advance(59_999)
    assert client.is_served
    harness.timers.advance(1)
    assert not client.is_served and client.transport.is_closed
    assert harness.sasl.metrics.expired == 1


@pytest.mark.parametrize(
    ("reauth_ms", "lifetime_ms"), [(0, HOUR_MS), (60_000, 60_000), (2 * HOUR_MS, HOUR_MS)]
)
def test_a_login_lasts_no_longer_than_what_was_shown(reauth_ms: int, lifetime_ms: int) -> None:
    client = Harness(reauth_ms={"LASTING": reauth_ms}).connect()
    assert client.log_in("LASTING", b"alice").session_lifetime_ms == lifetime_ms


def test_an_old_client_is_not_told_and_is_cut_off_all_the_same() -> None:
    harness = Harness(reauth_ms={"PLAIN": 60_000})
    client = harness.connect()
    client.shake_hands()
    assert client.authenticate(b"\0alice\0secret", 0).session_lifetime_ms == 0
    harness.timers.advance(60_000)
    assert not client.is_served


@pytest.mark.parametrize("when_ms", [30_000, 61_000])
def test_another_login_in_time_or_just_after_prolongs(when_ms: int) -> None:
    harness = Harness(reauth_ms={"PLAIN": 60_000})
    client = harness.connect()
    client.log_in()
    for _ in range(5):
        harness.timers.advance(when_ms)
        assert client.log_in().session_lifetime_ms == 60_000
        assert client.is_served
    assert harness.sasl.metrics.successful_again == 5


def test_another_login_must_be_of_the_same_user() -> None:
    harness = Harness(reauth_ms={"PLAIN": 60_000})
    client = harness.connect()
    client.log_in()
    client.shake_hands()
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0bob\0other"), 2)
    harness.timers.advance(100)
    (refused,) = client.answers(ApiKey.SASL_AUTHENTICATE, 2)
    assert refused.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert client.transport.is_closed and client.peer.principal == "User:alice"


def test_another_login_must_be_by_the_same_mechanism() -> None:
    harness = Harness(reauth_ms={"PLAIN": 60_000, "LASTING": 60_000})
    client = harness.connect()
    client.log_in()
    assert client.shake_hands("LASTING").error_code == 0
    client.send(SaslAuthenticateRequest(auth_bytes=b"alice"), 2)
    harness.timers.advance(100)
    (refused,) = client.answers(ApiKey.SASL_AUTHENTICATE, 2)
    assert "is not supported for re-authentication of mechanism 'PLAIN'" in refused.error_message
    assert client.transport.is_closed


def test_nothing_else_is_taken_during_another_login() -> None:
    client = Harness(reauth_ms={"PLAIN": 60_000}).connect()
    client.log_in()
    client.shake_hands()
    assert not client.is_served and client.transport.is_closed


def test_another_login_is_refused_where_the_first_one_does_not_end() -> None:
    client = Harness().connect()
    client.log_in()
    assert client.shake_hands().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.is_served


def test_logins_are_a_second_apart() -> None:
    harness = Harness(reauth_ms={"PLAIN": 60_000})
    client = harness.connect()
    client.log_in()
    client.log_in()
    assert client.shake_hands().error_code == ErrorCode.ILLEGAL_SASL_STATE
    harness.timers.advance(1000)
    assert client.log_in().error_code == 0


def test_another_login_by_an_unknown_mechanism_ends_the_connection() -> None:
    client = Harness(reauth_ms={"PLAIN": 60_000}).connect()
    client.log_in()
    assert client.shake_hands("NOTHING").error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert client.transport.is_closed
