"""The in-sync sets that leaders wish for, one of each partition, brought to whoever grants them.

One attempt is under way at a time; after one that did not settle all it has tried, the next comes after a
pause. A wish is kept until it is settled, a newer one takes its place, or the state that it was made in is
over. Kafka: `AlterPartitionItem`, `DefaultAlterPartitionManager.unsentIsrUpdates` and `inflightRequest`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.replication.leadership import Leadership
    from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

RETRY_S = 0.05


class Replicas(Protocol):
    """Finds the replicas of this broker: `ReplicaManager`."""

    def find(self, topic: str, index: int) -> Leadership | None:
        """The replica of a partition, None if there is none."""


class AlterPartitionItem(NamedTuple):
    """The in-sync set that a partition's leader wishes for.

    Attributes:
        topic_id: 16 bytes, zeros where the topic has none.
        leader_epoch, partition_epoch: of the state in which it is wished for; in another one it is over.
        isr: the broker ids.
        broker_epochs: of the members, as they have fetched when it was wished for: who has begun another life
            since may not have what it had.
    """

    topic_id: bytes
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]


class UnsentIsrUpdates:
    """See above. Used in the event loop's thread.

    Attributes:
        items: what is not settled, by partition.
    """

    def __init__(
        self,
        broker_id: int,
        replicas: Replicas,
        is_eligible: Callable[[int], bool],
        send: Callable[[], Awaitable[bool]],
        pause: Callable[[float], Awaitable[object]],
    ) -> None:
        """
        Args:
            broker_id, replicas, is_eligible, pause: see `AlterPartitionManager`.
            send: tries to have some of `items` granted, or all; returns whether these are settled.
        """
        self.items: dict[TopicPartition, AlterPartitionItem] = {}
        self._broker_id = broker_id
        self._replicas = replicas
        self._is_eligible = is_eligible
        self._send = send
        self._pause = pause
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def add(self, partition: Leadership, isr: tuple[int, ...]) -> bool:
        """See `OnIsrWanted`: have this ISR granted, unless a new member is not live."""
        if self._stopped or not all(
            member in partition.isr or member == self._broker_id or self._is_eligible(member)
            for member in isr
        ):
            return False
        self.items[partition.key] = AlterPartitionItem(
            partition.log.topic_id or ZERO_UUID,
            partition.leader_epoch,
            partition.partition_epoch,
            isr,
            tuple(map(partition.broker_epoch_of, isr)),
        )
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send_all())
        return True

    def partition_of(self, key: TopicPartition, item: AlterPartitionItem) -> Leadership | None:
        """Return the partition that an item is of; None, and it is dropped, where its state is over."""
        partition = self._replicas.find(*key)
        if (
            partition is not None
            and partition.is_leader
            and partition.leader_epoch == item.leader_epoch
            and partition.partition_epoch == item.partition_epoch
        ):
            return partition
        self.settle(key, item)
        return None

    def settle(self, key: TopicPartition, item: AlterPartitionItem) -> None:
        """Forget an item that is done with; the partition may have another one by now."""
        if self.items.get(key) is item:
            del self.items[key]

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def _send_all(self) -> None:
        try:
            while self.items:
                try:
                    settled = await self._send()
                except Exception:
                    # The items stay, and nobody else would bring them.
                    logger.exception("in-sync replicas cannot be changed")
                    settled = False
                if not settled:
                    await self._pause(RETRY_S)
        finally:
            self._task = None
