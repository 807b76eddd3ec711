"""Joining a group: JoinGroup and SyncGroup until there is an assignment, made here if this member leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.aio.group_link import GroupLink
from odradek.client.config import ConsumerConfig
from odradek.client.core.assignors import Assignor, RebalanceProtocol, Subscription, common_protocol
from odradek.client.core.backoff import Backoff
from odradek.client.core.group_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from odradek.client.core.membership import Call, Generation, Membership, MemberState, Reaction
from odradek.client.core.subscription_state import SubscriptionState
from odradek.client.errors import ClosedError, UnsupportedByBrokerError
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, KafkaError, error_for
from odradek.errors.codes import to_code
from odradek.wire.api import ApiKey
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

logger = logging.getLogger("odradek.client.consumer")

_JOIN_SLACK_MS = 5_000
_OLD_MAX_SESSION_MS = 30_000


class GroupJoin:
    """One consumer's joins.

    Args:
        config: the consumer's.
        cluster, link: connections and metadata, and the way to the coordinator.
        member: its state is moved on by every answer.
        positions: what is subscribed to and owned.
        assignors: by preference.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        link: GroupLink,
        member: Membership,
        positions: SubscriptionState,
        assignors: list[Assignor],
    ) -> None:
        self.group_id = link.group_id
        self.member = member
        self.assignors = {assignor.name: assignor for assignor in assignors}
        self.protocol = common_protocol(assignors)
        self._config = config
        self._cluster = cluster
        self._link = link
        self._positions = positions
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._assigned_by: tuple[frozenset[str], dict[str, int]] | None = None
        self._joined_topics: frozenset[str] = frozenset()

    def out_of_date(self) -> bool:
        """Return whether the metadata asks for a new join: other topics or, for the leader, other partitions.

        Asked after each update; says so once for each change of partitions.
        """
        if self.member.state is not MemberState.STABLE:
            return False
        outdated = self._positions.topics != self._joined_topics
        if self._assigned_by is not None:
            topics, counts = self._assigned_by
            if self._partition_counts(topics) != counts:
                logger.info("group %s: topics have changed; the group has to be assigned anew", self.group_id)
                self._assigned_by = None
                outdated = True
        return outdated

    async def until_done(self) -> tuple[Generation, tuple[TopicPartition, ...]]:
        """Join and sync until an assignment comes.

        Raises:
            KafkaError: it cannot be retried.
            ProtocolError: another member's bytes cannot be read.
        """
        failures = 0
        while True:
            try:
                return await self._join_once()
            except _Again as again:
                failures = failures + 1 if again.wait else 0
            except ClosedError:
                raise
            except KafkaError as problem:
                self.member.interrupted()
                if not problem.retriable:
                    raise
                self._cluster.tell_if_it_lasts(f"group {self.group_id!r} cannot be joined", problem)
                failures += 1
            except Exception:
                # A member has sent what cannot be read, or an assignor raised: the next `poll` joins anew.
                self.member.interrupted()
                raise
            await asyncio.sleep(self._backoff.delay_ms(failures) / 1000)

    async def _join_once(self) -> tuple[Generation, tuple[TopicPartition, ...]]:
        member = self.member
        sent_as = member.generation
        self._joined_topics = self._positions.topics
        member.join_sent()
        connection = await self._link.connection()
        version = self._join_version(connection)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms(version),
            rebalance_timeout_ms=self._config.max_poll_interval_ms,
            member_id=member.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=self._subscriptions(),
        )
        answer = await self._link.sent(
            connection.send(request, version, self._config.max_poll_interval_ms + _JOIN_SLACK_MS)
        )
        code = to_code(answer.error_code)
        if code != ErrorCode.NONE:
            if code == ErrorCode.MEMBER_ID_REQUIRED:
                member.member_id_given(answer.member_id)
            self._react(Call.JOIN, code, sent_as)
        member.joined(answer.generation_id, answer.member_id, answer.protocol_name)
        logger.info(
            "group %s: joined generation %d as %s",
            self.group_id,
            answer.generation_id,
            answer.member_id or "?",
        )
        assignments = []
        if answer.leader == answer.member_id and not answer.skip_assignment:
            assignments = await self._assign(answer)
        return await self._sync(connection, assignments)

    def _join_version(self, connection: Any) -> int:
        try:
            version: int = connection.pick(
                ApiKey.JOIN_GROUP, at_least=5 if self._config.group_instance_id else None
            )
        except UnsupportedByBrokerError as problem:
            if connection.has_api(ApiKey.JOIN_GROUP):
                raise
            raise UnsupportedByBrokerError(
                f"group {self.group_id!r}: {problem}. Give the consumer its partitions with assign() instead "
                "of subscribe(); offsets can be committed to the group all the same"
            ) from problem
        return version

    def _session_timeout_ms(self, version: int) -> int:
        """Brokers of version 0 take at most 30 s by default (group.max.session.timeout.ms)."""
        timeout_ms = self._config.session_timeout_ms
        if version == 0 and "session_timeout_ms" not in self._config.given:
            return min(timeout_ms, _OLD_MAX_SESSION_MS)
        return timeout_ms

    async def _sync(
        self, connection: Any, assignments: list[SyncGroupRequestAssignment]
    ) -> tuple[Generation, tuple[TopicPartition, ...]]:
        self._cluster.outages.ended(f"group {self.group_id!r} cannot be joined", self._cluster.now_ms())
        generation = self.member.generation
        version = connection.pick(ApiKey.SYNC_GROUP, at_least=3 if self._config.group_instance_id else None)
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation.number,
            member_id=generation.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE if version >= 5 else None,
            protocol_name=generation.protocol if version >= 5 else None,
            assignments=assignments,
        )
        answer = await self._link.sent(
            connection.send(request, version, self._config.max_poll_interval_ms + _JOIN_SLACK_MS)
        )
        code = to_code(answer.error_code)
        if code != ErrorCode.NONE:
            self._react(Call.SYNC, code, generation)
        assigned = decode_assignment(answer.assignment)
        if not self.member.synced():
            raise _Again(wait=False)
        return generation, assigned

    def _react(self, call: Call, code: ErrorCode, about: Generation) -> None:
        """Take an error of Join or Sync. Always raises."""
        reaction = self.member.answered(call, code, about)
        logger.info("group %s: %s answered with %s", self.group_id, call.name.lower(), code.name)
        if reaction & Reaction.FIND_COORDINATOR:
            self._link.forget()
        if reaction & Reaction.FATAL:
            raise error_for(code, f"group {self.group_id!r}: {code.message}")
        raise _Again(wait=bool(reaction & Reaction.RETRY))

    def _subscriptions(self) -> list[JoinGroupRequestProtocol]:
        owned = tuple(self._positions.assigned) if self.protocol is RebalanceProtocol.COOPERATIVE else ()
        protocols = []
        for assignor in self.assignors.values():
            subscription = Subscription(
                topics=tuple(sorted(self._positions.topics)),
                user_data=assignor.subscription_user_data(self._positions.topics),
                owned_partitions=owned,
                generation_id=self.member.generation.number,
                rack_id=self._config.client_rack or None,
            )
            protocols.append(
                JoinGroupRequestProtocol(name=assignor.name, metadata=encode_subscription(subscription))
            )
        return protocols

    async def _assign(self, answer: Any) -> list[SyncGroupRequestAssignment]:
        """This member leads the group: distribute the partitions."""
        assignor = self.assignors.get(answer.protocol_name)
        if assignor is None:
            raise error_for(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {self.group_id!r} chose the assignor {answer.protocol_name!r}, unknown here",
            )
        subscriptions = {
            m.member_id: decode_subscription(m.metadata, m.group_instance_id) for m in answer.members
        }
        topics = frozenset(topic for s in subscriptions.values() for topic in s.topics)
        self._cluster.want(topics)
        if any(topic not in self._cluster.metadata.topics for topic in topics):
            # The others may know topics that this member has not looked at.
            await self._cluster.wait_update(self._config.request_timeout_ms)
        partition_counts = self._partition_counts(topics)
        assignment = assignor.assign(partition_counts, subscriptions)
        self._assigned_by = (topics, partition_counts)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
            for member, partitions in assignment.items()
        ]

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        known_topics = self._cluster.metadata.topics
        return {
            topic: len(known_topics[topic].partitions) for topic in sorted(topics) if topic in known_topics
        }


class _Again(Exception):
    """Join once more. `wait`: after the backoff."""

    def __init__(self, *, wait: bool) -> None:
        super().__init__()
        self.wait = wait
