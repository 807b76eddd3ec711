"""The rule by which a transaction hangs: it is open, and its coordinator will not end it (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.client.types import AbortTransactionSpec, ProducerState, TopicPartition, TransactionDescription

PARTITIONS_AT_ONCE = 500
"""So many partitions are asked about in one call."""
MINUTE_MS = 60_000
MINUTES = 15
"""Transactions are looked at if their last record is older, unless a user says otherwise."""


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


def open_at(producers: Iterable[ProducerState], start: int) -> ProducerState | None:
    """Return the producer whose transaction begins at an offset and is open; None if there is none.

    By the first offset, as DescribeProducers (KIP-664) names no transactional ids.
    """
    return next((producer for producer in producers if producer.transaction_start_offset == start), None)


def abort_spec(
    tp: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int | None
) -> AbortTransactionSpec:
    """Return what aborts a transaction.

    Args:
        tp: where it is open.
        producer_id, producer_epoch: whose it is.
        coordinator_epoch: None or -1 where no marker has told the log of a coordinator: the first
            transaction of its producer id hangs. An epoch of 0 is never too new.
    """
    return AbortTransactionSpec(tp, producer_id, producer_epoch, max(0, coordinator_epoch or 0))
