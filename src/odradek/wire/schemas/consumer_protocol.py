"""The words between consumers and their leader in JoinGroup and SyncGroup, user data included."""

from __future__ import annotations

from odradek.wire.fields import array, blob, int32, string
from odradek.wire.message import Data, Message, Struct, data, struct


@struct
class TopicPartition(Struct):
    """Partitions of one topic, owned or assigned."""

    topic: str = string()
    partitions: list[int] = array(int32)


@data(versions="0-3")
class ConsumerProtocolSubscription(Data):
    """A consumer's subscription, inside JoinGroup.

    Version 1 tells what it owns (KIP-429), 2 in which generation (KIP-792), 3 its rack (KIP-881).
    """

    topics: list[str] = array(string)
    user_data: bytes | None = blob(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


@data(versions="0-3")
class ConsumerProtocolAssignment(Data):
    """The partitions that the group's leader assigns to a consumer, inside SyncGroup."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = blob(nullable="0+", default=None)


@struct
class TopicAssignment(Struct):
    """Partitions of one topic that the member had."""

    topic: str = string()
    partitions: list[int] = array(int32)


@data(versions="0-1")
class StickyAssignorUserData(Message):
    """A member's word to the sticky assignors about itself, as the user data of its subscription.

    Nothing stands in front of it, so its reader has to try: version 1, then 0 (KIP-341 brought the
    generation).
    """

    previous_assignment: list[TopicAssignment] = array(TopicAssignment)
    generation: int = int32("1+", default=-1, ignorable=True)


@data(versions="0")
class CooperativeStickyAssignorUserData(Message):
    """A member's word to the cooperative sticky assignor, as the user data of its subscription (KIP-429)."""

    generation: int = int32(default=-1)
