"""A broker that comes back from an unclean stop lets itself be missed before it registers.

A stop that was not clean may have been a loss of power, which takes what was not synced. Such a broker
does not belong in an in-sync set any more, whatever the store says: were it elected, others would cut
their logs to its own. The controller takes a broker out of all ISRs as soon as its session has ended;
one that dies in that very moment, and whose successor finds the broker registered again, would not (the
gap that KIP-966 describes). So the broker itself looks into the partition states in the store, and
registers when it is in no ISR with somebody who lives.

Where nobody else of an ISR lives nothing is gained by waiting: who was last in it is elected, as in
Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container
from typing import TYPE_CHECKING, TypeVar

from odradek.cluster import paths
from odradek.cluster.nodes import (
    NodeFormatError,
    PartitionState,
    TopicNode,
    decode_partition_state,
    decode_topic,
)
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.cluster.store.store import MetadataStore

T = TypeVar("T")

_LOOK_AGAIN_S = 0.25
_NO_STATE = PartitionState(-1, 0, (), 0)

log = logging.getLogger(__name__)


async def be_missed(
    run_in_store: Callable[
        [Callable[[MetadataStore], list[TopicPartition]]], Awaitable[list[TopicPartition]]
    ],
    broker_id: int,
    trusted: Container[TopicPartition],
    *,
    patience_s: float,
    is_stopped: Callable[[], bool],
) -> None:
    """Wait until this broker is in no ISR that it may not deserve any more.

    Args:
        run_in_store: does something with the metadata store, beside the event loop.
        broker_id, trusted: see `not_missed_in`.
        patience_s: for how long, in seconds; then it goes on, with an error in the log: a controller that
            does not do its duty must not keep a broker away for good.
        is_stopped: whether nobody waits for this any more.

    Raises `StoreError`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    is_told = False
    while not is_stopped():
        found = await run_in_store(lambda store: not_missed_in(store, broker_id, trusted))
        if not found:
            return
        some = ", ".join(f"{topic}-{partition}" for topic, partition in found[:5])
        if loop.time() > deadline:
            log.error(
                "the last stop was not clean, and no controller takes this broker out of the ISRs of"
                " %d partitions (%s …): it registers all the same; what it had not synced may be lost there",
                len(found),
                some,
            )
            return
        if not is_told:
            log.info(
                "the last stop was not clean: waiting to be taken out of the ISRs of %d partitions (%s …)",
                len(found),
                some,
            )
            is_told = True
        await asyncio.sleep(_LOOK_AGAIN_S)


def not_missed_in(
    store: MetadataStore, broker_id: int, trusted: Container[TopicPartition]
) -> list[TopicPartition]:
    """The partitions in whose ISR a broker is beside one that lives, while its log may lack records.

    Args:
        broker_id: of the broker that is about to register.
        trusted: partitions whose logs it has, as they were at a clean stop.

    Raises `StoreError`.
    """
    # Topics that are being deleted lose all their records: their ISRs may stay as they are for good.
    names = sorted(set(store.children(paths.TOPICS)).difference(store.children(paths.DELETE_TOPICS)))
    topics = store.get_many([paths.topic(name) for name in names])
    doubtful = []
    for name, node in zip(names, topics, strict=True):
        if node is not None:
            path = paths.topic(name)
            for number, assigned in _read(decode_topic, path, node[0], TopicNode({})).partitions.items():
                if broker_id in assigned.replicas and (name, number) not in trusted:
                    doubtful.append((name, number))
    states = store.get_many([paths.partition_state(*one) for one in doubtful])
    # After the states: who lives by then may have been elected by what they say.
    live = {int(name) for name in store.children(paths.BROKER_IDS)} - {broker_id}
    found = []
    for one, node in zip(doubtful, states, strict=True):
        if node is not None:
            isr = _read(decode_partition_state, paths.partition_state(*one), node[0], _NO_STATE).isr
            if broker_id in isr and not live.isdisjoint(isr):
                found.append(one)
    return found


def _read(decode: Callable[[str, bytes | None], T], path: str, data: bytes | None, otherwise: T) -> T:
    try:
        return decode(path, data)
    except NodeFormatError as error:
        log.warning("whether this broker is in sync cannot be seen: %s", error)
        return otherwise
