"""The start of a broker's group coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.groups.runtime import GroupRuntime

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices


def start_groups(broker: BrokerServices) -> GroupRuntime:
    """The binding of a broker that runs, in step with its image."""
    groups = GroupRuntime(
        broker_id=broker.broker_id,
        replicas=broker.replicas,
        purgatory=broker.purgatory,
        controller=broker.controller,
        clock=broker.clock,
        timers=broker.timers,
        config=broker.config,
    )
    groups.follow(broker.image)
    return groups
