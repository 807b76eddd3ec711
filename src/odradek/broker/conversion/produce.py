"""The conversion of produced records beside the event loop, before they are appended, and which need it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from odradek.errors import KafkaError
from odradek.records.batch import CODEC_MASK, FLAGS_AT, MAGIC_AT, MAGIC_V2
from odradek.records.compression import Codec
from odradek.records.message_sets.message_set import MESSAGE_ATTRIBUTES_AT
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.log.partition.format_conversion import Prepared
    from odradek.replication.partition import Partition

PreparedRecords = dict[tuple[str, int], "Prepared | KafkaError"]
"""What has been made of the records of a partition, or why they are refused."""

FIRST_VERSION_OF_BATCHES: Final = 3
"""Of Produce; earlier ones hold message sets."""

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13

QUICK_BYTES = 64 * 1024
"""So much is converted at once: sooner done than handed to a thread."""

QUICK_PACKED_BYTES = 2 * 1024
"""The same for what is compressed and may unpack to a thousandfold, or is a message set, any message of which
may be. Of zstd nothing is, which knows no bound."""

_ZSTD: Final = int(Codec.ZSTD)

AHEAD_BYTES = 32 * 1024 * 1024
"""How much of one request is converted before the first of it is appended."""


def topic_name(context: RequestContext, topic: TopicProduceData) -> str | None:
    """The topic that a request means; None for an id that is not known here."""
    if context.api_version < FIRST_VERSION_WITH_TOPIC_IDS:
        return topic.name
    return context.broker.image.topic_name(topic.topic_id)


def partitions_of_topic(
    context: RequestContext, topic: TopicProduceData
) -> Iterator[tuple[Partition, tuple[str, int], PartitionProduceData]]:
    """The partitions of a topic that are here and may be written to, each with its key and what is for it."""
    broker = context.broker
    name = topic_name(context, topic)
    if name is None or not context.may_write(name):
        return
    for data in topic.partition_data:
        if not data.records:
            continue
        partition = broker.replicas.try_get(name, data.index)
        if partition is not None:
            yield partition, (name, data.index), data


def converts(context: RequestContext, request: ProduceRequest) -> bool:
    """Return whether anything in a request may have to be converted: it is old, or a topic's format is."""
    if context.api_version < FIRST_VERSION_OF_BATCHES:
        return True
    by_topic: dict[str, dict[int, Partition]] = context.broker.replicas.by_topic
    topics: list[TopicProduceData] = request.topic_data
    for topic in topics:
        name = topic_name(context, topic)
        here: dict[int, Partition] | None = None if name is None else by_topic.get(name)
        # All partitions of a topic have its configs.
        for partition in () if here is None else here.values():
            if not partition.log.rules.holds_batches:
                return True
            break
    return False


def takes_long(partition: Partition, records: Any) -> bool:
    """Return whether these records are to be converted, and are more than a few."""
    size = len(records)
    if size <= FLAGS_AT:
        return False
    old = records[MAGIC_AT] < MAGIC_V2
    if not old and partition.log.rules.magic == MAGIC_V2:
        return False
    codec = records[MESSAGE_ATTRIBUTES_AT if old else FLAGS_AT] & CODEC_MASK
    if codec == _ZSTD:
        return True
    return size > (QUICK_PACKED_BYTES if codec or old else QUICK_BYTES)


def take_long(items: list[tuple[Partition, tuple[str, int], Any]]) -> bool:
    """Return whether one of these is more than a few records to convert, or all of them are."""
    size = 0
    for partition, _, records in items:
        if takes_long(partition, records):
            return True
        if len(records) > MAGIC_AT and records[MAGIC_AT] < MAGIC_V2:
            size += len(records)
    return size > QUICK_PACKED_BYTES


def without_frames(error: KafkaError) -> KafkaError:
    """Return an error that is kept for a while, without the frames that it came through: these hold what has
    been unpacked."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def prepare_all(
    items: list[tuple[Partition, tuple[str, int], Any]], now_ms: int, produce_version: int
) -> PreparedRecords:
    """Convert what takes long, in another thread than the event loop's."""
    prepared: PreparedRecords = {}
    size = 0
    for partition, key, records in items:
        if size > AHEAD_BYTES:
            break
        is_as_the_log = produce_version >= FIRST_VERSION_OF_BATCHES and partition.log.rules.holds_batches
        if key in prepared or is_as_the_log:
            continue
        try:
            one = partition.log.prepare(records, now_ms=now_ms, produce_version=produce_version)
        except KafkaError as error:
            prepared[key] = without_frames(error)
            continue
        size += len(one.records) + (len(one.placed.records) if one.placed is not None else 0)
        prepared[key] = one
    return prepared
