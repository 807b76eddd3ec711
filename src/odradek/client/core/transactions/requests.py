"""The requests of a transactional producer: made for the version that the broker knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from odradek.client.core.find_coordinator import find_coordinator_request
from odradek.client.core.versions import NodeVersions
from odradek.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.errors import ErrorCode
from odradek.errors.codes import to_code
from odradek.wire.api import ApiKey
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

#: The newest versions that a client may use unless the cluster has finalised `transaction.version` 2
#: (KIP-890): the next ones add partitions and groups by themselves, or raise the epoch at the end.
V1_CEILINGS: Mapping[ApiKey, int] = {
    ApiKey.PRODUCE: 11,
    ApiKey.END_TXN: 4,
    ApiKey.TXN_OFFSET_COMMIT: 4,
}

#: From 4 on AddPartitionsToTxn is between brokers.
_CLIENTS_ADD_PARTITIONS_BELOW = 4

BUMP_FROM = 3
"""The version of InitProducerId that raises the epoch of a producer that goes on (KIP-360; Kafka 2.5)."""

_TWO_PHASE_FROM = 6


class CoordinatorKind(IntEnum):
    """FindCoordinator's key types."""

    GROUP = 0
    TRANSACTION = 1


@dataclass(slots=True, eq=False)
class TxnRequest:
    """One request that is due. `call` is the application's, answered when all of its requests are.

    Attributes:
        coordinator: who is to be asked, with which key; None: any broker.
        tries: how often it was sent before.
    """

    api: ApiKey
    priority: int
    call: Any = None
    coordinator: tuple[CoordinatorKind, str] | None = None
    tries: int = 0
    committed: bool = False
    bump: bool = False
    keep_prepared: bool = False
    find: tuple[CoordinatorKind, str] | None = None
    partitions: list[TopicPartition] = field(default_factory=list)
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    group: ConsumerGroupMetadata | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """The producer's present identity."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    two_phase_commit: bool
    v2: bool


def at_most(api: ApiKey, *, v2: bool) -> int | None:
    """The newest version that may be used for a transaction."""
    if api is ApiKey.ADD_PARTITIONS_TO_TXN:
        return _CLIENTS_ADD_PARTITIONS_BELOW - 1
    return None if v2 else V1_CEILINGS.get(api)


def _bounds(request: TxnRequest, me: Identity) -> tuple[int | None, int | None]:
    least = at_least(request, me)
    most = at_most(request.api, v2=me.v2)
    if request.api is ApiKey.INIT_PRODUCER_ID and least != _TWO_PHASE_FROM:
        most = _TWO_PHASE_FROM - 1  # it may be an unstable one
    return most, least


def at_least(request: TxnRequest, me: Identity) -> int | None:
    """The oldest version that can say it."""
    if request.api is ApiKey.INIT_PRODUCER_ID:
        if request.keep_prepared or me.two_phase_commit:
            return _TWO_PHASE_FROM
        return BUMP_FROM if request.bump else None
    return 1 if request.api is ApiKey.FIND_COORDINATOR else None


def build(request: TxnRequest, me: Identity, versions: NodeVersions) -> tuple[Any, int]:
    """The message and its version.

    Raises:
        UnsupportedByBrokerError: the broker has no version of it that will do.
    """
    version = versions.pick(request.api, *_bounds(request, me))
    return _BUILDERS[request.api](request, me, version), version


def _find_coordinator(request: TxnRequest, _me: Identity, version: int) -> FindCoordinatorRequest:
    assert request.find is not None
    kind, key = request.find
    return find_coordinator_request(key, int(kind), version)


def _init_producer_id(request: TxnRequest, me: Identity, _version: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=me.transactional_id,
        transaction_timeout_ms=me.timeout_ms,
        producer_id=me.producer_id if request.bump else -1,
        producer_epoch=me.producer_epoch if request.bump else -1,
        enable2_pc=me.two_phase_commit,
        keep_prepared_txn=request.keep_prepared,
    )


def _add_partitions(request: TxnRequest, me: Identity, _version: int) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=me.transactional_id,
        v3_and_below_producer_id=me.producer_id,
        v3_and_below_producer_epoch=me.producer_epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=numbers)
            for name, numbers in _by_topic(request.partitions).items()
        ],
    )


def _add_offsets(request: TxnRequest, me: Identity, _version: int) -> AddOffsetsToTxnRequest:
    assert request.group is not None
    return AddOffsetsToTxnRequest(
        transactional_id=me.transactional_id,
        producer_id=me.producer_id,
        producer_epoch=me.producer_epoch,
        group_id=request.group.group_id,
    )


def _commit_offsets(request: TxnRequest, me: Identity, version: int) -> TxnOffsetCommitRequest:
    group = request.group
    assert group is not None
    if version < 3:
        # Such a coordinator does not know members in transactions: the group alone.
        group = ConsumerGroupMetadata(group.group_id)
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for tp, committed in request.offsets.items():
        topics.setdefault(tp.topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=me.transactional_id,
        group_id=group.group_id,
        producer_id=me.producer_id,
        producer_epoch=me.producer_epoch,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=p) for name, p in topics.items()],
    )


def _end(request: TxnRequest, me: Identity, _version: int) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=me.transactional_id,
        producer_id=me.producer_id,
        producer_epoch=me.producer_epoch,
        committed=request.committed,
    )


_BUILDERS: Mapping[ApiKey, Any] = {
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets,
    ApiKey.TXN_OFFSET_COMMIT: _commit_offsets,
    ApiKey.END_TXN: _end,
}


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for tp in partitions:
        out.setdefault(tp.topic, []).append(tp.partition)
    return out


def partition_errors(api: ApiKey, response: Any) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    """Return the errors of AddPartitionsToTxn or TxnOffsetCommit by partition."""
    if api is ApiKey.ADD_PARTITIONS_TO_TXN:
        for topic in response.results_by_topic_v3_and_below:
            for p in topic.results_by_partition:
                yield TopicPartition(topic.name, p.partition_index), to_code(p.partition_error_code)
    else:
        for topic in response.topics:
            for p in topic.partitions:
                yield TopicPartition(topic.name, p.partition_index), to_code(p.error_code)
