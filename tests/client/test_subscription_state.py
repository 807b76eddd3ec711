"""Positions, the fetch buffer, metadata, configs."""

from __future__ import annotations

import re
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.client.config import (
    AdminConfig,
    ConsumerConfig,
    ProducerConfig,
    UnknownConfigWarning,
    build,
    kafka_name,
    parse_servers,
    python_name,
)
from odradek.client.core.chunk import Chunk
from odradek.client.core.fetch_buffer import FetchBuffer
from odradek.client.core.fetch_requests import EARLIEST
from odradek.client.core.metadata import MetadataCache
from odradek.client.core.subscription_state import Position, SubscriptionState
from odradek.client.errors import (
    ConfigError,
    IllegalStateError,
    LogTruncationError,
    NoOffsetForPartitionError,
)
from odradek.client.types import OffsetAndMetadata, TopicPartition
from odradek.errors import CorruptRecordError, ErrorCode
from odradek.records.control import end_marker_batch
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from .fetched_batches import batch

TP = TopicPartition("t", 0)


def at(offset: int) -> Position:
    position = Position(TP)
    position.seek(offset)
    return position


def buffered(position: Position, data: bytes, aborted: Any = None, **more: Any) -> FetchBuffer:
    buffer = FetchBuffer(True, more.get("key"), more.get("value"))
    buffer.add(Chunk(position, memoryview(data), aborted))
    return buffer


def test_records_come_from_the_position_on_in_portions() -> None:
    position = at(2)
    buffer = buffered(position, batch(0, b"a", b"b", b"c") + batch(3, b"d") + batch(10, b"e"))
    assert [(r.offset, r.value) for r in buffer.take(2)] == [(2, b"c"), (3, b"d")]
    assert (position.offset, position.offset_epoch) == (4, 4)
    assert [r.offset for r in buffer.take(10)] == [10]
    assert buffer.take(10) == []
    assert (position.offset, buffer.empty, buffer.used) == (11, True, 1)


def test_what_was_fetched_before_a_seek_is_thrown_away() -> None:
    position = at(0)
    buffer = buffered(position, batch(0, b"a", b"b"))
    buffer.take(1)
    position.seek(77)
    assert buffer.take(10) == []
    assert position.offset == 77
    assert buffer.empty


@pytest.mark.parametrize("revoking", [True, False])
def test_what_was_fetched_of_a_partition_that_went_is_thrown_away(revoking: bool) -> None:
    positions = SubscriptionState("latest")
    positions.assign([TP, TopicPartition("t", 1)])
    position, stays = positions[TP], positions[TopicPartition("t", 1)]
    position.seek(0)
    stays.seek(0)
    buffer = buffered(position, batch(0, b"a"))
    buffer.add(Chunk(stays, memoryview(batch(0, b"b")), None))
    asked = position.turn
    # Lost without a word (its session has expired), or revoked.
    position.revoking = revoking
    positions.set_assignment([stays.tp])
    assert [r.value for r in buffer.take(10)] == [b"b"]
    assert buffer.empty
    # Nor does it count what a request brings that is still on its way.
    assert position.turn != asked


def test_paused_records_wait() -> None:
    position = at(0)
    buffer = buffered(position, batch(0, b"a"))
    position.paused = True
    assert buffer.take(10) == []
    assert buffer.counts() == {id(position): 1}
    position.paused = False
    assert len(buffer.take(10)) == 1


def test_damage_is_told_after_what_precedes_it() -> None:
    position = at(0)
    bad = bytearray(batch(1, b"b"))
    bad[-2] ^= 1
    buffer = buffered(position, batch(0, b"a") + bytes(bad))
    assert [r.value for r in buffer.take(10)] == [b"a"]
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            buffer.take(10)
        assert position.offset == 1
    unchecked = FetchBuffer(False, None, None)
    unchecked.add(Chunk(at(1), memoryview(bytes(bad)), None))
    assert len(unchecked.take(10)) == 1


def test_aborted_transactions_and_markers_are_not_seen() -> None:
    from odradek.records.control import ControlType

    def marker(offset: int, producer_id: int, kind: ControlType) -> bytes:
        return bytes(
            end_marker_batch(
                kind,
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=0,
                base_offset=offset,
            )
        )

    data = (
        batch(0, b"aborted", producer_id=1)
        + batch(1, b"good", producer_id=2)
        + marker(2, 1, ControlType.ABORT)
        + batch(3, b"later", producer_id=1)
        + marker(4, 1, ControlType.COMMIT)
        + marker(5, 2, ControlType.COMMIT)
    )
    aborted = [SimpleNamespace(producer_id=1, first_offset=0)]
    position = at(0)
    assert [r.value for r in buffered(position, data, aborted).take(10)] == [b"good", b"later"]
    assert position.offset == 6, "markers move the position"
    assert [r.value for r in buffered(at(0), data).take(10)] == [b"aborted", b"good", b"later"]
    ((_, table),) = buffered(at(0), data, aborted).take_columns(10, False, {})
    assert table.column("value").to_pylist() == [b"good", b"later"]


