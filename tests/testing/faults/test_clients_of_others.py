"""Clients that are not ours, through faults: each gets its records there and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from odradek.testing import Broker

from ..clients_of_others import CLIENTS, COUNT

FAULTS: dict[str, Callable[[Broker], Iterator[Any]]] = {
    "errors": lambda broker: iter(
        [
            broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2, topic="orders"),
            broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2, topic="orders"),
            broker.fail("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=1),
            broker.fail("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", times=1),
        ]
    ),
    "connections": lambda broker: iter(
        [
            broker.drop("Produce", times=1),
            broker.drop("Fetch", times=1, after=True),
            broker.truncate("JoinGroup", times=1),
        ]
    ),
    "time": lambda broker: iter(
        [
            broker.delay("Produce", 20, times=2),
            broker.throttle("Fetch", 20, times=2),
            broker.delay("Metadata", 20, times=1),
        ]
    ),
}


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_goes_on(odradek_broker: Broker, client: str, faults: str) -> None:
    pytest.importorskip(client)
    odradek_broker.create_topic("orders")
    with ExitStack() as block:
        for fault in FAULTS[faults](odradek_broker):
            block.enter_context(fault)
        assert CLIENTS[client](odradek_broker) == [b"%d" % number for number in range(COUNT)]
