"""The partitions of topics in the form in which partitions are chosen for records."""

from __future__ import annotations

from typing import Any, NamedTuple

from odradek.client.core.metadata import MetadataCache
from odradek.client.types import TopicPartition


class KnownTopic(NamedTuple):
    """A topic's partitions: all numbers ascending, those with a leader (all if none has), and by number.

    `state` is the metadata that it was made from.
    """

    state: Any
    numbers: list[int]
    available: list[int]
    tps: dict[int, TopicPartition]


class KnownTopics:
    """Makes them of the metadata, and keeps them until that changes."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._topics: dict[str, KnownTopic] = {}

    def get(self, name: str) -> KnownTopic | None:
        """Return the known partitions of a topic; None if it is not in the metadata."""
        state = self._metadata.topics.get(name)
        if state is None or not state.partitions:
            return None
        known = self._topics.get(name)
        if known is None or known.state is not state:
            numbers = sorted(state.partitions)
            available = [n for n in numbers if state.partitions[n].leader >= 0]
            tps = {n: TopicPartition(name, n) for n in numbers}
            known = self._topics[name] = KnownTopic(state, numbers, available or numbers, tps)
        return known
