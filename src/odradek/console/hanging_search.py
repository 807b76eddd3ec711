"""Looks for transactions that hang in all topics, by the rule of `odradek transactions find-hanging`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.client.core.transactions.hanging import (
    PARTITIONS_AT_ONCE,
    OpenTransaction,
    hanging,
    open_for_longer,
)
from odradek.client.types import TopicPartition
from odradek.console.asking import ask_those_there
from odradek.errors import KafkaError, TransactionalIdNotFoundError

if TYPE_CHECKING:
    from odradek.client.aio.admin import AsyncAdmin

MOST_PARTITIONS = 20_000
WITHIN_S = 10.0


async def find_hanging(
    admin: AsyncAdmin, partitions: Sequence[TopicPartition], now_ms: int, limit_ms: int
) -> tuple[list[OpenTransaction], str]:
    """Return the transactions that hang, and why there may be more; '' where all partitions were asked.

    Args:
        admin: of whoever looks.
        partitions: where to look, in `MOST_PARTITIONS` of them at most.
        now_ms: the wall clock.
        limit_ms: transactions whose last record is younger do not hang.
    """
    problem = "" if len(partitions) <= MOST_PARTITIONS else f"only {MOST_PARTITIONS} partitions were asked"
    candidates: list[OpenTransaction] = []
    try:
        async with asyncio.timeout(WITHIN_S):
            for start in range(0, min(len(partitions), MOST_PARTITIONS), PARTITIONS_AT_ONCE):
                described = await admin.describe_producers(partitions[start : start + PARTITIONS_AT_ONCE])
                candidates += open_for_longer(described, now_ms, limit_ms)
            ids = {}
            producer_ids = sorted({candidate.producer.producer_id for candidate in candidates})
            if producer_ids:
                listed = await admin.list_transactions(producer_ids=producer_ids)
                ids = {item.producer_id: item.transactional_id for part in listed.values() for item in part}
            # The coordinators last: what they have ended meanwhile is not hanging.
            descriptions = await ask_those_there(
                admin.describe_transactions,
                sorted(set(ids.values())),
                lambda error: isinstance(error, TransactionalIdNotFoundError),
            )
            return hanging(candidates, ids, descriptions), problem
    except TimeoutError:
        return [], f"not all brokers have answered within {WITHIN_S:g} s"
    except KafkaError as error:
        return [], str(error)
