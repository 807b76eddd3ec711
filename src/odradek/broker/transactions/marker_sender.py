"""The way of markers to the broker that leads their partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from odradek.broker.transactions.markers import MarkerWriter
    from odradek.coordinators.transactions.coordinator import PartitionErrors
    from odradek.coordinators.transactions.markers import TransactionMarkers


class MarkerSender(Protocol):
    """The way of markers to the broker that leads their partitions."""

    def __call__(
        self, broker_id: int, markers: TransactionMarkers, deliver: Callable[[PartitionErrors], None]
    ) -> None:
        """Send markers to the broker that writes them.

        Args:
            broker_id: who leads their partitions; -1: nobody at the moment.
            markers: what to write.
            deliver: gets what each partition answered; nothing for those that gave no answer, which are
                tried again after a pause.
        """
        ...


class LocalMarkers:
    """`MarkerSender` of a broker that is alone: what it does not lead itself has to wait."""

    def __init__(self, broker_id: int, writer: MarkerWriter) -> None:
        self._broker_id = broker_id
        self._writer = writer

    def __call__(
        self, broker_id: int, markers: TransactionMarkers, deliver: Callable[[PartitionErrors], None]
    ) -> None:
        """See `MarkerSender`."""
        if broker_id != self._broker_id:
            deliver({})
            return
        self._writer.write(
            markers.producer_id,
            markers.producer_epoch,
            sorted(markers.partitions),
            coordinator_epoch=markers.coordinator_epoch,
            commit=markers.commit,
            deliver=deliver,
            transaction_version=markers.transaction_version,
        )
