"""A broker that comes back from an unclean stop lets itself be missed before it registers.

A stop that was not clean may have been a loss of power, which takes what was not synced. Such a broker
does not belong in an in-sync set any more, whatever the store says: were it elected, others would cut
their logs to its own. The controller takes a broker out of all ISRs as soon as its session has ended;
one that dies in that very moment, and whose successor finds the broker registered again, would not (the
gap that KIP-966 describes). So the broker itself looks into the partition states in the store, and
registers when it is in no ISR with somebody who lives.

Where nobody else of an ISR lives, who was last in it is elected, as in Kafka. But where all of an ISR have
died at about the same time, some by a loss of power and others not, those who have lost nothing are to come
first. A machine that has not booted since has lost nothing (`LogManager.unlost`): its broker registers. One
that has waits for one of the others, for a while: when nobody comes, all may have lost power.
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
        [Callable[[MetadataStore], dict[TopicPartition, bool]]], Awaitable[dict[TopicPartition, bool]]
    ],
    broker_id: int,
    trusted: Container[TopicPartition],
    unlost: Container[TopicPartition],
    *,
    patience_s: float,
    alone_s: float,
    is_stopped: Callable[[], bool],
) -> None:
    """Wait until this broker is in no ISR that it may not deserve any more.

    Args:
        run_in_store: does something with the metadata store, beside the event loop.
        broker_id, trusted: see `doubtful_isrs`.
        unlost: partitions that have all that was written to them.
        patience_s: for how long, in seconds; then it goes on, with an error in the log: a controller that
            does not do its duty must not keep a broker away for good.
        alone_s: how long others of an ISR are waited for while none lives, in seconds.
        is_stopped: whether nobody waits for this any more.

    Raises `StoreError`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    is_told = is_alone_told = False
    alone_until: float | None = None
    while not is_stopped():
        doubtful = await run_in_store(lambda store: doubtful_isrs(store, broker_id, trusted))
        found = [one for one, others_live in doubtful.items() if others_live]
        if not found:
            alone = [one for one in doubtful if one not in unlost]
            alone_until = loop.time() + alone_s if alone_until is None else alone_until
            if not alone or loop.time() >= alone_until:
                return
            if not is_alone_told:
                log.warning(
                    "the machine has booted since the last stop, which was not clean: records of %d"
                    " partitions may be lost (%s …), and nobody else of their ISRs lives: waiting %.0f s",
                    len(alone),
                    f"{alone[0][0]}-{alone[0][1]}",
                    alone_s,
                )
                is_alone_told = True
            await asyncio.sleep(_LOOK_AGAIN_S)
            continue
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


def doubtful_isrs(
    store: MetadataStore, broker_id: int, trusted: Container[TopicPartition]
) -> dict[TopicPartition, bool]:
    """The partitions in whose ISR a broker is beside others, while its log may lack records; does one live?

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
            for number, assigned in _read(decode_topic, path, node.data, TopicNode({})).partitions.items():
                if broker_id in assigned.replicas and (name, number) not in trusted:
                    doubtful.append((name, number))
    states = store.get_many([paths.partition_state(*one) for one in doubtful])
    # After the states: who lives by then may have been elected by what they say.
    live = {int(name) for name in store.children(paths.BROKER_IDS)} - {broker_id}
    found = {}
    for one, node in zip(doubtful, states, strict=True):
        if node is not None:
            isr = _read(decode_partition_state, paths.partition_state(*one), node.data, _NO_STATE).isr
            if broker_id in isr and len(isr) > 1:
                found[one] = not live.isdisjoint(isr)
    return found


def _read(decode: Callable[[str, bytes | None], T], path: str, data: bytes | None, otherwise: T) -> T:
    try:
        return decode(path, data)
    except NodeFormatError as error:
        log.warning("whether this broker is in sync cannot be seen: %s", error)
        return otherwise
