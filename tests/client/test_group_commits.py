"""Commits of one consumer keep their order: none that is tried again takes a later one back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from client.scripted import ScriptedBroker, Silence
from odradek.client import Consumer
from odradek.client.aio.group_commits import GroupCommits
from odradek.client.config import ConsumerConfig, build
from odradek.client.core.membership import Membership
from odradek.client.core.subscription_state import SubscriptionState
from odradek.client.errors import CommitFailedError
from odradek.client.types import OffsetAndMetadata, TopicPartition
from odradek.errors import ErrorCode, UnknownServerError
from odradek.wire.api import ApiKey
from odradek.wire.messages.find_coordinator import FindCoordinatorResponse
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from waiting import until, within

TP = TopicPartition("t", 0)
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def _answer(code: ErrorCode) -> OffsetCommitResponse:
    part = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[part])])


def _offset(request: Any) -> int:
    return request.topics[0].partitions[0].committed_offset  # type: ignore[no-any-return]


class _Cluster:
    """A clock, and tasks."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.config = config
        self._tasks: set[asyncio.Task[None]] = set()

    def now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        return task


class _Coordinator:
    """Refuses the first commit, and takes all others."""

    group_id = "g"

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.was_asked = asyncio.Event()

    async def coordinator(self) -> None:
        """It is known."""

    async def ask(self, request: Any) -> OffsetCommitResponse:
        self.asked.append(_offset(request))
        self.was_asked.set()
        return _answer(LOADING if len(self.asked) == 1 else ErrorCode.NONE)


def _refused(
    then: Callable[[GroupCommits, Membership], Any],
) -> tuple[list[int], list[Exception | None]]:
    """Commit offset 5 in the background, which is refused for now; do something; wait for the end.

    Returns: the offsets that the coordinator was asked to keep, and what the callback was told.
    """
    told: list[Exception | None] = []

    async def scenario() -> list[int]:
        config = build(ConsumerConfig, {"bootstrap_servers": "h:1", "group_id": "g"})
        coordinator, member, positions = _Coordinator(), Membership(), SubscriptionState("latest")
        positions.subscribe(["t"])
        member.joined(1, "m", None)
        cluster: Any = _Cluster(config)
        link: Any = coordinator
        commits = GroupCommits(config, cluster, link, member, positions, lambda: None)
        commits.commit_in_background({TP: OffsetAndMetadata(5)}, lambda _, error: told.append(error))
        await within(coordinator.was_asked.wait(), "the first try")
        await then(commits, member)
        await within(commits.background_done(), "the end of the commit in the background")
        return coordinator.asked

    return asyncio.run(scenario()), told


def _slowly_found(
    then: Callable[[GroupCommits, Membership], Any],
) -> tuple[list[int], list[Exception | None]]:
    """As `_refused`, but the coordinator takes all; it is not found before something was done."""
    told: list[Exception | None] = []

    class SlowlyFound(_Coordinator):
        def __init__(self) -> None:
            super().__init__()
            self.asked.append(0)  # so that the next commits are taken
            self.looks: list[asyncio.Event] = []
            self.is_looked_for = asyncio.Event()

        async def coordinator(self) -> None:
            self.looks.append(asyncio.Event())
            if len(self.looks) == 1:
                self.is_looked_for.set()
                await within(self.looks[0].wait(), "the end of the first look")

    async def scenario() -> list[int]:
        config = build(ConsumerConfig, {"bootstrap_servers": "h:1", "group_id": "g"})
        coordinator, member, positions = SlowlyFound(), Membership(), SubscriptionState("latest")
        positions.subscribe(["t"])
        member.joined(1, "m", None)
        cluster: Any = _Cluster(config)
        link: Any = coordinator
        commits = GroupCommits(config, cluster, link, member, positions, lambda: None)
        commits.commit_in_background({TP: OffsetAndMetadata(5)}, lambda _, error: told.append(error))
        await within(coordinator.is_looked_for.wait(), "the first look")
        await then(commits, member)
        coordinator.looks[0].set()
        await within(commits.background_done(), "the end of the commit in the background")
        return coordinator.asked[1:]

    return asyncio.run(scenario()), told


def test_a_refused_commit_in_the_background_is_tried_again() -> None:
    async def nothing(commits: GroupCommits, member: Membership) -> None:
        pass

    assert _refused(nothing) == ([5, 5], [None])


def test_a_commit_in_the_background_does_not_take_a_later_one_back() -> None:
    async def commit(commits: GroupCommits, member: Membership) -> None:
        await commits.commit({TP: OffsetAndMetadata(9)}, 10_000)

    asked, told = _refused(commit)
    assert asked == [5, 9]
    assert [getattr(error, "code", None) for error in told] == [LOADING]


