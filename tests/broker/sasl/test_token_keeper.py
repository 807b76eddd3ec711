"""Delegation tokens in the metadata store: made, renewed, ended, and followed from broker to broker."""

from __future__ import annotations

import base64
import hmac
import json

import pytest

from odradek.broker.sasl.token_keeper import TokenKeeper
from odradek.cluster.access import delegation_tokens as tokens
from odradek.cluster.nodes import NodeFormatError
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.errors import (
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
)
from odradek.util.clock import ManualClock

DAY_MS = 86_400_000


class AtOnce:
    """Work is done when it is posted."""

    def post(self, work) -> None:
        work()


class Access:
    """A broker's way to the store."""

    def __init__(self, server: MemoryServer) -> None:
        self.store = MemoryStore(server)
        self.event_queue = AtOnce()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


def keeper(server: MemoryServer, clock: ManualClock, key: str = "master") -> TokenKeeper:
    made = TokenKeeper(key, Access(server), clock, expiry_ms=DAY_MS, max_lifetime_ms=7 * DAY_MS)
    made.load()
    return made


def test_a_token_lies_in_the_store_as_kafka_has_it(server: MemoryServer, clock: ManualClock) -> None:
    token, secret = keeper(server, clock).create("User:a b", "User:admin", ["User:c"], -1)
    data, _ = MemoryStore(server).get(f"/delegation_token/tokens/{token.token_id}")
    now_ms = clock.now_ms()
    assert json.loads(data or b"") == {
        "version": 3,
        "owner": "User%3Aa%20b",
        "tokenRequester": "User%3Aadmin",
        "renewers": ["User%3Ac"],
        "issueTimestamp": now_ms,
        "maxTimestamp": now_ms + 7 * DAY_MS,
        "expiryTimestamp": now_ms + DAY_MS,
        "tokenId": token.token_id,
    }
    assert len(base64.urlsafe_b64decode(token.token_id + "==")) == 16
    assert len(secret) == 64 and secret == tokens.secret_of(token.token_id, "master")
    (notice,) = MemoryStore(server).children("/delegation_token/token_changes")
    assert notice == "token_change_0000000000"
    assert MemoryStore(server).get(f"/delegation_token/token_changes/{notice}")[0] == token.token_id.encode()


@pytest.mark.parametrize("renewer", ["User:", "User::", ":", "User:a:b", "User:ä b%"])
def test_a_renewer_of_whatever_name(renewer: str, server: MemoryServer, clock: ManualClock) -> None:
    """Kafka takes any, as it reads any that has a colon: the token is not lost to those who read it."""
    one, other = keeper(server, clock), keeper(server, clock)
    token, secret = one.create("User:a", "User:a", [renewer], -1)
    for each in (one, other, keeper(server, clock)):
        assert each.all() == [(token, secret)]
        assert each.renew(renewer, secret, -1) == token.expires_ms


def test_others_see_it_at_once_and_after_a_restart(server: MemoryServer, clock: ManualClock) -> None:
    one, other = keeper(server, clock), keeper(server, clock)
    token, secret = one.create("User:a", "User:a", [], -1)
    for each in (one, other, keeper(server, clock)):
        known = each.find(token.token_id, "SCRAM-SHA-256")
        assert known is not None and (known.user, known.expires_at_ms) == ("a", token.expires_ms)
    other.expire("User:a", secret, -1)
    for each in (one, other, keeper(server, clock)):
        assert each.find(token.token_id, "SCRAM-SHA-256") is None


def test_another_key_gives_another_secret(server: MemoryServer, clock: ManualClock) -> None:
    token, secret = keeper(server, clock).create("User:a", "User:a", [], -1)
    ((_, other),) = keeper(server, clock, "other").all()
    assert other != secret == tokens.secret_of(token.token_id, "master")


@pytest.mark.parametrize(
    ("wanted_ms", "life_ms"), [(-1, 7 * DAY_MS), (0, 7 * DAY_MS), (1000, 1000), (10**15, 7 * DAY_MS)]
)
def test_the_longest_life(server: MemoryServer, clock: ManualClock, wanted_ms: int, life_ms: int) -> None:
    token, _ = keeper(server, clock).create("User:a", "User:a", [], wanted_ms)
    assert token.max_ms - token.issued_ms == life_ms
    assert token.expires_ms - token.issued_ms == min(life_ms, DAY_MS)


