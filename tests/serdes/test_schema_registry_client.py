"""The client of schema registries, against the registry of the test kit."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from odradek.client.errors import ConfigError
from odradek.serdes.errors import RegistryError, UnknownSchemaError
from odradek.serdes.resolved_schemas import ResolvedSchemas
from odradek.serdes.schema_registry_client import SchemaRegistryClient
from odradek.serdes.schemas import AVRO, JSON, Schema, SchemaReference
from odradek.testing import SchemaRegistry, Security
from waiting import joined

LONG, STRING = Schema('"long"'), Schema('"string"')
R1 = Schema('{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}')
R2 = Schema('{"type":"record","name":"R","fields":[{"name":"b","type":"int"}]}')


def client(*urls: str, **configs: Any) -> SchemaRegistryClient:
    return SchemaRegistryClient(url=urls, **{"retries_wait_ms": 0, **configs})


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry(compatibility="BACKWARD") as registry:
        yield registry


def test_what_is_registered_is_found() -> None:
    with SchemaRegistry() as registry:
        asked = client(registry.url)
        first = asked.register_schema("t-value", LONG)
        second = asked.register_schema("t-value", STRING)
        assert asked.register_schema("t-value", LONG) == first
        assert asked.get_versions("t-value") == [1, 2]
        newest = asked.get_latest_version("t-value")
        assert (newest.subject, newest.version, newest.schema_id, newest.schema) == (
            "t-value",
            2,
            second,
            STRING,
        )
        assert asked.get_version("t-value", 1).schema_id == first
        assert asked.get_schema(second) == STRING
        assert asked.lookup_schema("t-value", LONG).version == 1


def test_what_an_administrator_asks(registry: SchemaRegistry) -> None:
    asked = client(registry.url)
    asked.register_schema("s", R1)
    assert asked.get_compatibility() == "BACKWARD"
    assert asked.get_compatibility("s") == "BACKWARD"
    assert asked.test_compatibility("s", R2) is False
    with pytest.raises(
        RegistryError, match=r"refused a new schema for the subject 's'.*incompatible"
    ) as caught:
        asked.register_schema("s", R2)
    assert (caught.value.http_status_code, caught.value.error_code) == (409, 409)
    assert asked.set_compatibility("s", "none") == "NONE"
    assert asked.get_compatibility("s") == "NONE"
    assert asked.test_compatibility("s", R2) is True
    asked.register_schema("s", R2)
    assert asked.set_compatibility(level="FULL") == "FULL"
    assert asked.get_compatibility() == "FULL"
    assert asked.get_subjects() == asked.get_subjects("s") == ["s"]
    assert asked.get_subjects("t") == []
    assert asked.delete_version("s", 1) == 1
    with pytest.raises(UnknownSchemaError, match="version 1 of the subject 's'") as caught:
        asked.get_version("s", 1)
    assert caught.value.error_code == 40402
    assert asked.get_versions("s", deleted=True) == [1, 2]
    assert asked.delete_subject("s") == [2]
    assert asked.get_subjects() == []
    assert asked.get_subjects(deleted_only=True) == ["s"]
    assert asked.delete_subject("s", permanent=True) == [1, 2]
    assert asked.get_subjects(deleted=True) == []
    with pytest.raises(ValueError, match="needs a level"):
        asked.set_compatibility("s")


def test_references_come_with_those_that_they_use_first(registry: SchemaRegistry) -> None:
    asked = client(registry.url)
    asked.register_schema("inner", Schema('{"type":"fixed","name":"I","size":1}'))
    inner = SchemaReference("I", "inner", 1)
    outer_schema = '{"type":"record","name":"O","fields":[{"name":"i","type":"I"}]}'
    outer_id = asked.register_schema("outer", Schema(outer_schema, references=[inner]))
    outer = SchemaReference("O", "outer", 1)
    schema = Schema('"O"', AVRO, (outer, inner))
    number = asked.register_schema("t-value", schema)
    assert asked.get_schema(number).references == (outer, inner)
    assert [name for name, _ in ResolvedSchemas(asked).by_id(number).references] == ["I", "O"]
    assert asked.get_referenced_by("inner", 1) == [outer_id, number]


def test_what_a_hidden_schema_uses_is_found(registry: SchemaRegistry) -> None:
    """Records written by it stay."""
    asked = client(registry.url)
    asked.register_schema("inner", Schema('{"type":"fixed","name":"I","size":1}'))
    number = asked.register_schema("t", Schema('"I"', AVRO, (SchemaReference("I", "inner", 1),)))
    asked.delete_subject("t")
    asked.delete_subject("inner")
    assert [name for name, _ in ResolvedSchemas(client(registry.url)).by_id(number).references] == ["I"]


def test_schemas_are_normalized_where_that_is_said(registry: SchemaRegistry) -> None:
    asked = client(registry.url)
    schema = Schema('{"type": "object", "properties": {"a": {}}}', JSON)
    turned = Schema('{"properties": {"a": {}}, "type": "object"}', JSON)
    number = asked.register_schema("j", schema, normalize_schemas=True)
    assert asked.register_schema("j", turned, normalize_schemas=True) == number
    with pytest.raises(UnknownSchemaError, match="this schema in the subject 'j'"):
        asked.lookup_schema("j", schema)
    assert asked.lookup_schema("j", schema, normalize_schemas=True).schema_id == number


def test_what_never_changes_is_asked_for_once(registry: SchemaRegistry) -> None:
    number = registry.register("t", '"long"')
    asked = client(registry.url)
    for _ in range(3):
        asked.get_schema(number)
        asked.get_version("t", 1)
    assert registry.requests == [f"GET /schemas/ids/{number}", "GET /subjects/t/versions/1"]
    asked.get_latest_version("t")
    asked.get_latest_version("t")
    assert len(registry.requests) == 4


def test_names_of_subjects_are_quoted(registry: SchemaRegistry) -> None:
    asked = client(registry.url)
    asked.register_schema("a/b ?&c", LONG)
    assert asked.get_subjects() == ["a/b ?&c"]
    assert asked.get_latest_version("a/b ?&c").schema == LONG


def test_what_is_not_there(registry: SchemaRegistry) -> None:
    asked = client(registry.url)
    questions: list[Callable[[], Any]] = [
        lambda: asked.get_schema(7),
        lambda: asked.get_versions("none"),
        lambda: asked.get_latest_version("none"),
    ]
    for question in questions:
        with pytest.raises(UnknownSchemaError, match=registry.url):
            question()


def test_users() -> None:
    with SchemaRegistry("me:secret word") as registry:
        number = registry.register("t-value", '"long"')
        assert client(registry.url, basic_auth_user_info="me:secret word").get_schema(number) == LONG
        assert client(registry.url, basic_auth_user_info=("me", "secret word")).get_schema(number) == LONG
        inside = registry.url.replace("http://", "http://me:secret%20word@")
        assert client(inside).get_version("t-value", 1).schema == LONG
        with pytest.raises(RegistryError, match=r"HTTP 401 .*Check basic.auth.user.info") as caught:
            client(inside.replace("secret", "wrong")).get_version("t-value", 1)
        assert "wrong" not in str(caught.value)
        assert "secret" not in repr(client(inside, basic_auth_user_info="me:secret word").config)


def test_kafkas_names_of_configs_and_those_of_a_spark_source() -> None:
    with SchemaRegistry("me:secret", Security(tls=True)) as registry:
        asked = SchemaRegistryClient(registry.options())
        assert asked.register_schema("t", LONG) == 1
        short = {name.removeprefix("schema.registry."): value for name, value in registry.options().items()}
        assert SchemaRegistryClient(short).get_schema(1) == LONG
        with pytest.raises(RegistryError, match=r"TLS failed: .*not accepted.*ssl"):
            client(registry.url, max_retries=0).get_schema(1)


def test_its_name_is_looked_for_in_its_certificate() -> None:
    with SchemaRegistry(security=Security(tls=True, hosts=("registry.example.org",))) as registry:
        registry.register("t-value", '"long"')
        options = {**registry.options(), "max.retries": 0}
        with pytest.raises(RegistryError, match=r"TLS failed: .*127\.0\.0\.1"):
            SchemaRegistryClient(options).get_version("t-value", 1)
        unchecked = {**options, "ssl.endpoint.identification.algorithm": ""}
        assert SchemaRegistryClient(unchecked).get_version("t-value", 1).schema == LONG


def test_it_is_asked_again_and_elsewhere() -> None:
    with SchemaRegistry() as registry:
        number = registry.register("t-value", '"long"')
        registry.failures = 3
        assert client(registry.url).get_schema(number) == LONG
        other = registry.register("t-value", '"string"')
        assert client("http://127.0.0.1:1", registry.url).get_schema(other) == STRING
        registry.failures = 1
        with pytest.raises(RegistryError, match="HTTP 503"):
            client(registry.url, max_retries=0).get_schema(number)
    with pytest.raises(RegistryError, match=r"the schema with id 1 .*127.0.0.1:1: .*Check url"):
        client("http://127.0.0.1:1").get_schema(1)


def test_what_deletes_is_asked_once() -> None:
    """A second try would say that there is nothing to delete, whatever the first has done."""
    with SchemaRegistry() as registry:
        registry.register("t", '"long"')
        registry.failures = 1
        with pytest.raises(RegistryError, match=r"the subject 't'.*HTTP 503"):
            client(registry.url).delete_subject("t")
        assert registry.requests == ["DELETE /subjects/t"]


@contextlib.contextmanager
def answering(answer: Callable[[str], Any]) -> Iterator[str]:
    """A server that answers by the path, and its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        joined(thread)


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
    plain: str, serialized: str | None, expected: str
) -> None:
    def answer(path: str) -> dict[str, object]:
        text = serialized if path.endswith("?format=serialized") else plain
        assert text is not None
        return {"id": 1, "version": 1, "schemaType": "PROTOBUF", "schema": text}

    with answering(answer) as url:
        asked = ResolvedSchemas(client(url))
        assert asked.by_id(1, serialized=True).text == expected
        assert asked.version("t-value", "latest", serialized=True).text == expected


