"""What both transactional shells say over the wire when a broker answers with errors: transcripts."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from client.scripted import HangUp, ScriptedBroker
from odradek.client import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    TransactionalWriter,
)
from odradek.client.errors import ClientTimeoutError, CommitFailedError, IllegalStateError
from odradek.errors import (
    ErrorCode,
    GroupAuthorizationError,
    KafkaError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    TopicAuthorizationError,
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


@pytest.fixture(params=[ByProducer, ByWriter])
def shell(request: pytest.FixtureRequest) -> Any:
    """Either of the two."""
    return request.param


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


GROUP = ConsumerGroupMetadata("g", 3, "m", None)
OFFSETS = {TopicPartition("t", 0): OffsetAndMetadata(5)}


def one_transaction(side: Any) -> None:
    """Records to two partitions and offsets."""
    side.client.begin_transaction()
    side.send(0)
    side.send(1)
    side.send(0)
    side.client.send_offsets_to_transaction(OFFSETS, GROUP)
    side.client.commit_transaction()


START = ["who coordinates transaction id", "init"]
FIRST_0_11 = """add t-0; v3 t-0 epoch 0 from 0; add t-1; v3 t-1 epoch 0 from 0; v3 t-0 epoch 0 from 1;
add group g; who coordinates group g; offsets of g in -1 by ''; commit 7:0"""
FIRST_3_9 = """add t-0; v11 t-0 epoch 0 from 0; add t-1; v11 t-1 epoch 0 from 0; v11 t-0 epoch 0 from 1;
add group g; who coordinates group g; offsets of g in 3 by 'm'; commit 7:0"""
FIRST_4 = """v12 t-0 epoch 0 from 0; v12 t-1 epoch 0 from 0; v12 t-0 epoch 0 from 1;
who coordinates group g; offsets of g in 3 by 'm'; commit 7:0"""
SECOND_3_9 = """add t-0; v11 t-0 epoch 0 from 2; add t-1; v11 t-1 epoch 0 from 1; v11 t-0 epoch 0 from 3;
add group g; offsets of g in 3 by 'm'; commit 7:0"""
SECOND_4 = """v12 t-0 epoch 1 from 0; v12 t-1 epoch 1 from 0; v12 t-0 epoch 1 from 1;
offsets of g in 3 by 'm'; commit 7:1"""


def words(transcript: str) -> list[str]:
    """`a; b` → [a, b]."""
    return [" ".join(said.split()) for said in transcript.split(";")]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [("0.11", FIRST_0_11, None), ("3.9", FIRST_3_9, SECOND_3_9), ("4.x", FIRST_4, SECOND_4)],
)
def test_two_transactions(shell: Any, kind: str, first: str, second: str | None) -> None:
    with talking(shell, kind=kind) as (side, broker):
        side.client.init_transactions()
        one_transaction(side)
        assert broker.said == START + words(first)
        broker.said.clear()
        one_transaction(side)
        if second is not None:
            assert broker.said == words(second)


@pytest.mark.parametrize(
    "problem",
    [
        HangUp,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_what_can_be_tried_again_is(shell: Any, problem: Problem) -> None:
    """Every request of a transaction fails twice: with a code, or by a connection that breaks."""
    tried = [
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ]
    with talking(shell, {api: [problem, problem] for api in tried}) as (side, broker):
        side.client.init_transactions()
        one_transaction(side)
        said = [line for line in broker.said if not line.startswith("who")]
        expected = START[1:] + [line for line in words(FIRST_3_9) if not line.startswith("who")]
        thrice = {"init", "add t-0", "add group g", "offsets of g in 3 by 'm'", "commit 7:0"}
        said = [line.replace("epoch 2", "epoch 0").replace("7:2", "7:0") for line in said]  # of lost answers
        assert said == [line for line in expected for _ in range(3 if line in thrice else 1)]
        if problem in (ErrorCode.NOT_COORDINATOR, HangUp):
            assert broker.said.count(START[0]) >= 7


def test_batches_are_repeated_under_their_sequences(shell: Any) -> None:
    problems: list[Problem] = [int(ErrorCode.NOT_LEADER_OR_FOLLOWER), HangUp]
    problems.append(int(ErrorCode.REQUEST_TIMED_OUT))
    with talking(shell, {ApiKey.PRODUCE: problems}) as (side, broker):
        side.client.init_transactions()
        side.client.begin_transaction()
        side.send()
        side.send()
        side.client.commit_transaction()
        assert broker.said == [
            *START,
            "add t-0",
            *["v11 t-0 epoch 0 from 0"] * 4,
            "v11 t-0 epoch 0 from 1",
            "commit 7:0",
        ]


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (ApiKey.INIT_PRODUCER_ID, ErrorCode.PRODUCER_FENCED),
        (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.PRODUCER_FENCED),
        (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ApiKey.END_TXN, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_the_fenced_one_is_told_whoever_tells_it(shell: Any, api: ApiKey, code: ErrorCode) -> None:
    def run(side: Any) -> None:
        side.client.init_transactions()
        one_transaction(side)

    with talking(shell, {api: [int(code)]}) as (side, broker):
        with pytest.raises(KafkaError):
            run(side)
        asked = len(broker.said)
        client = side.client
        for call in (client.begin_transaction, client.abort_transaction, client.commit_transaction):
            with pytest.raises(ProducerFencedError) as fenced:
                call()
            assert fenced.value.fatal
        assert len(broker.said) == asked


COSTLY = [
    ("3.9", ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError),
    ("3.9", ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationError),
    *(
        (kind, api, code, error)
        for kind in ("3.9", "4.x")
        for api, code, error in (
            (ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError),
            (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION, CommitFailedError),
            (ApiKey.PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, OutOfOrderSequenceError),
        )
    ),
]


@pytest.mark.parametrize(("kind", "api", "code", "error"), COSTLY)
def test_what_costs_the_transaction_leaves_the_producer(
    shell: Any, kind: str, api: ApiKey, code: ErrorCode, error: type[Exception]
) -> None:
    with talking(shell, {api: [int(code)]}, kind) as (side, broker):
        side.client.init_transactions()
        with pytest.raises(error):
            one_transaction(side)
        with pytest.raises(error) as still:
            side.client.commit_transaction()
        assert still.value.requires_abort  # type: ignore[attr-defined]
        broker.said.clear()
        side.client.abort_transaction()
        bumped = "init after 7:0" in broker.said
        assert bumped == (kind == "3.9" and api is ApiKey.PRODUCE)
        broker.said.clear()
        one_transaction(side)
        epoch = 1 if bumped or kind == "4.x" else 0
        assert broker.said[-1] == f"commit 7:{epoch}"
        records = [line for line in broker.said if line.startswith("v1")]
        # What was acknowledged under the same epoch counts on; a higher one begins anew.
        before = api in (ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT) and not epoch
        version = "v11" if kind == "3.9" else "v12"
        first = 2 if before else 0
        assert records[0] == f"{version} t-0 epoch {epoch} from {first}"
        assert records[2] == f"{version} t-0 epoch {epoch} from {first + 1}"


def test_who_may_not_use_the_id_may_try_again(shell: Any) -> None:
    refused = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with talking(shell, {ApiKey.INIT_PRODUCER_ID: [refused]}) as (side, _):
        with pytest.raises(KafkaError) as problem:
            side.client.init_transactions()
        assert problem.value.code == refused and not problem.value.fatal
        side.client.init_transactions()
        one_transaction(side)


def test_a_commit_that_takes_too_long_goes_on(shell: Any) -> None:
    busy = [int(ErrorCode.CONCURRENT_TRANSACTIONS)] * 60
    with TransactionalBroker("3.9", {ApiKey.END_TXN: list(busy)}) as broker:
        configs = {"max.block.ms": 100, "retry.backoff.ms": 10, "retry.backoff.max.ms": 10}
        client: Any
        if shell is ByProducer:
            client = Producer({"bootstrap.servers": broker.at, "transactional.id": "id", **configs})
        else:
            client = TransactionalWriter(broker.at, "id", configs)
        side = shell.__new__(shell)
        side.client = client
        client.init_transactions()
        client.begin_transaction()
        side.send()
        with pytest.raises(ClientTimeoutError, match="it may be called again"):
            client.commit_transaction()
        for other in (client.begin_transaction, client.abort_transaction):
            with pytest.raises(IllegalStateError, match="timed out"):
                other()
        for _ in range(200):
            try:
                client.commit_transaction()
                break
            except ClientTimeoutError:
                continue
        client.begin_transaction()
        client.close()
        assert broker.said.count("commit 7:0") == 61


def test_closing_aborts_what_is_open_and_leaves_what_is_prepared(shell: Any) -> None:
    for prepare in (False, True):
        with talking(shell) as (side, broker):
            side.client.init_transactions()
            side.client.begin_transaction()
            side.send()
            if prepare:
                side.client.prepare_transaction()
            side.client.close()
            assert ("abort 7:0" in broker.said) == (not prepare)
