"""HTTP around the registry: bodies, logins, and what does not belong."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastavro")

from odradek.testing import SchemaRegistry


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as registry:
        yield registry


def ask(registry: SchemaRegistry, method: str, path: str, body: bytes = b"", **headers: str) -> Any:
    connection = http.client.HTTPConnection(registry.url.removeprefix("http://"), timeout=30)
    try:
        connection.putrequest(method, path)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders(body)
        with connection.getresponse() as answer:
            return answer.status, answer.getheader("Content-Type"), json.loads(answer.read())
    finally:
        connection.close()


def test_all_methods(registry: SchemaRegistry) -> None:
    kind = "application/vnd.schemaregistry.v1+json"
    assert ask(registry, "POST", "/subjects/s/versions", b'{"schema":"\\"int\\""}') == (200, kind, {"id": 1})
    assert ask(registry, "PUT", "/config", b'{"compatibility":"FULL"}') == (
        200,
        kind,
        {"compatibility": "FULL"},
    )
    assert ask(registry, "GET", "/subjects") == (200, kind, ["s"])
    assert ask(registry, "DELETE", "/subjects/s") == (200, kind, [1])
    assert registry.requests == [
        "POST /subjects/s/versions",
        "PUT /config",
        "GET /subjects",
        "DELETE /subjects/s",
    ]


def test_one_connection_serves_many(registry: SchemaRegistry) -> None:
    connection = http.client.HTTPConnection(registry.url.removeprefix("http://"), timeout=30)
    for _ in range(3):
        connection.request("GET", "/subjects")
        assert connection.getresponse().read() == b"[]"
    connection.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content_Length": "x"}, 411),
        ({"Content_Length": str(1 << 40)}, 413),
        ({"Transfer_Encoding": "chunked"}, 411),
    ],
)
def test_bodies_of_no_length(registry: SchemaRegistry, headers: dict[str, str], status: int) -> None:
    assert ask(registry, "POST", "/subjects/s/versions", **headers)[0] == status


def test_a_body_that_is_no_json(registry: SchemaRegistry) -> None:
    assert ask(registry, "POST", "/subjects/s/versions", b"{")[0] == 400


def test_failures_that_were_asked_for(registry: SchemaRegistry) -> None:
    registry.failures = 1
    assert ask(registry, "GET", "/subjects")[0] == 503
    assert ask(registry, "GET", "/subjects")[0] == 200


def test_a_login() -> None:
    with SchemaRegistry("me:secret") as registry:
        assert ask(registry, "GET", "/subjects")[0] == 401
        assert ask(registry, "GET", "/subjects", Authorization="Basic bWU6c2VjcmV0")[0] == 200
        assert registry.requests == ["GET /subjects"] * 2
