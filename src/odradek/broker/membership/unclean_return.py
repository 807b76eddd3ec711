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

A broker whose log of a partition is gone or cannot be used (`OfflineLogs.lacks`) is another matter: it would
lead with nothing, and the others would cut all they have. Where nobody of the ISR lives who could take it
out, it takes itself out (`withdraw`), and whoever is left in the ISR leads when they come, however long that
takes. It leads by an unclean election only. Where it is the ISR's last member nobody else can lead either:
the partition is offline until somebody decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Container, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from odradek.cluster import paths
from odradek.cluster.nodes import (
    LEADER_RECOVERED,
    NO_LEADER,
    NodeFormatError,
    PartitionState,
    TopicNode,
    decode_partition_state,
    decode_topic,
    encode_isr_change,
    encode_partition_state,
)
from odradek.cluster.store.store import BadVersion, NoNode, SetData
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.cluster.store.store import MetadataStore

T = TypeVar("T")

_LOOK_AGAIN_S = 0.25
_NO_STATE = PartitionState(-1, 0, (), 0)

_IN_ONE_NOTICE = 3_000
"""A node of ZooKeeper's holds 1 MB, and names of topics may be long."""

logger = logging.getLogger(__name__)


class Doubts(NamedTuple):
    """The ISRs that a broker is in, and may not deserve.

    Attributes:
        isrs: of partitions that it is beside others in the ISR of, whether one of these lives.
        lost: partitions that it is the last in the ISR of, and whose logs it lacks.
    """

    isrs: Mapping[TopicPartition, bool]
    lost: Sequence[TopicPartition] = ()


NO_DOUBTS = Doubts({})


async def be_missed(
    run_in_store: Callable[[Callable[[MetadataStore], Doubts]], Awaitable[Doubts]],
    broker_id: int,
    trusted: Container[TopicPartition],
    unlost: Container[TopicPartition],
    lacks: Callable[[str, int], bool],
    *,
    patience_s: float,
    alone_s: float,
    is_stopped: Callable[[], bool],
) -> Collection[TopicPartition]:
    """Wait until this broker is in no ISR that it may not deserve any more.

    Args:
        run_in_store: does something with the metadata store, beside the event loop.
        broker_id, trusted, lacks: see `look_for_doubts`.
        unlost: partitions that have all that was written to them.
        patience_s: for how long, in seconds; then it goes on, with an error in the log: a controller that
            does not do its duty must not keep a broker away for good.
        alone_s: how long others of an ISR are waited for while none lives, in seconds.
        is_stopped: whether nobody waits for this any more.

    Returns:
        The partitions that it is in the ISR of all the same, and whose logs it lacks.

    Raises:
        StoreError: the store cannot be read or written.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    is_told = is_alone_told = False
    alone_until: float | None = None
    doubts = NO_DOUBTS
    while not is_stopped():
        doubts = await run_in_store(lambda store: look_for_doubts(store, broker_id, trusted, lacks))
        with_live_others = [
            topic_partition for topic_partition, others_live in doubts.isrs.items() if others_live
        ]
        if not with_live_others:
            alone = [topic_partition for topic_partition in doubts.isrs if topic_partition not in unlost]
            alone_until = loop.time() + alone_s if alone_until is None else alone_until
            if not alone or loop.time() >= alone_until:
                return doubts.lost
            if not is_alone_told:
                logger.warning(
                    "the last stop was not clean, and nobody else of the ISRs of %d partitions lives (%s …)."
                    " What was not synced may be lost there: the machine has booted since, or a data folder"
                    " has failed. Others come first for %.0f s",
                    len(alone),
                    f"{alone[0][0]}-{alone[0][1]}",
                    alone_s,
                )
                is_alone_told = True
            await asyncio.sleep(_LOOK_AGAIN_S)
            continue
        some = ", ".join(f"{topic}-{partition}" for topic, partition in with_live_others[:5])
        if loop.time() > deadline:
            logger.error(
                "the last stop was not clean, and no controller takes this broker out of the ISRs of"
                " %d partitions (%s …): it registers all the same; what it had not synced may be lost there",
                len(with_live_others),
                some,
            )
            return [
                *doubts.lost,
                *(topic_partition for topic_partition in with_live_others if lacks(*topic_partition)),
            ]
        if not is_told:
            logger.info(
                "the last stop was not clean: waiting to be taken out of the ISRs of %d partitions (%s …)",
                len(with_live_others),
                some,
            )
            is_told = True
        await asyncio.sleep(_LOOK_AGAIN_S)
    return doubts.lost


def look_for_doubts(
    store: MetadataStore,
    broker_id: int,
    trusted: Container[TopicPartition],
    lacks: Callable[[str, int], bool],
) -> Doubts:
    """Look in which ISRs a broker is that it may not deserve, and leave those that it can leave.

    Args:
        broker_id: of the broker that is about to register.
        trusted: partitions whose logs it has, as they were at a clean stop.
        lacks: whether the log of a partition is gone, or cannot be used.

    Raises:
        StoreError: the store cannot be read or written.
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
    states = store.get_many([paths.partition_state(*topic_partition) for topic_partition in doubtful])
    # After the states: who lives by then may have been elected by what they say.
    live = {int(name) for name in store.children(paths.BROKER_IDS)} - {broker_id}
    isrs: dict[TopicPartition, bool] = {}
    left: dict[TopicPartition, SetData] = {}
    lost = []
    for topic_partition, node in zip(doubtful, states, strict=True):
        if node is None:
            continue
        path = paths.partition_state(*topic_partition)
        state = _read(decode_partition_state, path, node.data, _NO_STATE)
        if broker_id not in state.isr:
            continue
        others_live = not live.isdisjoint(state.isr)
        if lacks(*topic_partition) and not others_live:
            if len(state.isr) == 1:
                lost.append(topic_partition)
            after = withdraw(state, broker_id)
            if after != state:
                left[topic_partition] = SetData(path, encode_partition_state(after), node.stat.version)
        elif len(state.isr) > 1:
            isrs[topic_partition] = others_live
    for topic_partition in _write(store, left):
        # Somebody has written it meanwhile: to be looked at again, as one beside others that may live.
        isrs[topic_partition] = True
    return Doubts(isrs, lost)


