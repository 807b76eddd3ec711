"""The raw reader and writer against a broker."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from odradek.client import Admin, Producer
from odradek.client.errors import (
    ClientTimeoutError,
    IllegalArgumentError,
    MessageTooLargeError,
    PartitionLostError,
)
from odradek.client.raw import PartitionRange, RawReader, RawWriter
from odradek.errors import ErrorCode, KafkaError, UnknownTopicOrPartitionError
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec
from odradek.records.partitioner import partition_for_key
from odradek.testing import Broker

from .conftest import new_topic
from .proxy import Proxy

FETCH = 1


def table(count: int, start: int = 0) -> pa.Table:
    return pa.table(
        {
            "key": [f"k{i}" for i in range(start, start + count)],
            "value": [f"v{i}".encode() for i in range(start, start + count)],
        }
    )


def offsets(batches: Any) -> list[int]:
    return [o for batch in batches for o in batch.column("offset").to_pylist()]


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_a_range_and_nothing_else(servers: str, admin: Admin, codec: str) -> None:
    topic = new_topic(admin, 1)
    with RawWriter(servers, {"compression.type": codec, "max.request.size": 20_000}) as writer:
        for part in table(5_000).to_batches(700):
            assert writer.write_columns(part, topic=topic) == part.num_rows
        assert writer.flush() == 5_000
    with RawReader(servers) as reader:
        assert reader.partitions_for(topic) == [0]
        assert reader.beginning_offsets([(topic, 0)]) == {(topic, 0): 0}
        assert reader.end_offsets([(topic, 0)]) == {(topic, 0): 5_000}
        batches = list(reader.fetch_columns(topic, 0, 1_234, 4_321, batch_rows=500))
        assert offsets(batches) == list(range(1_234, 4_321))
        assert max(batch.num_rows for batch in batches) <= 500
        assert batches[0].column("value")[0].as_py() == b"v1234"
        assert batches[0].schema.names == ["key", "value", "offset", "timestamp", "timestampType"]
        assert list(reader.fetch_columns(topic, 0, 7, 7)) == []


def test_small_fetches_and_pipelining_give_the_same(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    with RawWriter(servers) as writer:
        for i in range(40):
            writer.write_columns(table(50, 50 * i), topic=topic)
            writer.flush()
    with RawReader(servers, {"max.partition.fetch.bytes": 1, "fetch.max.bytes": 1}) as reader:
        assert offsets(reader.fetch_columns(topic, 0, 3, 1_990)) == list(range(3, 1_990))
        half = reader.fetch_columns(topic, 0, 0, 2_000, batch_rows=10)
        next(half)
        half.close()  # a reader that stops early leaves nothing behind
        assert len(offsets(reader.fetch_columns(topic, 0, 0, 100))) == 100


def test_many_partitions_at_once(servers: str, admin: Admin, topic: str) -> None:
    rows = table(3_000)
    with RawWriter(servers) as writer:
        writer.write_columns(rows, topic=topic)
    with RawReader(servers) as reader:
        tps = [(topic, n) for n in reader.partitions_for(topic)]
        ends = reader.end_offsets(tps)
        seen: dict[tuple[str, int], list[int]] = {tp: [] for tp in tps}
        keys = []
        for name, number, batch in reader.fetch_columns_many(
            [PartitionRange(*tp, 0, end) for tp, end in ends.items()], 100
        ):
            seen[name, number] += batch.column("offset").to_pylist()
            for key in batch.column("key").to_pylist():
                assert partition_for_key(key, 3) == number
                keys.append(key.decode())
        assert {tp: list(range(end)) for tp, end in ends.items()} == seen
        assert sorted(keys) == sorted(rows.column("key").to_pylist())
        with pytest.raises(IllegalArgumentError, match="twice"):
            list(reader.fetch_columns_many([(topic, 0, 0, 1), (topic, 0, 2, 3)]))


def test_columns_decide_topic_partition_headers_and_timestamp(servers: str, admin: Admin) -> None:
    one, two = new_topic(admin, 3), new_topic(admin, 1)
    header_type = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = pa.table(
        {
            "topic": [one, two, one],
            "value": ["a", "b", "c"],
            "partition": pa.array([2, None, 1], pa.int64()),
            "timestamp": pa.array([5, 6, 7], pa.timestamp("ms", tz="UTC")),
            "headers": pa.array([[{"key": "h", "value": b"1"}], [], None], header_type),
        }
    )
    with RawWriter(servers) as writer:
        writer.write_columns(rows)
    with RawReader(servers) as reader:
        (row,) = next(reader.fetch_columns(one, 2, 0, 1, with_headers=True)).to_pylist()
        assert (row["value"], row["timestamp"], row["key"]) == (b"a", 5, None)
        assert row["headers"] == [{"key": "h", "value": b"1"}]
        (row,) = next(reader.fetch_columns(one, 1, 0, 1)).to_pylist()
        assert (row["value"], row["timestamp"]) == (b"c", 7)
        assert reader.end_offsets([(two, 0)]) == {(two, 0): 1}


def test_rows_without_key_reach_all_partitions(servers: str, topic: str) -> None:
    rows = pa.table({"value": pa.array([b"x" * 200] * 20_000, pa.binary())})
    with RawWriter(servers, {"max.request.size": 100_000}) as writer:
        writer.write_columns(rows, topic=topic)
    with RawReader(servers) as reader:
        ends = reader.end_offsets([(topic, n) for n in range(3)])
    assert sum(ends.values()) == 20_000
    assert min(ends.values()) > 2_000


def test_bad_tables_and_rows(servers: str, topic: str) -> None:
    with RawWriter(servers, {"max.request.size": 1_000}) as writer:
        for bad, message in [
            (pa.table({"key": ["k"]}), "no column 'value'"),
            (pa.table({"value": [1]}), "binary or string"),
            (pa.table({"value": ["x"], "partition": ["x"]}), "integer"),
            (pa.table({"value": ["x"], "partition": [9]}), "partition that topic"),
            (pa.table({"value": ["x"], "timestamp": ["x"]}), "timestamp"),
        ]:
            with pytest.raises(ValueError, match=message):
                writer.write_columns(bad, topic=topic)
        with pytest.raises(ValueError, match="every row needs a topic"):
            writer.write_columns(pa.table({"value": ["x"], "topic": pa.array([None], pa.string())}))
        with pytest.raises(MessageTooLargeError):
            writer.write_columns(pa.table({"value": [b"x" * 2_000]}), topic=topic)
        assert writer.write_columns(pa.table({"value": pa.array([], pa.binary())}), topic=topic) == 0


def test_a_write_that_fails_is_told_at_the_latest_by_flush(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1, max_message_bytes=500)
    writer = RawWriter(servers)
    with pytest.raises(KafkaError) as caught:
        writer.write_columns(pa.table({"value": [b"x" * 2_000]}), topic=topic)
        writer.flush()
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    writer.abort()


def test_large_column_batches_are_split_for_a_strict_topic(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1, max_message_bytes=3_000)
    with RawWriter(servers) as writer:
        writer.write_columns(table(2_000), topic=topic)
    with RawReader(servers) as reader:
        got = [v for b in reader.fetch_columns(topic, 0, 0, 2_000) for v in b.column("value").to_pylist()]
    assert got == [f"v{i}".encode() for i in range(2_000)]


def test_data_loss_is_told_or_stepped_over(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    with RawWriter(servers) as writer:
        for i in range(10):
            writer.write_columns(table(10, 10 * i), topic=topic)
            writer.flush()
    admin.delete_records({(topic, 0): 35})
    with RawReader(servers) as reader:
        with pytest.raises(PartitionLostError, match=r"offset 20 .* holds 35 to 100"):
            list(reader.fetch_columns(topic, 0, 20, 60))
        assert offsets(reader.fetch_columns(topic, 0, 20, 60, fail_on_data_loss=False)) == list(range(35, 60))
        assert offsets(reader.fetch_columns(topic, 0, 20, 30, fail_on_data_loss=False)) == []
        with pytest.raises(PartitionLostError):
            list(reader.fetch_columns(topic, 0, 500, 600))


QUICK = {"retry.backoff.ms": 1, "retry.backoff.max.ms": 1, "fetch.max.wait.ms": 10}


@pytest.mark.parametrize("start", [0, 3, 7])
def test_a_range_that_ends_behind_the_log(servers: str, admin: Admin, start: int) -> None:
    topic = new_topic(admin, 1)
    with RawWriter(servers) as writer:
        writer.write_columns(table(3), topic=topic)
    with RawReader(servers, QUICK) as reader:

        def read(fail_on_data_loss: bool) -> list[int]:
            rows = reader.fetch_columns(
                topic, 0, start, 20, fail_on_data_loss=fail_on_data_loss, wait_for_end=False
            )
            return offsets(rows)

        with pytest.raises(PartitionLostError, match=rf"offset {max(start, 3)} of the range .* holds 0 to 3"):
            read(True)
        assert read(False) == list(range(start, 3))


def test_what_is_decoded_is_handed_out_when_the_rest_is_gone(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 2)
    with RawWriter(servers) as writer:
        for partition in (0, 1):
            columns = table(9).append_column("partition", pa.array([partition] * 9, pa.int32()))
            for i in range(3):
                writer.write_columns(columns.slice(3 * i, 3), topic=topic)
                writer.flush()
    # One batch in an answer, so that records are deleted while the range is read.
    one_batch = {**QUICK, "max.partition.fetch.bytes": 1, "fetch.max.bytes": 1}
    with RawReader(servers, one_batch) as reader:
        ranges = [(topic, 0, 0, 20), (topic, 1, 0, 9)]
        rows_of = reader.fetch_columns_many(ranges, 2, fail_on_data_loss=False, wait_for_end=False)
        got: dict[int, list[int]] = {0: [], 1: []}
        for count, (_, partition, rows) in enumerate(rows_of):
            got[partition] += rows.column("offset").to_pylist()
            if not count:
                admin.delete_records({(topic, 0): 9})
    # The second answer was asked for before the first was decoded.
    assert got[1] == list(range(9))
    assert got[0] in (list(range(6)), list(range(9)))


def test_unknown_things_and_waiting_for_what_does_not_come(servers: str, topic: str) -> None:
    with RawReader(servers, {"default.api.timeout.ms": 300, "fetch.max.wait.ms": 50}) as reader:
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
            reader.partitions_for("nowhere")
        with pytest.raises(UnknownTopicOrPartitionError, match="partition 9"):
            list(reader.fetch_columns(topic, 9, 0, 1))
        with pytest.raises(ClientTimeoutError, match="no progress"):
            list(reader.fetch_columns(topic, 0, 0, 1))
        assert topic in reader.topics()
    with pytest.raises(ClientTimeoutError, match="refused"):
        RawReader("127.0.0.1:1", {"default.api.timeout.ms": 100}).topics()


def test_times(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(5):
            producer.send(topic, b"x", timestamp_ms=1_000_000 + 10 * i).result(60)
    with RawReader(servers) as reader:
        assert reader.offsets_for_times({(topic, 0): 1_000_015}) == {(topic, 0): 2}
        assert reader.offsets_for_times({(topic, 0): 2_000_000}) == {(topic, 0): None}


def test_read_on_after_cuts_and_a_restart(servers: str) -> None:
    with Proxy() as proxy, Broker(advertised_listeners=f"PLAINTEXT://{proxy.address}") as broker:
        proxy.target = (broker.host, broker.port)
        with RawWriter(proxy.address) as writer:
            for i in range(50):
                writer.write_columns(table(20, 20 * i), topic="t")
                writer.flush()
        answers = 0

        def every_seventh(key: int, frame: bytes) -> bool:
            nonlocal answers
            answers += key == FETCH
            return key != FETCH or answers % 7 != 0

        proxy.on_response = every_seventh
        with RawReader(proxy.address, {"max.partition.fetch.bytes": 1, "retry.backoff.ms": 5}) as reader:
            got = []
            for batch in reader.fetch_columns("t", 0, 0, 1_000, batch_rows=50):
                got += batch.column("offset").to_pylist()
                if len(got) == 500:
                    broker.restart()
        assert got == list(range(1_000))
        assert proxy.cuts > 3


def test_a_reader_with_read_committed_leaves_out_what_was_aborted() -> None:
    """Against answers made by hand: brokers of ours have no transactions yet."""
    from types import SimpleNamespace

    from odradek.client.core.fetched import AbortedFilter
    from odradek.records.control import ControlType, end_marker_batch
    from odradek.records.message_sets.message_batches import iter_fetched

    def data(base: int, producer: int) -> bytes:
        builder = BatchBuilder(
            Codec.NONE,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
            base_offset=base,
        )
        builder.append(0, None, str(base).encode(), ())
        return builder.build()

    abort = end_marker_batch(
        ControlType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=2
    )
    records = data(0, 1) + data(1, 2) + bytes(abort) + data(3, 1)
    aborted = [SimpleNamespace(producer_id=1, first_offset=0)]
    rule = AbortedFilter(aborted)
    kept = [
        header.base_offset
        for header, batch, _ in iter_fetched(records)
        if not rule.drops(header, batch) and not header.is_control
    ]
    assert kept == [1, 3]
    assert not AbortedFilter(None).active
