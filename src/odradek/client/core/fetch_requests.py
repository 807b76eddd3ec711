"""Fetch and ListOffsets requests without a session, from plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from odradek.client.core.versions import SPOKEN
from odradek.client.types import TopicPartition
from odradek.wire.api import ApiKey
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.primitives import ZERO_UUID

LATEST = -1
EARLIEST = -2

NAMES_UNTIL = 12
"""The last version of Fetch that names topics; later ones need topic ids (KIP-516)."""


class FetchAt(NamedTuple):
    """The place to read in one partition. Epochs are -1 when unknown."""

    tp: TopicPartition
    offset: int
    leader_epoch: int
    max_bytes: int
    last_epoch: int = -1


def fetch_ceiling(topic_ids: Iterable[bytes]) -> int:
    """The highest version that can be spoken, given the ids of the topics asked for."""
    return NAMES_UNTIL if any(topic_id == ZERO_UUID for topic_id in topic_ids) else SPOKEN[ApiKey.FETCH][1]


def fetch_request(
    wanted: Iterable[FetchAt],
    topic_ids: Mapping[str, bytes],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    isolation: int,
    rack: str = "",
    session: tuple[int, int] = (0, -1),
) -> FetchRequest:
    """A request for these partitions, in their order."""
    topics: list[FetchTopic] = []
    for at in wanted:
        if not topics or topics[-1].topic != at.tp.topic:
            topics.append(
                FetchTopic(topic=at.tp.topic, topic_id=topic_ids.get(at.tp.topic, ZERO_UUID), partitions=[])
            )
        topics[-1].partitions.append(
            FetchPartition(
                partition=at.tp.partition,
                current_leader_epoch=at.leader_epoch,
                fetch_offset=at.offset,
                last_fetched_epoch=-1,
                partition_max_bytes=at.max_bytes,
            )
        )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
        rack_id=rack,
    )


def offset_in(answer: Any) -> int:
    """The offset in a partition's part of a ListOffsets answer, -1 for none.

    Version 0 answers with a list, of one element here, since one is asked for.
    """
    if answer.old_style_offsets:
        return int(answer.old_style_offsets[0])
    return int(answer.offset)


def list_offsets_floor(timestamps: Iterable[int], isolation: int) -> int:
    """The lowest version of ListOffsets that can answer this.

    The ends of a log are found by any; for a time, version 0 has the start of a segment, which is not what
    is meant. 2 brought the isolation level; -3 (KIP-734), -4 (KIP-405) and -5 (KIP-1005) came with 7, 8, 9.
    """
    lowest = min(timestamps)
    return max({-3: 7, -4: 8, -5: 9}.get(lowest, 0), 2 if isolation else 0, 1 if max(timestamps) >= 0 else 0)


def list_offsets_request(
    wanted: Mapping[TopicPartition, int], isolation: int, epoch_of: Any = None
) -> ListOffsetsRequest:
    """Timestamps (or LATEST, EARLIEST) by partition → one request."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for tp, timestamp in wanted.items():
        topics.setdefault(tp.topic, []).append(
            ListOffsetsPartition(
                partition_index=tp.partition,
                current_leader_epoch=-1 if epoch_of is None else epoch_of(tp),
                timestamp=timestamp,
            )
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
