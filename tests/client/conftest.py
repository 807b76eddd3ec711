"""One broker for the tests that do not stop it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.client import Admin, NewTopic
from odradek.testing import Broker

_numbers = itertools.count(1)
_A_DAY_MS = 24 * 3_600_000


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker shared by the tests of this folder; some write records of years ago, which retention would
    delete in the middle of a test."""
    with Broker(auto_create_topics_enable="false", log_retention_check_interval_ms=_A_DAY_MS) as running:
        yield running


@pytest.fixture(scope="session")
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture(scope="session")
def admin(servers: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=servers) as client:
        yield client


@pytest.fixture
def topic(admin: Admin) -> str:
    """A fresh topic of three partitions."""
    return new_topic(admin, 3)


@pytest.fixture
def group() -> str:
    """A fresh group's name."""
    return f"group-{next(_numbers)}"


def new_topic(admin: Admin, partitions: int, **configs: Any) -> str:
    """Make a topic under a name of its own."""
    name = f"topic-{next(_numbers)}"
    settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
    admin.create_topics([NewTopic(name, partitions, 1, configs=settings)])
    return name