def test_renewing(server: MemoryServer, clock: ManualClock) -> None:
    each = keeper(server, clock)
    token, secret = each.create("User:a", "User:b", ["User:c"], -1)
    clock.advance(DAY_MS // 2)
    assert each.renew("User:c", secret, -1) == clock.now_ms() + DAY_MS
    assert each.renew("User:a", secret, 5) == clock.now_ms() + 5
    assert each.renew("User:a", secret, 10**15) == token.max_ms
    with pytest.raises(DelegationTokenOwnerMismatchError):
        each.renew("User:b", secret, -1)
    with pytest.raises(DelegationTokenNotFoundError):
        each.renew("User:a", secret[:-1], -1)
    each.renew("User:a", secret, 5)
    clock.advance(6)
    with pytest.raises(DelegationTokenExpiredError):
        each.renew("User:a", secret, -1)
    assert each.find(token.token_id, "SCRAM-SHA-512") is None


def test_expiring(server: MemoryServer, clock: ManualClock) -> None:
    each = keeper(server, clock)
    token, secret = each.create("User:a", "User:a", [], -1)
    assert each.expire("User:a", secret, 1000) == clock.now_ms() + 1000
    with pytest.raises(DelegationTokenOwnerMismatchError):
        each.expire("User:b", secret, -1)
    assert each.expire("User:a", secret, -1) == clock.now_ms()
    assert MemoryStore(server).children("/delegation_token/tokens") == []
    with pytest.raises(DelegationTokenNotFoundError):
        each.expire("User:a", secret, -1)
    assert each.find(token.token_id, "SCRAM-SHA-256") is None


def test_what_has_expired_is_removed(server: MemoryServer, clock: ManualClock) -> None:
    each = keeper(server, clock)
    each.create("User:a", "User:a", [], 1000)
    kept, _ = each.create("User:a", "User:a", [], -1)
    clock.advance(1001)
    each.remove_expired()
    assert [token.token_id for token, _ in each.all()] == [kept.token_id]
    assert MemoryStore(server).children("/delegation_token/tokens") == [kept.token_id]


def test_old_notices_are_removed(server: MemoryServer, clock: ManualClock) -> None:
    server_clock_ms = MemoryStore(server)
    each = keeper(server, clock)
    each.create("User:a", "User:a", [], -1)
    (stat,) = [
        server_clock_ms.get(f"{tokens.CHANGES}/{name}")[1]
        for name in server_clock_ms.children(tokens.CHANGES)
    ]
    clock.advance(stat.ctime - clock.now_ms() + tokens.CHANGE_EXPIRY_MS + 1)
    each.create("User:a", "User:a", [], -1)
    assert len(server_clock_ms.children(tokens.CHANGES)) <= 1


def test_tokens_of_older_kafkas_are_read_and_broken_ones_passed_over(
    server: MemoryServer, clock: ManualClock
) -> None:
    store = MemoryStore(server)
    tokens.create_token_paths(store)
    old = {
        "version": 1,
        "owner": "User%3Aa",
        "renewers": [],
        "issueTimestamp": 1,
        "maxTimestamp": 2**50,
        "expiryTimestamp": 2**50,
        "tokenId": "old",
    }
    store.create(tokens.token_path("old"), json.dumps(old).encode())
    for number, data in enumerate([b"", b"x", b"{}", b'{"version":4}', b'{"version":1,"owner":"x"}']):
        store.create(tokens.token_path(f"broken-{number}"), data)
    ((token, _),) = keeper(server, clock).all()
    assert (token.owner, token.requester) == ("User:a", "User:a")
    with pytest.raises(NodeFormatError):
        tokens.decode_token("/x", b'{"version":9}')


def test_a_token_that_cannot_be_read_keeps_no_other_back(server: MemoryServer, clock: ManualClock) -> None:
    one, other = keeper(server, clock), keeper(server, clock)
    broken, _ = one.create("User:a", "User:a", [], -1)
    store = MemoryStore(server)
    store.set(tokens.token_path(broken.token_id), b"nonsense")
    store.create(f"{tokens.CHANGES}/token_change_", broken.token_id.encode(), sequence=True)
    token, _ = one.create("User:b", "User:b", [], -1)
    assert other.find(token.token_id, "SCRAM-SHA-256") is not None
    assert other.find(broken.token_id, "SCRAM-SHA-256") is None


def test_the_secrets_of_all_tokens_are_compared_in_constant_time(
    server: MemoryServer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = keeper(server, clock)
    for owner in ("User:alice", "User:bob"):
        made.create(owner, owner, [], -1)
    compared: list[bytes] = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(bytes(a)) or real(a, b))
    with pytest.raises(DelegationTokenNotFoundError):
        made.renew("User:alice", bytes(64), -1)
    assert sorted(compared) == sorted(secret for _, secret in made.all())
