"""Answers that wait until this broker's metadata shows something; they wait in the purgatory.

In a cluster of several a broker hears of the cluster from the controller, a while after it has started, and
of a topic a while after its nodes were written. For one that is alone the controller itself waits
(`ControllerThread`).

Kafka: `DelayedCreatePartitions`, `DelayedDeleteTopics`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TYPE_CHECKING

from odradek.broker.event_loop.slices import Steps, wait
from odradek.broker.requests.untold import is_untold
from odradek.cluster.nodes import NO_LEADER

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices
    from odradek.cluster.image import ClusterDelta
    from odradek.replication.delayed import Purgatory

KNOWN_WITHIN_MS = 10_000
"""How long requests wait for a broker that has just started to be told of its cluster."""

_CLUSTER = ("metadata",)


def _topic_key(name: str) -> Hashable:
    return ("metadata", name)


def check_topics(purgatory: Purgatory, delta: ClusterDelta) -> None:
    """Try what waits for the topics that a change of the metadata names."""
    for name in (*delta.topics, *delta.topics_gone):
        purgatory.check(_topic_key(name))


def check_cluster(purgatory: Purgatory) -> None:
    """Try what waits for the cluster to be known."""
    purgatory.check(_CLUSTER)


def wait_for_cluster(broker: BrokerServices) -> Steps[None]:
    """Wait until the controller has told this broker of its cluster, which it has but for its first moments.

    Whoever goes on without, as it has taken too long, answers as Kafka's does that has been told nothing:
    with a cluster of no brokers, which clients do not believe.
    """
    if is_untold(broker):
        yield from wait(_watch(broker, [_CLUSTER], lambda: broker.knows_cluster, KNOWN_WITHIN_MS))


def lacks_leaders(broker: BrokerServices, name: str, partition_count: int) -> bool:
    """Return whether a broker of a cluster of several knows of no leader for some of a topic's partitions.

    Args:
        broker: it; one that is alone never lacks any.
        name: the topic.
        partition_count: how many partitions it has at least.
    """
    if broker.channels is None:
        return False
    topic = broker.image.topic(name)
    return (
        topic is None
        or len(topic.partitions) < partition_count
        or any(partition.leader == NO_LEADER for partition in topic.partitions.values())
    )


def wait_for_leaders(broker: BrokerServices, counts: dict[str, int], timeout_ms: int) -> Steps[None]:
    """Wait until topics have so many partitions, all with leaders, for `timeout_ms` at most.

    What became of it `lacks_leaders` says.
    """
    if broker.channels is not None and counts:
        yield from wait(
            _watch(
                broker,
                map(_topic_key, counts),
                lambda: not any(lacks_leaders(broker, name, count) for name, count in counts.items()),
                timeout_ms,
            )
        )


def wait_for_deletions(broker: BrokerServices, names: Collection[str], timeout_ms: int) -> Steps[None]:
    """Wait until topics are gone, for `timeout_ms` at most; see `is_still_there`.

    Beyond what Kafka waits for, their nodes are gone as well, so that they can be created anew: unless
    a replica is on a broker that is down, which may take long to come back.
    """
    if broker.channels is not None and names:
        yield from wait(
            _watch(
                broker,
                map(_topic_key, names),
                lambda: not any(is_still_there(broker, name) or _is_going(broker, name) for name in names),
                timeout_ms,
            )
        )


def is_still_there(broker: BrokerServices, name: str) -> bool:
    """Return whether a broker of a cluster of several tells its clients of a topic that has been deleted."""
    return broker.channels is not None and name in broker.image.topics


def _is_going(broker: BrokerServices, name: str) -> bool:
    image = broker.controller.image
    topic = image.topics.get(name)
    return (
        topic is not None
        and name in image.marked
        and all(
            replica in image.brokers
            for partition in topic.partitions.values()
            for replica in partition.replicas
        )
    )


def _watch(
    broker: BrokerServices, keys: Iterable[Hashable], look: Callable[[], bool], timeout_ms: int
) -> asyncio.Future[None]:
    future: asyncio.Future[None] = broker.loop.create_future()

    def finish() -> None:
        if not future.done():
            future.set_result(None)

    def try_complete() -> bool:
        if not look():
            return False
        finish()
        return True

    broker.purgatory.watch(keys, try_complete, finish, timeout_ms)
    return future
