"""A broker that answers a transactional producer as a test says, and both shells to talk to it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from client.scripted import ScriptedBroker
from odradek.client import (
    Producer,
    TransactionalWriter,
)
from odradek.errors import (
    ErrorCode,
)
from odradek.records.batch import BatchHeader
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_request_header, encode_response
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from odradek.wire.messages.end_txn import EndTxnResponse
from odradek.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from odradek.wire.messages.init_producer_id import InitProducerIdResponse
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

pa = pytest.importorskip("pyarrow")

OLD = {0: (0, 3), 3: (0, 4), 10: (0, 1), 18: (0, 0), 22: (0, 0), 24: (0, 0), 25: (0, 0)}
OLD |= {26: (0, 0), 28: (0, 0)}
V1 = {0: (0, 11), 3: (0, 12), 10: (0, 4), 18: (0, 3), 22: (0, 5), 24: (0, 5), 25: (0, 4), 26: (0, 4)}
V1 |= {28: (0, 4)}
V2 = {**V1, 0: (3, 12), 26: (0, 5), 28: (0, 5)}
KINDS = {"0.11": OLD, "3.9": V1, "4.x": V2}
Problem = int | type[Exception]


class TransactionalBroker(ScriptedBroker):
    """One broker with topic `t`, which answers well but for what `script` says: by API, one code (or
    exception) after the other; 0 for success.

    Attributes:
        said: what was asked, in words.
    """

    def __init__(self, kind: str, script: dict[ApiKey, list[Problem]]) -> None:
        super().__init__({}, KINDS[kind])
        self.kind = kind
        self.said: list[str] = []
        self._script = defaultdict(list, {key: list(problems) for key, problems in script.items()})
        self._one_at_a_time = threading.Lock()
        self._epoch = -1
        self._offset = 0
        make: dict[ApiKey, Callable[[Any, int, int], Any]] = {
            ApiKey.METADATA: self._metadata,
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.INIT_PRODUCER_ID: self._init,
            ApiKey.ADD_PARTITIONS_TO_TXN: self._add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self._add_offsets,
            ApiKey.TXN_OFFSET_COMMIT: self._commit_offsets,
            ApiKey.PRODUCE: self._produce,
            ApiKey.END_TXN: self._end,
        }
        self.answers = {key: self._scripted(key, answer) for key, answer in make.items()}

    def _scripted(self, key: ApiKey, answer: Callable[[Any, int, int], Any]) -> Callable[[Any, int], Any]:
        def scripted(message: Any, version: int) -> Any:
            with self._one_at_a_time:
                problems = self._script[key]
                problem = problems.pop(0) if problems else 0
                response = answer(message, version, problem if isinstance(problem, int) else 0)
            if not isinstance(problem, int):
                raise problem
            return response

        return scripted

    def _answer(self, frame: bytes) -> list[Any]:
        if int.from_bytes(frame[:2], "big") != ApiKey.API_VERSIONS or self.kind != "4.x":
            return super()._answer(frame)
        header, _ = decode_request_header(frame)
        response = ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=k, min_version=a, max_version=b) for k, (a, b) in self.versions.items()
            ],
            finalized_features_epoch=1,
            finalized_features=[
                FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=1)
            ],
        )
        # A version that it does not know is answered in version 0, with the error.
        if header.api_version > 3:
            response.error_code = ErrorCode.UNSUPPORTED_VERSION
            return list(encode_response(header.api_key, 0, header.correlation_id, response))
        return list(encode_response(header.api_key, header.api_version, header.correlation_id, response))

    def _metadata(self, message: Any, version: int, code: int) -> Any:
        wanted = [t.name for t in message.topics] if message.topics is not None else ["t"]
        partitions = [
            MetadataResponsePartition(partition_index=p, leader_id=0, replica_nodes=[0], isr_nodes=[0])
            for p in range(2)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=0, host="127.0.0.1", port=self.port)],
            topics=[MetadataResponseTopic(name=name, partitions=partitions) for name in wanted],
        )

    def _find(self, message: Any, version: int, code: int) -> Any:
        key = message.coordinator_keys[0] if version >= 4 else message.key
        self.said.append(f"who coordinates {('group', 'transaction')[message.key_type]} {key}")
        if version < 4:
            return FindCoordinatorResponse(error_code=code, node_id=0, host="127.0.0.1", port=self.port)
        found = Coordinator(key=key, node_id=0, host="127.0.0.1", port=self.port, error_code=code)
        return FindCoordinatorResponse(coordinators=[found])

    def _init(self, message: Any, version: int, code: int) -> Any:
        going_on = (
            f" after {message.producer_id}:{message.producer_epoch}" if message.producer_id >= 0 else ""
        )
        self.said.append(f"init{going_on}")
        if code:
            return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        self._epoch += 1
        return InitProducerIdResponse(producer_id=7, producer_epoch=self._epoch)

    def _add_partitions(self, message: Any, version: int, code: int) -> Any:
        assert version <= 3
        topics = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=p, partition_error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in message.v3_and_below_topics
        ]
        names = [f"{t.name}-{p}" for t in message.v3_and_below_topics for p in t.partitions]
        self.said.append(f"add {' '.join(names)}")
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def _add_offsets(self, message: Any, version: int, code: int) -> Any:
        self.said.append(f"add group {message.group_id}")
        return AddOffsetsToTxnResponse(error_code=code)

    def _commit_offsets(self, message: Any, version: int, code: int) -> Any:
        generation = message.generation_id_or_member_epoch
        self.said.append(f"offsets of {message.group_id} in {generation} by {message.member_id!r}")
        topics = [
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in message.topics
        ]
        return TxnOffsetCommitResponse(topics=topics)

    def _produce(self, message: Any, version: int, code: int) -> Any:
        assert message.transactional_id == "id" and message.acks == -1
        responses = []
        for topic in message.topic_data:
            for p in topic.partition_data:
                header = BatchHeader.parse(p.records)
                assert header.is_transactional and header.producer_id == 7
                self.said.append(
                    f"v{version} {topic.name}-{p.index} "
                    f"epoch {header.producer_epoch} from {header.base_sequence}"
                )
                answer = PartitionProduceResponse(index=p.index, error_code=code, base_offset=self._offset)
                responses.append(TopicProduceResponse(name=topic.name, partition_responses=[answer]))
                self._offset += header.record_count
        return ProduceResponse(responses=responses)

    def _end(self, message: Any, version: int, code: int) -> Any:
        what = "commit" if message.committed else "abort"
        self.said.append(f"{what} {message.producer_id}:{message.producer_epoch}")
        if code or version < 5:
            return EndTxnResponse(error_code=code)
        self._epoch = message.producer_epoch + 1
        return EndTxnResponse(producer_id=7, producer_epoch=self._epoch)


class ByProducer:
    """The producer of threads."""

    def __init__(self, servers: str) -> None:
        self.client = Producer(
            bootstrap_servers=servers,
            transactional_id="id",
            retry_backoff_ms=1,
            retry_backoff_max_ms=1,
            reconnect_backoff_ms=1,
            reconnect_backoff_max_ms=1,
        )

    def send(self, partition: int = 0) -> None:
        self.client.send("t", b"value", partition=partition)
        self.client.flush()


class ByWriter:
    """The writer of blocking sockets."""

    def __init__(self, servers: str) -> None:
        configs = {"retry.backoff.ms": 1, "retry.backoff.max.ms": 1}
        self.client = TransactionalWriter(servers, "id", configs)

    def send(self, partition: int = 0) -> None:
        rows = pa.record_batch({"value": [b"value"], "partition": pa.array([partition], pa.int32())})
        self.client.write_columns(rows, "t")
        self.client.flush()


@contextmanager
def talking(
    shell: Any, script: dict[ApiKey, list[Problem]] | None = None, kind: str = "3.9"
) -> Iterator[tuple[Any, TransactionalBroker]]:
    """A client and its broker."""
    with TransactionalBroker(kind, script or {}) as broker:
        side = shell(broker.at)
        try:
            yield side, broker
        finally:
            side.client.close()
