"""Kafka's assignors divide partitions among the members of a group, with Kafka's formats and results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from odradek.client.core.assignors.base import Assignor, RebalanceProtocol, Subscription
from odradek.client.core.assignors.range import RangeAssignor
from odradek.client.core.assignors.round_robin import RoundRobinAssignor
from odradek.client.core.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from odradek.client.errors import ConfigError

_PREFIX = "org.apache.kafka.clients.consumer."
_BY_NAME: dict[str, type[Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    _PREFIX + "RangeAssignor": RangeAssignor,
    _PREFIX + "RoundRobinAssignor": RoundRobinAssignor,
    _PREFIX + "StickyAssignor": StickyAssignor,
    _PREFIX + "CooperativeStickyAssignor": CooperativeStickyAssignor,
}


def resolve_assignors(values: Iterable[Any]) -> list[Assignor]:
    """A `partition.assignment.strategy`: names (Kafka's class names too), classes or objects.

    Raises:
        ConfigError: an unknown name, none at all, two of the same name, or no rebalance protocol that all of
            them support.
    """
    assignors: list[Assignor] = []
    for value in values:
        if isinstance(value, str):
            if value not in _BY_NAME:
                names = ", ".join(name for name in _BY_NAME if not name.startswith(_PREFIX))
                raise ConfigError(f"partition.assignment.strategy={value!r}: not one of {names}")
            value = _BY_NAME[value]
        assignors.append(value() if isinstance(value, type) else value)
    if not assignors:
        raise ConfigError("partition.assignment.strategy is empty")
    if len({assignor.name for assignor in assignors}) != len(assignors):
        raise ConfigError("partition.assignment.strategy names an assignor twice")
    common_protocol(assignors)
    return assignors


def common_protocol(assignors: Iterable[Assignor]) -> RebalanceProtocol:
    """The newest rebalance protocol that all of them support (KIP-429).

    Raises:
        ConfigError: there is none.
    """
    common = set(RebalanceProtocol)
    for assignor in assignors:
        common &= set(assignor.protocols)
    if not common:
        raise ConfigError("partition.assignment.strategy: the assignors share no rebalance protocol")
    return max(common)


__all__ = [
    "Assignor",
    "CooperativeStickyAssignor",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
    "common_protocol",
    "resolve_assignors",
]
