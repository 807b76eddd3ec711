"""Assertions in place of a client's secret: how they are made, and how a provider is asked with them."""

from __future__ import annotations

import json
import pickle
import urllib.parse
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from odradek.sasl.assertions import PREFIX, FileAssertion, SignedAssertion, assertion_of
from odradek.sasl.mechanisms import LoginError, SaslError
from odradek.sasl.token_providers import oauth_login_of

NOW_S = 1_700_000_000
URL = "https://id/token"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"


def write_key(path: Path, key: Any, passphrase: str | None = None) -> str:
    encryption: Any = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase.encode())
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
    return str(path)


def read(token: str, key: Any, algorithm: str) -> tuple[dict[str, Any], dict[str, Any]]:
    options = {"verify_exp": False, "verify_aud": False, "verify_nbf": False, "verify_iat": False}
    claims = jwt.decode(token, key.public_key(), algorithms=[algorithm], options=options)  # type: ignore[arg-type]
    return jwt.get_unverified_header(token), claims


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (CURVE, "ES256")])
def test_a_signed_assertion(tmp_path: Path, key: Any, algorithm: str) -> None:
    path = write_key(tmp_path / "key.pem", key, "pass phrase")
    make = SignedAssertion(
        path,
        passphrase="pass phrase",
        algorithm=algorithm,
        header={"kid": "one"},
        claims={"iss": "me", "iat": 1},
        exp_s=300,
        nbf_s=60,
        now_s=lambda: NOW_S + 0.9,
    )
    header, claims = read(make(), key, algorithm)
    assert header == {"alg": algorithm, "typ": "JWT", "kid": "one"}
    assert claims == {"iss": "me", "iat": NOW_S, "exp": NOW_S + 300, "nbf": NOW_S - 60}


def test_claims_of_configs_of_a_template_and_of_the_moment(tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    template.write_text(
        json.dumps({"header": {"kid": "one"}, "payload": {"sub": "a", "aud": ["x"], "own": 1, "exp": 5}}),
        encoding="utf-8",
    )
    make = assertion_of(
        {
            f"{PREFIX}private.key.file": write_key(tmp_path / "key.pem", RSA),
            f"{PREFIX}template.file": str(template),
            f"{PREFIX}algorithm": "rs256",
            f"{PREFIX}claim.sub": "b",
            f"{PREFIX}claim.iss": "me",
            f"{PREFIX}claim.exp.seconds": "600",
            f"{PREFIX}claim.jti.include": "true",
        }
    )
    header, claims = read(make(), RSA, "RS256")
    assert header["kid"] == "one"
    assert claims["exp"] - claims["iat"] == 600 and claims["iat"] - claims["nbf"] == 60
    assert {name: claims[name] for name in ("sub", "aud", "own", "iss")} == {
        "sub": "a",
        "aud": ["x"],
        "own": 1,
        "iss": "me",
    }
    assert claims["jti"] != read(make(), RSA, "RS256")[1]["jti"]


def test_an_assertion_of_a_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "assertion.jwt"
    make = assertion_of({f"{PREFIX}file": str(path), f"{PREFIX}private.key.file": "/nowhere"})
    with pytest.raises(SaslError, match=r"assertion\.file: .* cannot be read"):
        make()
    for text in ("a.b.c", "d.e.f"):
        path.write_text(f"{text}\n", encoding="utf-8")
        assert make() == text


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({}, r"need sasl\.oauthbearer\.assertion\.private\.key\.file"),
        ({"private.key.file": "k", "algorithm": "none"}, "is not one of RS256, ES256"),
        ({"private.key.file": "k", "algorithm": "HS256"}, "is not one of RS256, ES256"),
        ({"private.key.file": "k", "claim.exp.seconds": "-1"}, "is no number of seconds"),
        ({"private.key.file": "k", "claim.nbf.seconds": "3601"}, "is no number of seconds from 0 to 3600"),
        ({"private.key.file": "k", "template.file": "/nowhere"}, "cannot be read"),
    ],
)
def test_configs_that_cannot_be(configs: dict[str, str], why: str) -> None:
    with pytest.raises(LoginError, match=why):
        assertion_of({PREFIX + name: value for name, value in configs.items()})


@pytest.mark.parametrize("text", ["", "[]", '{"payload": []}', "{"])
def test_a_template_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "template.json").write_text(text, encoding="utf-8")
    with pytest.raises(LoginError, match=r"assertion\.template\.file"):
        assertion_of(
            {f"{PREFIX}private.key.file": "k", f"{PREFIX}template.file": str(tmp_path / "template.json")}
        )


