"""The name of a partition."""

from __future__ import annotations

TopicPartition = tuple[str, int]
"""Topic and number."""
