"""A producer's way to one leader, without sockets: what the shells of `SenderState` do, for tests."""

from __future__ import annotations

from functools import cache
from typing import Any

from odradek.client.config import ProducerConfig, build
from odradek.client.core.metadata import MetadataCache
from odradek.client.core.record_accumulator import RecordAccumulator
from odradek.client.core.sending import SenderState
from odradek.client.core.stuck_partitions import StuckPartitions
from odradek.client.core.transactions.state_machine import TxnState
from odradek.client.core.transactions.transaction_manager import TransactionManager
from odradek.client.types import TopicPartition
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse


def led_by_broker_0(*partitions: TopicPartition) -> MetadataCache:
    """Metadata in which broker 0 leads these."""
    metadata = MetadataCache()
    topics: dict[str, list[MetadataResponsePartition]] = {}
    for tp in partitions:
        partition = MetadataResponsePartition(partition_index=tp.partition, leader_id=0, leader_epoch=1)
        topics.setdefault(tp.topic, []).append(partition)
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=0, host="127.0.0.1", port=1)],
        topics=[MetadataResponseTopic(name=name, partitions=found) for name, found in topics.items()],
    )
    metadata.update(response, replace_all=True)
    return metadata


@cache
def producer_config(**configs: Any) -> ProducerConfig:
    """A producer's configs; nobody is connected to."""
    return build(ProducerConfig, {"bootstrap_servers": "127.0.0.1:1", **configs})


def transaction_begun(tp: TopicPartition, *, v2: bool = True) -> TransactionManager:
    """The manager of producer 9 in epoch 0, amid a transaction that the partition has joined."""
    manager = TransactionManager("t", 60_000)
    manager.producer_id, manager.producer_epoch = 9, 0
    manager.can_bump = True
    manager.state = TxnState.READY
    manager.begin(v2=v2)
    manager.add_partition(tp)
    manager.partitions.add(tp)
    return manager


def sender_state(
    accumulator: RecordAccumulator,
    *partitions: TopicPartition,
    manager: TransactionManager | None = None,
    **configs: Any,
) -> SenderState:
    """A sender of the batches, whose partitions broker 0 leads."""
    metadata = led_by_broker_0(*partitions)
    return SenderState(
        producer_config(**configs), metadata, accumulator, StuckPartitions("test"), lambda: None,
        manager=manager,
    )  # fmt: skip


def produce_response(tp: TopicPartition, code: int, base_offset: int = -1, **more: Any) -> ProduceResponse:
    """The answer for one partition."""
    answer = PartitionProduceResponse(
        index=tp.partition, error_code=int(code), base_offset=base_offset, log_start_offset=-1, **more
    )
    return ProduceResponse(responses=[TopicProduceResponse(name=tp.topic, partition_responses=[answer])])
