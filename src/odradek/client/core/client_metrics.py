"""A client's metrics under Kafka's names.

Kafka keeps a rate by what was recorded within two windows of 30 s. Here it is the growth of a total since a
look that is 30 s old or older, or since the client began: so nothing is counted for it while records pass.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from odradek.client.core.traffic import Traffic
from odradek.client.types import MetricName

_WINDOW_S = 30.0

Values = dict[MetricName, float]


class ClientMetrics:
    """The metrics of one client.

    Args:
        kind: 'producer' or 'consumer'; with `-metrics` it is the group of what all clients have.
        client_id: a tag of each.
    """

    def __init__(self, kind: str, client_id: str) -> None:
        self._kind = kind
        self._client_id = client_id
        # Looks that rates may go back to, the oldest first. Replaced as a whole: any thread may look.
        self._looks: tuple[tuple[float, dict[str, float]], ...] = ((time.monotonic(), {}),)

    def name(self, name: str, group: str = "", **tags: str) -> MetricName:
        """Return a metric's name; without a group it is that of all such clients."""
        all_tags = {"client-id": self._client_id, **tags}
        return MetricName(name, group or f"{self._kind}-metrics", tuple(sorted(all_tags.items())))

    def values(
        self, gauges: Mapping[MetricName, float], totals: Mapping[MetricName, float], traffic: Traffic
    ) -> Values:
        """Return gauges, totals, and a rate for each total: `record-send-total` has `record-send-rate`.

        Args:
            totals: under names that end with '-total', of different names.
        """
        all_totals = {**totals, **self._of_traffic(traffic)}
        now = time.monotonic()
        looks = self._looks
        while len(looks) > 1 and looks[1][0] <= now - _WINDOW_S:
            looks = looks[1:]
        since, before = looks[0]
        seconds = max(now - since, 0.001)
        counts = {name.name: value for name, value in all_totals.items()}
        rates = {
            name._replace(name=f"{name.name.removesuffix('-total')}-rate"): (
                (value - before.get(name.name, 0.0)) / seconds
            )
            for name, value in all_totals.items()
        }
        self._looks = (*looks, (now, counts)) if now - looks[-1][0] >= 1.0 else looks
        connections = traffic.connections_made - traffic.connections_closed
        return {**gauges, self.name("connection-count"): float(connections), **all_totals, **rates}

    def _of_traffic(self, traffic: Traffic) -> Values:
        return {
            self.name("connection-creation-total"): float(traffic.connections_made),
            self.name("connection-close-total"): float(traffic.connections_closed),
            self.name("request-total"): float(traffic.requests),
            self.name("response-total"): float(traffic.responses),
            self.name("outgoing-byte-total"): float(traffic.bytes_out),
            self.name("incoming-byte-total"): float(traffic.bytes_in),
        }
