"""One broker for the tests of the console, and visitors of consoles in front of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")

from starlette.testclient import TestClient

from odradek.console.app import Console
from odradek.console.settings import ConsoleSettings
from odradek.testing import Broker

TOKEN = "a token of the tests"
CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class Visitor:
    """A browser without eyes: keeps cookies, and sends a form as the page that has it would.

    Args:
        client: of Starlette.
    """

    def __init__(self, client: TestClient) -> None:
        self.client = client

    def get(self, path: str, status: int = 200) -> str:
        """Return the text of a page."""
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        return str(answer.text)

    def post(self, page: str, path: str, status: int = 200, **fields: str) -> str:
        """Send the form of a page; return the text of the page that the answer leads to."""
        csrf = CSRF.search(self.get(page))
        assert csrf is not None
        answer = self.client.post(path, data={"csrf": csrf[1], **fields})
        assert answer.status_code == status, answer.text
        return str(answer.text)

    def log_in(self, **fields: str) -> str:
        """Log in, by the token of the tests without fields."""
        return self.post("/login", "/login", **(fields or {"token": TOKEN}))


@pytest.fixture(scope="package")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def visit() -> Iterator[Callable[..., Visitor]]:
    """Makes a visitor of a new console, not logged in."""
    with ExitStack() as open_clients:

        def make(servers: str, **settings: Any) -> Visitor:
            configs = {"bootstrap_servers": servers, "default_api_timeout_ms": 8000}
            configs |= settings.pop("client_configs", {})
            clock = settings.pop("clock", None)
            console = Console(ConsoleSettings(configs, **{"token": TOKEN, **settings}), clock)
            base = "http://127.0.0.1:8090"
            return Visitor(open_clients.enter_context(TestClient(console.app, base_url=base)))

        yield make


@pytest.fixture
def visitor(broker: Broker, visit: Callable[..., Visitor]) -> Visitor:
    """A visitor who is logged in."""
    visitor = visit(broker.bootstrap_servers)
    visitor.log_in()
    return visitor
