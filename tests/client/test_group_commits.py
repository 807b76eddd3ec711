"""Commits of one consumer keep their order: none that is tried again takes a later one back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from client.scripted import ScriptedBroker, Silence
from odradek.client import Consumer
from odradek.client.aio.consumer import AsyncConsumer
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
from waiting import until, until_async, within

TP = TopicPartition("t", 0)
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def _answer(code: ErrorCode, partition: int = 0) -> OffsetCommitResponse:
    part = OffsetCommitResponsePartition(partition_index=partition, error_code=code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[part])])


def _offset(request: Any) -> int:
    return request.topics[0].partitions[0].committed_offset  # type: ignore[no-any-return]


def _partition(request: Any) -> int:
    return request.topics[0].partitions[0].partition_index  # type: ignore[no-any-return]


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
        return _answer(LOADING if len(self.asked) == 1 else ErrorCode.NONE, _partition(request))


Begin = Callable[[GroupCommits], Awaitable[None]]
"""Begins the commit of offset 5; what it returns ends with the commit, and raises its error."""


def _in_background(commits: GroupCommits) -> Awaitable[None]:
    ended = asyncio.get_running_loop().create_future()

    def done(offsets: Any, error: Exception | None) -> None:
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    commits.commit_in_background({TP: OffsetAndMetadata(5)}, done)
    return ended


def _waited_for(commits: GroupCommits) -> Awaitable[None]:
    return asyncio.get_running_loop().create_task(commits.commit({TP: OffsetAndMetadata(5)}, 10_000))


both = pytest.mark.parametrize(
    "begin", [_in_background, _waited_for], ids=["in the background", "waited for"]
)


def _commits(coordinator: _Coordinator, member: Membership) -> GroupCommits:
    config = build(ConsumerConfig, {"bootstrap_servers": "h:1", "group_id": "g"})
    positions = SubscriptionState("latest")
    positions.subscribe(["t"])
    member.joined(1, "m", None)
    cluster: Any = _Cluster(config)
    link: Any = coordinator
    return GroupCommits(config, cluster, link, member, positions, lambda: None)


def _refused(
    begin: Begin, then: Callable[[GroupCommits, Membership], Any]
) -> tuple[list[int], BaseException | None]:
    """Commit offset 5, which is refused for now; do something; wait for the end.

    Returns: the offsets that the coordinator was asked to keep, and the error of the commit of 5.
    """

    async def scenario() -> tuple[list[int], BaseException | None]:
        coordinator, member = _Coordinator(), Membership()
        commits = _commits(coordinator, member)
        commit = begin(commits)
        await within(coordinator.was_asked.wait(), "the first try")
        await then(commits, member)
        (error,) = await within(asyncio.gather(commit, return_exceptions=True), "the end of the commit")
        return coordinator.asked, error

    return asyncio.run(scenario())


def _slowly_found(
    begin: Begin, then: Callable[[GroupCommits, Membership], Any]
) -> tuple[list[int], BaseException | None]:
    """As `_refused`, but the coordinator takes all; it is not found before something was done."""

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

    async def scenario() -> tuple[list[int], BaseException | None]:
        coordinator, member = SlowlyFound(), Membership()
        commits = _commits(coordinator, member)
        commit = begin(commits)
        await within(coordinator.is_looked_for.wait(), "the first look")
        await then(commits, member)
        coordinator.looks[0].set()
        (error,) = await within(asyncio.gather(commit, return_exceptions=True), "the end of the commit")
        return coordinator.asked[1:], error

    return asyncio.run(scenario())


async def _nothing(commits: GroupCommits, member: Membership) -> None:
    pass


async def _commit_more(commits: GroupCommits, member: Membership) -> None:
    await commits.commit({TP: OffsetAndMetadata(9)}, 10_000)


async def _commit_more_in_background(commits: GroupCommits, member: Membership) -> None:
    await commits.commit_in_background({TP: OffsetAndMetadata(9)}, None)


async def _commit_another_partition(commits: GroupCommits, member: Membership) -> None:
    await commits.commit({TopicPartition("t", 1): OffsetAndMetadata(9)}, 10_000)


async def _rebalance(commits: GroupCommits, member: Membership) -> None:
    member.joined(2, "m", None)


@both
def test_a_refused_commit_is_tried_again(begin: Begin) -> None:
    assert _refused(begin, _nothing) == ([5, 5], None)


@both
@pytest.mark.parametrize("more", [_commit_more, _commit_more_in_background])
def test_a_refused_commit_does_not_take_a_later_one_back(begin: Begin, more: Any) -> None:
    asked, error = _refused(begin, more)
    assert asked == [5, 9]
    assert getattr(error, "code", None) == LOADING


@both
def test_a_refused_commit_goes_on_beside_one_of_another_partition(begin: Begin) -> None:
    """As of workers that commit a partition each."""
    assert _refused(begin, _commit_another_partition) == ([5, 9, 5], None)


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


@both
@pytest.mark.parametrize("more", [_commit_more, _commit_more_in_background])
def test_a_commit_that_looks_longer_for_the_coordinator_does_not_take_a_later_one_back(
    begin: Begin, more: Any
) -> None:
    """Each may ask another broker who the coordinator is, and one of them may be slow."""
    asked, error = _slowly_found(begin, more)
    assert asked == [9]
    assert type(error) is CommitFailedError


@both
def test_a_commit_that_looks_longer_for_the_coordinator_is_not_sent_in_another_generation(
    begin: Begin,
) -> None:
    """Another member may have had the partition in between, and committed more."""
    asked, error = _slowly_found(begin, _rebalance)
    assert asked == []
    assert type(error) is CommitFailedError


@both
def test_a_refused_commit_is_not_tried_again_in_another_generation(begin: Begin) -> None:
    """Another member may have had the partition in between, and committed more."""
    asked, error = _refused(begin, _rebalance)
    assert asked == [5]
    assert type(error) is CommitFailedError


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


def _broker(asked: list[int]) -> ScriptedBroker:
    """Return a broker whose coordinator loads until it was `asked` to keep four offsets."""

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
    return broker


def test_one_automatic_commit_is_under_way_at_a_time(caplog: pytest.LogCaptureFixture) -> None:
    """A second one would have the first give up, each with a line in the log, while the coordinator loads."""
    asked: list[int] = []
    with (
        caplog.at_level(logging.WARNING),
        _broker(asked) as broker,
        Consumer(bootstrap_servers=broker.at, group_id="g", auto_commit_interval_ms=0) as consumer,
    ):
        consumer.assign([TP])
        until(lambda: consumer.poll(1) or asked, "the first commit")
        consumer.seek(TP, 6)
        until(lambda: consumer.poll(1) or 6 in asked[3:], "a commit of the new position")
    assert asked[:4] == [5, 5, 5, 5]
    assert not [record for record in caplog.records if "automatically" in record.message]


def test_no_automatic_commit_begins_beside_one_that_the_application_waits_for() -> None:
    """It would have the application's give up, while the coordinator loads."""
    asked: list[int] = []

    async def scenario(at: str) -> None:
        async with AsyncConsumer(
            bootstrap_servers=at, group_id="g", auto_commit_interval_ms=0, auto_offset_reset="none"
        ) as consumer:
            await consumer.assign([TP])
            await consumer.seek(TP, 9)
            commit = asyncio.create_task(consumer.commit({TP: 5}))
            await until_async(lambda: asked, "the first try")

            async def polled(look: Callable[[], bool]) -> bool:
                await consumer.poll(1)
                return look()

            await until_async(lambda: polled(commit.done), "the commit")
            await commit
            await until_async(lambda: polled(lambda: 9 in asked), "the automatic commit")

    with _broker(asked) as broker:
        asyncio.run(within(scenario(broker.at), "the commits"))
    assert asked[:4] == [5, 5, 5, 5]
