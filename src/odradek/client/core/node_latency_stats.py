"""The brokers that take no batches at present: `partitioner.availability.timeout.ms` (KIP-794)."""

from __future__ import annotations

from collections.abc import Collection


class NodeLatencyStats:
    """The times at which each broker could have been sent something, and was (Kafka's NodeLatencyStats).

    Args:
        timeout_ms: how long a broker may take nothing before it counts as one that does not; 0: for ever.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        # Broker → since when batches wait for it; monotonic ms.
        self._waiting_since: dict[int, float] = {}
        self._refusing: frozenset[int] = frozenset()

    def looked(self, node: int, now_ms: float, can_drain: bool) -> None:
        """Batches for the broker may leave.

        Args:
            can_drain: there is a connection, with room for a request.
        """
        if self._timeout_ms <= 0:
            return
        if can_drain:
            self._waiting_since.pop(node, None)
        else:
            self._waiting_since.setdefault(node, now_ms)
        # Anew each time, as other threads read it.
        self._refusing = frozenset(
            waiting for waiting, since in self._waiting_since.items() if now_ms - since > self._timeout_ms
        )

    def nothing_waits_but_for(self, nodes: Collection[int]) -> None:
        """Forget the others: what waited for them has expired, and new records may find them well."""
        if self._waiting_since.keys() - nodes:
            self._waiting_since = {
                node: since for node, since in self._waiting_since.items() if node in nodes
            }
            self._refusing &= frozenset(nodes)

    def takes_records(self, node: int | None) -> bool:
        """Return whether the broker takes records; from any thread."""
        return node not in self._refusing
