"""OAUTHBEARER: tokens that are good, and each that is not."""

from __future__ import annotations

import base64
import json
import random
import sys
from pathlib import Path
from typing import Any

import jwt
import pytest

from odradek.sasl.http import HttpError
from odradek.sasl.jwt import JwtValidator
from odradek.sasl.key_sources import FileKeys, UrlKeys, read_keys
from odradek.sasl.mechanisms import SaslError, SaslRefusal
from odradek.sasl.oauthbearer import (
    MAX_MESSAGE_BYTES,
    OAuthBearerClient,
    OAuthBearerServer,
    Token,
    TokenRefused,
)
from odradek.sasl.token_providers import ClientCredentials, UnsecuredTokens
from odradek.sasl.unsecured import UnsecuredValidator
from sasl.tokens import ISSUER, NOW_S, Provider, jwks, write_jwks
from seeds import each_seed

PROVIDER = Provider()
OTHER = Provider()  # of another key under the same id
ELLIPTIC = Provider("curve", "ES256")


class Keys:
    """Keys at hand."""

    def __init__(self, *providers: Provider) -> None:
        self.keys = read_keys(jwks(*providers))

    def find(self, key_id: str | None) -> list[Any]:
        return [one for one in self.keys if key_id in (None, one.key_id)]


def validator(**given: Any) -> JwtValidator:
    configs = {"issuer": ISSUER, "audiences": ["kafka", "other"], "now_s": lambda: NOW_S, "clock_skew_s": 30}
    return JwtValidator(given.pop("keys", Keys(PROVIDER, ELLIPTIC)), **{**configs, **given})


def exchange(server: OAuthBearerServer, client: OAuthBearerClient) -> None:
    challenge: bytes = b""
    while (response := client.evaluate(challenge)) is not None:
        challenge = server.evaluate(response)
        if client.is_complete and not challenge:
            return


@pytest.mark.parametrize("provider", [PROVIDER, ELLIPTIC], ids=lambda one: one.algorithm)
def test_a_good_token_lets_in(provider: Provider) -> None:
    server = OAuthBearerServer(validator())
    client = OAuthBearerClient(lambda: provider.token(), {"traceId": "123"})
    exchange(server, client)
    assert (server.user, server.expires_at_ms) == ("alice", (NOW_S + 600) * 1000)
    assert server.is_complete and client.is_complete


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["x", "other"]},
        {"exp": NOW_S - 29},
        {"iat": NOW_S + 30},
        {"nbf": NOW_S + 30},
        {"nbf": NOW_S - 5},
        {"scope": ["read"]},
        {"scope": None},
        {"exp": NOW_S + 0.5},
    ],
)
def test_these_are_good(claims: dict[str, Any]) -> None:
    assert validator()(PROVIDER.token(**claims)).user == "alice"


