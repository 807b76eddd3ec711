"""A leader's wishes for its in-sync sets, written into the states by itself: `inter.broker.protocol.version`
before 2.7-IV2, whose controllers are not asked (`inter_broker_versions.writes_isr_itself`).

The version of the state's node, which is the partition epoch, sees to it that nothing is written over what
the leader does not know. The controller learns of it by a notice under `/isr_change_notification`, which
names all partitions that have changed since the last one. Kafka: `ZkAlterPartitionManager`,
`ReplicationUtils`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from odradek.broker.interbroker.unsent_isr_updates import UnsentIsrUpdates
from odradek.cluster import nodes, paths
from odradek.cluster.nodes import PartitionState
from odradek.cluster.store.store import BadVersion, NoNode, StoreError
from odradek.util.repeats import Repeats

if TYPE_CHECKING:
    from odradek.broker.interbroker.unsent_isr_updates import AlterPartitionItem, Replicas
    from odradek.cluster.store.store import MetadataStore
    from odradek.replication.leadership import Leadership
    from odradek.util.clock import Clock
    from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

CHECK_INTERVAL_MS = 2_500
"""How often `maybe_propagate_isr_changes` is to be called."""

LINGER_MS = 5_000
"""So long after a change others may follow that go into the same notice."""

MAX_DELAY_MS = 60_000
"""So long after the last notice the next one does not wait for more changes."""

RunInStore = Callable[[Callable[["MetadataStore"], Any]], Awaitable[Any]]
"""Runs work with the session in a thread that may wait; an awaitable of its result."""


class ZkIsrManager:
    """Writes other in-sync sets into the store. Used in the event loop's thread."""

    def __init__(
        self,
        *,
        broker_id: int,
        run_in_store: RunInStore,
        replicas: Replicas,
        clock: Clock,
        controller_epoch: Callable[[], int],
        is_eligible: Callable[[int], bool],
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """
        Args:
            broker_id: this broker.
            run_in_store: the way to the store.
            replicas: those that take what was written.
            clock: time.
            controller_epoch: the highest that a request of a controller's has come with.
            is_eligible: whether a broker may be in an ISR: it is live as far as this broker knows.
            pause: waits so many seconds before something is tried again.
        """
        self._run_in_store = run_in_store
        self._clock = clock
        self._controller_epoch = controller_epoch
        self._updates = UnsentIsrUpdates(broker_id, replicas, is_eligible, self._write_next, pause)
        self._changed: dict[TopicPartition, None] = {}
        self._changed_ms = self._propagated_ms = clock.monotonic_ms()
        self._propagating: asyncio.Task[None] | None = None
        self._stopped = False

    def want(self, partition: Leadership, isr: tuple[int, ...]) -> bool:
        """See `OnIsrWanted`: have this ISR written, unless a new member of it is not live."""
        return self._updates.add(partition, isr)

    def stop(self) -> None:
        """Write nothing more."""
        self._stopped = True
        self._updates.stop()
        if self._propagating is not None:
            self._propagating.cancel()

    # ------------------------------------------------------------------ the states

    async def _write_next(self) -> bool:
        """Write one state; return whether it is known what came of it."""
        items = self._updates.items
        key, item = next(iter(items.items()))
        # Behind the others: a state that cannot be read keeps none of them from being written.
        items[key] = items.pop(key)
        partition = self._updates.partition_of(key, item)
        if partition is None:
            return True
        state = PartitionState(partition.leader_id, item.leader_epoch, item.isr, self._controller_epoch())
        try:
            version = await self._run_in_store(lambda store: _write_state(store, key, state, item))
        except StoreError as error:
            # Written or not: the larger of both sets counts, and the next attempt finds out.
            repeats.log(logging.INFO, None, "in-sync replicas cannot be written: %s", error)
            return False
        self._updates.settle(key, item)
        if version is None:
            # The controller has changed it meanwhile, and will tell.
            logger.info("in-sync replicas not changed topic=%s partition=%d: another state", *key)
            return True
        self._changed[key] = None
        self._changed_ms = self._clock.monotonic_ms()
        if partition.take_isr(item.leader_epoch, item.isr, version, self._clock.now_ms()):
            logger.info(
                "in-sync replicas topic=%s partition=%d isr=%s partition_epoch=%d",
                *key,
                ",".join(map(str, item.isr)),
                version,
            )
        return True

    # ------------------------------------------------------------------ the notices

    def maybe_propagate_isr_changes(self) -> None:
        """Leave a notice of what has changed, unless more may follow soon; every `CHECK_INTERVAL_MS`."""
        now = self._clock.monotonic_ms()
        if (
            self._changed
            and self._propagating is None
            and not self._stopped
            and (self._changed_ms + LINGER_MS < now or self._propagated_ms + MAX_DELAY_MS < now)
        ):
            self._propagating = asyncio.get_running_loop().create_task(self._propagate())

    async def _propagate(self) -> None:
        changed, self._changed = self._changed, {}
        data = nodes.encode_isr_change(changed)
        try:
            await self._run_in_store(lambda store: store.create(paths.ISR_CHANGE_PREFIX, data, sequence=True))
            self._propagated_ms = self._clock.monotonic_ms()
        except Exception as error:
            repeats.log(logging.WARNING, None, "the controller is not told of in-sync replicas: %s", error)
            self._changed = {**changed, **self._changed}
        finally:
            self._propagating = None


def _write_state(
    store: MetadataStore, key: TopicPartition, state: PartitionState, item: AlterPartitionItem
) -> int | None:
    """Write a state if it is the one that the leader knows; return its version, None if it is another one."""
    path = paths.partition_state(*key)
    try:
        return store.set(path, nodes.encode_partition_state(state), item.partition_epoch).version
    except NoNode:
        return None
    except BadVersion:
        # It may be our own, whose answer was lost.
        try:
            data, stat = store.get(path)
        except NoNode:
            return None
        stored = nodes.decode_partition_state(path, data)
        is_ours = (stored.leader, stored.leader_epoch, stored.isr) == (
            state.leader,
            state.leader_epoch,
            state.isr,
        )
        return stat.version if is_ours else None
