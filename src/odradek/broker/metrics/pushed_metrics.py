"""The metrics that clients push (KIP-714), kept for those who read `/metrics` and `/applications`.

What is kept of a client is bounded, and forgotten when it has been silent for three of its intervals. Names
and labels come from clients: nothing of them is taken as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from odradek.broker.metrics.otlp import DataPoint

MOST_CLIENTS = 1000
MOST_SERIES_OF_A_CLIENT = 1000
MOST_SERIES = 50_000
_LONGEST_TEXT = 128
_MOST_ATTRIBUTES = 8

Attributes = tuple[tuple[str, str], ...]


class Series:
    """One number of one client.

    Attributes:
        value: summed up where the client pushes differences.
        is_monotonic: whether it only rises.
    """

    __slots__ = ("is_monotonic", "value")

    def __init__(self, is_monotonic: bool) -> None:
        self.value = 0.0
        self.is_monotonic = is_monotonic


class PushingClient(NamedTuple):
    """The client that pushes metrics, as the labels name it.

    Attributes:
        instance_id: as text.
    """

    client_id: str
    instance_id: str
    software_name: str
    software_version: str
    principal: str
    host: str


class ClientSeries:
    """The metrics of one client instance.

    Attributes:
        client: whose.
        pushes: how often it has pushed.
        last_ms: when last.
        left_out: numbers that were too many to be kept.
        series: by name and attributes.
    """

    def __init__(self, client: PushingClient) -> None:
        self.client = client
        self.pushes = 0
        self.last_ms = 0
        self.expires_ms = 0
        self.left_out = 0
        self.series: dict[tuple[str, Attributes], Series] = {}


class PushedMetrics:
    """The metrics of all clients that push some.

    Attributes:
        left_out: pushes of clients that were too many.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._by_instance: dict[bytes, ClientSeries] = {}
        self._series = 0

    def __len__(self) -> int:
        return len(self._by_instance)

    def of(
        self, instance_id: bytes, client: PushingClient, now_ms: int, interval_ms: int
    ) -> ClientSeries | None:
        """Return where the metrics of a client go that pushes now; None where there are too many.

        Args:
            instance_id: its own.
            client: who it is.
            now_ms: the time.
            interval_ms: how often it is to push.
        """
        known = self._by_instance.get(instance_id)
        is_full = len(self._by_instance) >= MOST_CLIENTS or self._series >= MOST_SERIES
        if is_full or (known is not None and known.expires_ms <= now_ms):
            self.expire(now_ms)
            known = self._by_instance.get(instance_id)
        if known is None:
            if len(self._by_instance) >= MOST_CLIENTS:
                self.left_out += 1
                return None
            known = self._by_instance[instance_id] = ClientSeries(client)
        known.pushes += 1
        known.last_ms = now_ms
        known.expires_ms = now_ms + max(60_000, 3 * interval_ms)
        return known

    def add(self, to: ClientSeries, point: DataPoint) -> None:
        """Take in one number."""
        key = (
            point.name[:_LONGEST_TEXT],
            tuple(
                (name[:_LONGEST_TEXT], text[:_LONGEST_TEXT])
                for name, text in point.attributes[:_MOST_ATTRIBUTES]
            ),
        )
        series = to.series.get(key)
        value = point.value if series is None or not point.is_delta else series.value + point.value
        if not math.isfinite(value):
            # Neither JSON nor a sum has a place for it.
            to.left_out += 1
            return
        if series is None:
            if len(to.series) >= MOST_SERIES_OF_A_CLIENT or self._series >= MOST_SERIES:
                to.left_out += 1
                return
            series = to.series[key] = Series(point.is_monotonic)
            self._series += 1
        series.value = value

    def expire(self, now_ms: int) -> None:
        """Forget clients that have been silent for too long."""
        for instance_id, known in list(self._by_instance.items()):
            if known.expires_ms <= now_ms:
                del self._by_instance[instance_id]
                self._series -= len(known.series)

    def clients(self, now_ms: int) -> Iterator[ClientSeries]:
        """Yield the metrics of each client."""
        self.expire(now_ms)
        yield from list(self._by_instance.values())
