"""Topics and their records, as the administrator sees them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from odradek.client.aio.admin_base import AdminBase, failure, failure_of, listed, not_controller, raise_first
from odradek.client.aio.offsets import offsets_of_leader, retry, told_offset
from odradek.client.aio.topic_states import description, metadata_request, names_in, topic_states
from odradek.client.arguments import by_partition, mapping_of, names_of, new_topics_of, times_of
from odradek.client.core.admin_requests import (
    create_partitions_request,
    create_topics_request,
    delete_topics_request,
)
from odradek.client.errors import UnsupportedByBrokerError, left_out
from odradek.client.types import (
    ByPartition,
    NewTopic,
    OffsetAndTimestamp,
    PartitionInfo,
    TopicDescription,
    TopicPartition,
)
from odradek.errors import ErrorCode, KafkaError, error_for
from odradek.errors.codes import to_code
from odradek.wire.api import ApiKey
from odradek.wire.primitives import ZERO_UUID

logger = logging.getLogger("odradek.client.admin")


class TopicAdmin(AdminBase):
    """The calls about topics."""

    async def create_topics(
        self,
        topics: Iterable[NewTopic | str],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
        retry_on_quota_violation: bool = True,
    ) -> dict[str, TopicDescription]:
        """Create topics.

        Args:
            validate_only: only say whether they could be.
            timeout_ms: how long the broker may take; `request_timeout_ms` when None.
            retry_on_quota_violation: whether to wait for a quota of such changes that has no room now
                (KIP-599); `ThrottlingQuotaExceededError` otherwise.

        Returns: name → the topic, once its partitions have leaders, so that it can be written to. If they
            have none within `default_api_timeout_ms`, that is logged, and the topic is returned as it is; it
            has no partitions if nothing can be learnt of them. With `validate_only`, as it would be, without
            leaders. The id is zeros on brokers before Kafka 2.8.

        Raises:
            TopicExistsError: a topic is there already, maybe made by this very call, which asks again when an
                answer is lost. `describe_topics` tells whether the topic is as it should be.
            KafkaError: the error that the controller says.
        """
        new_topics = new_topics_of(topics)
        timeout = timeout_ms or self._config.request_timeout_ms
        cluster = self._started()
        deadline_ms = cluster.now_ms() + self._config.default_api_timeout_ms
        # Defaults for the two numbers came with version 4 (KIP-464).
        defaults = any(
            t.replica_assignment is None and -1 in (t.num_partitions, t.replication_factor)
            for t in new_topics
        )

        async def ask(names: set[str]) -> Any:
            return await self._controller(
                f"create topics {listed(names)}",
                create_topics_request([t for t in new_topics if t.name in names], timeout, validate_only),
                lambda r: not_controller(r.topics),
                at_least=4 if defaults else None,
            )

        try:
            rows = await self._within_quota(
                [t.name for t in new_topics], ask, lambda r: r.topics, retry_on_quota_violation
            )
        except UnsupportedByBrokerError as problem:
            if not defaults:
                raise
            raise UnsupportedByBrokerError(
                f"num_partitions and replication_factor have to be named for this broker: {problem}"
            ) from problem
        # A topic that exists is an error also where a lost answer's first request made it, as with Kafka's
        # KafkaAdminClient.
        problems = left_out([t.name for t in new_topics], {t.name for t in rows}) | {
            t.name: failure_of("topic", t.name, t.error_code, t.error_message) for t in rows if t.error_code
        }
        descriptions = {
            t.name: TopicDescription(
                t.name,
                bytes(t.topic_id),
                False,
                tuple(PartitionInfo(t.name, n, -1, (), (), ()) for n in range(max(0, t.num_partitions))),
            )
            for t in rows
            if not t.error_code
        }
        # So that this client knows what it has just made.
        cluster.request_update()
        if descriptions and not validate_only:
            descriptions = await self._with_leaders(descriptions, max(0.0, deadline_ms - cluster.now_ms()))
        raise_first(problems)
        return descriptions

    async def delete_topics(
        self,
        topics: Iterable[str],
        *,
        timeout_ms: int | None = None,
        retry_on_quota_violation: bool = True,
    ) -> None:
        """Delete topics by name.

        See `create_topics`.

        Raises:
            KafkaError: `UnknownTopicOrPartitionError` and the like.
        """
        names = names_of(topics, "topics")
        cluster = self._started()
        timeout = timeout_ms or self._config.request_timeout_ms

        async def ask(left: set[str]) -> Any:
            # Not `_controller`, as the request depends on the version: from 6 on topics have ids (KIP-516).
            async def step() -> Any:
                await self._known_controller(cluster)
                connection = await self._to_controller(cluster)
                version = connection.pick(ApiKey.DELETE_TOPICS)
                names_left = [name for name in names if name in left]
                response = await connection.send(delete_topics_request(names_left, timeout, version), version)
                if any(r.error_code == ErrorCode.NOT_CONTROLLER for r in response.responses):
                    cluster.metadata.controller_id = -1
                    raise error_for(ErrorCode.NOT_CONTROLLER)
                return response

            return await self._retry(f"delete topics {listed(names)}", step)

        rows = await self._within_quota(names, ask, lambda r: r.responses, retry_on_quota_violation)
        problems = {
            r.name: failure_of("topic", r.name, r.error_code, r.error_message) for r in rows if r.error_code
        } | left_out(names, {r.name for r in rows})
        # Also those that were refused: what is known of them may be out of date.
        for name in names:
            cluster.metadata.forget(name)
        raise_first(problems)

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, ascending; of internal topics if asked for."""
        message = partial(metadata_request, None)
        response = await self._any("topics", message, ApiKey.METADATA)
        return sorted(names_in(response, internal=internal))

    async def describe_topics(self, topics: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        """Return partitions, leaders and replicas of topics (None: of all).

        Raises:
            UnknownTopicOrPartitionError: there is no such topic.
        """
        topics = None if topics is None else list(dict.fromkeys(names_of(topics, "topics")))
        if topics == []:
            return {}
        states = await self._topic_states(topics)
        described: dict[str, TopicDescription] = {}
        problems: dict[str, KafkaError] = {}
        named = {t.name for t in states}
        for name in topics or ():
            if name not in named:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                problems[name] = failure_of("topic", name, code)
        for t in states:
            if topics is not None and t.name not in topics:
                continue  # a broker before 0.11 was asked for all, so that it makes none
            # A topic that is being made has no leader yet; that is not a reason not to describe it.
            if t.error_code and t.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                problems[t.name] = failure_of("topic", t.name, t.error_code)
                continue
            described[t.name] = description(t)
        raise_first(problems)
        return described

    async def _topic_states(self, topics: list[str] | None) -> list[Any]:
        action = "topics" if topics is None else f"topics {listed(topics)}"
        return await self._retry(action, lambda: topic_states(self._started(), topics))

    async def _with_leaders(
        self, created: dict[str, TopicDescription], timeout_ms: float
    ) -> dict[str, TopicDescription]:
        """Wait until the partitions of topics that were just created have leaders, and describe them.

        If they cannot be had, that is no failure of the call: the topics are there.
        """
        described = {name: replace(topic, partitions=()) for name, topic in created.items()}
        left = set(created)

        async def step() -> None:
            for state in await topic_states(self._started(), sorted(left)):
                if state.name not in left or _is_another(
                    created[state.name].topic_id, state.topic_id or ZERO_UUID
                ):
                    continue
                code = to_code(state.error_code)
                if not code or code == ErrorCode.LEADER_NOT_AVAILABLE:
                    described[state.name] = topic = description(state)
                    if topic.partitions and all(p.leader >= 0 for p in topic.partitions):
                        left.discard(state.name)
                elif not code.retriable:
                    # Whoever may create a topic need not be allowed to look at it.
                    left.discard(state.name)
            if left:
                raise failure_of("topic", min(left), ErrorCode.LEADER_NOT_AVAILABLE)

        try:
            await retry(self._started(), f"leaders of {listed(created)}", timeout_ms, step)
        except KafkaError as problem:
            logger.warning("%s: created, but perhaps not to be written to yet: %s", listed(left), problem)
        return described

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, list[list[int]]] | None = None,
        validate_only: bool = False,
        retry_on_quota_violation: bool = True,
    ) -> None:
        """Raise topics to the given numbers of partitions.

        Args:
            counts: topic → how many partitions it has then.
            assignments: topic → for each new partition its broker ids.
            validate_only, retry_on_quota_violation: see `create_topics`.
        """
        mapping_of(counts, "counts", "{'orders': 6}")

        async def ask(names: set[str]) -> Any:
            counts_left = {name: count for name, count in counts.items() if name in names}
            return await self._controller(
                f"create partitions of {listed(names)}",
                create_partitions_request(
                    counts_left, assignments or {}, self._config.request_timeout_ms, validate_only
                ),
                lambda r: not_controller(r.results),
            )

        rows = await self._within_quota(counts, ask, lambda r: r.results, retry_on_quota_violation)
        problems = {
            r.name: failure_of("topic", r.name, r.error_code, r.error_message) for r in rows if r.error_code
        } | left_out(counts, {r.name for r in rows})
        self._started().request_update()
        raise_first(problems)

    async def delete_records(self, offsets: ByPartition[int]) -> dict[TopicPartition, int]:
        """Delete the records before an offset (-1: all records); return the new first offsets (KIP-107).

        Args:
            offsets: (topic, number) → the first offset to keep.
        """
        from odradek.wire.messages.delete_records import (
            DeleteRecordsPartition,
            DeleteRecordsRequest,
            DeleteRecordsTopic,
        )

        cluster = self._started()
        ends = by_partition(offsets, "offsets", "{('orders', 0): 7}")
        topics = {tp.topic for tp in ends}
        for topic in topics:
            await cluster.topic_partitions(topic, self._config.default_api_timeout_ms)

        async def ask(node: int, partitions: list[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
            by_topic: dict[str, list[DeleteRecordsPartition]] = {}
            for tp in partitions:
                part = DeleteRecordsPartition(partition_index=tp.partition, offset=ends[tp])
                by_topic.setdefault(tp.topic, []).append(part)
            request = DeleteRecordsRequest(
                timeout_ms=self._config.request_timeout_ms,
                topics=[DeleteRecordsTopic(name=n, partitions=p) for n, p in by_topic.items()],
            )
            response = await cluster.request(node, request)
            answers = {
                TopicPartition(t.name, p.partition_index): p for t in response.topics for p in t.partitions
            }
            return {
                tp: failure(tp, p.error_code) if p.error_code else p.low_watermark
                for tp, p in answers.items()
            }

        return await self._leaders(f"delete records of {listed(topics)}", ends, ask)

    async def list_offsets(
        self, timestamps: ByPartition[int | datetime], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return offsets by time (epoch ms), or -1 latest, -2 earliest, -3 of the largest timestamp
        (KIP-734). An offset of -1 says that there is none.

        Args:
            timestamps: (topic, number) → a time (a datetime, too), or one of those numbers.
            isolation_level: with 'read_committed' the latest is the last stable offset.
        """
        times = times_of(timestamps)
        isolation = 1 if isolation_level == "read_committed" else 0
        cluster = self._started()
        await cluster.check_partitions(times, self._config.default_api_timeout_ms)

        async def ask(
            node: int, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
            answers = await offsets_of_leader(cluster, node, {tp: times[tp] for tp in partitions}, isolation)
            return {
                tp: failure(tp, p.error_code) if p.error_code else told_offset(p) for tp, p in answers.items()
            }

        return await self._leaders("offsets", times, ask)


def _is_another(topic_id: bytes, told: bytes) -> bool:
    """Return whether a broker tells of another topic of a name: of one that was deleted before, which it has
    not heard of yet. Brokers before 2.8 know no ids."""
    return ZERO_UUID not in (topic_id, told) and topic_id != told
