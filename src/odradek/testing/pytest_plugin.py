"""pytest fixtures; the broker is imported only by tests that ask for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from odradek.testing.broker import Broker


@pytest.fixture
def odradek_broker() -> Iterator[Broker]:
    """A broker of its own for one test, on a free port of 127.0.0.1, with nothing left behind."""
    from odradek.testing.broker import Broker

    with Broker() as broker:
        yield broker
