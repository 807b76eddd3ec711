"""What a newcomer types: it works, or the error names the thing and the remedy."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pyarrow as pa
import pytest

import odradek.client.errors as client_errors
from odradek.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    NewTopic,
    Producer,
    TopicPartition,
)
from odradek.client.arrow_read import as_spark, empty_table
from odradek.client.config import ConsumerConfig, ProducerConfig, UnknownConfigWarning, build
from odradek.client.errors import ConfigError, IllegalArgumentError, IllegalStateError
from odradek.errors import OdradekError
from waiting import until

from .conftest import new_topic
from .consuming import fill
from .engines import consumer_engines


def test_a_mapping_of_configs_may_come_first(servers: str, topic: str, group: str) -> None:
    configs = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
    with Consumer(configs) as consumer:
        assert consumer.config.group_id == group
        consumer.assign([(topic, 0)])
    with Consumer(configs, topic, max_poll_records=7) as consumer:
        assert (consumer.subscription(), consumer.config.max_poll_records) == ({topic}, 7)
    with Consumer(topic, config=configs) as consumer:
        assert consumer.subscription() == {topic}

    async def subscribed() -> set[str]:
        async with AsyncConsumer(configs, topic) as consumer:
            return await consumer.subscription()

    assert asyncio.run(subscribed()) == {topic}


@pytest.mark.parametrize("topics", [(b"t",), (["a", "b"],), ("",), ("t", {"group.id": "g"})])
def test_what_is_no_topic_is_refused_at_once(servers: str, topics: Any) -> None:
    for kind in (Consumer, AsyncConsumer):
        with pytest.raises(IllegalArgumentError, match="one by one"):
            kind(*topics, bootstrap_servers=servers, group_id="g")


def test_topics_are_text(servers: str, admin: Admin) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        with pytest.raises(IllegalArgumentError, match="text, not bytes: b'topic'"):
            producer.send(b"topic", b"x")  # type: ignore[arg-type]
        with pytest.raises(IllegalArgumentError, match="text"):
            producer.partitions_for(b"topic")  # type: ignore[arg-type]
        with pytest.raises(IllegalArgumentError, match="text"):
            producer.send_arrow(pa.table({"value": [b"x"]}), b"topic")  # type: ignore[arg-type]
    with Consumer(bootstrap_servers=servers) as consumer:
        with pytest.raises(IllegalArgumentError, match="text"):
            consumer.assign([(b"topic", 0)])  # type: ignore[list-item]
        with pytest.raises(IllegalArgumentError, match="text"):
            consumer.end_offsets([(b"topic", 0)])  # type: ignore[list-item]


def test_every_error_of_the_clients_has_one_root(servers: str, admin: Admin, topic: str) -> None:
    for name, value in vars(client_errors).items():
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, OdradekError), name
    with (
        Producer(bootstrap_servers=servers) as producer,
        Consumer(bootstrap_servers=servers, group_id="roots", auto_offset_reset="earliest") as consumer,
        Consumer(bootstrap_servers=servers, group_id="more roots") as subscriber,
    ):
        consumer.assign([(topic, 0)])
        wrong: list[Any] = [
            lambda: producer.send("", b"x"),
            lambda: producer.send(topic, b"x", partition=-1),
            lambda: producer.send(topic, object()),
            lambda: producer.send(topic, b"x", timestamp_ms=-1),
            lambda: producer.send(topic, b"x", timestamp_ms=2**63),
            lambda: producer.send_arrow(pa.table({"value": [1]}), topic),
            lambda: producer.send_arrow(pa.table({"value": [b"x"]})),
            producer.commit_transaction,
            lambda: consumer.seek((topic, 0), -1),
            lambda: consumer.seek((topic, 9), 1),
            lambda: consumer.poll(0, 0),
            lambda: consumer.poll_arrow(0, unknown=1),
            lambda: consumer.poll_arrow(0, timestamp_unit="days"),
            lambda: consumer.subscribe(),
            lambda: consumer.subscribe([1]),  # type: ignore[list-item]
            lambda: consumer.subscribe([topic]),
            lambda: subscriber.subscribe(pattern="("),
            lambda: admin.describe_configs([("planet", "x")]),
            lambda: admin.elect_leaders(election_type="loud"),
            lambda: admin.create_topics([topic]),
            lambda: Producer(bootstrap_servers="nowhere:port"),
        ]
        for call in wrong:
            with pytest.raises(OdradekError):
                call()


def test_a_blocking_call_from_a_callback_is_an_error_of_the_root_too(servers: str, topic: str) -> None:
    problems: list[Any] = []
    with Producer(bootstrap_servers=servers) as producer:

        def block(metadata: Any, error: Any) -> None:
            try:
                producer.partitions_for(topic)
            except IllegalStateError as problem:
                problems.append(problem)

        producer.send(topic, b"x", on_delivery=block).result(60)
        until(lambda: problems)
    assert "would never return" in str(problems[0])


def test_configs_come_back_under_the_keys_that_were_asked(admin: Admin, topic: str) -> None:
    (node,) = admin.describe_cluster().nodes
    asked = [("topic", topic), ("broker", node.id)]
    assert list(admin.describe_configs(asked)) == asked
    assert list(admin.describe_configs([(2, topic), ("broker", str(node.id))])) == [
        (2, topic),
        ("broker", str(node.id)),
    ]


@pytest.mark.parametrize(
    ("config", "given", "hint"),
    [
        (ProducerConfig, "linger.mss", "did you mean 'linger.ms'?"),
        (ProducerConfig, "compresion_type", "did you mean 'compression_type'?"),
        (ConsumerConfig, "auto.ofset.reset", "did you mean 'auto.offset.reset'?"),
    ],
)
def test_a_mistyped_config_is_told_with_the_nearest(config: Any, given: str, hint: str) -> None:
    with pytest.warns(UnknownConfigWarning) as caught:
        build(config, {"bootstrap.servers": "a:1", given: "1"})
    assert str(caught[0].message).endswith(hint)


def test_a_config_that_is_near_nothing_gets_no_hint() -> None:
    with pytest.warns(UnknownConfigWarning) as caught:
        build(ProducerConfig, {"bootstrap.servers": "a:1", "zzzzzz": "1"})
    assert str(caught[0].message).endswith("ignored")


@pytest.mark.parametrize("acks", ["some", "2", 1.5])
def test_acks_says_what_it_may_be(acks: Any) -> None:
    with pytest.raises(ConfigError, match=r"acks=.*must be (all \(or -1\), 0 or 1|one of -1, 0, 1)"):
        build(ProducerConfig, {"bootstrap.servers": "a:1", "acks": acks})


def test_columns_are_those_of_the_spark_source(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"v", timestamp_ms=1_700_000_000_123, headers={"h": b"1"})
        producer.send(topic, None, key=b"k")
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    wanted = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.field("element", header)),
    }
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        table = consumer.poll_arrow(10_000)
    assert dict(zip(table.schema.names, table.schema.types, strict=True)) == wanted
    assert empty_table(True, as_spark({})).schema == table.schema
    assert table.column("timestamp")[0].as_py().isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert table.column("headers").to_pylist() == [[{"key": "h", "value": b"1"}], None]


def test_the_spark_source_has_the_same(servers: str) -> None:
    pytest.importorskip("pyspark")
    from odradek.spark.schema import arrow_schema

    ours = empty_table(True, as_spark({})).schema
    assert ours == arrow_schema(tuple(ours.names))


def test_a_topic_that_does_not_exist_is_told_once(
    servers: str,
    admin: Admin,
    group: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"not-yet-{group}"
    engines = consumer_engines(monkeypatch)

    def told() -> int:
        return sum(f"topic {name!r} does not exist" in record.getMessage() for record in caplog.records)

    with (
        caplog.at_level(logging.WARNING),
        Consumer(
            name,
            group_id=group,
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            metadata_max_age_ms=50,
            retry_backoff_ms=10,
        ) as consumer,
    ):
        until(lambda: consumer.poll(50) or told())
        metadata = engines[0].cluster.metadata
        before = metadata.version
        until(lambda: consumer.poll(10) or metadata.version > before + 3)
        assert told() == 1
        admin.create_topics([NewTopic(name)])
        fill(servers, name, 1)
        assert until(lambda: consumer.poll(100))[0].topic == name
        assert told() == 1


def test_all_of_it_in_coroutines(servers: str, topic: str) -> None:
    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            with pytest.raises(IllegalArgumentError, match="text"):
                await producer.send(b"topic", b"x")  # type: ignore[arg-type]
        async with AsyncAdmin({"bootstrap.servers": servers}) as admin:
            assert list(await admin.describe_configs([("topic", topic)])) == [("topic", topic)]
        async with AsyncConsumer({"bootstrap.servers": servers}) as consumer:
            await consumer.assign([(topic, 0)])
            assert (await consumer.poll_arrow(0)).schema == empty_table(True, as_spark({})).schema

    asyncio.run(work())
