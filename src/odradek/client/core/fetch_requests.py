"""Fetch and ListOffsets requests, from plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from odradek.client.core.versions import SPOKEN
from odradek.client.types import TopicPartition
from odradek.wire.api import ApiKey
from odradek.wire.fetch_session_handler import NAMES_UNTIL, FetchSessionHandler
from odradek.wire.messages.fetch import FetchRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.primitives import ZERO_UUID

LATEST = -1
EARLIEST = -2

_RACKS_FROM = 11
"""The first version of Fetch that names a rack (KIP-392)."""


class FetchAt(NamedTuple):
    """The place to read in one partition. The epoch is -1 when unknown."""

    tp: TopicPartition
    offset: int
    leader_epoch: int
    max_bytes: int


def fetch_ceiling(topic_ids: Iterable[bytes]) -> int:
    """The highest version that can be spoken, given the ids of the topics asked for."""
    return NAMES_UNTIL if any(topic_id == ZERO_UUID for topic_id in topic_ids) else SPOKEN[ApiKey.FETCH][1]


def fetch_request(
    session: FetchSessionHandler,
    version: int,
    positions: Iterable[FetchAt],
    topic_ids: Mapping[str, bytes],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    isolation: int,
    rack: str = "",
) -> FetchRequest:
    """The next request of a session.

    Args:
        session: of the broker; it takes the response.
        version: in which the request is sent, at most `fetch_ceiling`.
        positions: of all partitions to read, those of one topic beside each other. An earlier one is served
            first.
        topic_ids: of topics that have one.
        max_wait_ms: how long the broker may wait for `min_bytes`, milliseconds.
        max_bytes: of the whole response.
        isolation: 1 for committed records only, 0 for all.
        rack: the reader's, "" for none. Left out where the version has no place for it.
    """
    builder = session.new_builder(version)
    for at in positions:
        builder.add(
            at.tp,
            topic_ids.get(at.tp.topic, ZERO_UUID),
            at.offset,
            leader_epoch=at.leader_epoch,
            max_bytes=at.max_bytes,
        )
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        rack_id=rack if version >= _RACKS_FROM else "",
    )
    builder.build(request)
    return request


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
    timestamps: Mapping[TopicPartition, int], isolation: int, epoch_of: Any = None
) -> ListOffsetsRequest:
    """Timestamps (or LATEST, EARLIEST) by partition → one request."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for tp, timestamp in timestamps.items():
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
