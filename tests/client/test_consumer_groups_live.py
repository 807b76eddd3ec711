"""Consumers that share a group: who reads what, and what happens when members and topics come and go."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from odradek.client import (
    Admin,
    Consumer,
    NewTopic,
    TopicPartition,
)
from odradek.client.errors import (
    CommitFailedError,
    IllegalStateError,
)
from odradek.errors import FencedInstanceIdError
from waiting import until

from .conftest import new_topic
from .consuming import Recorder, drain, fill, poll_all


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_two_members_share_and_one_takes_over(servers: str, admin: Admin, group: str, strategy: str) -> None:
    topic = new_topic(admin, 4)
    settings: dict[str, Any] = {
        "group_id": group,
        "bootstrap_servers": servers,
        "auto_offset_reset": "earliest",
        "partition_assignment_strategy": strategy,
        "heartbeat_interval_ms": 50,
        "session_timeout_ms": 6_000,
    }
    first_seen, second_seen = Recorder(), Recorder()
    with Consumer(**settings) as first:
        first.subscribe([topic], listener=first_seen)
        until(lambda: poll_all(first) is not None and len(first.assignment()) == 4)
        with Consumer(**settings) as second:
            second.subscribe([topic], listener=second_seen)

            def shared() -> bool:
                poll_all(first, second)
                return len(first.assignment()) == 2 and len(second.assignment()) == 2

            until(shared)
            assert first.assignment() | second.assignment() == {TopicPartition(topic, n) for n in range(4)}
            fill(servers, topic, 100, 4)
            got: list[Any] = []

            def all_came() -> bool:
                got.extend(poll_all(first, second))
                return len(got) >= 100

            until(all_came)
            assert Counter(int(r.value) for r in got) == Counter(range(100))
        until(lambda: poll_all(first) is not None and len(first.assignment()) == 4)
    assert first_seen.threads == {threading.get_ident()}, "listeners run where poll is called"
    if strategy == "cooperative-sticky":
        revoked = [partitions for what, partitions in first_seen.events if what == "revoked"]
        assert len(revoked[0]) == 2, "only what moves is given up"


def test_a_listener_may_commit_when_its_partitions_go(servers: str, admin: Admin, group: str) -> None:
    topic = new_topic(admin, 2)
    fill(servers, topic, 20, 2)
    settings: dict[str, Any] = {
        "group_id": group,
        "bootstrap_servers": servers,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 50,
    }
    with Consumer(**settings) as first, Consumer(**settings) as second:
        recorder = Recorder(lambda: first)
        first.subscribe([topic], listener=recorder)
        drain(first, 20)
        second.subscribe([topic])
        repeated: list[Any] = []

        def shared() -> bool:
            repeated.extend(poll_all(first, second))
            return len(second.assignment()) == 1

        until(shared)
        for _ in range(5):
            repeated.extend(poll_all(first, second))
        assert repeated == [], "what was committed in the listener is not read again"
        assert ("revoked", tuple(sorted(TopicPartition(topic, n) for n in range(2)))) in recorder.events


def test_a_static_member_comes_back_without_a_rebalance(servers: str, admin: Admin, group: str) -> None:
    topic = new_topic(admin, 2)
    settings: dict[str, Any] = {
        "group_id": group,
        "bootstrap_servers": servers,
        "heartbeat_interval_ms": 50,
        "session_timeout_ms": 30_000,
    }
    with Consumer(topic, group_instance_id="a", **settings) as first:
        second = Consumer(topic, group_instance_id="b", **settings)
        until(lambda: poll_all(first, second) is not None and len(second.assignment()) == 1)
        until(lambda: poll_all(first, second) is not None and len(first.assignment()) == 1)
        generation, _ = first.group_generation()
        had = second.assignment()
        second.close()
        again = Consumer(topic, group_instance_id="b", **settings)
        until(lambda: poll_all(first, again) is not None and again.assignment())
        assert again.assignment() == had
        assert first.group_generation()[0] == generation == again.group_generation()[0]
        # Somebody with the same name fences it.
        usurper = Consumer(topic, group_instance_id="b", **settings)

        def fenced() -> bool:
            poll_all(first, usurper)
            try:
                again.poll(50)
            except FencedInstanceIdError:
                return True
            return False

        until(fenced)
        # A commit that is refused for it does not silence the heartbeats: polls go on telling it.
        with pytest.raises(FencedInstanceIdError):
            again.commit(dict.fromkeys(had, 0))
        until(fenced)
        again.close()
        usurper.close()


def test_a_pattern_finds_new_topics(servers: str, admin: Admin, group: str) -> None:
    prefix = new_topic(admin, 1)
    with Consumer(
        group_id=group, bootstrap_servers=servers, auto_offset_reset="earliest", metadata_max_age_ms=100
    ) as consumer:
        consumer.subscribe(pattern=f"{prefix}-new-.*")
        for _ in range(3):
            assert consumer.poll(50) == []
        admin.create_topics([NewTopic(f"{prefix}-new-1", 1)])
        until(lambda: consumer.poll(50) == [] and consumer.assignment())
        admin.create_topics([NewTopic(f"{prefix}-new-2", 2)])
        until(lambda: consumer.poll(50) == [] and len(consumer.assignment()) == 3)
        fill(servers, f"{prefix}-new-2", 4, 2)
        assert len(drain(consumer, 4)) == 4
        assert consumer.subscription() == {f"{prefix}-new-1", f"{prefix}-new-2"}


def test_partitions_that_are_added_are_read(servers: str, admin: Admin, group: str) -> None:
    topic = new_topic(admin, 1)
    with Consumer(
        topic,
        group_id=group,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        metadata_max_age_ms=100,
    ) as consumer:
        until(lambda: consumer.poll(50) == [] and consumer.assignment())
        admin.create_partitions({topic: 3})
        until(lambda: consumer.poll(50) == [] and len(consumer.assignment()) == 3)


def test_who_does_not_poll_in_time_loses_the_partitions(servers: str, admin: Admin, group: str) -> None:
    topic = new_topic(admin, 1)
    fill(servers, topic, 5)
    settings: dict[str, Any] = {
        "group_id": group,
        "bootstrap_servers": servers,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 20,
        "enable_auto_commit": False,
    }
    recorder = Recorder()
    with Consumer(max_poll_interval_ms=200, **settings) as slow:
        slow.subscribe([topic], listener=recorder)
        drain(slow, 5)
        with Consumer(topic, **settings) as other:
            assert len(drain(other, 5)) == 5, "the other gets them while the slow one is away"
            with pytest.raises(CommitFailedError, match=group):
                slow.commit({TopicPartition(topic, 0): 5})
        slow.poll(100)
        assert ("lost", (TopicPartition(topic, 0),)) in recorder.events
        assert len(drain(slow, 5)) == 5


def test_unsubscribe_and_subscribe_to_something_else(servers: str, admin: Admin, group: str) -> None:
    one, two = new_topic(admin, 1), new_topic(admin, 1)
    fill(servers, one, 3)
    fill(servers, two, 4)
    with Consumer(one, group_id=group, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        assert {r.topic for r in drain(consumer, 3)} == {one}
        consumer.subscribe([two])
        assert {r.topic for r in drain(consumer, 4)} == {two}
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        with pytest.raises(IllegalStateError, match="neither"):
            consumer.poll(10)
        consumer.assign([TopicPartition(one, 0)])
        with pytest.raises(IllegalStateError, match="exclude"):
            consumer.subscribe([one])
        consumer.seek_to_beginning()
        assert len(drain(consumer, 3)) == 3
    with Admin(bootstrap_servers=servers) as admin_client:
        assert admin_client.describe_groups([group])[group].members == ()
