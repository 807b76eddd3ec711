"""The lines that tell of partitions with which a client gets nowhere: nobody leads them, or whoever does
refuses them on and on.

An election takes seconds, and nobody needs to hear of it. What lasts longer is told with the partition and
the reason, and again once a minute; of many partitions at once in one line.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.client.core.outages import ORDINARY_MS, Outage
from odradek.client.types import TopicPartition

if TYPE_CHECKING:
    from odradek.client.core.metadata import MetadataCache

logger = logging.getLogger("odradek.client")

FORGOTTEN_MS = 90_000.0
"""A partition that has not failed for so long is not wanted any more, or has done well meanwhile. Requests
that nobody answers fail every 30 s."""

_MOST_NAMED = 10


@dataclass(slots=True)
class _Stuck(Outage):
    """Attributes: `seen_ms`: when it failed last."""

    seen_ms: float = 0.0


class StuckPartitions:
    """The partitions of one client that are stuck at present. Takes the time from its caller, monotonic ms.

    Args:
        client_id: for the lines.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._by_partition: dict[TopicPartition, _Stuck] = {}

    def failed(self, reasons: Mapping[TopicPartition, str], now_ms: float) -> None:
        """These got nowhere once more: log a warning for those of which one is due.

        Args:
            reasons: why, for each: "it has no leader".
        """
        due: dict[TopicPartition, str] = {}
        for tp, reason in reasons.items():
            stuck = self._by_partition.get(tp)
            if stuck is None or now_ms - stuck.seen_ms > FORGOTTEN_MS:
                stuck = self._by_partition[tp] = _Stuck(now_ms)
            stuck.seen_ms = now_ms
            if stuck.is_due(now_ms, ORDINARY_MS):
                due[tp] = f"{tp} for {(now_ms - stuck.since_ms) / 1000:.0f} s now: {reason}"
        if not due:
            return
        for tp in due:
            self._by_partition[tp].told_ms = now_ms
        for tp, stuck in list(self._by_partition.items()):
            if now_ms - stuck.seen_ms > FORGOTTEN_MS:
                del self._by_partition[tp]
        named = [due[tp] for tp in sorted(due)[:_MOST_NAMED]]
        more = f"; and {len(due) - len(named)} more" if len(due) > len(named) else ""
        logger.warning(
            "client %s: no progress with %s%s; it is tried again", self._client_id, "; ".join(named), more
        )

    def leaderless(
        self, partitions: Iterable[TopicPartition], metadata: MetadataCache, now_ms: float
    ) -> None:
        """As `failed`, of partitions that nobody is known to lead."""
        self.failed({tp: metadata.no_leader(tp) for tp in partitions}, now_ms)

    def went_well(self, partitions: Iterable[TopicPartition], now_ms: float) -> None:
        """These have been read or written. That is told of those whose failure was."""
        for tp in partitions:
            stuck = self._by_partition.pop(tp, None)
            if stuck is not None and stuck.told_ms is not None:
                logger.info(
                    "client %s: over after %.0f s: no progress with %s",
                    self._client_id,
                    (now_ms - stuck.since_ms) / 1000,
                    tp,
                )

    def __bool__(self) -> bool:
        """Return whether any partition is stuck."""
        return bool(self._by_partition)
