"""Follows a topic from its end on, and tells of it a few times a second: counts of all, and the last records.

What it holds does not grow with the topic. Where it does not keep up, it goes on at the end and says how many
records it has left out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from odradek.client.aio.consumer import AsyncConsumer
from odradek.client.types import ConsumerRecord, TopicPartition
from odradek.console.views.messages import MessageFilter

EVERY_S = 0.25
MOST_SHOWN = 20
MOST_POLLED = 5_000
MOST_BEHIND = 200_000


@dataclass(frozen=True)
class TailNews:
    """The records that have come since the last news, and counts.

    Attributes:
        read: records in all, since the tail began.
        wanted: those of them that the filter lets through.
        rate: records a second that were read since the last news.
        behind: how many records are there that have not been read.
        left_out: how many records in all were left out to keep up.
        records: the last that the filter lets through, of those since the last news.
    """

    read: int
    wanted: int
    rate: float
    behind: int
    left_out: int
    records: list[ConsumerRecord[bytes, bytes]]


async def tail(
    configs: Mapping[str, Any],
    partitions: Collection[TopicPartition],
    wanted: MessageFilter,
    *,
    isolation_level: str,
    most_behind: int = MOST_BEHIND,
    most_polled: int = MOST_POLLED,
    every_s: float = EVERY_S,
) -> AsyncGenerator[TailNews, None]:
    """Follow partitions, without a group, and without an end.

    Args:
        configs: of the client.
        partitions: followed from their ends on.
        wanted: which records to show.
        isolation_level: as the consumer's config.
        most_behind: with more records unread than so many it goes on at the end.
        most_polled: so many records are taken at once.
        every_s: seconds between two news.

    Raises:
        KafkaError: as `AsyncConsumer.poll`.
    """
    own = {"isolation_level": isolation_level, "auto_offset_reset": "latest", "enable_auto_commit": False}
    loop = asyncio.get_running_loop()
    read = matching = left_out = 0
    async with AsyncConsumer(config={**configs, **own}) as consumer:
        await consumer.assign(partitions)
        for tp, end in (await consumer.end_offsets(partitions)).items():
            await consumer.seek(tp, end)
        told_s, told_read = loop.time(), 0
        last: deque[ConsumerRecord[bytes, bytes]] = deque(maxlen=MOST_SHOWN)
        yield TailNews(0, 0, 0.0, 0, 0, [])
        while True:
            left_ms = max(0.0, told_s + every_s - loop.time()) * 1000
            records = await consumer.poll(left_ms, most_polled)
            read += len(records)
            if wanted.is_set:
                records = [record for record in records if wanted.wants(record)]
            matching += len(records)
            last.extend(records[-MOST_SHOWN:])
            now_s = loop.time()
            if now_s < told_s + every_s:
                continue
            behind = sum([await consumer.lag(tp) or 0 for tp in partitions])
            if behind > most_behind:
                await consumer.seek_to_end()
                left_out, behind = left_out + behind, 0
            rate = (read - told_read) / max(1e-3, now_s - told_s)
            yield TailNews(read, matching, rate, behind, left_out, list(last))
            last.clear()
            told_s, told_read = now_s, read
