"""Finds the positions that are not known: committed offsets, resets, and validation after a change of
leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from odradek.client.aio.cluster import Cluster
from odradek.client.aio.consumer_coordinator import ConsumerCoordinator
from odradek.client.aio.offsets import epoch_end_offsets_once, list_offsets_once
from odradek.client.config import ConsumerConfig
from odradek.client.core.backoff import Backoff
from odradek.client.core.subscription_state import Position, SubscriptionState
from odradek.client.errors import ClosedError, NoOffsetForPartitionError
from odradek.errors import ErrorCode, KafkaError, OdradekError

logger = logging.getLogger("odradek.client.consumer")

_NO_POSITIONS = "the offsets to begin at cannot be had"


class PositionResolver:
    """Runs as a task while there is something to find.

    Args:
        config, cluster, positions: the consumer's.
        group: None without a group id: then there are no committed offsets.
        changed: called when a position was found or something failed for good.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        positions: SubscriptionState,
        group: ConsumerCoordinator | None,
        changed: Callable[[], None],
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._positions = positions
        self._group = group
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self.failure: OdradekError | None = None

    def start(self) -> None:
        """Begin, unless under way or nothing is to be found."""
        if self._task is None and self._positions.unresolved():
            self._task = self._cluster.spawn(self._run())

    def raise_failure(self) -> None:
        """Raise what went wrong for good since the last call."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    async def _run(self) -> None:
        backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        failures = 0
        try:
            while self._positions.unresolved():
                try:
                    await self._once()
                    failures = 0
                    self._cluster.outages.ended(_NO_POSITIONS, self._cluster.now_ms())
                    self._changed()
                    continue
                except ClosedError:
                    return
                except KafkaError as problem:
                    if not problem.retriable:
                        self.failure = problem
                        return
                    self._cluster.tell_if_it_lasts(_NO_POSITIONS, problem)
                    stale = problem.refreshes_metadata
                    if stale:
                        self._cluster.request_update()
                except OdradekError as problem:
                    self.failure = problem
                    return
                self._changed()
                failures += 1
                delay = backoff.delay_ms(failures)
                if stale and failures == 1:
                    # Most often the leaders are only not known yet: no need to wait for longer.
                    await self._cluster.wait_update(delay)
                else:
                    await asyncio.sleep(delay / 1000)
        finally:
            self._task = None
            self._changed()

    async def _once(self) -> None:
        """One try for everything.

        Raises:
            OdradekError: the first one, after the rest was done.
        """
        unresolved = self._positions.unresolved()
        await self._committed([p for p in unresolved if p.needs_committed])
        problem = await self._reset([p for p in unresolved if p.reset is not None])
        problem = await self._validate([p for p in unresolved if p.validate]) or problem
        if problem is not None:
            raise problem

    async def _committed(self, positions: list[Position]) -> None:
        if not positions:
            return
        offsets = {}
        if self._group is not None:
            turns = {p.tp: p.turn for p in positions}
            offsets = await self._group.commits.committed(
                [p.tp for p in positions], self._config.request_timeout_ms
            )
            positions = [p for p in positions if p.turn == turns[p.tp] and p.needs_committed]
        missing: NoOffsetForPartitionError | None = None
        for position in positions:
            committed = offsets.get(position.tp)
            if committed is not None:
                position.seek(committed.offset, committed.leader_epoch)
                continue
            try:
                self._positions.apply_policy(position)
            except NoOffsetForPartitionError as problem:
                missing = missing or problem
        if missing is not None:
            raise missing

    async def _reset(self, positions: list[Position]) -> KafkaError | None:
        resets = {p.tp: p.reset for p in positions if p.reset is not None}
        if not resets:
            return None
        turns = {p.tp: p.turn for p in positions}
        offsets, problem = await list_offsets_once(self._cluster, resets, self._config.isolation)
        for position in positions:
            entry = offsets.get(position.tp)
            if entry is None or position.turn != turns[position.tp]:
                continue
            logger.info("%s: position set to %d", position.tp, entry.offset)
            position.seek(entry.offset, entry.leader_epoch)
            position.leader_epoch = self._cluster.metadata.leader_epoch(position.tp)
        return problem

    async def _validate(self, positions: list[Position]) -> KafkaError | None:
        if not positions:
            return None
        turns = {p.tp: p.turn for p in positions}
        ends, problem = await epoch_end_offsets_once(self._cluster, {p.tp: p.offset_epoch for p in positions})
        if problem is not None and problem.code == ErrorCode.UNSUPPORTED_VERSION:
            # An older broker cannot tell; the offset alone has to do.
            for position in positions:
                position.validate = False
            return None
        for position in positions:
            answer = ends.get(position.tp)
            if answer is None or position.turn != turns[position.tp] or not position.validate:
                continue
            self._positions.validated(position, *answer)
        return problem
