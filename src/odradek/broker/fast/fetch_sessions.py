"""The short cut for incremental fetches (KIP-227): a session whose partitions stay the same.

Most of such a session's partitions have nothing new, and then cost a few comparisons each: no answer is made
for them. As in `odradek.broker.fast.fetch`, what is unusual is left to the ordinary way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.broker.fetch_sessions import CachedPartition, FetchSession, FetchSpec, IdOrName
from odradek.log.storage.files import FileRange

if TYPE_CHECKING:
    from odradek.broker.fast._pyfetch import Parsed
    from odradek.broker.services import BrokerServices
    from odradek.replication.partition import Partition

Changed = tuple[IdOrName, CachedPartition, int, int, int, Any]
"""Key, partition, high watermark, last stable offset, log start, records of a partition to be answered."""


def update(session: FetchSession, parsed: Parsed) -> bool:
    """Take in what a request says about partitions of the session; false where it brings others.

    The ordinary way may do it again.
    """
    cached = session.cached
    for topic, parts in parsed[8]:
        for index, offset, most, epoch, log_start, last_epoch in parts:
            found = cached.get((topic, index))
            if found is None:
                return False
            found.spec = FetchSpec(offset, most, epoch, log_start, last_epoch)
    return True


def read(
    broker: BrokerServices, session: FetchSession, version: int, committed: bool, room: int, range_from: int
) -> tuple[list[Changed], int, bool] | None:
    """Read every partition of the session; None where one of them is not usual.

    Returns:
        The partitions that have records or other offsets than were told, the bytes of records, and whether
        there are file ranges.
    """
    broker_id = broker.replicas.broker_id
    changed: list[Changed] = []
    total = 0
    ranges = False
    for key, cached in session.cached.items():
        partition = cached.partition
        if partition is None or partition.leader_id != broker_id:
            partition = _resolve(broker, session, key, cached)
            if partition is None:
                return None
        offset, most, epoch, _, last_epoch = cached.spec
        if last_epoch != -1 or most < 0 or (epoch != -1 and epoch != partition.leader_epoch):
            return None
        log = partition.log
        high_watermark = log.high_watermark
        start = log.log_start_offset
        end = log.last_stable_offset if committed else high_watermark
        if not start <= offset <= log.log_end_offset:
            return None
        if offset < end:
            limit = min(most, room - total)
            if limit > 0 or not total:
                if committed and log.aborted_transactions(offset, end):
                    return None
                try:
                    records = log.slice(offset, limit, end, total == 0, range_from)
                except Exception:  # whatever it is, the ordinary way meets it too, and says so
                    return None
                size = len(records)
                if size:
                    if version < 10 and log.config.compression_type == "zstd":
                        return None
                    ranges = ranges or records.__class__ is FileRange
                    total += size
                    changed.append((key, cached, high_watermark, log.last_stable_offset, start, records))
                    continue
        if high_watermark != cached.high_watermark or start != cached.log_start_offset:
            changed.append((key, cached, high_watermark, log.last_stable_offset, start, b""))
    return changed, total, ranges


def _resolve(broker: BrokerServices, session: FetchSession, key: IdOrName, cached: CachedPartition) -> Any:
    """What a partition's name means here; None where it is not led here."""
    name = broker.image.topic_names.get(key[0]) if isinstance(key[0], bytes) else key[0]
    here = broker.replicas.of(name)
    partition: Partition | None = None if here is None else here.get(key[1])
    if partition is None or partition.leader_id != broker.replicas.broker_id:
        return None
    if isinstance(key[0], bytes):
        if partition.log.topic_id != key[0] or cached.topic not in (None, name):
            return None
        cached.topic = name
    cached.partition = partition
    return partition


def tell(session: FetchSession, changed: list[Changed]) -> list[Any]:
    """Remember what is about to be told, and bring it into the form of `encode_fetch`."""
    answers: list[Any] = []
    topics: dict[Any, list[Any]] = {}
    for key, cached, high_watermark, stable, start, records in changed:
        cached.high_watermark = high_watermark
        cached.log_start_offset = start
        if records:
            session.move_to_end(key)
        topic, index = key
        parts = topics.get(topic)
        if parts is None:
            parts = topics[topic] = []
            answers.append((topic, parts))
        parts.append((index, high_watermark, stable, start, records))
    return answers
