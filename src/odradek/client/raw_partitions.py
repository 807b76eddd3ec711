"""The partitions that exist, and the offsets at which they begin and end, asked over blocking sockets.

What is remembered of the cluster tells where to ask. It never tells that something is gone: only an answer to
a question asked after that can, and several of them, as brokers learn of new partitions one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from odradek.client.arguments import topic_partition
from odradek.client.blocking import BlockingCluster
from odradek.client.core.fetch_requests import list_offsets_floor, list_offsets_request, offset_in
from odradek.client.core.metadata import LOOKS_BEFORE_GONE
from odradek.client.errors import TopicRecreatedError, left_out
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, KafkaError, OdradekError, error_for
from odradek.errors.codes import to_code
from odradek.wire.primitives import ZERO_UUID, uuid_to_text

T = TypeVar("T")
MAX_TIMESTAMP = -3
"""As a `ListOffsets` timestamp: the record with the largest one (KIP-734)."""

_TOPIC = 2
"""The type of a resource that is a topic."""


@dataclass(frozen=True)
class FoundTopic:
    """An answer about one topic.

    Attributes:
        topic_id: 16 bytes, zeros where the broker has none (before Kafka 2.8). A topic that is deleted and
            made again under the same name has another one.
        partitions: their numbers, ascending.
        error: the topic's own, NONE if there is none. UNKNOWN_TOPIC_OR_PARTITION: it does not exist.
    """

    topic_id: bytes = ZERO_UUID
    partitions: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


def look_up_topics(
    cluster: BlockingCluster, topics: Iterable[str] | None, *, internal: bool = False
) -> dict[str, FoundTopic]:
    """Ask once for some topics, or (None) for all, the internal ones if asked for.

    Raises:
        KafkaError: nobody can be asked.
    """
    names = None if topics is None else set(topics)
    cluster.refresh(names)
    metadata = cluster.metadata
    topics_found = {
        name: FoundTopic(state.topic_id, tuple(sorted(state.partitions)))
        for name, state in metadata.topics.items()
        if (name in names if names is not None else internal or not state.is_internal)
    }
    failed = {
        name: FoundTopic(error=error)
        for name, error in metadata.errors.items()
        if names is None or name in names
    }
    return topics_found | failed


def check_partitions(
    cluster: BlockingCluster,
    partitions: Iterable[TopicPartition],
    topic_ids: Mapping[str, bytes] | None = None,
) -> None:
    """Check that all of them exist.

    Args:
        topic_ids: the ids that topics must have; not checked where the broker has no ids.

    Raises:
        UnknownTopicOrPartitionError: one does not.
        TopicRecreatedError: a topic has another id.
        ClientTimeoutError: no broker answers.
        KafkaError: what else the brokers answer for a topic.
    """
    tps = list(partitions)
    topics = {tp.topic for tp in tps}
    retrying = cluster.retrying(f"the partitions of {', '.join(sorted(topics))}")
    looks = 0
    while (problem := _missing(cluster, tps, topic_ids or {})) is not None:
        if looks == LOOKS_BEFORE_GONE or (looks and retrying.over):
            raise problem
        if looks:
            retrying.pause()
        try:
            refresh(cluster, topics)
        except KafkaError as failed:
            retrying.failed(failed)
            continue
        looks += 1


def refresh(cluster: BlockingCluster, topics: Iterable[str]) -> None:
    """Ask once for the metadata of some topics. One that does not exist is known not to exist after that.

    Raises:
        KafkaError: what the brokers answer otherwise for one of them.
    """
    cluster.refresh(topics)
    for topic in topics:
        code = cluster.metadata.errors.get(topic, ErrorCode.NONE)
        if code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise error_for(code, f"topic {topic!r}: {code.message}")


def _missing(
    cluster: BlockingCluster, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, bytes]
) -> OdradekError | None:
    """The error for the first of the partitions that the metadata lacks."""
    for topic, partition in partitions:
        state = cluster.metadata.topics.get(topic)
        if state is None:
            return error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} does not exist")
        topic_id = topic_ids.get(topic, ZERO_UUID)
        if ZERO_UUID not in (topic_id, state.topic_id) and topic_id != state.topic_id:
            return TopicRecreatedError(
                f"topic {topic!r} of id {uuid_to_text(topic_id)} was deleted, and made again with the id "
                f"{uuid_to_text(state.topic_id)}",
                state.topic_id,
            )
        if partition not in state.partitions:
            return error_for(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} has no partition {partition}"
            )
    return None


def list_offsets(
    cluster: BlockingCluster, isolation: int, timestamps: Mapping[Any, int]
) -> dict[tuple[str, int], int]:
    """The offset for a time (or LATEST, EARLIEST) of each partition, from its leader; -1 where there is none.

    Raises:
        KafkaError: as `look_up_offsets`.
    """
    return look_up_offsets(cluster, isolation, timestamps, offset_in)


def look_up_offsets(
    cluster: BlockingCluster,
    isolation: int,
    timestamps: Mapping[Any, int],
    take: Callable[[Any], T],
) -> dict[tuple[str, int], T]:
    """Return what `take` makes of the answer about each partition to a ListOffsets for a time.

    Raises:
        UnknownTopicOrPartitionError: a partition does not exist.
        ClientTimeoutError: nothing gets on for `default_api_timeout_ms`.
    """
    times = {topic_partition(tp): timestamp for tp, timestamp in timestamps.items()}
    results: dict[tuple[str, int], T] = {}
    retrying = cluster.retrying("offsets")
    check_partitions(cluster, times)
    while left := {tp: ts for tp, ts in times.items() if tp not in results}:
        try:
            _ask_offsets(cluster, isolation, left, results, take)
        except KafkaError as problem:
            retrying.failed(problem)
            look_again(cluster, left)
    return results


def look_again(
    cluster: BlockingCluster,
    partitions: Iterable[TopicPartition],
    topic_ids: Mapping[str, bytes] | None = None,
) -> None:
    """After an error: learn where the partitions are now.

    Raises:
        KafkaError: as `check_partitions`, if they are gone.
    """
    tps = list(partitions)
    try:
        refresh(cluster, {tp.topic for tp in tps})
    except KafkaError:
        return  # the next try will tell
    check_partitions(cluster, tps, topic_ids)


def _ask_offsets(
    cluster: BlockingCluster,
    isolation: int,
    left: Mapping[TopicPartition, int],
    results: dict[tuple[str, int], T],
    take: Callable[[Any], T],
) -> None:
    by_node: dict[int, dict[TopicPartition, int]] = {}
    for tp, timestamp in left.items():
        leader = cluster.leader(tp)
        if leader is None:
            raise cluster.leaderless(tp)
        by_node.setdefault(leader, {})[tp] = timestamp
    problem: KafkaError | None = None
    for node, part in by_node.items():
        response = cluster.connection(node).call(
            list_offsets_request(part, isolation), at_least=list_offsets_floor(part.values(), isolation)
        )
        results_of_node = {
            TopicPartition(t.name, p.partition_index): p for t in response.topics for p in t.partitions
        }
        for tp, answer in results_of_node.items():
            if answer.error_code:
                code = to_code(answer.error_code)
                problem = error_for(code, f"{tp}: {code.message}")
            else:
                results[tp] = take(answer)
        # Asked for again, what an answer leaves out would be asked for without end.
        problem = problem or next(iter(left_out(part, results_of_node).values()), None)
    if problem is not None:
        raise problem


def topic_configs(cluster: BlockingCluster, topics: Iterable[str], name: str) -> dict[str, str | None]:
    """The value of one config of each topic, as any broker tells it.

    A topic whose configs a broker does not tell (because it is gone, or may not be described) is left out.

    Raises:
        UnsupportedByBrokerError: the broker is older than Kafka 0.11.
        KafkaError: the broker cannot be asked.
    """
    from odradek.client.core.admin_requests import describe_configs_request
    from odradek.wire.messages.describe_configs import DescribeConfigsRequest

    connection = cluster.any_connection()
    version = connection.pick(DescribeConfigsRequest.API_KEY)
    keys = [(_TOPIC, topic) for topic in topics]
    connection.send(describe_configs_request(keys, [name], False, False, version), version)
    values: dict[str, str | None] = {}
    for result in connection.receive()[1].results:
        if not result.error_code:
            for config in result.configs:
                if config.name == name:
                    values[result.resource_name] = config.value
    return values
