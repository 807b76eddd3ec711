"""Records of a topic, as its log has them."""

from __future__ import annotations

import pytest

from odradek import Producer
from odradek.errors import UnknownTopicOrPartitionError
from odradek.testing import Broker, Cluster
from waiting import WITHIN_S


def test_values_keys_headers_and_places(odradek_broker: Broker) -> None:
    odradek_broker.seed(
        "orders",
        [
            "tea",
            (b"k", "milk"),
            None,
            {"value": b"x", "key": "y", "headers": {"h": "1"}, "timestamp_ms": 17, "partition": 1},
        ],
        partition=0,
        partitions=2,
    )
    first, second, third, fourth = odradek_broker.records("orders")
    assert (first.value, first.key, first.partition, first.offset) == (b"tea", None, 0, 0)
    assert (second.value, second.key, second.offset) == (b"milk", b"k", 1)
    assert third.value is None
    assert (fourth.headers, fourth.timestamp_ms, fourth.partition) == ((("h", b"1"),), 17, 1)
    assert fourth.state is None
    assert fourth.producer_id >= 0
    assert odradek_broker.records("orders", 1) == [fourth]


def test_transactions_and_what_a_read_committed_consumer_sees(odradek_broker: Broker) -> None:
    odradek_broker.seed("orders", ["lost"], transaction="aborted")
    odradek_broker.seed("orders", ["kept"], transaction="committed")
    with Producer(bootstrap_servers=odradek_broker.bootstrap_servers, transactional_id="t") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"under way").result(WITHIN_S)
        odradek_broker.seed("orders", ["behind"])
        records = odradek_broker.records("orders")
        assert [(record.value, record.state) for record in records if not record.is_control] == [
            (b"lost", "aborted"),
            (b"kept", "committed"),
            (b"under way", "open"),
            (b"behind", None),
        ]
        assert [record.state for record in records if record.is_control] == ["abort marker", "commit marker"]
        # It stops where the transaction begins.
        assert [record.value for record in odradek_broker.records("orders", committed=True)] == [b"kept"]
        producer.commit_transaction()
    odradek_broker.wait_for_records("orders", 3, committed=True)
    odradek_broker.assert_records("orders", ["kept", "under way", "behind"], committed=True)


def test_more_than_is_read_at_once(odradek_broker: Broker) -> None:
    values = [b"%d" % number + bytes(1000) for number in range(3000)]
    odradek_broker.seed("orders", values)
    assert [record.value for record in odradek_broker.records("orders")] == values


def test_records_below_the_log_start_are_none(odradek_broker: Broker) -> None:
    from odradek.client import Admin

    odradek_broker.seed("orders", ["a", "b", "c"])
    with Admin(bootstrap_servers=odradek_broker.bootstrap_servers) as admin:
        admin.delete_records({("orders", 0): 2})
    odradek_broker.assert_records("orders", ["c"])


@pytest.mark.parametrize("odradek_broker", ["0.9", "0.10.2"], indirect=True)
def test_old_formats(odradek_broker: Broker) -> None:
    odradek_broker.create_topic("orders")
    with Producer(
        bootstrap_servers=odradek_broker.bootstrap_servers, compression_type="gzip", enable_idempotence=False
    ) as producer:
        futures = [producer.send("orders", value, key=b"k") for value in (b"a", b"b")]
        for future in futures:
            future.result(WITHIN_S)
    records = odradek_broker.records("orders")
    assert [(record.offset, record.key, record.value) for record in records] == [
        (0, b"k", b"a"),
        (1, b"k", b"b"),
    ]


def test_a_topic_that_is_not_there(odradek_broker: Broker) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="orders"):
        odradek_broker.records("orders")
    odradek_broker.create_topic("orders")
    with pytest.raises(UnknownTopicOrPartitionError, match="orders-3"):
        odradek_broker.records("orders", 3)


def test_of_a_cluster_the_leaders_tell() -> None:
    with Cluster(2) as cluster:
        cluster.seed(
            "orders",
            [{"value": b"%d" % number, "partition": number % 4} for number in range(8)],
            partitions=4,
        )
        assert {record.partition for record in cluster.records("orders")} == {0, 1, 2, 3}
        cluster.assert_records("orders", [b"0", b"4", b"1", b"5", b"2", b"6", b"3", b"7"])
        leader = cluster.leader("orders", 0)
        cluster.stop(leader)
        cluster.leader("orders", 0)
        cluster.assert_records("orders", [b"0", b"4"], partition=0)
        assert cluster.topics()["orders"].partitions[0] == (0, 2)


def test_what_differs_is_told(odradek_broker: Broker) -> None:
    odradek_broker.seed("orders", [("k", "a"), "b", "c"])
    odradek_broker.assert_records("orders", [("k", "a"), b"b", {"value": "c", "offset": 2}])
    odradek_broker.assert_records("orders", ["c", "b", "a"], in_any_order=True)
    with pytest.raises(AssertionError) as caught:
        odradek_broker.assert_records("orders", ["a", "x", ("k", "c")])
    assert str(caught.value).splitlines() == [
        "orders has other records than expected (- expected, + there):",
        "  b'a'",
        "- b'x'",
        "?   ^",
        "+ b'b'",
        "?   ^",
        "- key b'k', value b'c'",
        "?     ^^^^",
        "+ key None, value b'c'",
        "?     ^^^^",
        "there is",
        "  orders-0 at 0: key b'k', b'a'",
        "  orders-0 at 1: b'b'",
        "  orders-0 at 2: b'c'",
    ]


def test_records_too_many_and_too_few(odradek_broker: Broker) -> None:
    odradek_broker.assert_records("nothing", [])
    odradek_broker.seed("orders", ["a", "b"])
    with pytest.raises(AssertionError, match=r"\+ b'b'"):
        odradek_broker.assert_records("orders", ["a"])
    with pytest.raises(AssertionError, match="- b'c'"):
        odradek_broker.assert_records("orders", ["a", "b", "c"], timeout_s=0)
    with pytest.raises(AssertionError, match="- b'z'"):
        odradek_broker.assert_records("orders", ["b", "z"], in_any_order=True)


@pytest.mark.parametrize("record", [5, ("a", "b", "c"), {"vaule": b"x"}], ids=["int", "three", "misspelt"])
def test_what_is_no_record_is_refused(odradek_broker: Broker, record: object) -> None:
    with pytest.raises(TypeError):
        # At once, or the test's own time is over.
        odradek_broker.assert_records("orders", [record], timeout_s=1e6)  # type: ignore[list-item]
    with pytest.raises(TypeError):
        odradek_broker.seed("orders", [record])  # type: ignore[list-item]


def test_the_records_of_a_test_meet_no_faults(odradek_broker: Broker) -> None:
    unmet = odradek_broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", may_be_unmet=True)
    with odradek_broker.record_requests(), unmet as fault:
        odradek_broker.seed("orders", ["a"])
        assert fault.met == 0
        assert odradek_broker.requests("Produce") == []
        fault.lift()
        with (
            Producer(bootstrap_servers=odradek_broker.bootstrap_servers) as producer,
            odradek_broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1),
        ):
            producer.send("orders", b"b").result(WITHIN_S)
        assert len(odradek_broker.requests("Produce")) == 2
