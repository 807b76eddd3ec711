"""The answers of a broker that is not ready: row by row of the table in docs/test_kit.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from odradek.errors.codes import ErrorCode
from odradek.records.builder import build_batch
from odradek.testing import Broker, Cluster
from odradek.testing.faults.errors import errors_of
from odradek.testing.unready import unreadiness
from odradek.testing.unready.checks import CHECKS
from odradek.wire.api import ApiKey
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.sync_group import SyncGroupRequest
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from waiting import until

from ..faults import requests
from ..faults.wire import Wire

OK = "NONE"
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
LOADING = "COORDINATOR_LOAD_IN_PROGRESS"
Start = Callable[..., "Client"]


class Client:
    """A broker, and a connection to it whose answers are told by the names of their errors."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.wire = Wire(broker.port)

    def close(self) -> None:
        self.wire.__exit__()

    def code(self, request: Any, version: int, find: Callable[[Any], int]) -> str:
        return ErrorCode(find(self.wire.ask(request, version))).name

    def metadata(self, topic: str = "t", *, may_create: bool = False) -> str:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=may_create
        )
        return self.code(request, 4, lambda response: response.topics[0].error_code)

    def partitions(self, topic: str = "t") -> int:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        return len(self.wire.ask(request, 8).topics[0].partitions)

    def listed(self) -> list[str]:
        return [topic.name for topic in self.wire.ask(MetadataRequest(topics=None), 8).topics]

    def create(self, topic: str = "t", partitions: int = 1) -> str:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)],
            timeout_ms=1000,
        )
        return self.code(request, 4, lambda response: response.topics[0].error_code)

    def delete(self, topic: str = "t") -> str:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000)
        return self.code(request, 3, lambda response: response.responses[0].error_code)

    def produce(self, topic: str = "t", index: int = 0) -> str:
        def find(response: Any) -> int:
            return next(p.error_code for p in response.responses[0].partition_responses if p.index == index)

        return self.code(requests.produce(9, {}, [topic]), 9, find)

    def find(self, key: str = "g", key_type: int = 0) -> str:
        request = FindCoordinatorRequest(key=key, key_type=key_type)
        return self.code(request, 3, lambda response: response.error_code)

    def join_group(self, group: str = "g") -> str:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        return self.code(request, 5, lambda response: response.error_code)

    def init(self, transactional_id: str | None = None) -> Any:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=10_000)
        return self.wire.ask(request, 2)

    def told(self, ask: Callable[[], str]) -> list[str]:
        """The answers to the same question, up to the first that was given before."""
        answers: list[str] = []
        while not answers or answers[-1:] != answers[-2:-1]:
            answers.append(ask())
        return answers[:-1]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start an unready broker of which each thing takes so many answers."""
    clients: list[Client] = []

    def start_one(answers: int = 1, **keywords: Any) -> Client:
        monkeypatch.setattr(unreadiness, "_ANSWERS", (answers,))
        broker = Broker(unready=True, **keywords)
        broker.start()
        clients.append(Client(broker))
        return clients[-1]

    yield start_one
    for client in clients:
        client.close()
        client.broker.close()


# ---------------------------------------------------------------------- topics


def test_a_topic_that_is_asked_for_with_kraft(start: Start) -> None:
    client = start(2)
    answers = [client.metadata(may_create=True) for _ in range(4)]
    assert answers == [UNKNOWN] * 3 + [OK]


def test_a_topic_that_is_asked_for_with_zookeeper(start: Start) -> None:
    client = start(1, kafka_version="2.2")
    answers = [client.metadata(may_create=True) for _ in range(3)]
    assert answers == ["LEADER_NOT_AVAILABLE", "LEADER_NOT_AVAILABLE", OK]
    other = start(1, kafka_version="2.2")
    other.metadata(may_create=True)
    assert [other.metadata(), other.metadata()] == [UNKNOWN, OK]


def test_a_topic_that_is_created_with_kraft(start: Start) -> None:
    client = start(2)
    assert client.create() == OK
    assert client.listed() == []
    assert [client.metadata(), client.metadata()] == [UNKNOWN, OK]
    assert client.listed() == ["t"]


def test_a_topic_that_is_created_is_known_by_its_id_as_late(start: Start) -> None:
    client = start(1)
    client.create()
    topic_id = client.broker.call(lambda app: app.image.topic("t").topic_id)
    asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
    answers = [client.code(asked, 12, lambda response: response.topics[0].error_code) for _ in range(2)]
    assert answers == ["UNKNOWN_TOPIC_ID", OK]


def test_a_lone_broker_with_zookeeper_creates_and_deletes_before_it_answers(start: Start) -> None:
    client = start(3, kafka_version="3.9")
    assert client.create() == OK
    assert (client.metadata(), client.produce()) == (OK, OK)
    assert client.delete() == OK
    assert client.metadata() == UNKNOWN


def test_a_leader_is_one_after_its_topic_is_known(start: Start) -> None:
    client = start(1)
    client.create()
    assert [client.produce() for _ in range(3)] == [UNKNOWN, "NOT_LEADER_OR_FOLLOWER", OK]


@pytest.mark.parametrize("version", [8, 13])
def test_a_fetch_is_refused_as_a_produce(start: Start, version: int) -> None:
    client = start(1)
    client.create(partitions=2)
    ids = {"t": client.broker.call(lambda app: app.image.topic("t").topic_id)}

    def find(response: Any) -> int:
        return next(p.error_code for p in response.responses[0].partitions if p.partition_index == 1)

    answers = [client.code(requests.fetch(version, ids, ["t"]), version, find) for _ in range(3)]
    assert answers == [UNKNOWN if version == 8 else "UNKNOWN_TOPIC_ID", "NOT_LEADER_OR_FOLLOWER", OK]


def test_topics_that_are_ready_are_worked_on_beside_others(start: Start) -> None:
    client = start(3)
    client.broker.create_topic("old")
    client.create("new")

    def codes() -> dict[str, str]:
        response = client.wire.ask(requests.produce(9, {}, ["new", "old"]), 9)
        return {
            topic.name: ErrorCode(topic.partition_responses[0].error_code).name
            for topic in response.responses
        }

    assert codes() == {"new": UNKNOWN, "old": OK}
    assert client.broker.call(lambda app: app.replicas.get("old", 0).log.log_end_offset) == 1


def test_a_topic_that_is_deleted_is_told_for_a_while(start: Start) -> None:
    client = start(2)
    client.broker.create_topic("t")
    assert client.delete() == OK
    assert client.listed() == ["t"]
    assert [client.metadata(), client.metadata()] == [OK, UNKNOWN]
    assert client.listed() == []


def test_a_name_is_taken_for_a_while_with_zookeeper(start: Start) -> None:
    client = start(2, kafka_version="3.9")
    client.create()
    client.delete()
    assert [client.create() for _ in range(3)] == ["TOPIC_ALREADY_EXISTS"] * 2 + [OK]


def test_a_name_is_free_at_once_with_kraft(start: Start) -> None:
    client = start(2)
    client.broker.create_topic("t")
    assert (client.delete(), client.create()) == (OK, OK)


def test_partitions_that_are_added(start: Start) -> None:
    client = start(2)
    client.broker.create_topic("t")
    asked = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)], timeout_ms=1000
    )
    assert client.code(asked, 1, lambda response: response.results[0].error_code) == OK
    assert client.partitions() == 1
    assert [client.produce(index=1) for _ in range(4)] == [UNKNOWN] + ["NOT_LEADER_OR_FOLLOWER"] * 2 + [OK]
    assert client.partitions() == 2


def test_configs_that_are_changed(start: Start) -> None:
    for answers, keywords in ((2, {}), (0, {"kafka_version": "3.9"})):
        client = start(2, **keywords)
        client.broker.create_topic("t", configs={"retention.ms": "1"})
        change = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2,
                    resource_name="t",
                    configs=[AlterableConfig(name="retention.ms", config_operation=0, value="2")],
                )
            ]
        )
        read = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=2, resource_name="t", configuration_keys=["retention.ms"]
                )
            ]
        )
        assert client.code(change, 0, lambda response: response.responses[0].error_code) == OK
        values = [client.wire.ask(read, 2).results[0].configs[0].value for _ in range(3)]
        assert values == ["1"] * answers + ["2"] * (3 - answers)


# ---------------------------------------------------------------------- coordinators


@pytest.mark.parametrize("kafka_version", ["0.11", "3.9", "4.0"])
def test_a_coordinator_whose_topic_is_being_made(start: Start, kafka_version: str) -> None:
    for key_type in (0, 1):
        client = start(2, kafka_version=kafka_version)
        request = FindCoordinatorRequest(key="g", key_type=key_type)
        answers = [client.code(request, 1, lambda response: response.error_code) for _ in range(4)]
        assert answers == ["COORDINATOR_NOT_AVAILABLE"] * 3 + [OK]


def found(client: Client, key_type: int = 0) -> Client:
    client.told(lambda: client.find(key_type=key_type))
    return client


@pytest.mark.parametrize(
    ("kafka_version", "first"), [("3.9", LOADING), ("4.0", "NOT_COORDINATOR"), (None, "NOT_COORDINATOR")]
)
def test_a_group_that_is_being_loaded(start: Start, kafka_version: str | None, first: str) -> None:
    client = found(start(3, kafka_version=kafka_version))
    assert [client.join_group() for _ in range(4)] == [first, LOADING, LOADING, "MEMBER_ID_REQUIRED"]


@pytest.mark.parametrize(("kafka_version", "error"), [("3.9", "REBALANCE_IN_PROGRESS"), ("4.0", LOADING)])
def test_a_sync_while_a_group_is_being_loaded(start: Start, kafka_version: str, error: str) -> None:
    client = found(start(1, kafka_version=kafka_version))
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", protocol_name="range")
    answers = [client.code(request, 3, lambda response: response.error_code) for _ in range(2)]
    assert answers == [error, "UNKNOWN_MEMBER_ID"]


def test_a_heartbeat_while_a_group_is_being_loaded_is_answered_blindly(start: Start) -> None:
    client = found(start(1))
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    answers = [client.code(request, 3, lambda response: response.error_code) for _ in range(2)]
    assert answers == [OK, "UNKNOWN_MEMBER_ID"]


def test_groups_are_listed_when_all_are_loaded(start: Start) -> None:
    client = found(start(1, offsets_topic_num_partitions=2))
    answers = [client.code(ListGroupsRequest(), 2, lambda response: response.error_code) for _ in range(2)]
    assert answers == [LOADING, OK]


def test_offsets_of_several_groups_wait_for_each_coordinator(start: Start) -> None:
    client = found(start(1, offsets_topic_num_partitions=1))
    groups = [
        OffsetFetchRequestGroup(
            group_id=name, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        )
        for name in ("g", "h")
    ]
    request = OffsetFetchRequest(groups=groups)
    for error in (LOADING, OK):
        answered = client.wire.ask(request, 8).groups
        assert [(group.group_id, ErrorCode(group.error_code).name) for group in answered] == [
            ("g", error),
            ("h", error),
        ]


def test_a_broker_that_starts_again_loads_its_groups_and_knows_its_topics(start: Start) -> None:
    client = found(start(1))
    client.told(client.join_group)
    client.broker.create_topic("t")
    client.close()
    client.broker.restart()
    client.wire = Wire(client.broker.port)
    assert client.metadata() == OK
    assert client.find() == OK
    assert client.join_group() == LOADING


# ---------------------------------------------------------------------- producers and transactions


@pytest.mark.parametrize(
    ("kafka_version", "answers"),
    [("3.5-kraft", []), ("3.6", []), ("3.6-kraft", [LOADING] * 2), (None, [LOADING] * 2)],
)
def test_ids_of_producers(start: Start, kafka_version: str | None, answers: list[str]) -> None:
    client = start(2, kafka_version=kafka_version)
    told = [ErrorCode(client.init().error_code).name for _ in range(3)]
    assert told == answers + [OK] * (3 - len(answers))


def begun(client: Client) -> Any:
    """Begin a transaction of the id `x` in the topic `t`, with an offset of the group `g`."""
    client.broker.create_topic("t")
    found(client)
    found(client, 1)
    answer = until(lambda: client.init("x"), "a producer id", holds=lambda response: not response.error_code)
    joined = until(lambda: add(client, answer), "a partition", holds=lambda code: code == OK)
    assert joined == OK
    added = AddOffsetsToTxnRequest(
        transactional_id="x", producer_id=answer.producer_id, producer_epoch=0, group_id="g"
    )
    assert client.code(added, 2, lambda response: response.error_code) == OK
    offset = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_leader_epoch=-1, committed_metadata=""
    )
    commit = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=answer.producer_id,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[offset])],
    )
    until(
        lambda: client.code(commit, 2, lambda response: response.topics[0].partitions[0].error_code),
        "an offset",
        holds=lambda code: code == OK,
    )
    return answer


def add(client: Client, producer: Any) -> str:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    return client.code(
        request,
        2,
        lambda response: (
            response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        ),
    )


def end(client: Client, producer: Any) -> None:
    request = EndTxnRequest(
        transactional_id="x", producer_id=producer.producer_id, producer_epoch=0, committed=True
    )
    assert client.code(request, 2, lambda response: response.error_code) == OK


@pytest.mark.parametrize("kafka_version", ["0.11", None])
def test_the_next_transaction_waits_for_the_end_of_the_last(start: Start, kafka_version: str | None) -> None:
    client = start(2)
    producer = begun(client)
    end(client, producer)
    assert [add(client, producer) for _ in range(3)] == ["CONCURRENT_TRANSACTIONS"] * 2 + [OK]


def test_another_producer_of_the_id_waits_as_well(start: Start) -> None:
    client = start(1)
    end(client, begun(client))
    answers = [ErrorCode(client.init("x").error_code).name for _ in range(2)]
    assert answers == ["CONCURRENT_TRANSACTIONS", OK]


@pytest.mark.parametrize(("stable", "first"), [(True, "UNSTABLE_OFFSET_COMMIT"), (False, OK)])
def test_offsets_that_a_transaction_has_just_committed(start: Start, stable: bool, first: str) -> None:
    client = start(1)
    end(client, begun(client))
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])], require_stable=stable
    )
    told = [client.wire.ask(request, 8).groups[0].topics[0].partitions[0] for _ in range(2)]
    assert [ErrorCode(partition.error_code).name for partition in told] == [first, OK]
    assert told[1].committed_offset == 5


def write(client: Client, producer: Any) -> None:
    batch = build_batch(
        [(0, b"k", b"v", ())],
        producer_id=producer.producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    data = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        transactional_id="x",
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )
    written = client.code(
        request, 9, lambda response: response.responses[0].partition_responses[0].error_code
    )
    assert written == OK


def fetched(client: Client, isolation_level: int, offset: int = 0) -> tuple[int, bool]:
    """The last stable offset of `t`, and whether there are records."""
    partition = FetchPartition(partition=0, partition_max_bytes=1000, fetch_offset=offset)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=isolation_level,
        topics=[FetchTopic(topic="t", partitions=[partition])],
    )
    answered = client.wire.ask(request, 8).responses[0].partitions[0]
    return answered.last_stable_offset, bool(answered.records)


def test_records_of_a_transaction_are_committed_when_its_marker_is_there(start: Start) -> None:
    client = start(2)
    producer = begun(client)
    write(client, producer)
    end(client, producer)
    assert fetched(client, 0) == (2, True)
    assert [fetched(client, 1) for _ in range(3)] == [(0, False)] * 2 + [(2, True)]


def test_who_reads_what_was_there_before_reads_on(start: Start) -> None:
    client = start(2)
    producer = begun(client)
    client.produce()
    write(client, producer)
    end(client, producer)
    assert fetched(client, 1) == (3, True)
    assert fetched(client, 1, 1) == (3, True)


def test_the_last_stable_offset_is_listed_as_late(start: Start) -> None:
    client = start(2)
    producer = begun(client)
    write(client, producer)
    end(client, producer)
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=1, topics=[ListOffsetsTopic(name="t", partitions=[asked])]
    )
    assert [client.wire.ask(request, 5).topics[0].partitions[0].offset for _ in range(3)] == [0, 0, 2]


# ---------------------------------------------------------------------- elections


def test_the_end_of_a_log_after_an_election(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unreadiness, "_ANSWERS", (1,))
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])])
    with Cluster(2, unready=True) as cluster:
        cluster.create_topic("t", replication_factor=2)
        leader = cluster.leader("t")
        with closing(Client(cluster.broker(leader))) as client:
            until(client.produce, "a record", holds=lambda code: code == OK)
        follower = cluster.broker(1 - leader)
        until(
            lambda: follower.call(lambda app: app.replicas.get("t", 0).log.log_end_offset),
            "the record at the follower",
        )
        with closing(Client(follower)) as client:
            # It has to have seen who led before.
            client.metadata()
            cluster.move_leader("t", 0, 1 - leader)

            def ask() -> str:
                return client.code(request, 5, lambda response: response.topics[0].partitions[0].error_code)

            assert [ask(), ask()] == ["NOT_LEADER_OR_FOLLOWER", "OFFSET_NOT_AVAILABLE"]
            # The broker says so by itself, too, until the follower has fetched.
            until(ask, "the end", holds=lambda code: code == OK)


# ---------------------------------------------------------------------- beside the table


def test_faults_of_a_test_come_first_and_count_as_without(start: Start) -> None:
    client = start(1)
    client.create()
    with client.broker.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2, topic="t") as fault:
        answers = [client.produce() for _ in range(5)]
    assert answers == ["NOT_ENOUGH_REPLICAS"] * 2 + [UNKNOWN, "NOT_LEADER_OR_FOLLOWER", OK]
    assert fault.met == 2
    assert client.broker.call(lambda app: app.replicas.get("t", 0).log.log_end_offset) == 1


IN_PARTITIONS = "UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER"
OF_COORDINATOR = "COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR"
OF_TRANSACTION = f"{OF_COORDINATOR} CONCURRENT_TRANSACTIONS"
SAID = {
    ApiKey.PRODUCE: f"{IN_PARTITIONS} UNKNOWN_TOPIC_ID:13 CONCURRENT_TRANSACTIONS:12",
    ApiKey.FETCH: f"{IN_PARTITIONS} UNKNOWN_TOPIC_ID:13",
    ApiKey.LIST_OFFSETS: f"{IN_PARTITIONS} LEADER_NOT_AVAILABLE OFFSET_NOT_AVAILABLE:5",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: IN_PARTITIONS,
    ApiKey.DELETE_RECORDS: IN_PARTITIONS,
    ApiKey.CREATE_TOPICS: "TOPIC_ALREADY_EXISTS",
    ApiKey.METADATA: "UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE UNKNOWN_TOPIC_ID:12",
    ApiKey.FIND_COORDINATOR: "COORDINATOR_NOT_AVAILABLE",
    ApiKey.OFFSET_COMMIT: f"{OF_COORDINATOR} UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID:10",
    ApiKey.OFFSET_FETCH: f"{OF_COORDINATOR} UNSTABLE_OFFSET_COMMIT:7",
    ApiKey.OFFSET_DELETE: OF_COORDINATOR,
    ApiKey.JOIN_GROUP: OF_COORDINATOR,
    ApiKey.SYNC_GROUP: f"{OF_COORDINATOR} REBALANCE_IN_PROGRESS",
    ApiKey.HEARTBEAT: "NOT_COORDINATOR",
    ApiKey.LEAVE_GROUP: OF_COORDINATOR,
    ApiKey.DESCRIBE_GROUPS: OF_COORDINATOR,
    ApiKey.CONSUMER_GROUP_DESCRIBE: OF_COORDINATOR,
    ApiKey.DELETE_GROUPS: OF_COORDINATOR,
    ApiKey.INIT_PRODUCER_ID: OF_TRANSACTION,
    ApiKey.ADD_PARTITIONS_TO_TXN: f"{OF_TRANSACTION} UNKNOWN_TOPIC_OR_PARTITION OPERATION_NOT_ATTEMPTED",
    ApiKey.ADD_OFFSETS_TO_TXN: OF_TRANSACTION,
    ApiKey.TXN_OFFSET_COMMIT: f"{OF_COORDINATOR} COORDINATOR_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION "
    "UNKNOWN_TOPIC_ID:6",
    ApiKey.END_TXN: OF_COORDINATOR,
}
"""The errors of the table in docs/test_kit.md, some from a version on."""


@pytest.mark.parametrize("key", SAID, ids=lambda key: key.api_name)
def test_what_is_said_kafka_says(key: ApiKey) -> None:
    errors = errors_of(key)
    assert errors is not None
    for word in SAID[key].split():
        name, _, version = word.partition(":")
        assert int(version or 0) in errors[ErrorCode[name]], word


def test_each_check_is_in_the_table_or_of_an_api_without_documented_errors() -> None:
    assert {key for key in CHECKS if errors_of(key) is not None} <= SAID.keys()


def test_a_broker_that_is_ready_has_its_plain_handlers() -> None:
    with Broker() as broker:
        functions = broker.call(
            lambda app: {app.handlers.get(key).function.__module__ for key in (0, 1, 3, 10, 11)}
        )
    assert not any("unready" in module for module in functions)


def test_the_seed_is_told_and_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "unready=True, seed=7" in repr(Broker(unready=True, seed=7))
    assert "unready" not in repr(Broker())
    monkeypatch.setenv("ODRADEK_UNREADY_SEED", "12")
    assert "seed=12" in repr(Broker(unready=True))
    assert "seed=12" in repr(Cluster(2, unready=True))
    monkeypatch.setenv("ODRADEK_UNREADY_SEED", "x")
    with pytest.raises(ValueError, match="a whole number"):
        Broker(unready=True)
    with pytest.raises(TypeError, match="for unready=True"):
        Broker(seed=1)


def test_a_seed_gives_the_same_answers(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(seed: int) -> list[str]:
        monkeypatch.setattr(unreadiness, "_ANSWERS", (0, 1, 1, 2, 3))
        with Broker(unready=True, seed=seed) as broker:
            client = Client(broker)
            client.create()
            told = [client.produce() for _ in range(6)] + [client.find() for _ in range(5)]
            told += [client.join_group() for _ in range(5)]
            client.close()
            return told

    assert answers(3) == answers(3)
    assert len({tuple(answers(seed)) for seed in range(5)}) > 1