def test_the_three_ways_to_subscribe_exclude_each_other() -> None:
    positions = SubscriptionState("latest")
    assert positions.subscribe(["t"])
    assert not positions.subscribe(["t"])
    with pytest.raises(IllegalStateError):
        positions.assign([TP])
    with pytest.raises(IllegalStateError):
        positions.subscribe_pattern(re.compile("x"))
    positions.unsubscribe()
    positions.subscribe_pattern(re.compile("t.*"))
    assert positions.matching(["t1", "xt", "t_internal"], lambda name: "internal" in name, True)
    assert positions.topics == {"t1"}


def test_policies() -> None:
    position = Position(TP)
    assert position.needs_committed
    SubscriptionState("earliest").apply_policy(position)
    assert position.reset == EARLIEST
    with pytest.raises(NoOffsetForPartitionError):
        SubscriptionState("none").apply_policy(Position(TP))


def test_what_was_stored_of_another_topic_is_not_committed() -> None:
    positions = SubscriptionState("earliest", stores=True)
    positions.assign([TP])
    position = positions[TP]
    positions.topic_seen(position, b"1" * 16)
    position.seek(10)
    position.stored = OffsetAndMetadata(9)
    positions.topic_seen(position, b"2" * 16)
    positions.begin_anew(position)
    assert positions.consumed() == {}


@pytest.mark.parametrize(("stored", "kept"), [(7, True), (8, False)])
def test_what_was_stored_and_is_cut_off_is_not_committed(stored: int, kept: bool) -> None:
    positions = SubscriptionState("earliest", stores=True)
    positions.assign([TP])
    position = positions[TP]
    position.seek(10, epoch=3)
    position.validate = True
    position.stored = OffsetAndMetadata(stored)
    positions.validated(position, 3, 7)
    assert set(positions.consumed()) == ({TP} if kept else set())


def test_a_new_leader_makes_a_position_doubtful() -> None:
    positions = SubscriptionState("latest")
    positions.assign([TP])
    position = positions[TP]
    positions.leader_changed(TP, 3)
    assert not position.validate, "nothing was read yet"
    position.seek(10, epoch=3)
    positions.leader_changed(TP, 4)
    assert position.validate
    assert not position.fetchable
    position.seek(10)
    positions.leader_changed(TP, 5)
    assert not position.validate, "without the epoch of what was read there is nothing to compare"


@pytest.mark.parametrize(
    ("policy", "epoch", "end", "expected"),
    [
        ("earliest", 3, 12, (10, False, None)),  # the epoch goes on beyond the position
        ("earliest", 3, 10, (10, False, None)),
        ("earliest", 2, 7, (7, False, None)),  # cut: go on there
        ("earliest", -1, -1, (None, False, EARLIEST)),  # the leader does not know the epoch
        ("none", 2, 7, None),
    ],
)
def test_a_doubtful_position_is_confirmed_or_moved(policy: str, epoch: int, end: int, expected: Any) -> None:
    positions = SubscriptionState(policy)
    positions.assign([TP])
    position = positions[TP]
    position.seek(10, epoch=3)
    position.validate = True
    if expected is None:
        with pytest.raises(LogTruncationError, match="cut at 7"):
            positions.validated(position, epoch, end)
        return
    positions.validated(position, epoch, end)
    assert (position.offset, position.validate, position.reset) == expected


# Metadata


def answer(leader: int, epoch: int, topic_id: bytes = b"i" * 16, error: int = 0) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host="h", port=n) for n in (1, 2)],
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name="t",
                topic_id=topic_id,
                error_code=error,
                partitions=[
                    MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
                ],
            )
        ],
    )


def test_older_answers_do_not_bring_back_an_old_leader() -> None:
    cache = MetadataCache()
    assert cache.update(answer(1, 5), replace_all=True) == set()
    cache.update(answer(2, 4), replace_all=True)
    assert (cache.leader(TP), cache.leader_epoch(TP)) == (1, 5)
    cache.update(answer(2, 6), replace_all=True)
    assert cache.leader(TP) == 2
    cache.update(answer(1, 0, topic_id=b"j" * 16), replace_all=True)
    assert (cache.leader(TP), cache.leader_epoch(TP)) == (1, 0), "another topic of the same name"
    assert cache.names_by_id == {b"j" * 16: "t"}


