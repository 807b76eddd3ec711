"""The start of a broker's transaction coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.metadata.features import TRANSACTION_VERSION
from odradek.broker.transactions.markers import MarkerWriter
from odradek.broker.transactions.runtime import TransactionRuntime

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices


def start_transactions(broker: BrokerServices) -> TransactionRuntime:
    """The binding of a broker that runs, in step with its image."""
    writer = MarkerWriter(
        broker.replicas,
        broker.purgatory,
        lambda: broker.groups,
        broker.clock,
        broker.config.request_timeout_ms,
        broker.slicer,
    )
    transactions = TransactionRuntime(
        broker_id=broker.broker_id,
        replicas=broker.replicas,
        purgatory=broker.purgatory,
        controller=broker.controller,
        producer_ids=broker.producer_ids,
        writer=writer,
        clock=broker.clock,
        timers=broker.timers,
        loop=broker.loop,
        config=broker.config,
        transaction_version=broker.features.level(TRANSACTION_VERSION),
        channels=broker.channels,
    )
    transactions.follow(broker.image)
    transactions.register_gauges(broker.metrics)
    return transactions
