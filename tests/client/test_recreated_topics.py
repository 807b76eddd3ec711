"""A topic that is deleted and made anew while a consumer reads it: nothing of the new one is passed over in
silence.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from odradek.client import Admin, AsyncConsumer, Consumer, NewTopic, Producer, TopicPartition
from odradek.client.errors import IllegalArgumentError, NoOffsetForPartitionError, TopicRecreatedError
from waiting import until

from .conftest import new_topic


def fill(servers: str, topic: str, values: list[str]) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush(60)


def make_anew(admin: Admin, servers: str, topic: str, values: list[str]) -> None:
    admin.delete_topics([topic])
    until(lambda: topic not in admin.list_topics(), what="the end of the topic")
    admin.create_topics([NewTopic(topic, 1, 1)])
    fill(servers, topic, values)


def read(consumer: Consumer, count: int) -> list[str]:
    values: list[str] = []
    until(
        lambda: len(values.extend(r.value.decode() for r in consumer.poll(100, 1)) or values) >= count,
        what=f"{count} records",
    )
    return values


@pytest.mark.parametrize("policy", ["earliest", "latest"])
@pytest.mark.parametrize("new", [2, 9], ids=["fewer", "more"])
def test_an_assigned_consumer_reads_all_of_the_new_one(
    servers: str, admin: Admin, policy: str, new: int, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(admin, 1)
    fill(servers, topic, [f"old {n}" for n in range(6)])
    configs = {"auto_offset_reset": policy, "metadata_max_age_ms": 200}
    with Consumer(bootstrap_servers=servers, **configs) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        assert read(consumer, 2) == ["old 0", "old 1"]
        make_anew(admin, servers, topic, [f"new {n}" for n in range(new)])
        # What was fetched before is given out all the same.
        expected = [*(f"old {n}" for n in range(2, 6)), *(f"new {n}" for n in range(new))]
        assert read(consumer, 4 + new) == expected
        assert consumer.position((topic, 0)) == new
    told = [r.getMessage() for r in caplog.records if "made anew" in r.getMessage()]
    assert told == [
        f"{topic}-0: the topic was deleted and made anew (its id is another one), and offset 6 was of the "
        "old one; reading goes on at the beginning of the new one"
    ]


def test_without_a_policy_it_is_an_error_until_it_seeks(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    fill(servers, topic, ["old"])
    with Consumer(bootstrap_servers=servers, auto_offset_reset="none", metadata_max_age_ms=200) as consumer:
        consumer.assign([(topic, 0)])
        with pytest.raises(NoOffsetForPartitionError):
            consumer.poll(60_000)
        consumer.seek((topic, 0), 0)
        assert read(consumer, 1) == ["old"]
        make_anew(admin, servers, topic, ["new 0", "new 1"])
        with pytest.raises(TopicRecreatedError, match="'none': seek to go on"):
            read(consumer, 1)
        consumer.seek((topic, 0), 1)
        assert read(consumer, 1) == ["new 1"]


def test_a_negative_time_is_refused(servers: str, topic: str) -> None:
    tp = TopicPartition(topic, 0)

    async def ask() -> Any:
        async with AsyncConsumer(bootstrap_servers=servers) as consumer:
            return await consumer.offsets_for_times({tp: -2})

    with Consumer(bootstrap_servers=servers) as consumer:
        with pytest.raises(
            IllegalArgumentError, match=f"the time for {topic}-0 is -1: it cannot be negative"
        ):
            consumer.offsets_for_times({(topic, 0): -1})
        assert consumer.offsets_for_times({tp: 0}) == {tp: None}
    with pytest.raises(IllegalArgumentError, match="is -2"):
        asyncio.run(ask())


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
