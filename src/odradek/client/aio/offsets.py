"""Questions about offsets: by time, at the ends, after a leader epoch; spread over the leaders, retried."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from odradek.client.aio.cluster import Cluster
from odradek.client.core.backoff import Backoff
from odradek.client.core.fetch_requests import list_offsets_floor, list_offsets_request, offset_in
from odradek.client.core.outages import ORDINARY_MS, Outages
from odradek.client.errors import ClientTimeoutError, ConnectionFailedError, NoBrokersAvailableError, left_out
from odradek.client.types import OffsetAndTimestamp, TopicPartition
from odradek.errors import ErrorCode, KafkaError, NetworkError, error_for
from odradek.errors.codes import to_code
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

T = TypeVar("T")


async def retry(
    cluster: Cluster,
    action: str,
    timeout_ms: float,
    step: Callable[[], Awaitable[T]],
    *,
    also: frozenset[ErrorCode] = frozenset(),
) -> T:
    """Try `step` until it does not raise a retriable `KafkaError`.

    Args:
        action: what is tried, for the message.
        also: codes that count as retriable here.

    Raises:
        ClientTimeoutError: `timeout_ms` has passed; has the last error.
        KafkaError: it is not retriable; at once.
    """
    deadline = cluster.now_ms() + timeout_ms
    backoff = Backoff(cluster.config.retry_backoff_ms, cluster.config.retry_backoff_max_ms)
    failures = 0
    last: KafkaError | None = None
    outages, no_progress = Outages(cluster.config.client_id), f"{action} makes no progress"
    while True:
        left = deadline - cluster.now_ms()
        try:
            async with asyncio.timeout(max(0.0, left) / 1000):
                answer = await step()
            outages.ended(no_progress, cluster.now_ms())
            return answer
        except TimeoutError:
            raise ClientTimeoutError(
                f"{action}: timed out after {timeout_ms:.0f} ms: {last or cluster.why()}"
            ) from last
        except KafkaError as problem:
            if not (problem.retriable or problem.code in also):
                raise
            last = problem
            if not isinstance(problem, NetworkError | NoBrokersAvailableError):
                # What cannot be reached is told already.
                outages.failed(no_progress, problem, cluster.now_ms(), after_ms=ORDINARY_MS)
            if problem.refreshes_metadata or isinstance(problem, ConnectionFailedError):
                cluster.request_update()
        failures += 1
        delay = backoff.delay_ms(failures)
        if cluster.now_ms() + delay >= deadline:
            raise ClientTimeoutError(f"{action}: timed out after {timeout_ms:.0f} ms: {last}") from last
        await asyncio.sleep(delay / 1000)


def by_leader(cluster: Cluster, partitions: Mapping[TopicPartition, T]) -> dict[int, dict[TopicPartition, T]]:
    """Sort by the broker that leads.

    Raises:
        KafkaError: a leader is not known; where that can be retried, metadata has been asked for.
    """
    grouped: dict[int, dict[TopicPartition, T]] = {}
    for tp, value in partitions.items():
        leader = cluster.metadata.leader(tp)
        if leader is None:
            cluster.want([tp.topic])
            error = cluster.metadata.errors.get(tp.topic)
            if error is not None and not error.retriable:
                raise error_for(error, f"topic {tp.topic!r}: {error.message}")
            cluster.request_update()
            raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{tp}: {cluster.metadata.no_leader(tp)}")
        grouped.setdefault(leader, {})[tp] = value
    return grouped


async def list_offsets_once(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation: int
) -> tuple[dict[TopicPartition, OffsetAndTimestamp], KafkaError | None]:
    """Ask each leader once. Returns (what was answered, the first error among the rest)."""
    offsets: dict[TopicPartition, OffsetAndTimestamp] = {}
    problem: KafkaError | None = None
    grouped = by_leader(cluster, timestamps)
    answers = await asyncio.gather(
        *(offsets_of_leader(cluster, node, part, isolation) for node, part in grouped.items()),
        return_exceptions=True,
    )
    for part, answer in zip(grouped.values(), answers, strict=True):
        if isinstance(answer, KafkaError):
            problem = problem or answer
            continue
        if isinstance(answer, BaseException):
            raise answer
        answered, refused = _sort_out(answer, part)
        problem = problem or refused
        for tp, p in answered.items():
            offsets[tp] = told_offset(p)
    return offsets, problem


async def offsets_of_leader(
    cluster: Cluster, node: int, timestamps: Mapping[TopicPartition, int], isolation: int
) -> dict[TopicPartition, Any]:
    """Ask a leader once; returns what it says of partitions, be it an error."""
    request = list_offsets_request(timestamps, isolation, cluster.metadata.leader_epoch)
    floor = list_offsets_floor(timestamps.values(), isolation)
    answer = await cluster.request(node, request, at_least=floor)
    return {
        TopicPartition(topic.name, p.partition_index): p for topic in answer.topics for p in topic.partitions
    }


def told_offset(part: Any) -> OffsetAndTimestamp:
    """Return the offset that a leader has said of a partition."""
    return OffsetAndTimestamp(offset_in(part), part.timestamp, part.leader_epoch)


def _sort_out(
    results: Mapping[TopicPartition, Any], partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, Any], KafkaError | None]:
    """Return what a leader gave, and its first error."""
    answered: dict[TopicPartition, Any] = {}
    problem: KafkaError | None = None
    for tp, part in results.items():
        if part.error_code:
            code = to_code(part.error_code)
            problem = problem or error_for(code, f"{tp}: {code.message}")
        else:
            answered[tp] = part
    # Asked for again, what an answer leaves out would be asked for without end.
    return answered, problem or next(iter(left_out(partitions, results).values()), None)


async def list_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation: int, timeout_ms: float
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The offset for a time (or LATEST, EARLIEST …) of each partition; offset -1 where no record is that new.

    Raises:
        KafkaError: as `list_offsets_once`, if it cannot be retried.
        ClientTimeoutError: not done in time.
    """
    offsets: dict[TopicPartition, OffsetAndTimestamp] = {}
    await cluster.check_partitions(timestamps, timeout_ms)

    async def step() -> None:
        left = {tp: timestamp for tp, timestamp in timestamps.items() if tp not in offsets}
        more, problem = await list_offsets_once(cluster, left, isolation)
        offsets.update(more)
        if problem is not None:
            raise problem

    if timestamps:
        await retry(cluster, "offsets", timeout_ms, step)
    return offsets