@pytest.mark.parametrize(
    "answer",
    [
        ["not", "a schema"],
        {"id": 1, "schema": ["no text"]},
        {"id": 1, "schema": "x", "schemaType": 7},
        {"id": 1, "schema": "x", "references": [{"name": 1, "subject": "s", "version": 1}]},
        {"id": 1, "schema": "x", "references": [{"name": "n", "subject": "s", "version": "1/../../x"}]},
        {"id": 1, "schema": "x", "references": "text"},
    ],
)
def test_an_answer_of_other_types_is_refused(answer: Any) -> None:
    paths: list[str] = []

    def answered(path: str) -> Any:
        paths.append(path)
        return answer

    with (
        answering(answered) as url,
        pytest.raises(RegistryError, match="did not answer as a schema registry does"),
    ):
        ResolvedSchemas(client(url)).version("t", 1)
    assert paths == ["/subjects/t/versions/1"]


def test_references_without_end() -> None:
    answer = {"id": 1, "version": 1, "schema": "x"}
    names = iter(range(1000))

    def answered(path: str) -> Any:
        return {**answer, "references": [{"name": f"n{next(names)}", "subject": "s", "version": 1}]}

    with answering(answered) as url, pytest.raises(RegistryError, match="refer to each other without end"):
        ResolvedSchemas(client(url)).version("t", 1)


@pytest.mark.parametrize(
    ("configs", "told"),
    [
        ({}, "url is missing"),
        ({"url": " , "}, "url is empty"),
        ({"url": "localhost:8081"}, "must begin with http"),
        ({"url": "http://a", "basic.auth.user.info": "me"}, "must be user:password"),
        ({"url": "http://a", "basic.auth.user.info": "me:x", "bearer.auth.token": "t"}, "exclude each other"),
        ({"url": "http://a", "ssl.truststore.location": "x"}, "is for TLS"),
        ({"url": "http://a", "schema.registry.url": "http://b"}, "url is given twice"),
        ({"url": "http://a", "max.retries": "many"}, "max.retries='many': not a whole number"),
        ({"url": "http://a", "request.timeout.ms": 0}, "must be at least 1"),
        ({"url": "http://a", "timeout": 3}, "it is request.timeout.ms, in milliseconds here"),
        ({"url": "https://a", "ssl.ca.location": "x"}, "did you mean ssl.truststore.location"),
        ({"url": "http://a", "colour": "red"}, "colour: no such config of a schema registry's client"),
    ],
)
def test_configs_that_cannot_be_used(configs: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        SchemaRegistryClient(configs)
