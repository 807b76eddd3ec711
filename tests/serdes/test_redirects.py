"""A schema registry that redirects: its password stays where it was meant for."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from odradek.serdes.errors import RegistryError
from odradek.serdes.redirects import origin_of
from odradek.serdes.schema_registry_client import SchemaRegistryClient
from odradek.serdes.schemas import Schema
from waiting import joined


class Server:
    """Answers every question with one schema, or with a redirect.

    Attributes:
        asked: (method, path, the login that was shown) of each request.
        shown: the headers of each.
        location: where it redirects to; empty: it answers.
    """

    def __init__(self, host: str) -> None:
        self.asked: list[tuple[str, str, str | None]] = []
        self.shown: list[str] = []
        self.location = ""
        self.code = 302
        self.wants = ""
        self._server = ThreadingHTTPServer((host, 0), self._handler())
        self.url = f"http://{host}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        joined(self._thread)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                login = self.headers.get("Authorization")
                server.asked.append((self.command, self.path, login))
                server.shown.append(str(self.headers))
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if server.location and not self.path.startswith("/moved"):
                    self.send_response(server.code)
                    self.send_header("Location", server.location + self.path)
                elif server.wants and login != server.wants:
                    self.send_response(401)
                else:
                    self.send_response(200)
                body = json.dumps({"id": 1, "version": 1, "schema": '"long"'}).encode()
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 - http.server calls it so

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    with contextlib.ExitStack() as stack:
        found = Server("127.0.0.1"), Server("127.0.0.1")
        for one in found:
            stack.callback(one.close)
        yield found


def client(url: str, **configs: object) -> SchemaRegistryClient:
    login = {} if "bearer_auth_token" in configs else {"basic_auth_user_info": "me:secret"}
    return SchemaRegistryClient(url=url, retries_wait_ms=0, **{**login, **configs})


BASIC = "Basic bWU6c2VjcmV0"


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_password_goes_nowhere_else(servers: tuple[Server, Server], code: int) -> None:
    first, other = servers
    first.location, first.code = other.url, code
    assert client(first.url).get_version("t", 1).schema.schema_str == '"long"'
    assert [login for _, _, login in first.asked] == [BASIC]
    assert other.asked == [("GET", "/subjects/t/versions/1", None)]


@pytest.mark.parametrize(
    "configs",
    [{"bearer_auth_token": "secret"}, {"headers": {"Cookie": "secret", "X-Api-key": "secret"}}],
)
def test_nor_do_other_logins(servers: tuple[Server, Server], configs: dict[str, object]) -> None:
    first, other = servers
    first.location = other.url
    assert client(first.url, **configs).get_version("t", 1).schema.schema_str == '"long"'
    assert [headers for headers in first.shown if "secret" in headers]
    assert not [headers for headers in other.shown if "secret" in headers]


def test_it_goes_on_with_whom_it_was_meant_for(servers: tuple[Server, Server]) -> None:
    first, _ = servers
    first.location, first.wants = "/moved", BASIC
    assert client(first.url).get_version("t", 1).schema.schema_str == '"long"'
    assert [login for _, _, login in first.asked] == [BASIC, BASIC]


def test_another_that_wants_it_is_named(servers: tuple[Server, Server]) -> None:
    first, other = servers
    first.location, other.wants = other.url, BASIC
    with pytest.raises(RegistryError, match=rf"{other.url} has answered.*name it in url") as caught:
        client(first.url).get_version("t", 1)
    assert "secret" not in str(caught.value)
    assert other.asked == [("GET", "/subjects/t/versions/1", None)]


@pytest.mark.parametrize("location", ["ftp://127.0.0.1:1", "http://u:p@127.0.0.1:1", "file:///etc/passwd#"])
def test_redirects_that_are_not_followed(servers: tuple[Server, Server], location: str) -> None:
    first, _ = servers
    first.location = location
    with pytest.raises(RegistryError) as caught:
        client(first.url).get_version("t", 1)
    assert "u:p" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_nothing_is_registered_elsewhere(servers: tuple[Server, Server]) -> None:
    """urllib would ask the other one a question in its place, and take its answer for the id."""
    first, other = servers
    first.location = other.url
    with pytest.raises(RegistryError, match=f"redirects what is to be changed to {other.url}"):
        client(first.url).register_schema("t", Schema('"long"'))
    assert other.asked == []


def test_who_is_asked() -> None:
    assert origin_of("http://A:80/x") == origin_of("http://a/y")
    assert origin_of("https://a") != origin_of("http://a")
    assert origin_of("https://a") == origin_of("https://a:443/")
    assert origin_of("https://a:1") != origin_of("https://a:2")
    assert str(origin_of("https://u:p@[::1]:8/")) == "https://[::1]:8"
