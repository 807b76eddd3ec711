"""The admin client's calls about transactions and producers: scripted answers, and a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from client.scripted import ScriptedBroker
from odradek.client import Admin, Consumer, Producer, TopicPartition
from odradek.client.errors import UnsupportedByBrokerError
from odradek.client.types import (
    AbortTransactionSpec,
    ProducerIdAndEpoch,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from odradek.errors import (
    ErrorCode,
    InvalidProducerEpochError,
    KafkaError,
    NotLeaderOrFollowerError,
    ProducerFencedError,
    TransactionalIdAuthorizationError,
    TransactionalIdNotFoundError,
    UnknownTopicOrPartitionError,
)
from odradek.wire.api import ApiKey
from odradek.wire.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from odradek.wire.messages.describe_producers import ProducerState as Told
from odradek.wire.messages.describe_transactions import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from odradek.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from odradek.wire.messages.init_producer_id import InitProducerIdResponse
from odradek.wire.messages.list_transactions import ListTransactionsResponse
from odradek.wire.messages.list_transactions import TransactionState as Listed
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from waiting import until

KEYS = {3: (0, 12), 10: (0, 4), 18: (0, 3), 22: (0, 5), 27: (0, 1), 61: (0, 0), 65: (0, 0), 66: (0, 1)}


class Scripted(ScriptedBroker):
    """Broker 0, which leads two partitions of any topic and coordinates; `script` are the answers of one API,
    functions of the request or codes, one after the other.
    """

    def __init__(self, key: ApiKey, *script: Any, versions: dict[int, tuple[int, int]] = KEYS) -> None:
        super().__init__({}, versions)
        left = list(script)
        self.requests: list[Any] = []
        self.coordinators_asked: list[tuple[int, str]] = []

        def answer(message: Any, version: int) -> Any:
            self.requests.append(message)
            one = left.pop(0) if len(left) > 1 else left[0]
            return one(message) if callable(one) else one

        self.answers = {ApiKey.METADATA: self._metadata, ApiKey.FIND_COORDINATOR: self._find, key: answer}

    def _metadata(self, message: Any, version: int) -> Any:
        partitions = [
            MetadataResponsePartition(partition_index=p, leader_id=0, replica_nodes=[0], isr_nodes=[0])
            for p in range(2)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=0, host="127.0.0.1", port=self.port)],
            topics=[MetadataResponseTopic(name=t.name, partitions=partitions) for t in message.topics or ()],
        )

    def _find(self, message: Any, version: int) -> Any:
        keys = message.coordinator_keys
        self.coordinators_asked += [(message.key_type, key) for key in keys]
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key=key, node_id=0, host="127.0.0.1", port=self.port) for key in keys]
        )


@contextmanager
def asking(broker: Scripted) -> Iterator[Admin]:
    """An administrator of the scripted broker, that waits little."""
    with (
        broker,
        Admin(bootstrap_servers=broker.at, retry_backoff_ms=1, retry_backoff_max_ms=1) as admin,
    ):
        yield admin


def description(name: str, code: int = 0, **fields: Any) -> DescribeTransactionsResponse:
    """What a coordinator says of one id."""
    state = TransactionState(error_code=code, transactional_id=name, **fields)
    return DescribeTransactionsResponse(transaction_states=[state])


def test_descriptions_of_ids_follow_their_coordinator() -> None:
    told = description(
        "a",
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=1_700_000_000_000,
        producer_id=7,
        producer_epoch=3,
        topics=[TopicData(topic="t", partitions=[1, 0]), TopicData(topic="s", partitions=[2])],
    )
    moved = description("a", ErrorCode.NOT_COORDINATOR)
    loading = description("a", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    broker = Scripted(ApiKey.DESCRIBE_TRANSACTIONS, moved, loading, told)
    with asking(broker) as admin:
        assert admin.describe_transactions(["a", "a"]) == {
            "a": TransactionDescription(
                coordinator_id=0,
                transactional_id="a",
                state="Ongoing",
                producer_id=7,
                producer_epoch=3,
                timeout_ms=60_000,
                start_time_ms=1_700_000_000_000,
                partitions=(TopicPartition("s", 2), TopicPartition("t", 0), TopicPartition("t", 1)),
            )
        }
    assert [r.transactional_ids for r in broker.requests] == [["a"]] * 3
    assert broker.coordinators_asked == [(1, "a")] * 3


def test_no_start_between_transactions_and_errors_of_each_id() -> None:
    answers = {
        "quiet": description("quiet", transaction_state="Empty", transaction_start_time_ms=-1),
        "gone": description("gone", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        "secret": description("secret", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    }

    def answer(request: Any) -> DescribeTransactionsResponse:
        told = [answers[name].transaction_states[0] for name in request.transactional_ids]
        return DescribeTransactionsResponse(transaction_states=told)

    broker = Scripted(ApiKey.DESCRIBE_TRANSACTIONS, answer)
    with asking(broker) as admin:
        assert admin.describe_transactions(["quiet"])["quiet"].start_time_ms is None
        with pytest.raises(TransactionalIdNotFoundError, match="'gone'") as caught:
            admin.describe_transactions(["gone", "secret", "quiet"])
    problems = caught.value.errors  # type: ignore[attr-defined]
    assert problems.keys() == {"gone", "secret"}
    assert isinstance(problems["secret"], TransactionalIdAuthorizationError)
    assert [r.transactional_ids for r in broker.requests] == [["quiet"], ["gone", "secret", "quiet"]]


def test_lists_with_filters() -> None:
    told = ListTransactionsResponse(
        transaction_states=[
            Listed(transactional_id="b", producer_id=2, transaction_state="Empty"),
            Listed(transactional_id="a", producer_id=1, transaction_state="Ongoing"),
        ]
    )
    loading = ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    broker = Scripted(ApiKey.LIST_TRANSACTIONS, loading, told)
    with asking(broker) as admin:
        listed = admin.list_transactions(states=["Ongoing", "Empty"], producer_ids=[1, 2], longer_than_ms=5)
        admin.list_transactions(longer_than_ms=-7)
        with pytest.raises(UnsupportedByBrokerError):
            admin.list_transactions(pattern="a.*")
    assert listed == {0: [TransactionListing("a", 1, "Ongoing"), TransactionListing("b", 2, "Empty")]}
    first, _, last = broker.requests
    assert (first.state_filters, first.producer_id_filters, first.duration_filter) == (
        ["Ongoing", "Empty"],
        [1, 2],
        5,
    )
    assert last.duration_filter == -1


def test_a_filter_that_an_old_broker_lacks_is_not_left_out() -> None:
    broker = Scripted(ApiKey.LIST_TRANSACTIONS, ListTransactionsResponse(), versions={**KEYS, 66: (0, 0)})
    with asking(broker) as admin:
        assert admin.list_transactions() == {0: []}
        with pytest.raises(UnsupportedByBrokerError):
            admin.list_transactions(longer_than_ms=0)


def producers(*codes: int) -> DescribeProducersResponse:
    """The answer about partitions 0, 1 … of topic `t`: producer 10 + its number, or a code."""
    partitions = [
        PartitionResponse(
            partition_index=index,
            error_code=code,
            active_producers=[]
            if code
            else [Told(producer_id=10 + index, producer_epoch=1, coordinator_epoch=-1)],
        )
        for index, code in enumerate(codes)
    ]
    return DescribeProducersResponse(topics=[TopicResponse(name="t", partitions=partitions)])


def test_producers_are_asked_of_leaders_until_all_have_answered() -> None:
    second = DescribeProducersResponse(topics=[TopicResponse(name="t", partitions=[])])
    second.topics[0].partitions = producers(0, 0).topics[0].partitions[1:]
    broker = Scripted(ApiKey.DESCRIBE_PRODUCERS, producers(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), second)
    with asking(broker) as admin:
        assert admin.describe_producers([("t", 1), ("t", 0)]) == {
            TopicPartition("t", 1): [ProducerState(11, 1, -1, -1, None, None)],
            TopicPartition("t", 0): [ProducerState(10, 1, -1, -1, None, None)],
        }
        assert admin.describe_producers([]) == {}
    assert [r.topics[0].partition_indexes for r in broker.requests] == [[1, 0], [1]]


def test_a_replica_that_is_named_and_does_not_know_is_not_asked_again() -> None:
    broker = Scripted(ApiKey.DESCRIBE_PRODUCERS, producers(ErrorCode.NOT_LEADER_OR_FOLLOWER, 0))
    with asking(broker) as admin:
        with pytest.raises(NotLeaderOrFollowerError, match="t-0"):
            admin.describe_producers([("t", 0), ("t", 1)], broker_id=0)
        with pytest.raises(KafkaError, match="there is no broker 5"):
            admin.describe_producers([("t", 0)], broker_id=5)
        with pytest.raises(UnknownTopicOrPartitionError, match="no partition 2"):
            admin.describe_producers([("t", 2)])
    assert len(broker.requests) == 1


def marked(code: int, partition: int = 0) -> WriteTxnMarkersResponse:
    """The answer to a marker of producer 7."""
    one = WritableTxnMarkerPartitionResult(partition_index=partition, error_code=code)
    topic = WritableTxnMarkerTopicResult(name="t", partitions=[one])
    return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=7, topics=[topic])])


SPEC = AbortTransactionSpec(TopicPartition("t", 0), 7, 3, 2)


def test_a_marker_is_written_where_the_leader_is() -> None:
    broker = Scripted(ApiKey.WRITE_TXN_MARKERS, marked(ErrorCode.NOT_LEADER_OR_FOLLOWER), marked(0))
    with asking(broker) as admin:
        admin.abort_transaction(SPEC)
    assert len(broker.requests) == 2
    (marker,) = broker.requests[-1].markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 2)
    assert marker.transaction_result is False
    assert [(t.name, t.partition_indexes) for t in marker.topics] == [("t", [0])]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (marked(ErrorCode.INVALID_PRODUCER_EPOCH), InvalidProducerEpochError),
        (marked(0, partition=1), KafkaError),
        (WriteTxnMarkersResponse(), KafkaError),
    ],
)
def test_a_marker_that_was_not_written_is_an_error(answer: Any, error: type[KafkaError]) -> None:
    with asking(Scripted(ApiKey.WRITE_TXN_MARKERS, answer)) as admin, pytest.raises(error):
        admin.abort_transaction(SPEC)


def test_fencing_waits_for_the_transaction_before() -> None:
    busy = InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_epoch=-1)
    broker = Scripted(ApiKey.INIT_PRODUCER_ID, busy, InitProducerIdResponse(producer_id=7, producer_epoch=4))
    with asking(broker) as admin:
        assert admin.fence_producers(["a"], timeout_ms=1234) == {"a": ProducerIdAndEpoch(7, 4)}
        admin.force_terminate_transaction("b")
    assert [(r.transactional_id, r.transaction_timeout_ms) for r in broker.requests] == [
        ("a", 1234),
        ("a", 1234),
        ("b", 30_000),
    ]
    assert {(r.producer_id, r.producer_epoch) for r in broker.requests} == {(-1, -1)}


# On a broker


@pytest.fixture
def transaction(servers: str, topic: str) -> Iterator[Callable[[], Producer]]:
    """Begins a transaction with a record in partition 0; the id is the topic's name."""
    opened: list[Producer] = []

    def begin() -> Producer:
        producer = Producer(bootstrap_servers=servers, transactional_id=topic)
        opened.append(producer)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, value=b"v", partition=0).result(60)
        return producer

    yield begin
    for producer in opened:
        producer.close(timeout=0)


