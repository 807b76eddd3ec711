"""Arguments of other kinds than are asked for: taken, or refused by an error that says what to write."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from odradek.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    ConsumerGroupMetadata,
    ConsumerRecord,
    NewTopic,
    Producer,
    RawReader,
    SimpleConsumer,
    TopicPartition,
    TransactionalWriter,
)
from odradek.client.arguments import epoch_ms, header_pairs, names_of, partitions_of, topic_partition
from odradek.client.config import parse_servers
from odradek.client.errors import ArgumentTypeError, ConfigError, IllegalArgumentError, IllegalStateError
from odradek.errors import (
    GroupIdNotFoundError,
    InvalidPartitionsError,
    KafkaError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)

from .twins import FACES, twin

NOWHERE = "127.0.0.1:1"


async def ask(client: Any, call: Callable[[Any], Any]) -> None:
    """Make a call, wait for it where the client is for coroutines, and close the client."""
    try:
        result = call(client)
        if inspect.isawaitable(result):
            await result
    finally:
        closing = client.close(*([0] if isinstance(client, Consumer | AsyncConsumer) else []))
        if closing is not None:
            await closing


@pytest.fixture(params=[Admin, AsyncAdmin])
def ask_admin(request: pytest.FixtureRequest) -> Callable[[Callable[[Any], Any]], None]:
    async def within_a_loop(call: Callable[[Any], Any]) -> None:
        await ask(request.param(bootstrap_servers=NOWHERE), call)

    return lambda call: asyncio.run(within_a_loop(call))


@pytest.fixture(params=[Consumer, AsyncConsumer])
def ask_consumer(request: pytest.FixtureRequest) -> Callable[[Callable[[Any], Any]], None]:
    async def within_a_loop(call: Callable[[Any], Any]) -> None:
        configs = {"bootstrap_servers": NOWHERE, "group_id": "g", "enable_auto_commit": False}
        await ask(request.param(**configs), call)

    return lambda call: asyncio.run(within_a_loop(call))


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a.list_group_offsets(["os"]),
        lambda a: a.alter_group_offsets(["os"], {("t", 0): 1}),
        lambda a: a.delete_group_offsets(["os"], [("t", 0)]),
        lambda a: a.remove_members(["os"], ["member"]),
    ],
)
def test_a_list_of_names_is_no_name(ask_admin: Any, call: Callable[[Any], Any]) -> None:
    with pytest.raises(ArgumentTypeError, match=r"^group_id is \['os'\], and one name is asked for$"):
        ask_admin(call)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda a: a.create_topics({"os": {"num_partitions": 2}}), "a list of names or of NewTopics"),
        (lambda a: a.create_partitions(["os"]), "{'orders': 6}"),
        (lambda a: a.delete_records([("os", 0)]), "{('orders', 0): 7}"),
        (lambda a: a.list_offsets([("os", 0)]), "{('orders', 0): datetime(2026, 1, 1)}"),
        (lambda a: a.alter_group_offsets("g", [("os", 0)]), "{('orders', 0): 7}"),
        (lambda a: a.alter_group_offsets("g", {("os", 0): "7"}), "whole number"),
        (lambda a: a.alter_partition_reassignments([("os", 0)]), "{('orders', 0): [1, 2]}"),
        (lambda a: a.alter_configs([("topic", "os")]), "{('topic', 'orders'): {'retention.ms'"),
        (lambda a: a.incremental_alter_configs({("topic", "os"): "x"}), "{('topic', 'orders'): {'ret"),
    ],
)
def test_what_is_no_mapping_is_told(ask_admin: Any, call: Callable[[Any], Any], told: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"os.*{re.escape(told)}"):
        ask_admin(call)


RECORD = ConsumerRecord("os", 0, 7, 0, 0, None, b"v", (), -1)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.commit(RECORD),
        lambda c: c.commit_async(RECORD),
        lambda c: c.commit([("os", 0)]),
        lambda c: c.commit({("os", 0): None}),
        lambda c: c.offsets_for_times([("os", 0)]),
    ],
)
def test_a_consumer_says_what_is_no_mapping(ask_consumer: Any, call: Callable[[Any], Any]) -> None:
    with pytest.raises(ArgumentTypeError, match="os"):
        ask_consumer(call)


@pytest.mark.parametrize("group", [None, Consumer, [ConsumerGroupMetadata("g")]])
def test_a_producer_says_what_is_no_group(servers: str, topic: str, group: Any) -> None:
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        with pytest.raises(ArgumentTypeError, match="group_metadata"), producer.begin_transaction():
            producer.send_offsets_to_transaction({(topic, 0): 1}, group)


# A str where names are asked for


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda a: a.create_topics("os"), "topics"),
        (lambda a: a.delete_topics("os"), "topics"),
        (lambda a: a.describe_topics("os"), "topics"),
        (lambda a: a.describe_configs([("topic", "t")], names="os"), "names"),
        (lambda a: a.describe_groups("os"), "group_ids"),
        (lambda a: a.delete_groups("os"), "group_ids"),
        (lambda a: a.list_groups(states="os"), "states"),
        (lambda a: a.list_groups(types="os"), "types"),
        (lambda a: a.remove_members("g", "os"), "group_instance_ids"),
        (lambda a: a.describe_user_scram_credentials("os"), "users"),
        (lambda a: a.create_delegation_token(renewers="os"), "renewers"),
        (lambda a: a.describe_delegation_tokens("os"), "owners"),
        (lambda a: a.list_transactions(states="os"), "states"),
        (lambda a: a.describe_transactions("os"), "transactional_ids"),
        (lambda a: a.fence_producers("os"), "transactional_ids"),
    ],
)
def test_one_str_is_no_list_of_names(ask_admin: Any, call: Callable[[Any], Any], argument: str) -> None:
    with pytest.raises(TypeError, match=rf"^{argument} is 'os', and a list of names is asked for: \['os'\]$"):
        ask_admin(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a.list_group_offsets("g", "os"),
        lambda a: a.delete_group_offsets("g", "os"),
        lambda a: a.elect_leaders("os"),
        lambda a: a.list_partition_reassignments("os"),
        lambda a: a.describe_producers("os"),
    ],
)
def test_one_str_is_no_list_of_partitions(ask_admin: Any, call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"^partitions is 'os', and a list of \(topic, number\) pairs"):
        ask_admin(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a.delete_records({"os": 1}),
        lambda a: a.list_offsets({"os": -1}),
        lambda a: a.alter_group_offsets("g", {"os": 1}),
        lambda a: a.alter_partition_reassignments({"os": [1]}),
        lambda a: a.describe_configs(("topic", "os")),
        lambda a: a.describe_configs("os"),
        lambda a: a.alter_configs({"os": {}}),
        lambda a: a.incremental_alter_configs({"os": {}}),
        lambda a: a.create_topics(NewTopic("os")),
        lambda a: a.create_topics([b"os"]),
        lambda a: a.delete_topics([b"os"]),
        lambda a: a.delete_topics(7),
        lambda a: a.delete_topics([("os", 0)]),
    ],
)
def test_what_is_no_pair_and_no_name_is_told(ask_admin: Any, call: Callable[[Any], Any]) -> None:
    with pytest.raises(ArgumentTypeError):
        ask_admin(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.subscribe("os"),
        lambda c: c.assign("os"),
        lambda c: c.assign(("os", 0)),
        lambda c: c.assign(TopicPartition("os", 0)),
        lambda c: c.assign(["os"]),
        lambda c: c.assign([("os", "0")]),
        lambda c: c.seek("os", 0),
        lambda c: c.seek_to_beginning("os"),
        lambda c: c.seek_to_end([("os", 0)]),
        lambda c: c.pause("os"),
        lambda c: c.resume([("os", 0)]),
        lambda c: c.position("os"),
        lambda c: c.lag("os"),
        lambda c: c.commit({"os": 1}),
        lambda c: c.commit_async({"os": 1}),
        lambda c: c.committed("os"),
        lambda c: c.beginning_offsets("os"),
        lambda c: c.end_offsets(("os", 0)),
        lambda c: c.offsets_for_times({"os": 1}),
        lambda c: c.offsets_for_times({("os", 0): "yesterday"}),
    ],
)
def test_a_consumer_says_what_is_no_partition(ask_consumer: Any, call: Callable[[Any], Any]) -> None:
    with pytest.raises(ArgumentTypeError, match="os"):
        ask_consumer(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r.beginning_offsets("os"),
        lambda r: r.end_offsets(("os", 0)),
        lambda r: r.newest_timestamps("os"),
        lambda r: r.offsets_for_times({"os": 1}),
        lambda r: r.topic_configs("os", "retention.ms"),
        lambda r: r.look_up_topics("os"),
        lambda r: r.learn_topics("os"),
    ],
)
def test_a_raw_reader_says_it_too(call: Callable[[Any], Any]) -> None:
    with RawReader(NOWHERE) as reader, pytest.raises(ArgumentTypeError, match="os"):
        call(reader)


def test_a_simple_consumer_says_it_too() -> None:
    with SimpleConsumer("127.0.0.1", 1) as consumer:
        with pytest.raises(ArgumentTypeError, match="os"):
            consumer.commit_offsets("g", {"os": 1})  # type: ignore[dict-item]
        with pytest.raises(ArgumentTypeError, match="os"):
            consumer.fetch_offsets("g", "os")  # type: ignore[arg-type]
        with pytest.raises(ArgumentTypeError, match="time_ms is 'noon'"):
            consumer.offsets_before("os", 0, "noon")  # type: ignore[arg-type]


def test_what_can_be_read_is_read() -> None:
    assert names_of(iter(["a", "b"]), "topics") == ["a", "b"]
    assert names_of({"a": 1}, "topics") == ["a"]
    assert partitions_of({("t", 1): 5}) == partitions_of([["t", 1]]) == [TopicPartition("t", 1)]


def test_a_number_of_numpys_is_a_partition() -> None:
    np = pytest.importorskip("numpy")
    number = topic_partition(("t", np.int64(3))).partition
    assert (number, type(number)) == (3, int)


# Errors of an administrator name what they are about


def test_errors_name_the_topic_or_group(admin: Admin, topic: str) -> None:
    (none,) = (f"{topic}-none",)
    for error, call in (
        (TopicExistsError, lambda: admin.create_topics([topic])),
        (UnknownTopicOrPartitionError, lambda: admin.delete_topics([none])),
        (UnknownTopicOrPartitionError, lambda: admin.describe_topics([none])),
        (UnknownTopicOrPartitionError, lambda: admin.create_partitions({none: 3})),
        (InvalidPartitionsError, lambda: admin.create_partitions({topic: 1})),
        (UnknownTopicOrPartitionError, lambda: admin.describe_configs([("topic", none)])),
        (KafkaError, lambda: admin.incremental_alter_configs({("topic", topic): {"nope": "1"}})),
        (KafkaError, lambda: admin.create_topics([NewTopic(none, 1, 99)])),
        (GroupIdNotFoundError, lambda: admin.delete_groups([none])),
        (GroupIdNotFoundError, lambda: admin.delete_group_offsets(none, [(topic, 0)])),
    ):
        with pytest.raises(error) as raised:  # type: ignore[call-overload]
            call()
        assert str(raised.value).count(repr(topic)) + str(raised.value).count(repr(none)) == 1, raised.value


def test_a_call_that_gets_no_answer_names_the_topics() -> None:
    with (
        Admin(bootstrap_servers=NOWHERE, default_api_timeout_ms=50) as admin,
        pytest.raises(KafkaError, match="delete topics 'a', 'b'"),
    ):
        admin.delete_topics(["b", "a"])


# Records


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"headers": ["a"]}, r"headers are \(name, value\) pairs, .* not \['a'\]"),
        ({"headers": ["ab"]}, r"headers are \(name, value\) pairs, .* not \['ab'\]"),
        ({"headers": "ab"}, "headers are"),
        ({"headers": 5}, "headers are"),
        ({"headers": [("a", b"1", b"2")]}, "headers are"),
        ({"partition": "0"}, "^partition is '0', and a whole number is asked for$"),
        ({"partition": 0.5}, "^partition is 0.5, and a whole number is asked for$"),
        (
            {"timestamp_ms": "noon"},
            "^timestamp_ms is 'noon', and milliseconds since the epoch, or a datetime",
        ),
        ({"timestamp_ms": timedelta(1)}, "^timestamp_ms is "),
    ],
)
def test_a_record_that_cannot_be_is_told(servers: str, topic: str, more: dict[str, Any], told: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        with pytest.raises(TypeError, match=told):
            producer.send(topic, b"x", **more)
        producer.send(topic, b"x").result(60)
        # Now the topic's short way is open, too.
        with pytest.raises(ArgumentTypeError, match=told):
            producer.send(topic, b"x", **more)

    async def sent() -> None:
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            with pytest.raises(ArgumentTypeError, match=told):
                await producer.send(topic, b"x", **more)

    asyncio.run(sent())


@pytest.mark.parametrize("face", FACES)
def test_a_list_is_no_topic_of_a_record(face: str) -> None:
    with (
        twin(face, Producer, bootstrap_servers=NOWHERE) as producer,
        pytest.raises(ArgumentTypeError, match="a topic's name is text, not list: "),
    ):
        producer.send(["t"], b"x")


MOMENT = datetime(2026, 3, 29, 12, 30, 0, 123_000, tzinfo=timezone(timedelta(hours=2)))
MOMENT_MS = 1_774_780_200_123


@pytest.fixture
def in_vienna(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Vienna")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_vienna")
@pytest.mark.parametrize(
    "moment",
    [
        MOMENT_MS,
        float(MOMENT_MS),
        MOMENT,
        MOMENT.astimezone(UTC),
        MOMENT.replace(tzinfo=None),  # local time, as for `datetime.timestamp`
    ],
)
def test_a_datetime_is_a_time(moment: Any) -> None:
    assert epoch_ms(moment, "timestamp_ms") == MOMENT_MS


@pytest.mark.usefixtures("in_vienna")
def test_so_is_what_data_frames_have() -> None:
    np, pd = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    for moment in (np.int64(MOMENT_MS), pd.Timestamp(MOMENT), pd.Timestamp(MOMENT.replace(tzinfo=None))):
        assert epoch_ms(moment, "timestamp_ms") == MOMENT_MS


def test_records_are_written_and_found_by_datetimes(servers: str, admin: Admin, topic: str) -> None:
    tp, later = TopicPartition(topic, 0), MOMENT + timedelta(milliseconds=1)
    before_all = datetime(1969, 12, 31, tzinfo=UTC)
    with Producer(bootstrap_servers=servers) as producer:
        for _ in range(2):  # the second record could go the short way
            sent = producer.send(topic, b"x", partition=0, timestamp_ms=MOMENT)
            assert sent.result(60).timestamp == MOMENT_MS
        with pytest.raises(IllegalArgumentError, match="milliseconds since the epoch"):
            producer.send(topic, b"x", timestamp_ms=before_all)
    with Consumer(bootstrap_servers=servers) as consumer:
        entry = consumer.offsets_for_times({tp: MOMENT})[tp]
        assert entry is not None and entry.timestamp == MOMENT_MS
        assert consumer.offsets_for_times({tp: later}) == {tp: None}
        with pytest.raises(IllegalArgumentError, match="cannot be negative"):
            consumer.offsets_for_times({tp: before_all})
    with RawReader(servers) as reader:
        assert reader.offsets_for_times({tp: MOMENT}) == {tp: 0}
    assert admin.list_offsets({tp: MOMENT})[tp].offset == 0


def test_headers_of_all_kinds() -> None:
    for headers in ({"a": "1"}, [["a", b"1"]], (("a", bytearray(b"1")),)):
        assert header_pairs(headers) == (("a", b"1"),)  # type: ignore[arg-type]
    assert header_pairs(iter([("a", None)])) == (("a", None),)  # type: ignore[arg-type]


# Transactions


def test_begun_twice(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers, transactional_id=f"{topic}-sync") as producer:
        with pytest.raises(IllegalStateError, match="init_transactions is to be called first"):
            producer.begin_transaction()
        producer.init_transactions()
        with pytest.raises(IllegalStateError, match="init_transactions is called once"):
            producer.init_transactions()
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            producer.commit_transaction()
        producer.begin_transaction()
        with pytest.raises(IllegalStateError, match=r"a transaction is open already.*commit_transaction or"):
            producer.begin_transaction()
        sent = producer.send(topic, b"x")
        producer.commit_transaction()
        assert sent.result(60).topic == topic

    async def begun() -> None:
        async with AsyncProducer(bootstrap_servers=servers, transactional_id=f"{topic}-aio") as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            with pytest.raises(IllegalStateError, match="a transaction is open already"):
                await producer.begin_transaction()

    asyncio.run(begun())
    with TransactionalWriter(servers, f"{topic}-raw") as writer:
        writer.init_transactions()
        writer.begin_transaction()
        with pytest.raises(IllegalStateError, match="a transaction is open already"):
            writer.begin_transaction()
        writer.abort_transaction()


# Servers


@pytest.mark.parametrize(
    ("server", "told"),
    [
        (
            "http://kafka:9092",
            "'http://kafka:9092' is a URL, and a broker is given as host:port, 'kafka:9092'$",
        ),
        ("https://kafka:9093/", "'kafka:9093'; security.protocol=SSL has it speak TLS$"),
        ("kafka://kafka", "is a URL, and a broker is given as host:port, 'kafka'$"),
    ],
)
def test_a_server_is_no_url(server: str, told: str) -> None:
    for client in (Producer, Consumer, Admin, AsyncProducer, AsyncConsumer, AsyncAdmin, RawReader):
        with pytest.raises(ConfigError, match=f"^bootstrap.servers: .*{told}"):
            client(bootstrap_servers=server)


def test_a_protocol_in_front_of_a_server_is_passed_over() -> None:
    for protocol in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        assert parse_servers(f"{protocol}://kafka:9093,kafka") == (("kafka", 9093), ("kafka", 9092))