def test_leaders_that_come_with_errors_count_if_they_are_news() -> None:
    cache = MetadataCache()
    cache.update(answer(1, 5), replace_all=True)
    assert not cache.update_leader(TP, 2, 5)
    assert not cache.update_leader(TP, -1, 9)
    assert cache.update_leader(TP, 3, 6, [SimpleNamespace(node_id=3, host="h", port=3, rack=None)])
    assert cache.leader(TP) == 3


def test_errors_of_topics() -> None:
    cache = MetadataCache()
    assert cache.update(answer(-1, 5), replace_all=True) == {"t"}, "no leader: look again"
    assert cache.leader(TP) is None
    assert cache.update(answer(1, 5, error=3), replace_all=False) == {"t"}
    assert cache.errors == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert cache.topics == {}
    assert cache.update(answer(1, 5, error=29), replace_all=False) == set()


# Configs


def test_kafkas_names_and_pythons_are_the_same_key() -> None:
    config = build(
        ProducerConfig,
        {
            "bootstrap.servers": "a:1, b:2,[::1]:3,c",
            "linger.ms": "7",
            "acks": "all",
            "enable.idempotence": "TRUE",
        },
    )
    assert config.bootstrap_servers == (("a", 1), ("b", 2), ("::1", 3), ("c", 9092))
    assert (config.linger_ms, config.acks, config.enable_idempotence) == (7, -1, True)
    assert build(ProducerConfig, {"bootstrap_servers": [("h", 1)], "linger_ms": 7}).linger_ms == 7
    for name in ("linger.ms", "partitioner.class", "max.in.flight.requests.per.connection"):
        assert kafka_name(python_name(name)) == name


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (ProducerConfig, {"linger_ms": "soon"}, r"linger\.ms='soon'"),
        (ProducerConfig, {"linger_ms": -1}, r"linger\.ms=-1: must be at least 0"),
        (ProducerConfig, {"acks": 2}, "acks=2"),
        (ProducerConfig, {"compression_type": "rar"}, r"compression\.type=rar"),
        (ProducerConfig, {"enable_idempotence": True, "acks": 1}, r"enable\.idempotence"),
        (ProducerConfig, {"enable_idempotence": True, "retries": 0}, "retries"),
        (ProducerConfig, {"delivery_timeout_ms": 10}, r"delivery\.timeout\.ms"),
        (ProducerConfig, {"transactional.id": ""}, r"transactional\.id is empty"),
        (ProducerConfig, {"transactional.id": "x", "acks": 1}, r"transactional\.id needs idempotence"),
        (ProducerConfig, {"transactional.id": "x", "enable.idempotence": False}, "needs idempotence"),
        (
            ProducerConfig,
            {
                "transactional.id": "x",
                "transaction.two.phase.commit.enable": True,
                "transaction.timeout.ms": 1000,
            },
            r"transaction\.timeout\.ms cannot be set",
        ),
        (ConsumerConfig, {"group.protocol": "consumer"}, r"group\.protocol"),
        (ConsumerConfig, {"enable.auto.commit": True}, r"enable\.auto\.commit"),
        (ConsumerConfig, {"group_id": ""}, r"group\.id"),
        (AdminConfig, {"security.protocol": "SASL_SSL", "sasl.mechanism": "NONE"}, r"sasl\.mechanism"),
        (AdminConfig, {"security.protocol": "TLS"}, r"security\.protocol"),
        (AdminConfig, {"bootstrap_servers": "nowhere:port"}, "nowhere:port"),
        (AdminConfig, {"bootstrap_servers": ""}, r"bootstrap\.servers is empty"),
    ],
)
def test_bad_configs_name_the_key(kind: Any, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(kind, {"bootstrap_servers": "h:1", **options})


def test_idempotence_gives_way_where_it_was_not_asked_for() -> None:
    assert not build(ProducerConfig, {"bootstrap_servers": "h:1", "acks": 1}).enable_idempotence
    assert build(ProducerConfig, {"bootstrap_servers": "h:1"}).enable_idempotence


def test_unknown_configs_are_warned_about_and_other_clients_are_not() -> None:
    with pytest.warns(UnknownConfigWarning, match="linger_msec"):
        build(ProducerConfig, {"bootstrap_servers": "h:1", "linger_msec": 5})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(ProducerConfig, {"bootstrap_servers": "h:1", "group.id": "g", "metric.reporters": ""})


def test_servers() -> None:
    assert parse_servers(["h:1", ("i", 2)]) == (("h", 1), ("i", 2))
    for bad in ("h:0", "h:x", ":1", "h:70000"):
        with pytest.raises(ConfigError):
            parse_servers(bad)
