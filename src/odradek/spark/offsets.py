"""Offsets of many partitions: as a dict, as the connector's JSON, and as "where to start".

An offset here is the next one to read, as in Kafka's consumer positions: `{("t", 0): 6}` says that offset 5
was the last one taken. Pure: nothing here talks to a broker.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from odradek.client.types import TopicPartition

LATEST = -1
"""In an offsets JSON, and as a `ListOffsets` timestamp: the end of the partition."""
EARLIEST = -2
"""In an offsets JSON, and as a `ListOffsets` timestamp: the first offset that is still there."""


Offsets = dict[TopicPartition, int]
"""Next offset to read, by partition."""


@dataclass(frozen=True)
class Earliest:
    """From the first offset that each partition still has."""


@dataclass(frozen=True)
class Latest:
    """From (or to) the end that each partition has when it is asked."""


@dataclass(frozen=True)
class AtOffsets:
    """At these offsets, one for every partition; `EARLIEST` and `LATEST` stand for themselves."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTimestamp:
    """At the first record of each partition whose timestamp is not before `timestamp_ms` (epoch)."""

    timestamp_ms: int


@dataclass(frozen=True)
class AtTimestamps:
    """As `AtTimestamp`, with its own timestamp (epoch ms) for every partition."""

    timestamps: Mapping[TopicPartition, int]


Limit = Earliest | Latest | AtOffsets | AtTimestamp | AtTimestamps
"""One end of what is read, before brokers have been asked."""


def offsets_from_json(text: str) -> Offsets:
    """The offsets in `{"topicA":{"0":23,"1":-1}}`.

    Raises `ValueError`, showing an example, if `text` is anything else.
    """
    return _partition_numbers(text, 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}')


def timestamps_from_json(text: str) -> dict[TopicPartition, int]:
    """The timestamps (epoch ms) in `{"topicA":{"0":1700000000000}}`.

    Raises `ValueError`, showing an example, if `text` is anything else.
    """
    return _partition_numbers(
        text, 'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789}}'
    )


def partitions_from_json(text: str) -> list[TopicPartition]:
    """The partitions in `{"topicA":[0,1]}`, sorted.

    Raises `ValueError`, showing an example, if `text` is anything else.
    """
    wanted = 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}'
    parsed = _parse(text, wanted)
    found: set[TopicPartition] = set()
    for topic, numbers in parsed.items():
        if not isinstance(numbers, list) or not all(_is_count(number) for number in numbers):
            raise ValueError(f"{wanted}, got {text}")
        found.update(TopicPartition(topic, number) for number in numbers)
    return sorted(found)


def to_spark(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """As the nested dict that Spark writes into its checkpoint, sorted.

    Spark takes two offsets for equal when their JSON texts are; hence the order.
    """
    nested: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        nested.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return nested


def from_spark(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The inverse of `to_spark`; a checkpoint of Spark's Kafka connector reads the same."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in nested.items()
        for partition, offset in partitions.items()
    }


def show(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for an error message: `[a-0, a-1]`."""
    return "[" + ", ".join(str(tp) for tp in sorted(partitions)) + "]"


def _partition_numbers(text: str, wanted: str) -> dict[TopicPartition, int]:
    parsed = _parse(text, wanted)
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"{wanted}, got {text}")
        for partition, number in partitions.items():
            if not (partition.isascii() and partition.isdigit()) or not _is_integer(number):
                raise ValueError(f"{wanted}, got {text}")
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def _parse(text: str, wanted: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        raise ValueError(f"{wanted}, got {text}") from None
    if not isinstance(parsed, dict):
        raise ValueError(f"{wanted}, got {text}")
    return parsed


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
