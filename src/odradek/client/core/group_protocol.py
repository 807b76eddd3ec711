"""The bytes that members of a consumer group exchange through the broker: Kafka's ConsumerProtocol.

Version 3 is written. A newer version than known is read as the newest known one: Kafka promises that later
ones only add fields at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from odradek.client.core.assignors.base import Subscription
from odradek.client.types import TopicPartition
from odradek.errors import ProtocolError
from odradek.wire.schemas.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from odradek.wire.schemas.consumer_protocol import TopicPartition as PartitionsOfTopic

PROTOCOL_TYPE = "consumer"
VERSION = 3


def _grouped(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for tp in partitions:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return by_topic


def _flat(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(t.topic, number) for t in topics for number in t.partitions)


def encode_subscription(subscription: Subscription) -> bytes:
    """A subscription, with its version in front."""
    return ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            PartitionsOfTopic(topic=topic, partitions=numbers)
            for topic, numbers in _grouped(sorted(subscription.owned_partitions)).items()
        ],
        generation_id=-1 if subscription.generation_id is None else subscription.generation_id,
        rack_id=subscription.rack_id,
    ).encode_prefixed(VERSION)


def decode_subscription(data: Any, group_instance_id: str | None = None) -> Subscription:
    """Read a member's subscription.

    Raises:
        ProtocolError: the bytes are none.
    """
    version = _version(data)
    message, _ = ConsumerProtocolSubscription.decode_from(data, version, 2)
    return Subscription(
        topics=tuple(message.topics),
        user_data=None if message.user_data is None else bytes(message.user_data),
        owned_partitions=_flat(message.owned_partitions) if version >= 1 else (),
        generation_id=message.generation_id if version >= 2 else None,
        rack_id=message.rack_id or None,
        group_instance_id=group_instance_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    """An assignment, with its version in front."""
    return ConsumerProtocolAssignment(
        assigned_partitions=[
            PartitionsOfTopic(topic=topic, partitions=numbers)
            for topic, numbers in _grouped(partitions).items()
        ],
        user_data=user_data,
    ).encode_prefixed(VERSION)


def decode_assignment(data: Any) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment; none for empty bytes.

    Raises:
        ProtocolError: the bytes are none.
    """
    if not len(data):
        return ()
    message, _ = ConsumerProtocolAssignment.decode_from(data, _version(data), 2)
    return _flat(message.assigned_partitions)


def _version(data: Any) -> int:
    if len(data) < 2:
        raise ProtocolError("a consumer protocol message without a version")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"a consumer protocol message of version {version}")
    return min(version, VERSION)
