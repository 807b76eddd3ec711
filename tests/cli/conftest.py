"""One broker for all tests of the tools, and the tools themselves, in this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from odradek import Admin, Producer
from odradek.cli.main import main
from odradek.testing import Broker

RunTool = Callable[..., Result]


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    """A broker that stays; tests name topics and groups of their own. Retention would delete the old records
    of some while they are read."""
    with Broker(log_retention_check_interval_ms=24 * 3_600_000) as broker:
        yield broker


@pytest.fixture(scope="session")
def servers(shared_broker: Broker) -> str:
    """Its address."""
    return shared_broker.bootstrap_servers


@pytest.fixture(scope="session")
def run() -> RunTool:
    """Run `odradek` with words; `stdin` is bytes."""

    def call(*words: str, stdin: bytes = b"") -> Result:
        return CliRunner().invoke(main, words, input=stdin)

    return call


@pytest.fixture
def tool(run: RunTool, servers: str) -> RunTool:
    """Run a tool against the broker; the result's exit code must be `status`."""

    def call(name: str, *words: str, stdin: bytes = b"", status: int = 0) -> Result:
        result = run(name, "--bootstrap-server", servers, *words, stdin=stdin)
        unexpected = result.exception is not None and not isinstance(result.exception, SystemExit)
        if unexpected:
            raise result.exception
        assert result.exit_code == status, result.output
        return result

    return call


@pytest.fixture(scope="session")
def admin(servers: str) -> Iterator[Admin]:
    """An administrator."""
    with Admin(bootstrap_servers=servers) as admin:
        yield admin


@pytest.fixture(scope="session")
def producer(servers: str) -> Iterator[Producer]:
    """A producer."""
    with Producer(bootstrap_servers=servers) as producer:
        yield producer


_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"test-{next(_numbers)}"