def test_names_of_claims_and_a_scope_that_is_asked_for() -> None:
    check = validator(sub_claim="client_id", scope_claim="scp", required_scope=["write"])
    assert check(PROVIDER.token(client_id="bob", scp=["read", "write"])) == Token(
        "bob", (NOW_S + 600) * 1000, ("read", "write")
    )
    with pytest.raises(TokenRefused, match="scope lacks write") as refused:
        check(PROVIDER.token(client_id="bob", scp="read"))
    assert (refused.value.status, refused.value.scope) == ("insufficient_scope", "write")


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": NOW_S - 30}, "has expired"),
        ({"exp": None}, "has no exp"),
        ({"exp": "soon"}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
        ({"exp": 1e300}, "exp is no time"),
        ({"iat": None}, "has no iat"),
        ({"iat": NOW_S + 31}, "not valid yet"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"iss": "https://elsewhere"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "x"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": ["x", "y"]}, "another audience"),
        ({"sub": None}, "names nobody"),
        ({"sub": " "}, "names nobody"),
    ],
)
def test_these_are_not(claims: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        validator()(PROVIDER.token(**claims))


def test_a_token_of_another_key() -> None:
    with pytest.raises(TokenRefused, match="the signature does not fit"):
        validator()(OTHER.token())
    with pytest.raises(TokenRefused, match="no key of the provider"):
        validator()(PROVIDER.token(headers={"kid": "unknown"}))


def test_a_token_that_names_no_key_is_tried_with_all() -> None:
    token = jwt.encode(
        jwt.decode(PROVIDER.token(), options={"verify_signature": False}), PROVIDER.key, "RS256"
    )
    assert validator()(token).user == "alice"


def test_nobody_signs_with_a_public_key_or_not_at_all() -> None:
    forged = jwt.encode({"sub": "admin", "exp": NOW_S + 9}, "x" * 64, "HS256", {"kid": "one"})
    none = jwt.encode({"sub": "admin", "exp": NOW_S + 9, "iat": NOW_S}, None, "none", {"kid": "one"})
    for token in (forged, none):
        with pytest.raises(TokenRefused, match="not one of a public key"):
            validator()(token)


def test_a_signature_is_not_another_ones() -> None:
    parts, others = PROVIDER.token().split("."), PROVIDER.token(sub="admin").split(".")
    with pytest.raises(TokenRefused, match="the signature does not fit"):
        validator()(f"{parts[0]}.{others[1]}.{parts[2]}")


@pytest.mark.parametrize("token", ["", "a", "a.b", "a.b.c", "..", "eyJ9.e30.", "x" * 100_000])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(TokenRefused):
        validator()(token)


@each_seed(10)
def test_whatever_a_token_is_it_is_good_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    check = validator()
    for _ in range(50):
        text = list(PROVIDER.token())
        for _ in range(rng.randrange(1, 4)):
            text[rng.randrange(len(text))] = rng.choice("abcXYZ019-_.=")
        cut = "".join(text)[: rng.choice([len(text), rng.randrange(len(text))])]
        try:
            assert check(cut).user == "alice"
        except TokenRefused as refused:
            assert len(cut) < 20 or cut not in str(refused)


def test_a_refused_client_learns_the_status_and_then_fails() -> None:
    server = OAuthBearerServer(validator())
    client = OAuthBearerClient(lambda: PROVIDER.token(exp=NOW_S - 600))
    challenge = server.evaluate(client.evaluate(b"") or b"")
    assert json.loads(challenge) == {"status": "invalid_token"}
    assert server.why == "the token has expired"
    with pytest.raises(SaslRefusal, match=r'{"status":"invalid_token"}'):
        server.evaluate(client.evaluate(challenge) or b"")
    assert not server.is_complete


def test_nobody_is_somebody_else() -> None:
    server = OAuthBearerServer(validator())
    with pytest.raises(SaslRefusal, match="that is different from the token's principal name"):
        server.evaluate(f"n,a=bob,\x01auth=Bearer {PROVIDER.token()}\x01\x01".encode())


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01auth=Bearer abc\x01auth=Bearer abc\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01" + b"a=b\x01" * 50_000,
    ],
)
def test_a_malformed_message_ends_the_exchange(message: bytes) -> None:
    with pytest.raises(SaslError, match="Invalid"):
        OAuthBearerServer(validator()).evaluate(message)


# ---------------------------------------------------------------------- keys


def test_keys_in_a_file_are_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    write_jwks(file, PROVIDER)
    keys = FileKeys(str(file))
    check = validator(keys=keys)
    check(PROVIDER.token())
    new = tmp_path / "new"
    write_jwks(new, ELLIPTIC)
    new.replace(file)
    check(ELLIPTIC.token())
    with pytest.raises(TokenRefused, match="no key"):
        check(PROVIDER.token())
    file.write_text("{}", encoding="utf-8")
    check(ELLIPTIC.token())  # the keys of before


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"keys":[]}', '{"keys":[{"kty":"oct","k":"AA"}]}', '{"keys":[{"kty":"RSA"}]}'],
)
def test_a_file_without_keys_is_refused_at_first(tmp_path: Path, content: str) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(SaslError):
        FileKeys(str(file))