def test_a_key_that_cannot_sign_is_told_without_showing_anything(tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("secret nonsense", encoding="utf-8")
    locked = write_key(tmp_path / "locked.pem", RSA, "right")
    cases = [
        SignedAssertion(str(nonsense)),
        SignedAssertion(locked, passphrase="wrong"),
        SignedAssertion(locked),
        SignedAssertion(write_key(tmp_path / "curve.pem", CURVE), algorithm="RS256"),
    ]
    for make in cases:
        with pytest.raises(SaslError, match="cannot sign by RS256") as raised:
            make()
        assert "secret" not in str(raised.value) and "wrong" not in str(raised.value)


class Provider:
    """Takes the place of `fetch_json`."""

    def __init__(self) -> None:
        self.asked: list[tuple[dict[str, str], dict[str, str]]] = []

    def __call__(self, url: str, *, body: bytes, headers: dict[str, str], timeout_ms: float) -> Any:
        assert url == URL
        self.asked.append((dict(urllib.parse.parse_qsl(body.decode())), headers))
        return {"access_token": f"token-{len(self.asked)}", "expires_in": 100}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    provider = Provider()
    monkeypatch.setattr("odradek.sasl.token_providers.fetch_json", provider)
    return provider


def test_the_jwt_bearer_grant(tmp_path: Path, provider: Provider) -> None:
    configs = {
        ENDPOINT: URL,
        RETRIEVER: "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever",
        "sasl.oauthbearer.scope": "kafka",
        f"{PREFIX}private.key.file": write_key(tmp_path / "key.pem", RSA),
        f"{PREFIX}claim.sub": "me",
    }
    login = oauth_login_of({}, configs)
    assert login.token() == "token-1"
    assert login.token() == "token-1"
    ((form, headers),) = provider.asked
    assert read(form.pop("assertion"), RSA, "RS256")[1]["sub"] == "me"
    assert form == {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "scope": "kafka"}
    assert "Authorization" not in headers
    # Spark hands it to other processes.
    assert pickle.loads(pickle.dumps(login)).token() == "token-1"


@pytest.mark.parametrize("retriever", [None, "ClientCredentialsJwtRetriever", "a.b.DefaultJwtRetriever"])
def test_a_client_assertion_goes_before_a_secret(
    tmp_path: Path, provider: Provider, retriever: str | None
) -> None:
    (tmp_path / "assertion.jwt").write_text("a.b.c", encoding="utf-8")
    configs = {
        ENDPOINT: URL,
        RETRIEVER: retriever,
        "sasl.oauthbearer.client.credentials.client.id": "me",
        "sasl.oauthbearer.client.credentials.client.secret": "secret",
        f"{PREFIX}file": str(tmp_path / "assertion.jwt"),
    }
    oauth_login_of({}, configs).token()
    ((form, headers),) = provider.asked
    assert form == {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": "a.b.c",
        "client_id": "me",
    }
    assert "Authorization" not in headers
    assert isinstance(assertion_of(configs), FileAssertion)


def test_ids_and_secrets_are_percent_encoded_where_that_is_asked_for(provider: Provider) -> None:
    configs = {ENDPOINT: URL, "sasl.oauthbearer.header.urlencode": "true"}
    oauth_login_of({"clientId": "a:b", "clientSecret": "c d"}, configs).token()
    # base64 of a%3Ab:c+d
    assert provider.asked[0][1]["Authorization"] == "Basic YSUzQWI6Yytk"


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({RETRIEVER: "com.example.Mine"}, r"Mine is not one of .*; give sasl_oauth_token_provider"),
        ({RETRIEVER: "x.JwtBearerJwtRetriever"}, r"assertion\.private\.key\.file"),
        ({RETRIEVER: "x.ClientCredentialsJwtRetriever"}, "needs a client id and secret"),
    ],
)
def test_what_is_missing_is_told(configs: dict[str, str], why: str) -> None:
    with pytest.raises(LoginError, match=why):
        oauth_login_of({}, {ENDPOINT: URL, **configs})


def test_a_file_of_tokens_by_its_retriever(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a.b.c\n", encoding="utf-8")
    configs = {ENDPOINT: (tmp_path / "token").as_uri(), RETRIEVER: "x.FileJwtRetriever"}
    assert oauth_login_of({}, configs).token() == "a.b.c"
