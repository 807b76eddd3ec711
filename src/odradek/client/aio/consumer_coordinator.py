"""The consumer's side of its group: being in it, what a rebalance means to the application, heartbeats.

The requests to the group's coordinator are in `group_link`, `group_join` and `group_commits`.

As in Kafka's ConsumerCoordinator, a rebalance goes on only while the application is in `poll`: there the
listener is called and positions are committed. The requests of a join run as a task, so that a short `poll`
can return, and the next `poll` goes on with the same join. Heartbeats run beside; when `poll` stays away for
`max_poll_interval_ms`, they leave the group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.aio.group_commits import GroupCommits
from odradek.client.aio.group_join import GroupJoin
from odradek.client.aio.group_link import GroupLink
from odradek.client.config import ConsumerConfig
from odradek.client.core.assignors import Assignor, RebalanceProtocol
from odradek.client.core.membership import Call, Generation, Membership, MemberState, Reaction
from odradek.client.core.subscription_state import SubscriptionState
from odradek.client.errors import ClosedError
from odradek.client.types import ConsumerGroupMetadata, ConsumerRebalanceListener, TopicPartition
from odradek.errors import ErrorCode, OdradekError, error_for
from odradek.errors.codes import to_code
from odradek.wire.api import ApiKey
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

logger = logging.getLogger("odradek.client.consumer")

Invoke = Callable[[Callable[..., Any], tuple[TopicPartition, ...]], Awaitable[None]]

_REBALANCE_COMMIT_MS = 5_000
"""How long a commit before a rebalance may take: the other members wait for this one."""


class ConsumerCoordinator:
    """One consumer's group membership.

    Args:
        config: the consumer's; has a group id.
        cluster: connections and metadata.
        positions: subscription and assignment.
        assignors: by preference.
        invoke: calls a listener's method with partitions, where the application wants it called.
        changed: called when `poll` has something to do.
        taking: tells whether the application has taken a record since it was last asked.

    Attributes:
        member: the state machine of this member.
        listener: the application's, or None.
        rebalances: how many assignments have come; for the metrics.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        positions: SubscriptionState,
        assignors: list[Assignor],
        invoke: Invoke,
        changed: Callable[[], None],
        taking: Callable[[], bool],
    ) -> None:
        assert config.group_id is not None
        self.member = Membership()
        self.listener: ConsumerRebalanceListener | None = None
        self.group_id: str = config.group_id
        self._config = config
        self._cluster = cluster
        self._positions = positions
        self.link = GroupLink(cluster, config.group_id)
        self.commits = GroupCommits(config, cluster, self.link, self.member, positions, changed)
        self._joining = GroupJoin(config, cluster, self.link, self.member, positions, assignors)
        self._invoke = invoke
        self._changed = changed
        self._taking = taking
        # JoinGroup and SyncGroup, tried again until they end. It outlives the `poll` that began it.
        self._join: asyncio.Task[tuple[Generation, tuple[TopicPartition, ...]]] | None = None
        # What must not be left half done; see `_whole`.
        self._step: asyncio.Task[None] | None = None
        # `_prepare` was done for the join that is under way: not again, as it is tried again (Kafka's
        # AbstractCoordinator.needsJoinPrepare).
        self._prepared = False
        self._heartbeats: asyncio.Task[None] | None = None
        self._last_poll_ms = cluster.now_ms()
        # An error of a heartbeat that the next `poll` raises.
        self._fatal: OdradekError | None = None
        self.rebalances = 0
        # The generation of the last assignment; it stays when the place is lost, see `metadata`.
        self._assigned_in = Generation(-1, "")
        cluster.on_update.append(self._metadata_updated)

    def metadata(self) -> ConsumerGroupMetadata:
        """Return the member to whom the current partitions were assigned, also after its place is lost: so
        the coordinator refuses offsets that a producer commits for it (KIP-447).
        """
        if not self._positions.is_group_managed:
            return ConsumerGroupMetadata(self.group_id)
        number, member_id, _ = self._assigned_in
        return ConsumerGroupMetadata(self.group_id, number, member_id, self._config.group_instance_id)

    # Polling

    def polled(self) -> None:
        """Note that the application is in `poll`."""
        self._last_poll_ms = self._cluster.now_ms()

    @property
    def needs_poll(self) -> bool:
        """Return whether `ensure_active` has something to do."""
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
            deadline_ms: when to stop waiting for the group (monotonic); the join then goes on by itself, and
                the next call waits for it. Listeners and the commit before a rebalance are never cut short.

        Returns: whether the member is in the group and up to date.

        Raises:
            KafkaError: it cannot be retried.
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
                self._join = self._cluster.spawn(self._joining.until_done(), watched=True)
            join = self._join
            left = (deadline_ms - self._cluster.now_ms()) / 1000
            # Not wait_for, which would end the join with the time.
            done, _ = await asyncio.wait({join}, timeout=max(0.0, left))
            if not done:
                return False
            # `close` and `unsubscribe` end the join.
            if self._join is not join or join.cancelled():
                raise ClosedError("the consumer was closed meanwhile")
            self._join = None
            generation, assigned = join.result()
            self._prepared = False
            # Else a heartbeat has lost the place since the assignment came: join again.
            if self.member.generation == generation and self.member.state is MemberState.STABLE:
                await self._whole(self._complete(generation, assigned))
        return True

    async def _whole(self, step: Coroutine[Any, Any, None]) -> None:
        """Run a step that a cancelled `poll` must not leave half done: the next call waits for its end."""
        self._step = self._cluster.spawn(step, watched=True)
        await self._end_of_step()

    async def _end_of_step(self) -> None:
        step = self._step
        assert step is not None
        await asyncio.wait({step})
        if self._step is step:
            self._step = None
        if step.cancelled():
            raise ClosedError("the consumer was closed meanwhile")
        step.result()

    async def _give_up_lost(self) -> None:
        """Give up partitions that belong to other members by now: nothing is committed (KIP-429)."""
        self.member.lost = False
        lost = tuple(sorted(self._positions.assigned))
        self._positions.set_assignment(())
        if lost and self.listener is not None:
            await self._invoke(self.listener.on_partitions_lost, lost)

    async def _prepare(self) -> None:
        """Commit before a join, and give up what the protocol says (Kafka's onJoinPrepare)."""
        positions = self._positions
        if self._config.enable_auto_commit and positions.assigned:
            await self._commit_before_rebalance()
        if self._joining.protocol is RebalanceProtocol.EAGER:
            revoked = tuple(sorted(positions.assigned))
        else:
            # Cooperative: only what is not subscribed to any more.
            revoked = tuple(sorted(tp for tp in positions.assigned if tp.topic not in positions.topics))
        # Before the listener, which commits what it has processed: no more records come meanwhile.
        for tp in revoked:
            positions.assigned[tp].revoking = True
        if revoked and self.listener is not None:
            await self._invoke(self.listener.on_partitions_revoked, revoked)
        positions.set_assignment([tp for tp in positions.assigned if tp not in revoked])

    async def _commit_before_rebalance(self) -> None:
        offsets = self._positions.consumed()
        if not offsets or self.member.generation.number < 0:
            return
        # If it fails, records come twice; the rebalance goes on, as in Kafka.
        try:
            await self.commits.commit(offsets, _REBALANCE_COMMIT_MS)
        except OdradekError as problem:
            logger.warning("group %s: commit before the rebalance failed: %s", self.group_id, problem)

    async def _complete(self, generation: Generation, assigned: tuple[TopicPartition, ...]) -> None:
        """Take an assignment, and tell the listener what goes and what comes (Kafka's onJoinComplete)."""
        self.rebalances += 1
        self._assigned_in = generation
        positions = self._positions
        assignor = self._joining.assignors.get(generation.protocol or "")
        if assignor is not None:
            assignor.on_assignment(assigned, generation.number)
        before, now = set(positions.assigned), set(assigned)
        if self._joining.protocol is RebalanceProtocol.COOPERATIVE:
            revoked = tuple(sorted(before - now))
            if revoked:
                for tp in revoked:
                    positions.assigned[tp].revoking = True
                if self._config.enable_auto_commit:
                    await self._commit_before_rebalance()
                if self.listener is not None:
                    await self._invoke(self.listener.on_partitions_revoked, revoked)
                # Other members can have them only in the next round (KIP-429).
                self.member.request_rejoin()
        positions.set_assignment(assigned)
        # The first epoch of a position is no change of the leader, and asks for no validation.
        for position in positions:
            position.leader_epoch = max(
                position.leader_epoch, self._cluster.metadata.leader_epoch(position.tp)
            )
        added = tuple(sorted(now - before))
        logger.info("group %s: assigned %s", self.group_id, ", ".join(map(str, sorted(now))) or "nothing")
        self._changed()
        # Also when nothing was added, as in Kafka: a listener may count rebalances by it.
        if self.listener is not None:
            await self._invoke(self.listener.on_partitions_assigned, added)

    def _metadata_updated(self) -> None:
        if not self._positions.is_group_managed:
            return
        if self._positions.pattern is not None:
            topics = self._cluster.metadata.topics
            self._positions.matching(
                topics, lambda t: topics[t].is_internal, self._config.exclude_internal_topics
            )
        # A topic has got more partitions, or was made, or is gone.
        if self._joining.out_of_date():
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
            # An iteration takes records without a call that comes through here.
            if self._taking():
                self.polled()
            if not self.member.in_group:
                last_success = self._cluster.now_ms()
                continue
            if await self._left_as_nobody_polls():
                continue
            about = self.member.generation
            try:
                answer = await self.link.ask(
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
                logger.debug("group %s: heartbeat failed: %s", self.group_id, problem)
                # The coordinator is probably gone (Kafka's AbstractCoordinator.HeartbeatThread).
                if self._cluster.now_ms() - last_success > self._config.session_timeout_ms:
                    self.link.forget()
                continue
            code = to_code(answer.error_code)
            # A coordinator that rebalances has taken the heartbeat all the same.
            if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                last_success = self._cluster.now_ms()
            if code != ErrorCode.NONE:
                self._heartbeat_refused(code, about)

    async def _left_as_nobody_polls(self) -> bool:
        """Leave the group if the application has not polled in time; return whether that is so (KIP-62)."""
        idle_ms = self._cluster.now_ms() - self._last_poll_ms
        if idle_ms <= self._config.max_poll_interval_ms:
            return False
        logger.warning(
            "group %s: poll was not called for %d ms (max.poll.interval.ms); leaving the group",
            self.group_id,
            idle_ms,
        )
        await self.leave("the consumer did not call poll within max.poll.interval.ms", lost=True)
        return True

    def _heartbeat_refused(self, code: ErrorCode, about: Generation) -> None:
        member = self.member
        if code == ErrorCode.REBALANCE_IN_PROGRESS and member.state is not MemberState.STABLE:
            # It is joining already (Kafka's AbstractCoordinator.HeartbeatResponseHandler).
            return
        reaction = member.answered(Call.HEARTBEAT, code, about)
        logger.debug("group %s: heartbeat answered with %s", self.group_id, code.name)
        if reaction & Reaction.FIND_COORDINATOR:
            self.link.forget()
        if reaction & Reaction.FATAL:
            self._fatal = error_for(code, f"group {self.group_id!r}: {code.message}")
        self._changed()

    # Leaving

    async def leave(self, reason: str, *, lost: bool = False) -> None:
        """Tell the coordinator that this member goes; a static member just goes (KIP-345). Never raises."""
        about = self.member.generation
        # Before the answer: whatever becomes of the request, this member does not count itself in.
        self.member.left(lost=lost)
        self._changed()
        if not about.member_id or self._config.group_instance_id is not None or self.link.node is None:
            return
        try:
            connection = await self.link.connection()
            version = connection.pick(ApiKey.LEAVE_GROUP)
            # Several members since version 3 (KIP-345), the reason since 5 (KIP-800).
            request = LeaveGroupRequest(
                group_id=self.group_id,
                members=[MemberIdentity(member_id=about.member_id, reason=reason if version >= 5 else None)],
            )
            if version < 3:
                request = LeaveGroupRequest(group_id=self.group_id, member_id=about.member_id)
            await connection.send(request, version, 5_000)
        except OdradekError as problem:
            logger.debug("group %s: leaving failed: %s", self.group_id, problem)

    async def unsubscribed(self) -> None:
        """Give everything up and leave, as nothing is subscribed to any more (Kafka's onLeavePrepare)."""
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
        # The listener has been told of partitions that are being revoked, and may be closing for that.
        revoked = tuple(sorted(position.tp for position in self._positions if not position.revoking))
        if self._positions.is_group_managed and revoked and self.listener is not None:
            method = (
                self.listener.on_partitions_lost if self.member.lost else self.listener.on_partitions_revoked
            )
            await self._invoke(method, revoked)
        await self.leave(reason)
