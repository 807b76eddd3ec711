"""Flink's Kafka connector, source and sink, in a small Flink of its own, on our broker."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from interop import compatibility, members
from interop.conftest import OdradekServer
from interop.flink import RELEASES, flink_job
from interop.tap import OURS
from interop.test_java_releases import needs_java
from odradek import Admin, Consumer, NewTopic, Producer


@pytest.mark.interop
@pytest.mark.parametrize(("flink", "connector"), RELEASES)
def test_topic_to_topic(
    flink: str,
    connector: str,
    tapped: OdradekServer,
    compatibility_row: Callable[..., compatibility.Row],
) -> None:
    row = compatibility_row("Engines", f"Flink {flink}: flink-connector-kafka", connector, "Maven Central")
    needs_java()
    job = flink_job("FlinkJob", flink, connector)
    at = tapped.bootstrap_servers

    def send(values: range) -> None:
        with Producer(bootstrap_servers=at, client_id=OURS) as producer:
            for i in values:
                producer.send("from", key=b"%d" % i, value=b"value-%d" % i, partition=i % 3)
            producer.flush()

    def copied_at_last(topic: str, count: int) -> list[str]:
        read: list[str] = []
        with Consumer(
            topic, bootstrap_servers=at, client_id=OURS, group_id=topic, auto_offset_reset="earliest"
        ) as consumer:

            def all_read() -> bool:
                read.extend((r.value or b"").decode() for r in consumer.poll(timeout_ms=200))
                return len(read) >= count

            members.until(f"{count} records are in {topic}", all_read)
        return sorted(read)

    with Admin(bootstrap_servers=at, client_id=OURS) as admin:
        admin.create_topics([NewTopic(name, num_partitions=3) for name in ("from", "to", "late")])
    send(range(300))
    job.run("copy", at, flink, "from", "to", "flink")
    middle_ms = int(time.time() * 1000) + 1
    row.does("produce", what="lz4")
    row.does("consume")
    members.until("the clock says something later", lambda: time.time() * 1000 > middle_ms)
    send(range(300, 400))
    # A bounded job need not have committed its last records: the next one begins where the group stands.
    with Admin(bootstrap_servers=at, client_id=OURS) as admin:
        committed = {tp.partition: kept.offset for tp, kept in admin.list_group_offsets("flink").items()}
    job.run("copy", at, flink, "from", "to", "flink")
    first = [f"{i}=value-{i}" for i in range(300)]
    second = [f"{i}=value-{i}" for i in range(400) if i // 3 >= committed.get(i % 3, 0)]
    assert copied_at_last("to", len(first) + len(second)) == sorted(first + second)
    if sum(committed.values()):
        row.does("commit, resume")
    job.run("since", at, flink, "from", "late", str(middle_ms))
    assert copied_at_last("late", 100) == sorted(f"{i}=value-{i}" for i in range(300, 400))
    row.does("offsets by time")
