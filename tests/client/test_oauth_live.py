"""Access tokens of our clients against a broker that checks them with keys from a file or an address."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from odradek import Admin, Consumer, Producer
from odradek.client.errors import ConfigError, SaslAuthenticationError
from odradek.spark.options import parse_source
from odradek.testing import Broker, Security
from sasl.identity_provider import IdentityHandler, serve
from sasl.test_assertions import write_key
from sasl.tokens import ISSUER, Provider, jwks, write_jwks
from waiting import joined

PROVIDER, OTHER = Provider(), Provider()
CLIENT = rsa.generate_private_key(public_exponent=65537, key_size=2048)
"""Of a client that shows assertions instead of a secret."""
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
LISTENER = "listener.name.sasl_plaintext.oauthbearer"


def token(provider: Provider = PROVIDER, **claims: Any) -> str:
    now_s = time.time()
    return provider.token(**{"iat": now_s - 5, "exp": now_s + 600, **claims})


def security(url: str, **configs: str) -> Security:
    return Security(
        users={"alice": "unused"},
        mechanisms=("OAUTHBEARER",),
        configs={
            f"{LISTENER}.sasl.jaas.config": f"{MODULE};",
            "sasl.oauthbearer.jwks.endpoint.url": url,
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "connection.failed.authentication.delay.ms": "1",
            **configs,
        },
    )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    url = write_jwks(tmp_path_factory.mktemp("keys") / "jwks.json", PROVIDER)
    with Broker(security=security(url)) as running:
        yield running


def client(broker: Broker, **configs: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        **configs,
    }


def principals(broker: Broker) -> set[str]:
    return broker.call(lambda one: {c.peer.principal for c in one.listeners[0].connections})


def test_our_clients_show_tokens_of_a_function(broker: Broker) -> None:
    configs = client(broker, sasl_oauth_token_provider=partial(token, sub="bob"))
    with Producer(configs) as producer:
        producer.send("ours", value=b"hello").result(60)
        assert "User:bob" in principals(broker)
    with Consumer(configs, "ours", group_id="ours", auto_offset_reset="earliest") as consumer:
        assert next(iter(consumer)).value == b"hello"


def test_our_clients_show_tokens_from_a_file(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "token"
    configs = client(broker, **{"sasl.oauthbearer.token.endpoint.url": file.as_uri()})
    with pytest.raises(SaslAuthenticationError, match="cannot be read"), Admin(configs) as admin:
        admin.list_topics()
    file.write_text(token() + "\n", encoding="utf-8")
    with Admin(configs) as admin:
        admin.list_topics()


@pytest.mark.parametrize(
    "made",
    [
        partial(token, OTHER),
        partial(token, exp=1),
        partial(token, nbf=2**33),
        partial(token, iss="elsewhere"),
        partial(token, aud="others"),
        lambda: token()[:-9],
        lambda: "not.a.token",
    ],
    ids=["key", "expired", "not yet", "issuer", "audience", "truncated", "nonsense"],
)
def test_tokens_that_are_not_good(broker: Broker, made: Any) -> None:
    with (
        pytest.raises(SaslAuthenticationError, match=r'{"status":"invalid_token"}'),
        Admin(client(broker, sasl_oauth_token_provider=made)) as admin,
    ):
        admin.list_topics()


def test_a_provider_that_fails(broker: Broker) -> None:
    def fail() -> str:
        raise RuntimeError("no network")

    with (
        pytest.raises(SaslAuthenticationError, match="no access token: RuntimeError: no network"),
        Admin(client(broker, sasl_oauth_token_provider=fail)) as admin,
    ):
        admin.list_topics()


def test_a_client_without_tokens(broker: Broker) -> None:
    with pytest.raises(ConfigError, match="needs tokens"):
        Admin(client(broker))


def test_the_connection_lasts_as_long_as_the_token(broker: Broker) -> None:
    with Admin(client(broker, sasl_oauth_token_provider=token)) as admin:
        admin.list_topics()
        lives = broker.call(
            lambda one: [
                c.peer.sasl.login.lifetime_ms for c in one.listeners[0].connections if c.peer.sasl.login
            ]
        )
    assert any(500_000 < life < 600_001 for life in lives)


class Identity(IdentityHandler):
    """An identity provider."""

    def get(self) -> None:
        self.answer(jwks(PROVIDER))

    def post(self) -> None:
        asked = self.form()
        assertion = asked.get("assertion") or asked.get("client_assertion")
        if assertion is not None:
            claims = jwt.decode(assertion, CLIENT.public_key(), ["RS256"], audience="identity")
            is_known = claims["sub"] == "me"
        else:
            is_known = self.headers["Authorization"] == "Basic bWU6czNjcmV0"
        if not is_known:
            self.send_error(401)
            return
        self.answer({"access_token": token(sub="service", scope="kafka"), "expires_in": 600})


@pytest.fixture
def identity() -> Iterator[str]:
    with serve(Identity) as address:
        yield address


def test_keys_and_tokens_of_an_identity_provider(identity: str) -> None:
    with Broker(security=security(f"{identity}/keys")) as broker:
        configs = client(
            broker,
            **{
                "sasl.oauthbearer.token.endpoint.url": f"{identity}/token",
                "sasl.jaas.config": f'{MODULE} clientId="me" clientSecret="s3cret" scope="kafka";',
            },
        )
        with Producer(configs) as producer:
            producer.send("t", value=b"x").result(60)
            assert "User:service" in principals(broker)
        configs["sasl.jaas.config"] = f'{MODULE} clientId="me" clientSecret="wrong";'
        with pytest.raises(SaslAuthenticationError, match="answered 401"), Admin(configs) as admin:
            admin.list_topics()


@pytest.mark.parametrize("retriever", ["JwtBearerJwtRetriever", "ClientCredentialsJwtRetriever"])
def test_assertions_instead_of_a_secret(identity: str, tmp_path: Path, retriever: str) -> None:
    """With the options that Spark's source hands on: text, under Kafka's names, in another process."""
    with Broker(security=security(f"{identity}/keys")) as broker:
        assertion = "sasl.oauthbearer.assertion"
        options = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.jaas.config": f"{MODULE};",
            "kafka.sasl.oauthbearer.token.endpoint.url": f"{identity}/token",
            "kafka.sasl.oauthbearer.jwt.retriever.class": f"org.apache.kafka.common.security.{retriever}",
            f"kafka.{assertion}.private.key.file": write_key(tmp_path / "key.pem", CLIENT, "phrase"),
            f"kafka.{assertion}.private.key.passphrase": "phrase",
            f"kafka.{assertion}.claim.iss": "me",
            f"kafka.{assertion}.claim.sub": "me",
            f"kafka.{assertion}.claim.aud": "identity",
            "subscribe": "t",
        }
        parsed = pickle.loads(pickle.dumps(parse_source(options, streaming=False)))
        with Producer(parsed.client) as producer:
            producer.send("t", value=b"x").result(60)
            assert "User:service" in principals(broker)
        stranger = {**parsed.client, f"{assertion}.claim.sub": "stranger"}
        with pytest.raises(SaslAuthenticationError, match="answered 401"), Admin(stranger) as admin:
            admin.list_topics()


def test_a_provider_that_does_not_answer_holds_up_nobody_else() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/keys"
        kit = Security(
            users={"alice": "secret"},
            mechanisms=("PLAIN", "OAUTHBEARER"),
            configs={
                **security(url).configs,
                "sasl.login.read.timeout.ms": "2000",
                "odradek.authentication.timeout.ms": "1000",
            },
        )
        with Broker(security=kit) as broker:

            def log_in() -> None:
                with (
                    pytest.raises(Exception),  # noqa: B017 - hung up on, or given up
                    Admin(
                        client(broker, sasl_oauth_token_provider=token), default_api_timeout_ms=1500
                    ) as admin,
                ):
                    admin.list_topics()

            waiting = [threading.Thread(target=log_in) for _ in range(6)]
            for one in waiting:
                one.start()
            for _ in range(5):
                with Admin(broker.client_configs("alice", "PLAIN")) as admin:
                    admin.list_topics()
            for one in waiting:
                joined(one)


def test_unsecured_tokens_where_no_keys_are_named() -> None:
    kit = Security(
        users={"x": "y"},
        mechanisms=("OAUTHBEARER",),
        configs={
            f"{LISTENER}.sasl.jaas.config": f"{MODULE};",
            "connection.failed.authentication.delay.ms": "1",
        },
    )
    with Broker(security=kit) as broker:
        jaas = f'{MODULE} unsecuredLoginStringClaim_sub="dave";'
        with Producer(client(broker, sasl_jaas_config=jaas)) as producer:
            producer.send("t", value=b"x").result(60)
            assert "User:dave" in principals(broker)
        with (
            pytest.raises(SaslAuthenticationError),
            Admin(client(broker, sasl_oauth_token_provider=token)) as admin,
        ):
            admin.list_topics()
