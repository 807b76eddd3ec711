"""The consumers against a broker: groups, positions, commits, what happens when things go away."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from odradek.client import (
    Admin,
    AsyncConsumer,
    Consumer,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from odradek.client.errors import (
    ClosedError,
    ConfigError,
    IllegalStateError,
    NoOffsetForPartitionError,
    SerializationError,
)
from odradek.errors import OffsetOutOfRangeError
from odradek.testing import Broker
from waiting import until

from .conftest import new_topic
from .consuming import drain, fill, metric
from .proxy import Proxy


def test_everything_from_the_beginning_in_order(servers: str, topic: str, group: str) -> None:
    fill(servers, topic, 1_000, 3)
    with Consumer(topic, group_id=group, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        records = drain(consumer, 1_000)
        assert consumer.poll(50) == []
        for n in range(3):
            values = [int(r.value) for r in records if r.partition == n]
            assert values == list(range(n, 1_000, 3))
        assert consumer.assignment() == {TopicPartition(topic, n) for n in range(3)}
        assert consumer.subscription() == {topic}
        assert consumer.lag((topic, 0)) == 0
        assert metric(consumer.metrics(), "records-consumed-total") == 1_000.0
        assert records[0].key.startswith(b"k")


def test_max_poll_records_and_iteration(servers: str, topic: str, group: str) -> None:
    fill(servers, topic, 100)
    with Consumer(
        topic, group_id=group, bootstrap_servers=servers, auto_offset_reset="earliest", max_poll_records=7
    ) as consumer:
        first = drain(consumer, 1)
        assert len(first) <= 7
        rest = []
        for record in consumer:
            rest.append(record)
            if len(first) + len(rest) == 100:
                break
        assert [int(r.value) for r in first + rest] == list(range(100))


def test_assign_seek_position_and_the_ends(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    fill(servers, topic, 50)
    tp = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        assert consumer.position(tp) == 0
        consumer.seek(tp, 40)
        assert [r.offset for r in drain(consumer, 10)] == list(range(40, 50))
        consumer.seek_to_beginning()
        assert consumer.position(tp) == 0
        assert drain(consumer, 50)[0].offset == 0
        consumer.seek_to_end(tp)
        assert consumer.position(tp) == 50
        assert consumer.beginning_offsets([tp]) == {tp: 0}
        assert consumer.end_offsets([tp]) == {tp: 50}
        with pytest.raises(IllegalStateError, match="not assigned"):
            consumer.seek((topic, 9), 0)
        with pytest.raises(ValueError, match="negative"):
            consumer.seek(tp, -1)
        with pytest.raises(IllegalStateError, match=r"group\.id"):
            consumer.commit()
        with pytest.raises(IllegalStateError, match=r"group\.id"):
            consumer.subscribe([topic])
    with pytest.raises(ClosedError):
        consumer.poll(10)


def test_offsets_for_times(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(10):
            producer.send(topic, b"x", timestamp_ms=1_700_000_000_000 + i * 1_000).result(60)
    tp = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=servers) as consumer:
        found = consumer.offsets_for_times({tp: 1_700_000_003_500})
        assert found[tp] is not None
        assert found[tp][:2] == (4, 1_700_000_004_000)
        assert consumer.offsets_for_times({tp: 1_800_000_000_000}) == {tp: None}


def test_pause_and_resume(servers: str, topic: str) -> None:
    fill(servers, topic, 30, 3)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        tps = [TopicPartition(topic, n) for n in range(3)]
        consumer.assign(tps)
        consumer.pause(tps[1])
        assert consumer.paused() == {tps[1]}
        assert {r.partition for r in drain(consumer, 20)} == {0, 2}
        assert consumer.poll(100) == []
        consumer.resume(tps[1])
        assert {r.partition for r in drain(consumer, 10)} == {1}


def test_commit_and_go_on_where_it_was(servers: str, admin: Admin, group: str) -> None:
    topic = new_topic(admin, 1)
    fill(servers, topic, 20)
    tp = TopicPartition(topic, 0)
    settings: dict[str, Any] = {
        "group_id": group,
        "bootstrap_servers": servers,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    with Consumer(topic, **settings) as consumer:
        drain(consumer, 20)
        assert consumer.committed([tp]) == {tp: None}
        consumer.commit({tp: OffsetAndMetadata(7, "a note")})
        assert consumer.committed([tp])[tp] == OffsetAndMetadata(7, "a note")
        done: list[Any] = []
        consumer.commit_async({tp: 9}, lambda offsets, error: done.append((offsets, error)))
        until(lambda: done)
        assert done == [({tp: OffsetAndMetadata(9)}, None)]
    with Consumer(topic, **settings) as consumer:
        assert drain(consumer, 11)[0].offset == 9
        consumer.commit()
        assert consumer.committed([tp])[tp].offset == 20  # type: ignore[union-attr]


def test_auto_commit_while_polling_and_on_close(servers: str, admin: Admin, group: str) -> None:
    topic = new_topic(admin, 1)
    fill(servers, topic, 20)
    tp = TopicPartition(topic, 0)
    with Consumer(
        topic,
        group_id=group,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=10,
        max_poll_records=5,
    ) as consumer:
        drain(consumer, 10)

        def committed() -> Any:
            consumer.poll(20, 1)
            return consumer.committed([tp])[tp]

        until(committed)
        read = consumer.position(tp)
    with Admin(bootstrap_servers=servers) as admin_client:
        assert admin_client.list_group_offsets(group)[tp].offset == read


def test_no_policy_says_so(servers: str, topic: str, group: str) -> None:
    fill(servers, topic, 3)
    tp = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=servers, group_id=group, auto_offset_reset="none") as consumer:
        consumer.assign([tp])
        with pytest.raises(NoOffsetForPartitionError, match="none"):
            for _ in range(100):
                consumer.poll(100)
        consumer.seek(tp, 99)
        with pytest.raises(OffsetOutOfRangeError, match="99"):
            for _ in range(100):
                consumer.poll(100)
        consumer.seek(tp, 1)
        assert [r.offset for r in drain(consumer, 2)] == [1, 2]


def test_a_position_that_is_out_of_range_is_reset(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    fill(servers, topic, 10)
    tp = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 5_000)
        assert [r.offset for r in drain(consumer, 10)] == list(range(10))
        admin.delete_records({tp: 6})
        consumer.seek(tp, 2)
        assert drain(consumer, 4)[0].offset == 6


def test_deserializers_and_a_record_that_cannot_be_read(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    with Producer(bootstrap_servers=servers) as producer:
        for value in (b"1", b"2", b"bad", b"4"):
            producer.send(topic, value)
    tp = TopicPartition(topic, 0)
    with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", value_deserializer=lambda data: int(data)
    ) as consumer:
        consumer.assign([tp])
        assert [r.value for r in drain(consumer, 2)] == [1, 2]
        with pytest.raises(SerializationError, match="offset 2"):
            consumer.poll(1_000)
        assert consumer.position(tp) == 2
        consumer.seek(tp, 3)
        assert [r.value for r in drain(consumer, 1)] == [4]


def test_the_broker_restarts_under_a_group(group: str) -> None:
    with Broker(num_partitions=2) as broker:
        servers = broker.bootstrap_servers
        fill(servers, "t", 100, 2)
        with Consumer(
            "t",
            group_id=group,
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            enable_auto_commit=False,
        ) as consumer:
            seen = [int(r.value) for r in drain(consumer, 100)]
            consumer.commit()
            broker.restart()
            fill(servers, "t", 50, 2, start=100)
            seen += [int(r.value) for r in drain(consumer, 50)]
            assert sorted(seen) == list(range(150))
            consumer.commit()
            assert sum(o.offset for o in consumer.committed(list(consumer.assignment())).values() if o) == 150


def test_connections_that_are_cut_cost_nothing(group: str) -> None:
    with Proxy() as proxy, Broker(advertised_listeners=f"PLAINTEXT://{proxy.address}") as broker:
        proxy.target = (broker.host, broker.port)
        fill(proxy.address, "t", 2_000)
        with Consumer(
            "t",
            group_id=group,
            bootstrap_servers=proxy.address,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=1_000,
            max_poll_records=50,
            reconnect_backoff_ms=5,
            reconnect_backoff_max_ms=20,
            heartbeat_interval_ms=50,
        ) as consumer:
            seen: list[int] = []
            deadline = time.monotonic() + 60
            while len(seen) < 2_000:
                assert time.monotonic() < deadline
                records = consumer.poll(200)
                seen += [int(r.value) for r in records]
                if records and records[-1].offset % 200 < 50:
                    proxy.cut_all()
            assert seen == list(range(2_000))


def test_arrow_round_trip(servers: str, admin: Admin) -> None:
    import pyarrow as pa

    topic = new_topic(admin, 2)
    header_type = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = pa.table(
        {
            "payload": pa.array([f"v{i}" for i in range(5_000)]),
            "key": pa.array([None if i % 3 else f"k{i}".encode() for i in range(5_000)], pa.binary()),
            "partition": pa.array([i % 2 for i in range(5_000)], pa.int32()),
            "timestamp": pa.array([1_700_000_000_000 + i for i in range(5_000)], pa.timestamp("ms")),
            "headers": pa.array(
                [[{"key": "n", "value": str(i).encode()}] for i in range(5_000)], header_type
            ),
        }
    )
    with Producer(bootstrap_servers=servers, compression_type="lz4") as producer:
        assert producer.send_arrow(rows, topic, value_column="payload").result(60) == 5_000
        with pytest.raises(ValueError, match="no column"):
            producer.send_arrow(rows, topic)
        with pytest.raises(ValueError, match="topic"):
            producer.send_arrow(rows, value_column="payload")
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        assert consumer.poll_arrow(0).schema.names[:4] == ["key", "value", "topic", "partition"]
        tables = []
        deadline = time.monotonic() + 60
        while sum(t.num_rows for t in tables) < 5_000:
            assert time.monotonic() < deadline
            tables.append(consumer.poll_arrow(500, max_rows=700))
            assert tables[-1].num_rows <= 700
    got = sorted(pa.concat_tables(tables).to_pylist(), key=lambda row: row["timestamp"])
    for i, row in enumerate(got):
        assert row["value"] == f"v{i}".encode()
        assert row["key"] == (None if i % 3 else f"k{i}".encode())
        assert (row["topic"], row["partition"]) == (topic, i % 2)
        assert row["timestamp"].timestamp() * 1_000 == pytest.approx(1_700_000_000_000 + i, abs=0.01)
        assert row["headers"] == [{"key": "n", "value": str(i).encode()}]


def test_poll_and_poll_arrow_may_alternate(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    fill(servers, topic, 300)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        offsets: list[int] = []
        deadline = time.monotonic() + 60
        while len(offsets) < 300:
            assert time.monotonic() < deadline
            offsets += [r.offset for r in consumer.poll(200, 13)]
            offsets += consumer.poll_arrow(200, 17).column("offset").to_pylist() if len(offsets) < 300 else []
        assert offsets == list(range(300))


def test_configs_are_checked(servers: str) -> None:
    with pytest.raises(ConfigError, match=r"heartbeat\.interval\.ms"):
        Consumer(bootstrap_servers=servers, heartbeat_interval_ms=50_000)
    with pytest.raises(ConfigError, match="wrong"):
        Consumer(bootstrap_servers=servers, group_id="g", partition_assignment_strategy="wrong")
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        Consumer(bootstrap_servers=servers, auto_offset_reset="smallest")
    with pytest.raises(IllegalStateError, match=r"group\.id"):
        Consumer("topic", bootstrap_servers=servers)


def test_a_poll_that_is_cancelled_again_and_again_leaves_nothing_half_done(
    servers: str, admin: Admin, group: str
) -> None:
    topic = new_topic(admin, 4)
    fill(servers, topic, 200, 4)
    told: list[str] = []

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            await asyncio.sleep(0.01)
            told.append("revoked")

        async def on_partitions_assigned(self, assigned: Any) -> None:
            await asyncio.sleep(0.01)
            told.append("assigned")

    async def run() -> None:
        settings: dict[str, Any] = {
            "group_id": group,
            "bootstrap_servers": servers,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 20,
        }
        async with AsyncConsumer(**settings) as first, AsyncConsumer(topic, **settings) as second:
            await first.subscribe([topic], listener=Listener())
            values: list[int] = []

            async def poll(consumer: AsyncConsumer) -> None:
                try:
                    async with asyncio.timeout(0.004):
                        values.extend(int(r.value) for r in await consumer.poll(1_000))
                except TimeoutError:
                    return

            deadline = time.monotonic() + 60
            while len(values) < 200 or not (await first.assignment() and await second.assignment()):
                assert time.monotonic() < deadline, told
                await asyncio.gather(poll(first), poll(second))
            assert set(values) == set(range(200))
            assert await first.assignment() | await second.assignment() == {
                TopicPartition(topic, n) for n in range(4)
            }

    asyncio.run(run())
    assert told[0] == "assigned"


def test_the_asyncio_consumer(servers: str, admin: Admin, group: str) -> None:
    topic = new_topic(admin, 2)
    fill(servers, topic, 100, 2)
    events: list[str] = []

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned: Any) -> None:
            await asyncio.sleep(0)
            events.append("assigned")

    async def run() -> None:
        async with AsyncConsumer(
            group_id=group, bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as consumer:
            await consumer.subscribe([topic], listener=Listener())
            values = []
            async for record in consumer:
                values.append(int(record.value))
                if len(values) == 100:
                    break
            assert sorted(values) == list(range(100))
            await consumer.commit()
            tps = await consumer.assignment()
            committed = await consumer.committed(tps)
            assert sum(o.offset for o in committed.values() if o) == 100
            await consumer.seek((topic, 0), 10)
            assert await consumer.position((topic, 0)) == 10
            assert (await consumer.poll_arrow(2_000)).num_rows > 0
        with pytest.raises(ClosedError):
            await consumer.poll(1)

    asyncio.run(run())
    assert events == ["assigned"]