def test_a_transaction_from_outside(
    admin: Admin, topic: str, transaction: Callable[[], Producer], servers: str
) -> None:
    producer = transaction()
    tp = TopicPartition(topic, 0)
    found = admin.describe_transactions([topic])[topic]
    assert (found.coordinator_id, found.state, found.partitions) == (0, "Ongoing", (tp,))
    assert found.start_time_ms is not None
    (state,) = admin.describe_producers([tp])[tp]
    assert (state.producer_id, state.producer_epoch) == (found.producer_id, found.producer_epoch)
    assert (state.last_sequence, state.transaction_start_offset) == (0, 0)
    listing = TransactionListing(topic, found.producer_id, "Ongoing")
    assert admin.list_transactions(producer_ids=[found.producer_id]) == {0: [listing]}
    assert listing in admin.list_transactions()[0]
    assert admin.list_transactions(states=["Empty"], producer_ids=[found.producer_id]) == {0: []}
    # Ids between two transactions pass, as on Kafka's brokers.
    assert {one.state for one in admin.list_transactions(longer_than_ms=3_600_000)[0]} <= {"Empty"}

    producer.commit_transaction()
    # The markers may come after the answer.
    states = admin.describe_producers
    until(lambda: states([tp], broker_id=0)[tp][0].transaction_start_offset is None)
    (state,) = states([tp], broker_id=0)[tp]
    assert state.coordinator_epoch == 0
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        consumer.assign([tp])
        consumer.seek_to_beginning(tp)
        assert [r.value for r in consumer.poll(timeout_ms=10_000)] == [b"v"]


