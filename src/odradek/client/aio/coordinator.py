"""The consumer's side of its group: finding the coordinator, joining, heartbeats, commits.

As in Kafka's client, a rebalance goes on only while the application is in `poll`: there the listener is
called and positions are committed. The requests of a join themselves run as a task, so that a short `poll`
can return and the next one take up where it stood. Heartbeats run beside; when `poll` stays away for
`max_poll_interval_ms`, they leave the group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.aio.group_requests import COORDINATOR, commit_request, fetch_committed, find_coordinator
from odradek.client.aio.offsets import retry
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
from odradek.client.core.positions import Positions
from odradek.client.core.produce import to_code
from odradek.client.errors import ClosedError, CommitFailedError, ConnectionFailedError
from odradek.client.types import ConsumerRebalanceListener, Node, OffsetAndMetadata, TopicPartition
from odradek.errors import ErrorCode, KafkaError, OdradekError, error_for
from odradek.wire.api import ApiKey
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

log = logging.getLogger("odradek.client.consumer")

Invoke = Callable[[Callable[..., Any], tuple[TopicPartition, ...]], Awaitable[None]]

_JOIN_SLACK_MS = 5_000
_REBALANCE_COMMIT_MS = 5_000


class GroupCoordinator:
    """One consumer's group membership.

    Args:
        config: the consumer's; has a group id.
        cluster: connections and metadata.
        positions: subscription and assignment.
        assignors: by preference.
        invoke: calls a listener's method with partitions, where the application wants it called.
        changed: called when `poll` has something to do.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        positions: Positions,
        assignors: list[Assignor],
        invoke: Invoke,
        changed: Callable[[], None],
    ) -> None:
        assert config.group_id is not None
        self.member = Membership()
        self.listener: ConsumerRebalanceListener | None = None
        self.group_id: str = config.group_id
        self._config = config
        self._cluster = cluster
        self._positions = positions
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._protocol = common_protocol(assignors)
        self._invoke = invoke
        self._changed = changed
        self._coordinator: Node | None = None
        self._join: asyncio.Task[tuple[Generation, tuple[TopicPartition, ...]]] | None = None
        self._step: asyncio.Task[None] | None = None
        self._prepared = False
        self._heartbeats: asyncio.Task[None] | None = None
        self._last_poll_ms = cluster.now_ms()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._assigned_by: tuple[frozenset[str], dict[str, int]] | None = None
        self._joined_topics: frozenset[str] = frozenset()
        self._fatal: OdradekError | None = None
        self._background_commits: set[asyncio.Task[Any]] = set()
        self.rebalances = 0
        cluster.on_update.append(self._metadata_updated)

    # Coordinator

    async def coordinator(self) -> Node:
        """The coordinator, asked for once if unknown. Raises `KafkaError`."""
        if self._coordinator is None:
            self._coordinator = await find_coordinator(self._cluster, self.group_id)
        return self._coordinator

    def forget_coordinator(self) -> None:
        """It moved, or cannot be reached."""
        self._coordinator = None

    async def ask(self, message: Any, *, timeout_ms: float | None = None, at_most: int | None = None) -> Any:
        """Ask the coordinator once. Raises `KafkaError`; a broken connection makes the coordinator
        unknown.
        """
        node = await self.coordinator()
        try:
            return await self._cluster.request(
                node.id, message, purpose=COORDINATOR, timeout_ms=timeout_ms, at_most=at_most
            )
        except ConnectionFailedError:
            self.forget_coordinator()
            raise

    # Polling

    def polled(self) -> None:
        """The application is in `poll`."""
        self._last_poll_ms = self._cluster.now_ms()

    @property
    def needs_poll(self) -> bool:
        """Whether `ensure_active` has something to do."""
        return (
            self.member.rejoin_needed
            or self.member.lost
            or self._join is not None
            or self._step is not None
            or self._fatal is not None
        )

    async def ensure_active(self, deadline_ms: float) -> bool:
        """Be a member of the group, with an assignment that is current.

        Args:
            deadline_ms: when to stop waiting for the group (monotonic); the join then goes on by itself and
                is taken up by the next call. Listeners and the commit before a rebalance are never cut short.

        Returns: whether the member is in the group and up to date.

        Raises `KafkaError` that cannot be retried.
        """
        while self.needs_poll:
            if self._fatal is not None:
                problem, self._fatal = self._fatal, None
                raise problem
            if self._step is not None:
                await self._end_of_step()
                continue
            if self.member.lost:
                await self._whole(self._give_up_lost())
            if self._join is None:
                if not self.member.rejoin_needed:
                    break
                if not self._prepared:
                    self._prepared = True
                    await self._whole(self._prepare())
                self._start_heartbeats()
                self._join = self._cluster.spawn(self._join_until_done(), watched=True)
            left = (deadline_ms - self._cluster.now_ms()) / 1000
            done, _ = await asyncio.wait({self._join}, timeout=max(0.0, left))
            if not done:
                return False
            join, self._join = self._join, None
            generation, assigned = join.result()
            self._prepared = False
            if self.member.generation == generation and self.member.state is MemberState.STABLE:
                await self._whole(self._complete(generation, assigned))
        return True

    async def _whole(self, step: Coroutine[Any, Any, None]) -> None:
        """Do something that `poll`, if cancelled, must not leave half done: the next call waits for it."""
        self._step = self._cluster.spawn(step, watched=True)
        await self._end_of_step()

    async def _end_of_step(self) -> None:
        step = self._step
        assert step is not None
        await asyncio.wait({step})
        if self._step is step:
            self._step = None
        step.result()

    async def _give_up_lost(self) -> None:
        """The partitions belong to others by now: no commit, only the news."""
        self.member.lost = False
        lost = tuple(sorted(self._positions.assigned))
        self._positions.set_assignment(())
        if lost and self.listener is not None:
            await self._invoke(self.listener.on_partitions_lost, lost)

    async def _prepare(self) -> None:
        """Before a join: commit, and give up what the protocol says."""
        positions = self._positions
        if self._config.enable_auto_commit and positions.assigned:
            await self._commit_before_rebalance()
        if self._protocol is RebalanceProtocol.EAGER:
            revoked = tuple(sorted(positions.assigned))
        else:
            # Cooperative: only what is not subscribed to any more.
            revoked = tuple(sorted(tp for tp in positions.assigned if tp.topic not in positions.topics))
        for tp in revoked:
            positions.assigned[tp].revoking = True
        if revoked and self.listener is not None:
            await self._invoke(self.listener.on_partitions_revoked, revoked)
        positions.set_assignment([tp for tp in positions.assigned if tp not in revoked])

    async def _commit_before_rebalance(self) -> None:
        offsets = self._positions.consumed()
        if not offsets or self.member.generation.number < 0:
            return
        try:
            await self.commit(offsets, _REBALANCE_COMMIT_MS)
        except OdradekError as problem:
            log.warning("group %s: commit before the rebalance failed: %s", self.group_id, problem)

    async def _join_until_done(self) -> tuple[Generation, tuple[TopicPartition, ...]]:
        """Join and sync until an assignment comes. Raises `KafkaError` that cannot be retried."""
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
                log.debug("group %s: join failed: %s", self.group_id, problem)
                failures += 1
            await asyncio.sleep(self._backoff.delay_ms(failures) / 1000)

    async def _join_once(self) -> tuple[Generation, tuple[TopicPartition, ...]]:
        member = self.member
        sent_as = member.generation
        self._joined_topics = self._positions.topics
        member.join_sent()
        node = await self.coordinator()
        connection = await self._connection(node)
        version = connection.pick(ApiKey.JOIN_GROUP, at_least=5 if self._config.group_instance_id else None)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._config.session_timeout_ms,
            rebalance_timeout_ms=self._config.max_poll_interval_ms,
            member_id=member.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=self._subscriptions(),
        )
        answer = await self._sent(
            connection.send(request, version, self._config.max_poll_interval_ms + _JOIN_SLACK_MS)
        )
        code = to_code(answer.error_code)
        if code != ErrorCode.NONE:
            if code == ErrorCode.MEMBER_ID_REQUIRED:
                member.member_id_given(answer.member_id)
            self._react(Call.JOIN, code, sent_as)
        member.joined(answer.generation_id, answer.member_id, answer.protocol_name)
        log.info(
            "group %s: joined generation %d as %s",
            self.group_id,
            answer.generation_id,
            answer.member_id or "?",
        )
        assignments = []
        if answer.leader == answer.member_id and not answer.skip_assignment:
            assignments = await self._assign(answer)
        return await self._sync(connection, assignments)

    async def _sync(
        self, connection: Any, assignments: list[SyncGroupRequestAssignment]
    ) -> tuple[Generation, tuple[TopicPartition, ...]]:
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
        answer = await self._sent(
            connection.send(request, version, self._config.max_poll_interval_ms + _JOIN_SLACK_MS)
        )
        code = to_code(answer.error_code)
        if code != ErrorCode.NONE:
            self._react(Call.SYNC, code, generation)
        if not self.member.synced():
            raise _Again(wait=False)
        return generation, decode_assignment(answer.assignment)

    async def _connection(self, node: Node) -> Any:
        try:
            return await self._cluster.connection(node.id, COORDINATOR)
        except ConnectionFailedError:
            self.forget_coordinator()
            raise

    async def _sent(self, future: asyncio.Future[Any]) -> Any:
        try:
            return await future
        except ConnectionFailedError:
            self.forget_coordinator()
            raise

    def _react(self, call: Call, code: ErrorCode, about: Generation) -> None:
        """Take an error of Join or Sync. Always raises."""
        reaction = self.member.answered(call, code, about)
        log.info("group %s: %s answered with %s", self.group_id, call.name.lower(), code.name)
        if reaction & Reaction.FIND_COORDINATOR:
            self.forget_coordinator()
        if reaction & Reaction.FATAL:
            raise error_for(code, f"group {self.group_id!r}: {code.message}")
        raise _Again(wait=bool(reaction & Reaction.RETRY))

    def _subscriptions(self) -> list[JoinGroupRequestProtocol]:
        owned = tuple(self._positions.assigned) if self._protocol is RebalanceProtocol.COOPERATIVE else ()
        protocols = []
        for assignor in self._assignors.values():
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
        assignor = self._assignors.get(answer.protocol_name)
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
        known = self._partition_counts(topics)
        assignment = assignor.assign(known, subscriptions)
        self._assigned_by = (topics, known)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
            for member, partitions in assignment.items()
        ]

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        known = self._cluster.metadata.topics
        return {topic: len(known[topic].partitions) for topic in sorted(topics) if topic in known}

    async def _complete(self, generation: Generation, assigned: tuple[TopicPartition, ...]) -> None:
        """The assignment came: tell the listener what goes and what comes."""
        self.rebalances += 1
        positions = self._positions
        assignor = self._assignors.get(generation.protocol or "")
        if assignor is not None:
            assignor.on_assignment(assigned, generation.number)
        before, now = set(positions.assigned), set(assigned)
        if self._protocol is RebalanceProtocol.COOPERATIVE:
            revoked = tuple(sorted(before - now))
            if revoked:
                for tp in revoked:
                    positions.assigned[tp].revoking = True
                if self._config.enable_auto_commit:
                    await self._commit_before_rebalance()
                if self.listener is not None:
                    await self._invoke(self.listener.on_partitions_revoked, revoked)
                # The others can have them only in the next round.
                self.member.request_rejoin()
        positions.set_assignment(assigned)
        for position in positions:
            position.leader_epoch = max(
                position.leader_epoch, self._cluster.metadata.leader_epoch(position.tp)
            )
        added = tuple(sorted(now - before))
        log.info("group %s: assigned %s", self.group_id, ", ".join(map(str, sorted(now))) or "nothing")
        self._changed()
        if self.listener is not None:
            await self._invoke(self.listener.on_partitions_assigned, added)

    def _metadata_updated(self) -> None:
        if not self._positions.is_group_managed:
            return
        if self._positions.pattern is not None:
            known = self._cluster.metadata.topics
            self._positions.matching(
                known, lambda t: known[t].is_internal, self._config.exclude_internal_topics
            )
        if self._positions.topics != self._joined_topics and self.member.state is MemberState.STABLE:
            self.member.request_rejoin()
            self._changed()
        if self._assigned_by is not None and self.member.state is MemberState.STABLE:
            topics, counts = self._assigned_by
            if self._partition_counts(topics) != counts:
                log.info("group %s: topics have changed; the group has to be assigned anew", self.group_id)
                self._assigned_by = None
                self.member.request_rejoin()
                self._changed()

    # Heartbeats

    def _start_heartbeats(self) -> None:
        if self._heartbeats is None:
            self._heartbeats = self._cluster.spawn(self._beat())

    async def _beat(self) -> None:
        interval = self._config.heartbeat_interval_ms / 1000
        last_success = self._cluster.now_ms()
        while True:
            await asyncio.sleep(interval)
            member = self.member
            if not member.in_group:
                last_success = self._cluster.now_ms()
                continue
            now = self._cluster.now_ms()
            if now - self._last_poll_ms > self._config.max_poll_interval_ms:
                log.warning(
                    "group %s: poll was not called for %d ms (max.poll.interval.ms); leaving the group",
                    self.group_id,
                    now - self._last_poll_ms,
                )
                await self.leave("the consumer did not call poll within max.poll.interval.ms", lost=True)
                continue
            about = member.generation
            try:
                answer = await self.ask(
                    HeartbeatRequest(
                        group_id=self.group_id,
                        generation_id=about.number,
                        member_id=about.member_id,
                        group_instance_id=self._config.group_instance_id,
                    ),
                    timeout_ms=min(self._config.request_timeout_ms, self._config.session_timeout_ms),
                )
            except ClosedError:
                return
            except OdradekError as problem:
                log.debug("group %s: heartbeat failed: %s", self.group_id, problem)
                if self._cluster.now_ms() - last_success > self._config.session_timeout_ms:
                    self.forget_coordinator()
                continue
            code = to_code(answer.error_code)
            if code == ErrorCode.NONE:
                last_success = self._cluster.now_ms()
                continue
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                last_success = self._cluster.now_ms()
                if member.state is not MemberState.STABLE:
                    continue
            reaction = member.answered(Call.HEARTBEAT, code, about)
            log.debug("group %s: heartbeat answered with %s", self.group_id, code.name)
            if reaction & Reaction.FIND_COORDINATOR:
                self.forget_coordinator()
            if reaction & Reaction.FATAL:
                self._fatal = error_for(code, f"group {self.group_id!r}: {code.message}")
            self._changed()

    # Offsets

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float) -> None:
        """Commit and wait, retrying what can be retried.

        Raises:
            CommitFailedError: the member is not (or no longer) in the generation that owns the partitions.
            KafkaError: what the coordinator says.
        """
        if offsets:
            await retry(
                self._cluster,
                f"group {self.group_id}: commit",
                timeout_ms,
                lambda: self._commit_once(offsets),
                also=frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
            )

    async def _commit_once(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        generation = Generation(-1, "")
        if self._positions.is_group_managed:
            generation = self.member.generation
            if generation.number < 0:
                raise CommitFailedError(
                    f"group {self.group_id!r}: nothing was committed: this consumer is not in the group; "
                    "it was rebalanced out, or did not join yet"
                )
        answer = await self.ask(
            commit_request(
                self.group_id,
                offsets,
                generation=generation.number,
                member_id=generation.member_id,
                group_instance_id=self._config.group_instance_id if generation.number >= 0 else None,
            )
        )
        for topic in answer.topics:
            for p in topic.partitions:
                if p.error_code:
                    self._commit_refused(
                        to_code(p.error_code), f"{topic.name}-{p.partition_index}", generation
                    )

    def _commit_refused(self, code: ErrorCode, where: str, about: Generation) -> None:
        reaction = self.member.answered(Call.COMMIT, code, about)
        if reaction & Reaction.FIND_COORDINATOR:
            self.forget_coordinator()
        if reaction & (Reaction.DROP_MEMBER | Reaction.DROP_GENERATION | Reaction.REJOIN):
            self._changed()
            raise CommitFailedError(
                f"group {self.group_id!r}: {where} was not committed: {code.message} "
                "The group has rebalanced; the partitions may belong to another member by now"
            )
        raise error_for(code, f"{where}: {code.message}")

    def commit_in_background(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        done: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], Any] | None,
    ) -> None:
        """Commit without waiting; `done(offsets, error)` is called in the end."""

        async def run() -> None:
            error: Exception | None = None
            try:
                await self.commit(offsets, self._config.request_timeout_ms)
            except ClosedError as problem:
                error = problem
            except OdradekError as problem:
                error = problem
                log.debug("group %s: commit failed: %s", self.group_id, problem)
            if done is not None:
                try:
                    done(offsets, error)
                except Exception:
                    log.exception("a commit callback raised")

        task = self._cluster.spawn(run())
        self._background_commits.add(task)
        task.add_done_callback(self._background_commits.discard)

    async def background_commits_done(self) -> None:
        """Wait for commits under way."""
        if self._background_commits:
            await asyncio.gather(*self._background_commits, return_exceptions=True)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets, None where there is none."""
        wanted = list(partitions)
        if not wanted:
            return {}
        return await retry(
            self._cluster,
            f"group {self.group_id}: committed offsets",
            timeout_ms,
            lambda: self._committed_once(wanted),
            also=frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT}),
        )

    async def _committed_once(
        self, wanted: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        node = await self.coordinator()
        connection = await self._connection(node)
        stable = self._config.isolation == 1
        try:
            found = await fetch_committed(connection, self.group_id, wanted, stable)
        except KafkaError as problem:
            if isinstance(problem, ConnectionFailedError) or problem.code in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ):
                self.forget_coordinator()
            raise
        return {tp: found.get(tp) for tp in wanted}

    # Leaving

    async def leave(self, reason: str, *, lost: bool = False) -> None:
        """Tell the coordinator that this member goes; a static member just goes (KIP-345). Never raises."""
        about = self.member.generation
        self.member.left(lost=lost)
        self._changed()
        if not about.member_id or self._config.group_instance_id is not None or self._coordinator is None:
            return
        try:
            connection = await self._connection(self._coordinator)
            version = connection.pick(ApiKey.LEAVE_GROUP)
            request = LeaveGroupRequest(
                group_id=self.group_id,
                members=[MemberIdentity(member_id=about.member_id, reason=reason if version >= 5 else None)],
            )
            if version < 3:
                request = LeaveGroupRequest(group_id=self.group_id, member_id=about.member_id)
            await connection.send(request, version, 5_000)
        except OdradekError as problem:
            log.debug("group %s: leaving failed: %s", self.group_id, problem)

    async def unsubscribed(self) -> None:
        """Nothing is subscribed to any more: give everything up and leave."""
        await self._stop_join()
        revoked = tuple(sorted(self._positions.assigned))
        if revoked and self.listener is not None:
            method = (
                self.listener.on_partitions_lost if self.member.lost else self.listener.on_partitions_revoked
            )
            await self._invoke(method, revoked)
        self.member.lost = False
        await self.leave("the consumer unsubscribed from all topics")
        self.member.lost = False
        self._prepared = False

    async def _stop_join(self) -> None:
        join, self._join = self._join, None
        if join is not None and not join.done():
            join.cancel()
            await asyncio.gather(join, return_exceptions=True)

    async def close(self, reason: str) -> None:
        """Stop everything, and leave the group."""
        if self._heartbeats is not None:
            self._heartbeats.cancel()
        await self._stop_join()
        revoked = tuple(sorted(self._positions.assigned))
        if self._positions.is_group_managed and revoked and self.listener is not None:
            method = (
                self.listener.on_partitions_lost if self.member.lost else self.listener.on_partitions_revoked
            )
            await self._invoke(method, revoked)
        await self.leave(reason)


class _Again(Exception):
    """Join once more. `wait`: after the backoff."""

    def __init__(self, *, wait: bool) -> None:
        super().__init__()
        self.wait = wait
