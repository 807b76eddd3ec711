"""What a consumer says of itself, inside JoinGroup.

Version 1 tells what it owns (KIP-429), 2 in which generation (KIP-792), 3 its rack (KIP-881).
"""

from __future__ import annotations

from odradek.wire.fields import array, blob, int32, string
from odradek.wire.message import Data, Struct, data, struct


@struct
class TopicPartition(Struct):
    """An element of `ConsumerProtocolSubscription.owned_partitions`."""

    topic: str = string("1+")
    partitions: list[int] = array(int32, "1+")


@data(versions="0-3")
class ConsumerProtocolSubscription(Data):
    """Topics that the member wants, and what it owns."""

    topics: list[str] = array(string)
    user_data: bytes | None = blob(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