@pytest.mark.parametrize("way", ["fence", "terminate"])
def test_an_id_is_taken_away(admin: Admin, topic: str, transaction: Callable[[], Producer], way: str) -> None:
    producer = transaction()
    before = admin.describe_transactions([topic])[topic]
    if way == "fence":
        (now,) = admin.fence_producers([topic]).values()
        assert now > (before.producer_id, before.producer_epoch)
    else:
        admin.force_terminate_transaction(topic)
    assert admin.describe_transactions([topic])[topic].state in ("CompleteAbort", "Empty")
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()


def test_a_partition_is_freed_of_a_transaction(
    admin: Admin, topic: str, transaction: Callable[[], Producer]
) -> None:
    admin.fence_producers([topic])
    transaction()
    tp = TopicPartition(topic, 0)
    stable = {tp: -1}
    assert admin.list_offsets(stable, isolation_level="read_committed")[tp].offset == 0
    (state,) = admin.describe_producers([tp])[tp]
    with pytest.raises(InvalidProducerEpochError):
        admin.abort_transaction(AbortTransactionSpec(tp, state.producer_id, state.producer_epoch - 1, 0))
    admin.abort_transaction(AbortTransactionSpec(tp, state.producer_id, state.producer_epoch, 0))
    (state,) = admin.describe_producers([tp])[tp]
    assert state.transaction_start_offset is None
    assert admin.list_offsets(stable, isolation_level="read_committed")[tp].offset == 2
