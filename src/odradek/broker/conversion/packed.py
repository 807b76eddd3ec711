"""The packed batches of a Produce request, looked at before anything is appended: see `unpacking`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.conversion.produce import (
    FIRST_VERSION_OF_BATCHES,
    PreparedRecords,
    partitions_of_topic,
    topic_name,
    without_frames,
)
from odradek.broker.event_loop.slices import NobodyWaits, Steps, wait
from odradek.errors import KafkaError
from odradek.log.partition.format_conversion import Prepared
from odradek.records.batch import CODEC_MASK, FLAGS_AT, MAGIC_AT, MAGIC_V2
from odradek.records.validate import UNPACKS_TO_MORE, AcceptedBatch

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.replication.partition import Partition
    from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

QUICK_UNPACKED_BYTES: Final = 1024 * 1024
"""So much is unpacked for a request at once: half a millisecond's work, or three of gzip's."""

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


def _recodes_long(partition: Partition, records: Any) -> bool:
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
        What has been looked at, with its key; None where something is to be done in a thread: see `unpack`.
    """
    prepared: PreparedRecords = {}
    room = QUICK_UNPACKED_BYTES
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
                if _recodes_long(partition, records):
                    return None
                continue
            one = _accepted(context, partition, records, room)
            if one is None:
                return None
            batch = one.accepted
            assert batch is not None
            room -= batch.unpacked_bytes
            prepared[name, data.index] = one
    return prepared


def _accepted(context: RequestContext, partition: Partition, records: Any, room: int) -> Prepared | None:
    """A packed batch that is in order, unpacks to little, and is stored as it came; None for any other."""
    rules = partition.log.rules
    version = context.api_version
    batch: AcceptedBatch | None = rules.accept_within(records, context.now_ms, version, room)
    if batch is None or batch is UNPACKS_TO_MORE:
        return None
    if not rules.keeps(batch) and batch.unpacked_bytes > QUICK_RECODED_BYTES:
        return None
    return Prepared(rules, records, version, accepted=batch)


def unpack(
    context: RequestContext, request: ProduceRequest, prepared: PreparedRecords
) -> Steps[PreparedRecords]:
    """Look at all packed batches, the large ones in threads; returns `prepared`, with these.

    Raises:
        NobodyWaits: the peer has gone, and a large batch is not unpacked for nobody.
    """
    if context.api_version < FIRST_VERSION_OF_BATCHES:
        return prepared
    room = QUICK_UNPACKED_BYTES
    for topic in request.topic_data:
        for partition, key, data in partitions_of_topic(context, topic):
            records = data.records
            packed = is_packed(records)
            if key in prepared or not (packed or _recodes_long(partition, records)):
                continue
            if not partition.is_leader or not partition.log.rules.holds_batches:
                continue  # the append says so
            one = _accepted(context, partition, records, room) if packed else None
            if one is not None:
                batch = one.accepted
                assert batch is not None
                room -= batch.unpacked_bytes
                prepared[key] = one
                continue
            if not context.peer.is_open:
                raise NobodyWaits
            prepared[key] = yield from wait(
                context.broker.unpacking.run(
                    partial(_prepare, partition, records, context.now_ms, context.api_version),
                    partial(_unpacked_bytes, partition.log.rules.max_unpacked_bytes),
                )
            )
            room = QUICK_UNPACKED_BYTES
        yield
    return prepared


def _prepare(partition: Partition, records: Any, now_ms: int, produce_version: int) -> Prepared | KafkaError:
    """Look at a batch in a thread; returns why it is refused where it is."""
    try:
        return partition.log.prepare(records, now_ms=now_ms, produce_version=produce_version)
    except KafkaError as error:
        return without_frames(error)


def _unpacked_bytes(most: int, outcome: Prepared | KafkaError | None) -> int:
    """Return what a batch has unpacked to; the most that one may where that is not known."""
    if isinstance(outcome, Prepared) and outcome.accepted is not None:
        return outcome.accepted.unpacked_bytes
    return most
