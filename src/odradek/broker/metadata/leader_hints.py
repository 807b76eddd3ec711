"""The present leaders, for clients that came to the wrong broker (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.cluster.image import BrokerImage, ClusterImage


class LeaderHints:
    """Collects leaders for one response, and the endpoints of those that are live."""

    def __init__(self, image: ClusterImage, listener_name: str) -> None:
        """
        Args:
            image: the cluster.
            listener_name: the listener that the client uses; its endpoints are given.
        """
        self._image = image
        self._listener_name = listener_name
        self._brokers: dict[int, BrokerImage] = {}

    def leader(self, topic: str, index: int) -> tuple[int, int]:
        """`(leader id, leader epoch)` of a partition, both -1 when they are not known."""
        partition = self._image.partition(topic, index)
        if partition is None or partition.leader < 0:
            return -1, -1
        broker = self._image.brokers.get(partition.leader)
        if broker is not None:
            self._brokers[partition.leader] = broker
        return partition.leader, partition.leader_epoch

    def endpoints(self) -> list[dict[str, Any]]:
        """The leaders that were asked for, as keyword arguments of a `NodeEndpoint`."""
        endpoints = []
        for broker_id, broker in self._brokers.items():
            endpoint = broker.endpoint(self._listener_name)
            if endpoint is not None:
                endpoints.append(
                    {
                        "node_id": broker_id,
                        "host": endpoint.host,
                        "port": endpoint.port,
                        "rack": broker.registration.rack,
                    }
                )
        return endpoints