async def epoch_end_offsets_once(
    cluster: Cluster, epochs: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, tuple[int, int]], KafkaError | None]:
    """For each partition the (epoch, end offset) of the newest epoch not above the given one, from its
    leader.
    """
    ends: dict[TopicPartition, tuple[int, int]] = {}
    problem: KafkaError | None = None
    for node, part in by_leader(cluster, epochs).items():
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        for tp, epoch in part.items():
            topics.setdefault(tp.topic, []).append(
                OffsetForLeaderPartition(
                    partition=tp.partition,
                    current_leader_epoch=cluster.metadata.leader_epoch(tp),
                    leader_epoch=epoch,
                )
            )
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[OffsetForLeaderTopic(topic=topic, partitions=p) for topic, p in topics.items()],
        )
        try:
            # Before version 3 consumers needed rights on the cluster (KIP-320): then it is not asked.
            answer = await cluster.request(node, request, at_least=3)
        except KafkaError as error:
            problem = problem or error
            continue
        results = {
            TopicPartition(topic.topic, p.partition): p for topic in answer.topics for p in topic.partitions
        }
        answered, refused = _sort_out(results, part)
        problem = problem or refused
        ends |= {tp: (p.leader_epoch, p.end_offset) for tp, p in answered.items()}
    return ends, problem