def test_a_commit_in_the_background_is_sent_before_a_later_one() -> None:
    """Its task has not had a turn when the later commit begins, and needs none to be asked for anything."""

    async def scenario() -> list[int]:
        config = build(ConsumerConfig, {"bootstrap_servers": "h:1", "group_id": "g"})
        coordinator = _Coordinator()
        coordinator.asked.append(0)  # so that the next commits are taken
        cluster: Any = _Cluster(config)
        link: Any = coordinator
        commits = GroupCommits(config, cluster, link, Membership(), SubscriptionState("latest"), lambda: None)
        commits.commit_in_background({TP: OffsetAndMetadata(5)}, None)
        await commits.commit({TP: OffsetAndMetadata(9)}, 10_000)
        await within(commits.background_done(), "the end of the commit in the background")
        return coordinator.asked[1:]

    assert asyncio.run(scenario()) == [5, 9]


def test_a_commit_that_looks_longer_for_the_coordinator_does_not_take_a_later_one_back() -> None:
    """Each may ask another broker who the coordinator is, and one of them may be slow."""

    async def commit(commits: GroupCommits, member: Membership) -> None:
        await commits.commit({TP: OffsetAndMetadata(9)}, 10_000)

    asked, told = _slowly_found(commit)
    assert asked == [9]
    assert [type(error) for error in told] == [CommitFailedError]


def test_a_commit_that_looks_longer_for_the_coordinator_is_not_sent_in_another_generation() -> None:
    """Another member may have had the partition in between, and committed more."""

    async def rebalance(commits: GroupCommits, member: Membership) -> None:
        member.joined(2, "m", None)

    asked, told = _slowly_found(rebalance)
    assert asked == []
    assert [type(error) for error in told] == [CommitFailedError]


def test_a_commit_in_the_background_is_not_tried_again_in_another_generation() -> None:
    """Another member may have had the partition in between, and committed more."""

    async def rebalance(commits: GroupCommits, member: Membership) -> None:
        member.joined(2, "m", None)

    asked, told = _refused(rebalance)
    assert asked == [5]
    assert [type(error) for error in told] == [CommitFailedError]


def test_an_offset_that_the_answer_leaves_out_is_not_committed() -> None:
    class Forgetful(_Coordinator):
        async def ask(self, request: Any) -> OffsetCommitResponse:
            return OffsetCommitResponse(topics=[])

    async def scenario() -> None:
        config = build(ConsumerConfig, {"bootstrap_servers": "h:1", "group_id": "g"})
        cluster: Any = _Cluster(config)
        link: Any = Forgetful()
        commits = GroupCommits(config, cluster, link, Membership(), SubscriptionState("latest"), lambda: None)
        with pytest.raises(UnknownServerError, match="t-0"):
            await commits.commit({TP: OffsetAndMetadata(5)}, 10_000)

    asyncio.run(scenario())


def test_one_automatic_commit_is_under_way_at_a_time(caplog: pytest.LogCaptureFixture) -> None:
    """A second one would have the first give up, each with a line in the log, while the coordinator loads."""
    asked: list[int] = []

    def metadata(request: Any, version: int) -> MetadataResponse:
        part = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)],
            topics=[MetadataResponseTopic(name="t", partitions=[part])],
        )

    def find(request: Any, version: int) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=broker.port)

    def commit(request: Any, version: int) -> OffsetCommitResponse:
        asked.append(_offset(request))
        return _answer(LOADING if len(asked) < 4 else ErrorCode.NONE)

    def committed(request: Any, version: int) -> OffsetFetchResponse:
        part = OffsetFetchResponsePartition(partition_index=0, committed_offset=5)
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=[part])])

    def fetch(request: Any, version: int) -> Any:
        raise Silence

    answers = {
        ApiKey.METADATA: (metadata, 1),
        ApiKey.FIND_COORDINATOR: (find, 0),
        ApiKey.OFFSET_FETCH: (committed, 1),
        ApiKey.OFFSET_COMMIT: (commit, 2),
        ApiKey.FETCH: (fetch, 4),
    }
    broker = ScriptedBroker(
        {key: answer for key, (answer, _) in answers.items()},
        {key: (version, version) for key, (_, version) in answers.items()},
    )
    with (
        caplog.at_level(logging.WARNING),
        broker,
        Consumer(bootstrap_servers=broker.at, group_id="g", auto_commit_interval_ms=0) as consumer,
    ):
        consumer.assign([TP])
        until(lambda: consumer.poll(1) or asked, "the first commit")
        consumer.seek(TP, 6)
        until(lambda: consumer.poll(1) or 6 in asked[3:], "a commit of the new position")
    assert asked[:4] == [5, 5, 5, 5]
    assert not [record for record in caplog.records if "automatically" in record.message]
