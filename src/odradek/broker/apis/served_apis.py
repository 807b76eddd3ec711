"""The APIs that a broker serves, as the code sees them that answers questions about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from odradek.broker.kafka_versions.release import Release


class ServedApis(Protocol):
    """The half of `odradek.broker.apis.registry.Handlers` that is asked by handlers.

    Attributes:
        release: the release of Kafka to be; None for all that there is.
    """

    release: Release | None

    @property
    def between_brokers(self) -> ServedApis:
        """Return what is served to the other brokers of the cluster: all that there is, whatever the release
        has."""
        ...

    @property
    def with_zookeeper(self) -> bool:
        """Return whether the broker is to answer as one with ZooKeeper."""
        ...

    def versions(self) -> list[tuple[int, range]]:
        """API keys and versions, in the order of the keys: what ApiVersions lists."""
        ...
