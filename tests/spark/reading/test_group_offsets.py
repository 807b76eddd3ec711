"""`commitOffsetsToGroup`: several sources in one query, each with a group, one they share, or none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from odradek.client import Admin
from odradek.client.types import TopicPartition

from ..conftest import batches_of, started_in_time

pytestmark = pytest.mark.spark


def committed(servers: str, group: str) -> dict[TopicPartition, int]:
    with Admin(bootstrap_servers=servers) as admin:
        return {tp: one.offset for tp, one in admin.list_group_offsets(group).items()}


def test_each_source_of_a_query_commits_to_its_own_group_or_to_none(
    new_topic: Callable[..., Any], read_stream: Callable[..., Any], tmp_path: Path
) -> None:
    """All partitions, after the last batch too, as those have it who commit in a listener."""
    topics = [new_topic(2) for _ in range(4)]
    for number, topic in enumerate(topics):
        for partition in range(2):
            topic.produce([str(row) for row in range(5 + number)], partition)
    by_pattern, by_name, assigned, without = topics
    shared, own = f"{by_pattern.name}-shared", f"{by_name.name}-own"
    sources: list[dict[str, Any]] = [
        {"subscribePattern": f"^{by_pattern.name}$", "commitOffsetsToGroup": shared},
        {"subscribe": by_name.name, "kafka.group.id": own},
        {"assign": json.dumps({assigned.name: [0, 1]}), "commitOffsetsToGroup": shared},
        {"subscribe": without.name},
    ]
    frames = [read_stream(**options, **batches_of(8), startingOffsets="earliest") for options in sources]
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.union(other)
    rows: list[int] = []

    def once() -> None:
        query = (
            frame.writeStream.foreachBatch(lambda batch, _: rows.append(batch.count()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    started_in_time(once)
    assert len(rows) > 1 or not batches_of(8)
    servers = by_name.servers
    expected = {
        TopicPartition(topic.name, partition): count
        for topic, count in ((by_pattern, 5), (assigned, 7))
        for partition in range(2)
    }
    assert committed(servers, shared) == expected
    assert committed(servers, own) == {TopicPartition(by_name.name, partition): 6 for partition in range(2)}
    with Admin(bootstrap_servers=servers) as admin:
        groups = [group.group_id for group in admin.list_groups()]
    assert without.name not in {tp.topic for group in groups for tp in committed(servers, group)}
