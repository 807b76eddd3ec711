"""Brokers of one cluster: topics, replicas, deaths, restarts, over real connections and clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.client import Producer
from odradek.testing import Cluster

from .cluster_records import produce, read

ALL = {0, 1, 2}


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, min_insync_replicas=2) as cluster:
        yield cluster


def logs_agree(cluster: Cluster, topic: str) -> None:
    """All replicas hold the same bytes."""

    def contents() -> list[bytes]:
        found = []
        for one in cluster.live:

            def whole(broker: object) -> bytes:
                log = broker.replicas.get(topic, 0).log  # type: ignore[attr-defined]
                return bytes(
                    log.read(
                        log.log_start_offset, 1 << 24, upper_bound=log.log_end_offset, min_one_batch=True
                    ).records
                )

            found.append(cluster.broker(one).call(whole))
        return found

    cluster.wait_until(lambda: len(set(contents())) == 1)


def test_a_topic_is_spread_over_all_brokers(shared: Cluster) -> None:
    shared.create_topic("spread", 6)
    partitions = [shared.partition("spread", index) for index in range(6)]
    assert sorted(one.leader for one in partitions) == [0, 0, 1, 1, 2, 2]
    assert all(set(one.replicas) == ALL for one in partitions)
    for broker in ALL:
        image = shared.image(broker)
        assert {index: one.leader for index, one in image.topics["spread"].partitions.items()} == {
            index: one.leader for index, one in enumerate(partitions)
        }


def test_what_is_acknowledged_by_all_is_on_all(shared: Cluster) -> None:
    shared.create_topic("copied")
    values = [b"value %d" % number for number in range(100)]
    produce(shared, "copied", values)
    assert read(shared, "copied", 100) == values
    logs_agree(shared, "copied")


def test_a_deleted_topic_is_deleted_on_all(shared: Cluster) -> None:
    shared.create_topic("short-lived")
    produce(shared, "short-lived", [b"x"])
    controller = shared.broker(shared.controller)
    controller.call(
        lambda broker: broker.controller.event_queue.run(
            lambda: broker.controller.delete_topics(["short-lived"])
        )
    )
    shared.wait_until(
        lambda: (
            all("short-lived" not in shared.image(broker).topics for broker in ALL)
            and controller.call(lambda broker: "short-lived" not in broker.controller.image.topics)
        )
    )
    for broker in ALL:
        assert shared.broker(broker).call(lambda b: b.logs.get("short-lived", 0)) is None
    shared.create_topic("short-lived")
    produce(shared, "short-lived", [b"anew"])
    assert read(shared, "short-lived", 1) == [b"anew"]


def test_configs_reach_every_broker_whoever_is_asked(shared: Cluster) -> None:
    shared.create_topic("configured")
    asked = next(broker for broker in ALL if broker != shared.controller)
    shared.broker(asked).call(
        lambda broker: broker.controller.event_queue.run(
            lambda: broker.controller.alter_config("topics/configured", {"retention.ms": "12345"})
        )
    )

    def have_it() -> bool:
        return all(
            shared.broker(broker).call(lambda b: b.replicas.get("configured", 0).log.config.retention_ms)
            == 12345
            for broker in ALL
        )

    shared.wait_until(have_it)


def test_a_killed_leader_loses_nothing(cluster: Cluster) -> None:
    cluster.create_topic("clicks")
    before = [b"before %d" % number for number in range(50)]
    produce(cluster, "clicks", before)
    victim = cluster.leader("clicks")
    cluster.kill(victim)
    after = [b"after %d" % number for number in range(50)]
    produce(cluster, "clicks", after)
    assert cluster.leader("clicks") != victim
    assert cluster.partition("clicks").leader_epoch > 0
    cluster.restart(victim)
    cluster.wait_for_isr("clicks", ALL)
    assert read(cluster, "clicks", 100) == before + after
    logs_agree(cluster, "clicks")


def test_a_killed_controller_is_followed_by_another(cluster: Cluster) -> None:
    cluster.create_topic("clicks")
    victim = cluster.controller
    cluster.kill(victim)
    assert cluster.controller != victim
    cluster.create_topic("later", 3)
    produce(cluster, "later", [b"value"])
    cluster.restart(victim)
    cluster.wait_for_isr("later", set(cluster.partition("later").replicas))
    assert cluster.controller != victim


def test_brokers_stop_and_start_one_after_the_other_under_load(cluster: Cluster) -> None:
    cluster.create_topic("clicks")
    values: list[bytes] = []
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        for round_ in range(3):
            cluster.stop(round_)
            sent = [producer.send("clicks", value=b"%d-%d" % (round_, number)) for number in range(20)]
            for one in sent:
                one.result(60)
            values += [b"%d-%d" % (round_, number) for number in range(20)]
            cluster.restart(round_)
            cluster.wait_for_isr("clicks", ALL)
    assert read(cluster, "clicks", 60) == values


def test_too_few_in_sync_are_refused_until_one_is_back(cluster: Cluster) -> None:
    cluster.create_topic("clicks")
    produce(cluster, "clicks", [b"first"])
    leader = cluster.leader("clicks")
    others = sorted(ALL - {leader})
    for other in others:
        cluster.kill(other)
    cluster.wait_until(lambda: cluster.live == [leader] and set(cluster.partition("clicks").isr) == {leader})
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all", retries=0) as producer:
        refused = producer.send("clicks", value=b"lonely")
        with pytest.raises(Exception, match=r"(?i)replicas"):
            refused.result(60)
    cluster.restart(others[0])
    cluster.wait_for_isr("clicks", {leader, others[0]})
    produce(cluster, "clicks", [b"second"])
    # Of offsets three copies are kept: the readers' topic wants all brokers.
    cluster.restart(others[1])
    assert read(cluster, "clicks", 2) == [b"first", b"second"]


def test_a_follower_that_is_cut_off_leaves_the_isr_and_comes_back() -> None:
    with Cluster(
        3, replica_lag_time_max_ms=500, replica_fetch_wait_max_ms=100, replica_socket_timeout_ms=500
    ) as cluster:
        cluster.create_topic("clicks")
        leader = cluster.leader("clicks")
        lost = next(broker for broker in sorted(ALL) if broker not in (leader, cluster.controller))
        cluster.cut(lost, leader)
        produce(cluster, "clicks", [b"1"])
        cluster.wait_for_isr("clicks", ALL - {lost})
        produce(cluster, "clicks", [b"2"])
        cluster.heal()
        cluster.wait_for_isr("clicks", ALL)
        logs_agree(cluster, "clicks")


def test_an_expired_session_is_followed_by_a_new_registration(cluster: Cluster) -> None:
    cluster.create_topic("clicks")
    broker = cluster.leader("clicks")
    epoch = cluster.broker(broker).call(lambda b: b.controller.broker_epoch)
    cluster.expire(broker)
    cluster.wait_until(lambda: cluster.broker(broker).call(lambda b: b.controller.broker_epoch) > epoch)
    cluster.wait_for_isr("clicks", ALL)
    produce(cluster, "clicks", [b"value"])
    assert read(cluster, "clicks", 1) == [b"value"]


def test_a_paused_leader_is_replaced_when_its_session_ends(cluster: Cluster) -> None:
    cluster.create_topic("clicks")
    produce(cluster, "clicks", [b"before"])
    paused = cluster.leader("clicks")
    with cluster.pause(paused):
        cluster.expire(paused)
        produce(cluster, "clicks", [b"meanwhile"])
    cluster.wait_for_isr("clicks", ALL)
    assert read(cluster, "clicks", 2) == [b"before", b"meanwhile"]
    logs_agree(cluster, "clicks")


def test_an_isolated_leader_acknowledges_nothing_that_is_lost(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its producer waits for it, and does not ask the others, who can be reached, about it.
    monkeypatch.setattr("odradek.client.aio.cluster.SILENCE_MS", 120_000.0)
    cluster.create_topic("clicks")
    produce(cluster, "clicks", [b"before"])
    alone = cluster.leader("clicks")

    def log_of_the_isolated() -> tuple[int, int]:
        return cluster.broker(alone).call(
            lambda broker: (
                broker.replicas.get("clicks", 0).log.high_watermark,
                broker.replicas.get("clicks", 0).log.log_end_offset,
            )
        )

    with Producer(
        bootstrap_servers=cluster.broker(alone).bootstrap_servers, acks="all", delivery_timeout_ms=120_000
    ) as producer:
        producer.partitions_for("clicks")
        cluster.isolate(alone)
        # It takes the record, for it does not know better, and waits for followers that have left it.
        sent = producer.send("clicks", value=b"perhaps", partition=0)
        cluster.wait_until(lambda: log_of_the_isolated() == (1, 2))
        others = ALL - {alone}
        cluster.wait_until(
            lambda: any(
                cluster.image(broker).topics["clicks"].partitions[0].leader in others for broker in others
            )
        )
        survivors = ",".join(cluster.broker(broker).bootstrap_servers for broker in sorted(others))
        with Producer(bootstrap_servers=survivors, acks="all") as other:
            other.send("clicks", value=b"meanwhile", partition=0).result(60)
        assert log_of_the_isolated() == (1, 2)
        assert not sent.done()
        cluster.heal()
        cluster.wait_for_isr("clicks", ALL)
        sent.result(60)
    assert read(cluster, "clicks", 3) == [b"before", b"meanwhile", b"perhaps"]
    logs_agree(cluster, "clicks")


def test_all_brokers_killed_at_once_come_back_with_everything(cluster: Cluster) -> None:
    cluster.create_topic("clicks")
    values = [b"%d" % number for number in range(30)]
    produce(cluster, "clicks", values)
    for broker in sorted(ALL):
        cluster.kill(broker)
    for broker in sorted(ALL):
        cluster.restart(broker)
    cluster.wait_for_isr("clicks", ALL)
    assert read(cluster, "clicks", 30) == values
    logs_agree(cluster, "clicks")


def test_a_cluster_of_one_is_one() -> None:
    with Cluster(1) as cluster:
        cluster.create_topic("clicks", 2)
        produce(cluster, "clicks", [b"value"])
        assert read(cluster, "clicks", 1) == [b"value"]
        cluster.kill(0)
        cluster.restart(0)
        assert read(cluster, "clicks", 1) == [b"value"]


def test_a_cluster_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="at least"):
        Cluster(0)
