"""Which partitions of its topic a coordinator is in charge of: those that this broker leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from odradek.cluster.image import TopicImage
    from odradek.coordinators.runtime import CoordinatorRuntime


class Coordinator(Protocol):
    """What this needs of a coordinator.

    Attributes:
        partition_count: partitions of its topic as it is; 0 while it does not exist.
        runtime: the partitions that it is in charge of.
    """

    partition_count: int

    @property
    def runtime(self) -> CoordinatorRuntime[Any]:
        """See above."""
        ...


def follow_leaders(
    coordinator: Coordinator,
    topic: TopicImage | None,
    broker_id: int,
    load: Callable[[int, int], None],
) -> bool:
    """Take up the partitions that this broker leads now, give up the others.

    Args:
        coordinator: whose partitions.
        topic: its topic as it is now, which the replicas have followed already; None if there is none.
        broker_id: this broker.
        load: takes up a partition in a leader epoch; harmless where it is taken up already.

    Returns:
        Whether any were given up.
    """
    partitions = {} if topic is None else topic.partitions
    coordinator.partition_count = len(partitions)
    given_up = False
    for index in coordinator.runtime.partitions():
        state = partitions.get(index)
        if state is None or state.leader != broker_id:
            coordinator.runtime.unload(index, None if state is None else state.leader_epoch)
            given_up = True
    for index, state in partitions.items():
        if state.leader == broker_id:
            load(index, state.leader_epoch)
    return given_up
