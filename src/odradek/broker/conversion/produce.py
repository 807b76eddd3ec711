# compiled: mypyc
"""The records of a Produce request that have to be converted, and those of them for which that takes long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from odradek.errors import KafkaError
from odradek.records.batch import CODEC_MASK, FLAGS_AT, MAGIC_AT, MAGIC_V2
from odradek.records.compression import Codec
from odradek.records.message_sets.message_set import MESSAGE_ATTRIBUTES_AT
from odradek.util.topic_partition import TopicPartition
from odradek.wire.messages.produce import ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.log.partition.format_conversion import Prepared
    from odradek.replication.partition import Partition

PreparedRecords = dict[TopicPartition, "Prepared | Exception"]
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

_NOTHING_HERE: Final[dict[int, Any]] = {}


def topic_name(context: RequestContext, topic: TopicProduceData) -> str | None:
    """The topic that a request means; None for an id that is not known here."""
    if context.api_version < FIRST_VERSION_WITH_TOPIC_IDS:
        return topic.name
    return context.broker.image.topic_name(topic.topic_id)


def partitions_by_index(context: RequestContext, name: str | None) -> Mapping[int, Partition]:
    """The partitions of a topic that are here and may be written to; none where the topic is not known."""
    if name is None:
        return _NOTHING_HERE
    here: dict[int, Partition] | None = context.broker.replicas.by_topic.get(name)
    return here if here is not None and context.may_write(name) else _NOTHING_HERE


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


def converts_long(context: RequestContext, request: ProduceRequest) -> bool:
    """Return whether a request has more than a few records to convert, or waits for other conversions."""
    if not converts(context, request):
        return False
    latest = context.broker.conversions.latest
    size = 0
    for topic in request.topic_data:
        name = topic_name(context, topic)
        here = partitions_by_index(context, name)
        for data in topic.partition_data:
            partition, records = here.get(data.index), data.records
            if partition is None or not records:
                continue
            if takes_long(partition, records) or (name, data.index) in latest:
                return True
            if len(records) > MAGIC_AT and records[MAGIC_AT] < MAGIC_V2:
                size += len(records)
    return size > QUICK_PACKED_BYTES


def without_frames(error: KafkaError) -> KafkaError:
    """Return an error that is kept for a while, without the frames that it came through: these hold what has
    been unpacked."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