def withdraw(state: PartitionState, broker_id: int) -> PartitionState:
    """The state of a partition whose log a broker has lost: it leaves the ISR to those who have not.

    Its last member stays, as an ISR is never empty. That an unclean election was to have it recover is over.
    """
    isr = tuple(member for member in state.isr if member != broker_id)
    if not isr:
        return state._replace(leader_recovery_state=LEADER_RECOVERED)
    return state._replace(
        isr=isr,
        leader=NO_LEADER if state.leader == broker_id else state.leader,
        leader_epoch=state.leader_epoch + 1,
    )


def _write(store: MetadataStore, states: dict[TopicPartition, SetData]) -> list[TopicPartition]:
    """Write states, and leave the notice that a controller looks at; returns those that could not be."""
    done, refused = [], []
    for topic_partition, write in states.items():
        try:
            store.set(*write)
            done.append(topic_partition)
        except (BadVersion, NoNode):
            refused.append(topic_partition)
    for start in range(0, len(done), _IN_ONE_NOTICE):
        some = done[start : start + _IN_ONE_NOTICE]
        store.create(paths.ISR_CHANGE_PREFIX, encode_isr_change(some), sequence=True)
        logger.warning(
            "this broker has left the ISRs of %d partitions (%s …): it has no log of them, and nobody else of"
            " the ISRs lives. They are led when one of the others is back, or by an unclean election",
            len(some),
            f"{some[0][0]}-{some[0][1]}",
        )
    return refused


def _read(decode: Callable[[str, bytes | None], T], path: str, data: bytes | None, otherwise: T) -> T:
    try:
        return decode(path, data)
    except NodeFormatError as error:
        logger.warning("whether this broker is in sync cannot be seen: %s", error)
        return otherwise