class Endpoint:
    """Answers with keys, or not."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.now_s = 0.0

    def __call__(self, url: str, *, timeout_ms: float) -> Any:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def keys(self) -> UrlKeys:
        return UrlKeys("https://id/keys", fetch=self, monotonic_s=lambda: self.now_s)


def test_keys_at_an_address_are_kept_for_an_hour() -> None:
    endpoint = Endpoint(jwks(PROVIDER))
    keys = endpoint.keys()
    for _ in range(5):
        assert len(keys.find("one")) == 1
    assert endpoint.asked == 1
    endpoint.now_s = 3_600
    keys.find("one")
    assert endpoint.asked == 2


def test_unknown_keys_have_the_provider_asked_now_and_then_only() -> None:
    endpoint = Endpoint(jwks(PROVIDER), jwks(PROVIDER), jwks(PROVIDER, ELLIPTIC))
    keys = endpoint.keys()
    for number in range(1000):
        assert keys.find(f"unknown-{number}") == []
    assert endpoint.asked == 1
    endpoint.now_s = 10
    keys.find("unknown")
    endpoint.now_s = 20
    assert len(keys.find("curve")) == 1  # a new key, found as soon as may be
    assert endpoint.asked == 3


def test_a_provider_that_is_down_is_asked_less_and_less_and_its_keys_used_on() -> None:
    endpoint = Endpoint(jwks(PROVIDER), HttpError("down"))
    keys = endpoint.keys()
    keys.find("one")
    endpoint.now_s = 3_600
    for _ in range(1000):
        endpoint.now_s += 0.01
        assert len(keys.find("one")) == 1
    assert endpoint.asked < 12


# ---------------------------------------------------------------------- where tokens are from


def test_client_credentials_are_asked_for_when_the_last_token_is_nearly_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def fetch(url: str, *, body: bytes, headers: dict[str, str], timeout_ms: float) -> Any:
        asked.append((url, body, headers["Authorization"]))
        return {"access_token": f"token-{len(asked)}", "expires_in": 100}

    monkeypatch.setattr("odradek.sasl.token_providers.fetch_json", fetch)
    now_s = [0.0]
    tokens = ClientCredentials("https://id/token", "me", "secret", "read", now_s=lambda: now_s[0])
    assert [tokens(), tokens()] == ["token-1", "token-1"]
    now_s[0] = 80
    assert tokens() == "token-2"
    basic = base64.b64encode(b"me:secret").decode()
    assert asked[0] == ("https://id/token", b"grant_type=client_credentials&scope=read", f"Basic {basic}")


@pytest.mark.parametrize("answer", [{}, [], None, {"access_token": ""}, {"access_token": 5}])
def test_an_answer_without_a_token(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr("odradek.sasl.token_providers.fetch_json", lambda *args, **more: answer)
    with pytest.raises(SaslError, match="no access token"):
        ClientCredentials("https://id/token", "me", "secret")()


def test_unsecured_tokens_are_what_kafka_makes_and_takes() -> None:
    tokens = UnsecuredTokens(
        {"unsecuredLoginStringClaim_sub": "bob", "unsecuredLoginListClaim_scope": "|a|b"}, lambda: NOW_S
    )
    token = tokens()
    check = UnsecuredValidator({}, lambda: NOW_S)
    assert check(token) == Token("bob", (NOW_S + 3600) * 1000, ("a", "b"))
    with pytest.raises(TokenRefused, match="has expired"):
        UnsecuredValidator({}, lambda: NOW_S + 3600)(token)
    with pytest.raises(TokenRefused, match="not valid yet"):
        UnsecuredValidator({}, lambda: NOW_S - 1)(token)
    assert UnsecuredValidator({"unsecuredValidatorAllowableClockSkewMs": "1000"}, lambda: NOW_S - 1)(token)
    with pytest.raises(TokenRefused, match="scope lacks c"):
        UnsecuredValidator({"unsecuredValidatorRequiredScope": "a c"}, lambda: NOW_S)(token)


@pytest.mark.parametrize(
    "token", [PROVIDER.token(), "a.b.", "e30.e30.", "W10.e30.", ".", "x" * 70_000, "[" * 3000 + "..", ""]
)
def test_signed_and_broken_tokens_are_not_taken_as_unsecured(token: str) -> None:
    with pytest.raises(TokenRefused):
        UnsecuredValidator({}, lambda: NOW_S)(token)


def test_keys_in_a_file_without_pyjwt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": []}), encoding="utf-8")
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(SaslError, match=r"OAUTHBEARER needs PyJWT: .* -m pip install 'pyjwt\[crypto\]>="):
        FileKeys(str(file))


@pytest.mark.parametrize("message", ["n,a={},\x01auth=Bearer t\x01\x01", "n,,\x01auth=Bearer {}\x01\x01"])
def test_a_message_is_as_long_as_may_be(message: str) -> None:
    """Whichever part of it is long: beyond the bound nothing of it is looked at."""
    shown: list[str] = []

    def validate(token: str) -> Token:
        shown.append(token)
        raise TokenRefused("no such token")

    for size, looked_at in ((MAX_MESSAGE_BYTES, 1), (MAX_MESSAGE_BYTES + 1, 0), (524_000, 0)):
        sent = message.format("a" * (size - len(message) + 2)).encode()
        assert len(sent) == size
        shown.clear()
        server = OAuthBearerServer(validate)
        if looked_at:
            assert b"invalid_token" in server.evaluate(sent)
        else:
            with pytest.raises(SaslError, match="more than"):
                server.evaluate(sent)
        assert len(shown) == looked_at
