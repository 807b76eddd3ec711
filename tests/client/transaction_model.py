"""A transaction coordinator, a group and a log in a few lines, to hold the client's state machine against.

It answers the messages that the client makes, as a Kafka of the given kind does when nothing goes wrong,
fences by epoch, and keeps the outcome of every transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from odradek.client.core.transactions.requests import TxnRequest, build
from odradek.client.core.transactions.transaction_manager import TransactionManager
from odradek.client.core.versions import NodeVersions
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from odradek.wire.messages.end_txn import EndTxnResponse
from odradek.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from odradek.wire.messages.init_producer_id import InitProducerIdResponse
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

#: What brokers of three kinds offer: before KIP-360, before KIP-890, and after (with KIP-939).
KINDS: dict[str, dict[int, tuple[int, int]]] = {
    "0.11": {10: (0, 1), 22: (0, 0), 24: (0, 0), 25: (0, 0), 26: (0, 0), 28: (0, 0)},
    "3.9": {10: (0, 6), 22: (0, 5), 24: (0, 5), 25: (0, 4), 26: (0, 4), 28: (0, 4)},
    "4.x": {10: (0, 6), 22: (0, 6), 24: (0, 5), 25: (0, 4), 26: (0, 5), 28: (0, 5)},
}


def versions(kind: str) -> NodeVersions:
    """The versions of that kind."""
    return NodeVersions(KINDS[kind], features={"transaction.version": 2} if kind == "4.x" else {})


@dataclass
class Ended:
    """One transaction's outcome."""

    committed: bool
    partitions: frozenset[TopicPartition]
    offsets: dict[TopicPartition, int]


@dataclass
class ModelCoordinator:
    """All brokers in one; `node` is where the coordinator is."""

    kind: str
    node: int = 1
    producer_id: int = -1
    epoch: int = -1
    partitions: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    prepared: bool = False

    @property
    def v2(self) -> bool:
        """Whether transactions are KIP-890's."""
        return self.kind == "4.x"

    def produced(self, manager: TransactionManager, tp: TopicPartition) -> None:
        """A batch for a partition arrives at its leader."""
        assert (manager.producer_id, manager.producer_epoch) == (self.producer_id, self.epoch)
        if self.v2:
            self.partitions.add(tp)
        assert tp in self.partitions, "a batch left before its partition was added"

    def fence(self) -> None:
        """Another producer initialises."""
        self._end(False)
        self.epoch += 1

    def _end(self, committed: bool) -> None:
        if self.partitions or self.groups:
            self.ended.append(Ended(committed, frozenset(self.partitions), dict(self.offsets)))
        self.partitions.clear()
        self.groups.clear()
        self.offsets.clear()

    def answer(self, manager: TransactionManager, request: TxnRequest, code: int = 0) -> tuple[Any, Any]:
        """(message, response): the request as it goes over the wire, done unless there is a `code`."""
        message, version = build(request, manager.me, versions(self.kind))
        again = type(message).decode(message.encode(version), version)
        if code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            self._end(False)  # what it has forgotten it has aborted before
        reply = _REPLIES[request.api](self, again, ErrorCode(code), version)
        return again, type(reply).decode(reply.encode(version), version)

    def _owner(self, producer_id: int, epoch: int) -> ErrorCode:
        if producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if epoch == self.epoch else ErrorCode.PRODUCER_FENCED

    def _find(self, message: Any, code: ErrorCode, version: int) -> Any:
        if version < 4:
            return FindCoordinatorResponse(error_code=code, node_id=self.node, host="h", port=1)
        (key,) = message.coordinator_keys
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key=key, node_id=self.node, host="h", port=1, error_code=code)]
        )

    def _init(self, message: Any, code: ErrorCode, version: int) -> Any:
        if code:
            return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        if message.producer_id >= 0 and (code := self._owner(message.producer_id, message.producer_epoch)):
            return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        if message.producer_id >= 0:
            # Kafka's coordinators abort it, and then fence whoever asks again with the epoch as it was.
            assert not self.partitions and not self.groups, "the epoch is raised amid a transaction"
        ongoing = -1, -1
        if message.keep_prepared_txn and self.prepared:
            ongoing = self.producer_id, self.epoch
        else:
            self._end(False)
        self.producer_id, self.epoch = max(self.producer_id, 7), self.epoch + 1
        return InitProducerIdResponse(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            ongoing_txn_producer_id=ongoing[0] if version >= 6 else -1,
            ongoing_txn_producer_epoch=ongoing[1] if version >= 6 else -1,
        )

    def _add(self, message: Any, code: ErrorCode, version: int) -> Any:
        code = code or self._owner(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
        topics = []
        for topic in message.v3_and_below_topics:
            if not code:
                self.partitions.update(TopicPartition(topic.name, p) for p in topic.partitions)
            topics.append(
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=p, partition_error_code=code)
                        for p in topic.partitions
                    ],
                )
            )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def _add_offsets(self, message: Any, code: ErrorCode, version: int) -> Any:
        code = code or self._owner(message.producer_id, message.producer_epoch)
        if not code:
            self.groups.add(message.group_id)
        return AddOffsetsToTxnResponse(error_code=code)

    def _commit_offsets(self, message: Any, code: ErrorCode, version: int) -> Any:
        code = code or self._owner(message.producer_id, message.producer_epoch)
        if not code:
            if self.v2:
                self.groups.add(message.group_id)
            assert message.group_id in self.groups, "offsets came before their group was added"
        topics = []
        for topic in message.topics:
            partitions = []
            for p in topic.partitions:
                if not code:
                    self.offsets[TopicPartition(topic.name, p.partition_index)] = p.committed_offset
                partitions.append(
                    TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                )
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return TxnOffsetCommitResponse(topics=topics)

    def _end_txn(self, message: Any, code: ErrorCode, version: int) -> Any:
        code = code or self._owner(message.producer_id, message.producer_epoch)
        if code:
            return EndTxnResponse(error_code=code)
        if not (self.v2 or self.partitions or self.groups):
            assert not message.committed, "there is nothing to commit"
            return EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
        self._end(message.committed)
        if version < 5:
            return EndTxnResponse()
        self.epoch += 1
        return EndTxnResponse(producer_id=self.producer_id, producer_epoch=self.epoch)


_REPLIES = {
    ApiKey.FIND_COORDINATOR: ModelCoordinator._find,
    ApiKey.INIT_PRODUCER_ID: ModelCoordinator._init,
    ApiKey.ADD_PARTITIONS_TO_TXN: ModelCoordinator._add,
    ApiKey.ADD_OFFSETS_TO_TXN: ModelCoordinator._add_offsets,
    ApiKey.TXN_OFFSET_COMMIT: ModelCoordinator._commit_offsets,
    ApiKey.END_TXN: ModelCoordinator._end_txn,
}
