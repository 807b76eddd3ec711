"""The client of a schema registry, against the one of the test kit."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from odradek.spark.formats import registry as registry_module
from odradek.spark.formats.errors import RegistryError, UnknownSchemaError
from odradek.spark.formats.options import RegistryOptions, source_sides
from odradek.spark.formats.registry import RegistryClient
from odradek.spark.option_values import Given
from odradek.testing import SchemaRegistry, Security

LONG, STRING = '"long"', '"string"'


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_by_id", {})


def client(*urls: str, user_info: str = "") -> RegistryClient:
    return RegistryClient(RegistryOptions(urls, user_info), sleep=lambda _: None)


def test_what_is_registered_is_found() -> None:
    with SchemaRegistry() as registry:
        asked = client(registry.url)
        first = asked.register("t-value", "AVRO", LONG)
        second = asked.register("t-value", "AVRO", STRING)
        assert asked.register("t-value", "AVRO", LONG) == first
        assert asked.versions("t-value") == [2, 1]
        assert asked.version("t-value", "latest").text == STRING
        assert asked.version("t-value", 1).id == first
        assert asked.by_id(second).text == STRING
        assert asked.by_id(second).kind == "AVRO"


def test_an_id_is_asked_for_once_in_a_process() -> None:
    with SchemaRegistry() as registry:
        number = registry.register("t-value", LONG)
        for _ in range(3):
            assert client(registry.url).by_id(number).text == LONG
        assert len(registry.requests) == 1


def test_what_one_login_was_shown_is_not_shown_to_another() -> None:
    with SchemaRegistry("me:secret") as registry:
        number = registry.register("t-value", LONG)
        assert client(registry.url, user_info="me:secret").by_id(number).text == LONG
        for other in ("", "me:wrong"):
            with pytest.raises(RegistryError, match="HTTP 401"):
                client(registry.url, user_info=other).by_id(number)


def test_references_come_with_those_that_they_use_first() -> None:
    with SchemaRegistry() as registry:
        registry.register("inner", '{"type":"fixed","name":"I","size":1}')
        inner = {"name": "I", "subject": "inner", "version": 1}
        outer_schema = '{"type":"record","name":"O","fields":[{"name":"i","type":"I"}]}'
        registry.register("outer", outer_schema, references=[inner])
        outer = {"name": "O", "subject": "outer", "version": 1}
        number = registry.register("t-value", '"O"', references=[outer, inner])
        assert [name for name, _ in client(registry.url).by_id(number).references] == ["I", "O"]


@pytest.mark.parametrize(
    ("plain", "serialized", "expected"),
    [
        ("message M {}", "CgFh", "CgFh"),  # Confluent's
        ("message M {}", "\n\x01a", "message M {}"),  # Apicurio's: bytes as text, some lost
        ("message M {}", "message M {}", "message M {}"),  # one that does not know of the format
        ("CgFh", None, "CgFh"),  # registered as base64: Apicurio answers HTTP 500 for the format
    ],
)
def test_a_descriptor_is_taken_where_a_registry_has_it(
    plain: str, serialized: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: object, __: str, path: str, *___: object) -> dict[str, object]:
        text = serialized if path.endswith("?format=serialized") else plain
        assert text is not None
        return {"id": 1, "version": 1, "schemaType": "PROTOBUF", "schema": text}

    monkeypatch.setattr(RegistryClient, "_ask", answer)
    asked = client("http://none")
    assert asked.by_id(1, serialized=True).text == expected
    assert asked.version("t-value", "latest", serialized=True).text == expected


def test_what_is_not_there() -> None:
    with SchemaRegistry() as registry:
        asked = client(registry.url)
        for question in (
            lambda: asked.by_id(7),
            lambda: asked.versions("none"),
            lambda: asked.version("none", "latest"),
        ):
            with pytest.raises(UnknownSchemaError, match=registry.url):
                question()


def test_users() -> None:
    with SchemaRegistry("me:secret word") as registry:
        number = registry.register("t-value", LONG)
        assert client(registry.url, user_info="me:secret word").by_id(number).text == LONG
        inside = registry.url.replace("http://", "http://me:secret%20word@")
        assert client(inside).version("t-value", 1).text == LONG
        with pytest.raises(RegistryError, match=r"HTTP 401 .*schema.registry.basic.auth.user.info") as caught:
            client(inside.replace("secret", "wrong")).version("t-value", 1)
        assert "wrong" not in str(caught.value)
        assert "secret" not in repr(RegistryOptions((registry.url,), "me:secret word"))


def behind_tls(options: dict[str, str]) -> RegistryClient:
    """The client that the options of a Spark source make."""
    sides = source_sides(Given({"value.format": "avro", **options}))
    registry = sides["value"].registry
    assert registry is not None
    assert "PRIVATE KEY" not in repr(registry)
    return RegistryClient(registry, sleep=lambda _: None)


def test_behind_tls_with_an_authority_of_its_own() -> None:
    with SchemaRegistry("me:secret", Security(tls=True)) as registry:
        assert registry.url.startswith("https://")
        number = registry.register("t-value", LONG)
        assert behind_tls(registry.options()).by_id(number).text == LONG
        with pytest.raises(RegistryError, match=r"HTTP 401"):
            options = {**registry.options(), "value.schema.registry.basic.auth.user.info": "me:wrong"}
            behind_tls(options).version("t-value", 1)
        with pytest.raises(RegistryError, match=r"TLS failed: .*not accepted.*schema\.registry\.ssl"):
            client(registry.url).version("t-value", 1)


def test_it_may_want_certificates_of_clients(tmp_path: Path) -> None:
    security = Security(client_auth="required")
    with SchemaRegistry(security=security) as registry:
        registry.register("t-value", LONG)
        assert behind_tls(registry.options("alice")).version("t-value", 1).text == LONG
        stores = {
            "value.schema.registry.ssl.keystore.type": "PKCS12",
            "value.schema.registry.ssl.keystore.location": str(
                security.certificate("bob").write_pkcs12(tmp_path / "bob.p12", "changeit")
            ),
            "value.schema.registry.ssl.keystore.password": "changeit",
        }
        assert behind_tls({**registry.options(), **stores}).version("t-value", 1).text == LONG
        with pytest.raises(RegistryError, match=r"TLS failed"):
            behind_tls(registry.options()).version("t-value", 1)


def test_its_name_is_looked_for_in_its_certificate() -> None:
    with SchemaRegistry(security=Security(tls=True, hosts=("registry.example.org",))) as registry:
        registry.register("t-value", LONG)
        with pytest.raises(RegistryError, match=r"TLS failed: .*127\.0\.0\.1"):
            behind_tls(registry.options()).version("t-value", 1)
        unchecked = {"schema.registry.ssl.endpoint.identification.algorithm": ""}
        assert behind_tls({**registry.options(), **unchecked}).version("t-value", 1).text == LONG


def test_certificates_that_cannot_be_read_are_told_by_the_option() -> None:
    options = {
        "value.schema.registry.url": "https://127.0.0.1:1",
        "value.schema.registry.ssl.truststore.type": "PEM",
        "value.schema.registry.ssl.truststore.location": "/does/not/exist.pem",
    }
    with pytest.raises(RegistryError, match=r"schema\.registry\.ssl\.truststore\.location: /does/not/exist"):
        behind_tls(options).version("t-value", 1)


def test_it_is_asked_again_and_elsewhere() -> None:
    with SchemaRegistry() as registry:
        number = registry.register("t-value", LONG)
        registry.failures = 3
        assert client(registry.url).by_id(number).text == LONG
        other = registry.register("t-value", STRING)
        assert client("http://127.0.0.1:1", registry.url).by_id(other).text == STRING
    with pytest.raises(RegistryError, match=r"127.0.0.1:1: .*Check the option value.schema.registry.url"):
        client("http://127.0.0.1:1").by_id(1)


def test_an_address_that_is_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    with SchemaRegistry() as registry, monkeypatch.context() as patch:
        patch.setattr(RegistryClient, "_ask", lambda *_: ["not", "a schema"])
        with pytest.raises(RegistryError, match="did not answer as a schema registry does"):
            client(registry.url).by_id(99)


def test_the_registry_of_the_test_kit_speaks_plain_http() -> None:
    with SchemaRegistry() as registry:
        body = json.dumps({"schema": LONG}).encode()
        request = urllib.request.Request(f"{registry.url}/subjects/a%2Fb/versions", body)
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert json.loads(answer.read()) == {"id": 1}
        with urllib.request.urlopen(f"{registry.url}/subjects", timeout=10) as answer:
            assert json.loads(answer.read()) == ["a/b"]
