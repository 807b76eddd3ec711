"""A partition is gone when answers to questions asked after the call say so, not what was on its way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from odradek.client.aio.cluster import Cluster
from odradek.client.config import CommonConfig, build
from odradek.client.core.metadata import LOOKS_BEFORE_GONE
from odradek.client.types import TopicPartition
from odradek.errors import UnknownTopicOrPartitionError
from odradek.wire.api import ApiKey
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from .scripted import ScriptedBroker

LIMIT_MS = 60_000


class Answers:
    """Metadata of topic `t`: the n-th answer names as many partitions as `counts` says, then the last.

    Attributes:
        asked: how many questions have come.
        hold: the answer to the first question waits for it.
    """

    def __init__(self, *counts: int) -> None:
        self.counts = counts
        self.asked = 0
        self.hold = threading.Event()
        self.first_came = threading.Event()
        self.hold.set()
        self.broker: ScriptedBroker | None = None

    def __call__(self, request: Any, version: int) -> MetadataResponse:
        assert self.broker is not None
        self.asked += 1
        count = self.counts[min(self.asked, len(self.counts)) - 1]
        if self.asked == 1:
            self.first_came.set()
            assert self.hold.wait(60)
        partitions = [
            MetadataResponsePartition(partition_index=n, leader_id=1, replica_nodes=[1], isr_nodes=[1])
            for n in range(count)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.broker.port)],
            topics=[MetadataResponseTopic(name="t", partitions=partitions)],
        )


@contextmanager
def answering(answers: Answers) -> Iterator[CommonConfig]:
    with ScriptedBroker({ApiKey.METADATA: answers}, {ApiKey.METADATA: (0, 9), 18: (0, 0)}) as broker:
        answers.broker = broker
        yield build(
            CommonConfig,
            {"bootstrap_servers": broker.at, "retry_backoff_ms": 1, "retry_backoff_max_ms": 1},
        )


@pytest.mark.parametrize("asked_after", [False, True])
def test_an_answer_that_was_on_its_way_does_not_count_as_asked_after(asked_after: bool) -> None:
    answers = Answers(1, 2)
    answers.hold.clear()

    async def ask(config: CommonConfig) -> set[int]:
        cluster = Cluster(config)
        cluster.want(["t"])
        cluster.request_update()
        await asyncio.to_thread(answers.first_came.wait, 60)
        asked = asyncio.ensure_future(cluster.wait_update(LIMIT_MS, asked_after=asked_after))
        await asyncio.sleep(0)
        answers.hold.set()
        assert await asked
        known = set(cluster.metadata.topics["t"].partitions)
        await cluster.close()
        return known

    with answering(answers) as config:
        assert asyncio.run(ask(config)) == ({0, 1} if asked_after else {0})


@pytest.mark.parametrize("looks", range(LOOKS_BEFORE_GONE + 2))
def test_brokers_that_learn_one_after_the_other_are_asked_again(looks: int) -> None:
    answers = Answers(*[1] * (looks + 1), 2)

    async def check(config: CommonConfig) -> None:
        cluster = Cluster(config)
        try:
            await cluster.check_partitions([TopicPartition("t", 1)], LIMIT_MS)
        finally:
            await cluster.close()

    with answering(answers) as config:
        if looks < LOOKS_BEFORE_GONE:
            asyncio.run(check(config))
            return
        with pytest.raises(UnknownTopicOrPartitionError, match="has no partition 1"):
            asyncio.run(check(config))
    assert answers.asked == 1 + LOOKS_BEFORE_GONE
