"""The rule by which a transaction hangs: it is open, and its coordinator will not end it (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.client.types import ProducerState, TopicPartition, TransactionDescription


class OpenTransaction(NamedTuple):
    """A partition with an open transaction of a producer."""

    partition: TopicPartition
    producer: ProducerState


def open_for_longer(
    described: Mapping[TopicPartition, Iterable[ProducerState]], now_ms: int, limit_ms: int
) -> list[OpenTransaction]:
    """The open transactions whose last record is more than `limit_ms` old; sorted."""
    # By the last record, as a replica does not know when a transaction began.
    return sorted(
        OpenTransaction(tp, producer)
        for tp, producers in described.items()
        for producer in producers
        if producer.transaction_start_offset is not None and now_ms - producer.last_timestamp > limit_ms
    )


def hanging(
    candidates: Iterable[OpenTransaction],
    transactional_ids: Mapping[int, str],
    descriptions: Mapping[str, TransactionDescription],
) -> list[OpenTransaction]:
    """Those of the open transactions that nobody is going to end.

    A coordinator ends what it knows to be going on, and still owes markers to the partitions that it
    names. Whatever else is open stays so.

    Args:
        candidates: open transactions.
        transactional_ids: producer id → transactional id, where a coordinator knows one.
        descriptions: transactional id → what its coordinator says now; ids that have gone are missing.
    """
    left = []
    for candidate in candidates:
        description = descriptions.get(transactional_ids.get(candidate.producer.producer_id, ""))
        if description is None or candidate.partition not in description.partitions:
            left.append(candidate)
    return left
