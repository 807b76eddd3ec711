"""What Java's client asks an identity provider with an assertion, ours asks, too, by the same configs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from interop import kafka_peer
from interop.test_sasl import OAUTH, broker, token, write_properties
from odradek import Admin
from odradek.testing import Broker
from sasl.identity_provider import IdentityHandler, serve
from sasl.test_assertions import write_key

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]

__all__ = ["broker"]

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
ASSERTION = "sasl.oauthbearer.assertion"
FORMS: list[dict[str, str]] = []


class Identity(IdentityHandler):
    """An identity provider that takes whoever comes, and notes what it was asked."""

    def post(self) -> None:
        FORMS.append(self.form())
        FORMS[-1]["Authorization"] = str(self.headers["Authorization"])
        self.answer({"access_token": token(), "expires_in": 600})


@pytest.fixture
def identity() -> Iterator[str]:
    with serve(Identity) as address:
        yield f"{address}/token"


def shape(form: dict[str, str]) -> dict[str, Any]:
    """A form with its assertion taken apart; of times how far they are from `iat`."""
    found: dict[str, Any] = dict(form)
    for name in ("assertion", "client_assertion"):
        if name in found:
            text = found[name]
            claims = jwt.decode(text, KEY.public_key(), ["RS256"], options={"verify_aud": False})
            begun = claims.pop("iat")
            claims |= {one: claims[one] - begun for one in ("exp", "nbf")}
            claims["jti"] = bool(claims.get("jti"))
            found[name] = jwt.get_unverified_header(text), claims
    return found


@pytest.mark.parametrize("retriever", ["JwtBearerJwtRetriever", "ClientCredentialsJwtRetriever"])
def test_the_same_is_asked(retriever: str, broker: Broker, identity: str, tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    template.write_text(
        json.dumps({"header": {"kid": "one"}, "payload": {"sub": "template", "own": "x"}}), encoding="utf-8"
    )
    configs = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{OAUTH};",
        "sasl.oauthbearer.token.endpoint.url": identity,
        "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.{retriever}",
        "sasl.oauthbearer.scope": "kafka",
        f"{ASSERTION}.private.key.file": write_key(tmp_path / "key.pem", KEY),
        f"{ASSERTION}.template.file": str(template),
        f"{ASSERTION}.claim.iss": "me",
        f"{ASSERTION}.claim.sub": "config",
        f"{ASSERTION}.claim.aud": "identity",
        f"{ASSERTION}.claim.exp.seconds": "600",
        f"{ASSERTION}.claim.jti.include": "true",
    }
    FORMS.clear()
    with Admin({**configs, "bootstrap.servers": broker.bootstrap_servers}) as admin:
        admin.list_topics()
    (ours,) = FORMS
    FORMS.clear()
    of_java = {**configs, "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler"}
    if retriever == "ClientCredentialsJwtRetriever":
        of_java["sasl.oauthbearer.client.credentials.client.id"] = ""
    file = write_properties(tmp_path / "client.properties", of_java)
    words = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", file, "--list")
    command = kafka_peer.tool_command(kafka_peer.NEWEST, "topics", *words)
    allowed = [
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={identity}",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={tmp_path / 'key.pem'},{template}",
    ]
    done = subprocess.run(
        [command[0], *allowed, *command[1:]], capture_output=True, text=True, timeout=kafka_peer.TOOL_LIMIT_S
    )
    assert done.returncode == 0, f"{done.stdout[-1000:]}{done.stderr[-3000:]}"
    assert shape(FORMS[0]) == shape(ours)
