"""Messages of magic 0 and 1 in the log folders of old brokers, and what Kafka's reader said of them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from .golden import segments

OLD_RELEASES = ("0.8.2.2", "0.10.2.2", "2.2.2")


class OldSegment(NamedTuple):
    """A `.log` file and its batches as Kafka's own reader saw them."""

    where: str
    data: bytes
    batches: list[dict[str, Any]]


@functools.cache
def old_segments(release: str) -> list[OldSegment]:
    """The segments of a clean folder that hold messages of magic 0 or 1."""
    return [
        OldSegment(*segment)
        for segment in segments(release)
        if any(batch["magic"] < 2 for batch in segment[2])
    ]
