"""Reads a bounded part of a topic, for a page: no more than some records, bytes and seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odradek.client.aio.consumer import AsyncConsumer
from odradek.client.types import ConsumerRecord, TopicPartition
from odradek.console.views.messages import MessageFilter

MOST_RECORDS = 10_000
MOST_BYTES = 64 * 1024 * 1024
WITHIN_S = 4.0
POLL_MS = 500


@dataclass(frozen=True)
class Range:
    """The offsets of a partition that are to be read: from `start`, to before `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class Scan:
    """The outcome of reading.

    Attributes:
        records: those that are wanted.
        read: how many were looked at.
        bound: what ended it before all was read; '' where all was, or enough was found.
    """

    records: list[ConsumerRecord[bytes, bytes]]
    read: int
    bound: str


async def scan(
    configs: Mapping[str, Any],
    ranges: Mapping[TopicPartition, Range],
    wanted: MessageFilter,
    *,
    enough: int | None,
    isolation_level: str,
) -> Scan:
    """Read ranges of partitions, without a group.

    Args:
        configs: of the client.
        ranges: by partition.
        wanted: which records to keep.
        enough: how many to keep at most; None: as many as there are.
        isolation_level: as the consumer's config.

    Raises:
        KafkaError: as `AsyncConsumer.poll`.
    """
    left = {tp: part for tp, part in ranges.items() if part.start < part.end}
    records: list[ConsumerRecord[bytes, bytes]] = []
    if not left:
        return Scan(records, 0, "")
    own = {"isolation_level": isolation_level, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    loop = asyncio.get_running_loop()
    until_s = loop.time() + WITHIN_S
    read = size = 0
    async with AsyncConsumer(config={**configs, **own}) as consumer:
        await consumer.assign(left)
        for tp, part in left.items():
            await consumer.seek(tp, part.start)
        while left:
            for record in await consumer.poll(POLL_MS):
                tp = TopicPartition(record.topic, record.partition)
                if tp not in left or record.offset >= left[tp].end:
                    continue
                read += 1
                size += len(record.key or b"") + len(record.value or b"")
                if wanted.wants(record):
                    records.append(record)
                    if len(records) == enough:
                        return Scan(records, read, "")
            # Markers and what is compacted away have offsets, too: positions tell how far it is.
            for tp in list(left):
                if await consumer.position(tp) >= left[tp].end:
                    del left[tp]
                    await consumer.pause(tp)
            if left and (read >= MOST_RECORDS or size >= MOST_BYTES or loop.time() > until_s):
                return Scan(records, read, _bound(read, size))
    return Scan(records, read, "")


def _bound(read: int, size: int) -> str:
    if read >= MOST_RECORDS:
        return f"{MOST_RECORDS} records"
    return f"{MOST_BYTES // 2**20} MiB" if size >= MOST_BYTES else f"{WITHIN_S:g} s"
