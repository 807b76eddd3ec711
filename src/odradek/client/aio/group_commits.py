"""A group's offsets: committed, looked up, also in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.aio.group_link import GroupLink, fetch_committed
from odradek.client.aio.offsets import retry
from odradek.client.config import ConsumerConfig
from odradek.client.core.commit_order import CommitOrder
from odradek.client.core.group_offsets import commit_request, not_committed
from odradek.client.core.membership import Call, Generation, Membership, Reaction
from odradek.client.core.subscription_state import SubscriptionState
from odradek.client.errors import ClosedError, CommitFailedError, ConnectionFailedError
from odradek.client.types import OffsetAndMetadata, TopicPartition
from odradek.errors import ErrorCode, KafkaError, OdradekError, error_for

logger = logging.getLogger("odradek.client.consumer")


class _Overtaken(Exception):
    """A commit is not sent, or not again, as it would come behind a later one."""


class GroupCommits:
    """The offsets of one consumer's group.

    Args:
        config: the consumer's.
        cluster, link: connections, and the way to the coordinator.
        member, positions: whether, and as whom, the consumer is in the group.
        changed: called when a refused commit has shown that the group moved on.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        link: GroupLink,
        member: Membership,
        positions: SubscriptionState,
        changed: Callable[[], None],
    ) -> None:
        self.group_id = link.group_id
        self.member = member
        self._config = config
        self._cluster = cluster
        self._link = link
        self._positions = positions
        self._changed = changed
        self.on_commit: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], None] | None = None
        """Told of each commit that the coordinator has taken, whoever has asked for it."""
        self._background: set[asyncio.Task[Any]] = set()
        self._order = CommitOrder()

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float) -> None:
        """Commit and wait, retrying what can be retried, as `commit_in_background` does.

        Raises:
            CommitFailedError: the member is not (or no longer) in the generation that owns the partitions, or
                a later commit was sent before.
            KafkaError: what the coordinator says.
        """
        if not offsets:
            return
        number, generation = self._order.begin(offsets), self.member.generation
        try:
            if self._background:
                # Of an earlier commit, whose task has not had its turn yet, the request would leave later.
                await asyncio.sleep(0)
            await self._commit_in_order(offsets, number, generation, timeout_ms)
        finally:
            self._order.end(offsets)

    @property
    def under_way(self) -> Collection[TopicPartition]:
        """The partitions of which a commit is under way."""
        return self._order.under_way

    async def _commit_once(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], generation: Generation
    ) -> None:
        answer = await self._link.ask(
            commit_request(
                self.group_id,
                offsets,
                generation=generation.number,
                member_id=generation.member_id,
                group_instance_id=self._config.group_instance_id if generation.number >= 0 else None,
            )
        )
        for tp, code in not_committed(answer, offsets):
            self._commit_refused(code, tp, generation)

    def _commit_refused(self, code: ErrorCode, tp: TopicPartition, about: Generation) -> None:
        reaction = self.member.answered(Call.COMMIT, code, about)
        if reaction & Reaction.FIND_COORDINATOR:
            self._link.forget()
        if reaction & (Reaction.DROP_MEMBER | Reaction.DROP_GENERATION | Reaction.REJOIN):
            self._changed()
            raise CommitFailedError(
                f"group {self.group_id!r}: {tp} was not committed: {code.message} "
                "The group has rebalanced; the partitions may belong to another member by now"
            )
        raise error_for(code, f"{tp}: {code.message}")

    def commit_in_background(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        done: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], Any] | None,
    ) -> asyncio.Task[None]:
        """Commit without waiting; `done(offsets, error)` is called in the end.

        A commit that is refused for now is tried again until a later one of the same partition begins, or
        the group rebalances: its offsets would take back what was committed since. (Kafka's
        ConsumerCoordinator.commitOffsetsAsync never tries again, for the same reason, and nothing else can
        begin while its commitOffsetsSync waits.)

        Returns: the task, which ends with the commit.
        """
        number, generation = self._order.begin(offsets), self.member.generation

        async def run() -> None:
            error: Exception | None = None
            try:
                if offsets:
                    timeout_ms = self._config.request_timeout_ms
                    await self._commit_in_order(offsets, number, generation, timeout_ms)
            except ClosedError as problem:
                error = problem
            except OdradekError as problem:
                error = problem
                logger.debug("group %s: commit failed: %s", self.group_id, problem)
            finally:
                self._order.end(offsets)
            if done is not None:
                try:
                    done(offsets, error)
                except Exception:
                    logger.exception("a commit callback raised")

        task = self._cluster.spawn(run())
        self._background.add(task)
        # `spawn` logs an error that `run` does not tell of.
        task.add_done_callback(self._background.discard)
        return task

    async def _commit_in_order(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        number: int,
        generation: Generation,
        timeout_ms: float,
    ) -> None:
        if self._positions.is_group_managed and generation.number < 0:
            raise CommitFailedError(
                f"group {self.group_id!r}: nothing was committed: this consumer is not in the group; "
                "it was rebalanced out, or did not join yet"
            )
        refusal: KafkaError | None = None

        async def step() -> None:
            nonlocal refusal
            try:
                # Each commit may ask another broker for the coordinator, and one of them may be slow.
                await self._link.coordinator()
                if self._order.is_overtaken(offsets, number, again=refusal is not None):
                    raise _Overtaken
                if self.member.generation != generation:
                    raise CommitFailedError(
                        f"group {self.group_id!r}: nothing was committed: the group has rebalanced since; "
                        "the partitions may belong to another member by now"
                    ) from refusal
                self._order.sent(offsets, number)
                await self._commit_once(offsets, generation)
            except KafkaError as problem:
                refusal = problem
                raise

        try:
            await retry(
                self._cluster,
                f"group {self.group_id}: commit",
                timeout_ms,
                step,
                also=frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
            )
        except _Overtaken:
            raise refusal or CommitFailedError(
                f"group {self.group_id!r}: nothing was committed: a later commit was sent before"
            ) from None
        if self.on_commit is not None:
            self.on_commit(offsets)

    async def background_done(self) -> None:
        """Wait for commits under way."""
        if self._background:
            await asyncio.gather(*self._background, return_exceptions=True)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets, None where there is none."""
        tps = list(partitions)
        if not tps:
            return {}
        return await retry(
            self._cluster,
            f"group {self.group_id}: committed offsets",
            timeout_ms,
            lambda: self._committed_once(tps),
            also=frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT}),
        )

    async def _committed_once(
        self, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        connection = await self._link.connection()
        try:
            # Offsets of a transaction that is still open are waited for, or its records would be read twice.
            committed = await fetch_committed(connection, self.group_id, partitions, require_stable=True)
        except KafkaError as problem:
            if isinstance(problem, ConnectionFailedError) or problem.code in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ):
                self._link.forget()
            raise
        return {tp: committed.get(tp) for tp in partitions}
