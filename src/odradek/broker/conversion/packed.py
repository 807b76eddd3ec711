# compiled: mypyc
"""The packed batches of a Produce request, as far as they unpack to little: see `preparation` for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from odradek.broker.conversion.produce import PreparedRecords, topic_name
from odradek.log.partition.format_conversion import Prepared
from odradek.records.batch import CODEC_MASK, FLAGS_AT, MAGIC_AT, MAGIC_V2
from odradek.records.validate import UNPACKS_TO_MORE, AcceptedBatch

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.replication.partition import Partition
    from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

QUICK_UNPACKED_BYTES: Final = 1024 * 1024
"""So much is unpacked for a request at once, where the loop's round has room for it (`Unpacking.room`)."""

UNCOUNTED_BYTES: Final = 64 * 1024
"""So little is unpacked whatever others have unpacked in this round of the loop: a tenth of a millisecond's
work."""

QUICK_RECODED_BYTES: Final = 64 * 1024
"""So much is packed anew at once, where the topic wants another codec."""

_CODEC_AND_MORE: Final = FLAGS_AT + 1


def is_packed(records: Any) -> bool:
    """Return whether these are batches of today whose first one is packed."""
    return (
        records is not None
        and len(records) > _CODEC_AND_MORE
        and records[MAGIC_AT] == MAGIC_V2
        and records[FLAGS_AT] & CODEC_MASK != 0
    )


def has_packed(request: ProduceRequest) -> bool:
    """Return whether there is anything to unpack in a request."""
    topics: list[TopicProduceData] = request.topic_data
    for topic in topics:
        partitions: list[PartitionProduceData] = topic.partition_data
        for data in partitions:
            if is_packed(data.records):
                return True
    return False


def recodes_long(partition: Partition, records: Any) -> bool:
    """Return whether these records are to be packed in a topic's own codec, and are more than a few."""
    rules = partition.log.rules
    return (
        len(records) > QUICK_RECODED_BYTES
        and rules.codec is not None
        and records[MAGIC_AT] == MAGIC_V2
        and records[FLAGS_AT] & CODEC_MASK != int(rules.codec)
    )


def accept_quickly(context: RequestContext, request: ProduceRequest) -> PreparedRecords | None:
    """Look at the packed batches of a request as long as they unpack to little.

    Returns:
        What has been looked at, with its key; None where something is to be done in a thread.
    """
    prepared: PreparedRecords = {}
    at_first = room = -1
    topics: list[TopicProduceData] = request.topic_data
    for topic in topics:
        name = topic_name(context, topic)
        here = None if name is None else context.broker.replicas.by_topic.get(name)
        if name is None or here is None:
            continue
        may_write = None
        partitions: list[PartitionProduceData] = topic.partition_data
        for data in partitions:
            records = data.records
            packed = is_packed(records)
            if not packed and (records is None or len(records) <= QUICK_RECODED_BYTES):
                continue
            if may_write is None:
                may_write = context.may_write(name)
            partition = here.get(data.index)
            if not may_write or partition is None:
                continue
            if not packed:
                if recodes_long(partition, records):
                    return None
                continue
            if at_first < 0:
                at_first = room = max(context.broker.unpacking.room, UNCOUNTED_BYTES)
            partition_records = accept_little(context, partition, records, room)
            if partition_records is None:
                # How much of it has been unpacked is not told: at most so much.
                context.broker.unpacking.use_room(at_first)
                return None
            batch = partition_records.accepted
            assert batch is not None
            room -= batch.unpacked_bytes
            prepared[name, data.index] = partition_records
    if at_first - room > UNCOUNTED_BYTES:
        context.broker.unpacking.use_room(at_first - room)
    return prepared


def accept_little(context: RequestContext, partition: Partition, records: Any, room: int) -> Prepared | None:
    """A packed batch that is in order, unpacks to little, and is stored as it came or soon packed anew; None
    for any other.

    Args:
        room: how many bytes are little.
    """
    rules = partition.log.rules
    version = context.api_version
    batch: AcceptedBatch | None = rules.accept_within(records, context.now_ms, version, room)
    if batch is None or batch is UNPACKS_TO_MORE:
        return None
    if not rules.keeps(batch) and batch.unpacked_bytes > QUICK_RECODED_BYTES:
        return None
    return Prepared(rules, records, version, accepted=batch)
