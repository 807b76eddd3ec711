"""The answers of a broker of a cluster of several that has not been told yet which topics there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.errors import KafkaError, LeaderNotAvailableError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices


def is_untold(broker: BrokerServices) -> bool:
    """Return whether a broker of a cluster of several has not been told yet which topics there are."""
    return broker.channels is not None and not broker.knows_cluster


def unknown_topic(broker: BrokerServices, message: str | None = None) -> KafkaError:
    """Return what to say of a topic that is not in a broker's metadata.

    Args:
        broker: it.
        message: what to say where there is no such topic; None for the error's own.

    Returns:
        UNKNOWN_TOPIC_OR_PARTITION; LEADER_NOT_AVAILABLE, upon which clients ask again, while the broker has
        not been told which topics there are, and nobody is to take one for deleted.
    """
    if is_untold(broker):
        return LeaderNotAvailableError("The broker has just started, and does not know the topics yet.")
    return UnknownTopicOrPartitionError(message)
