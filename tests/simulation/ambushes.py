"""Faults that wait for their moment: chance alone would hardly ever come to it.

Each is a coroutine of the control loop, and ends with what it has cut being whole again, and whom it has
killed being started; when all is healed it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from odradek.cluster import paths
from odradek.cluster.controller.topic_manager import NewTopic

from .store_sessions import STORE
from .topics import PASSING

if TYPE_CHECKING:
    from .cluster import SimulatedCluster
    from .machine import Machine

STEP_S = 0.001
PATIENCE_S = 8.0
FETCH_WAIT_S = 0.5
"""Longer than a follower's fetch waits for records."""
ASKED_WITHIN_S = 0.05
"""Longer than a request takes to the controller's thread."""
UNSEEN_S = 3.0
"""Longer than a broker takes to be back, and shorter than the metadata store lets one wait."""


async def _until(look: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """What `look` gives as soon as that is something; raises TimeoutError if nothing is in time."""
    async with asyncio.timeout(seconds):
        while not (found := look()):
            await asyncio.sleep(STEP_S)
        return found


async def _led_by_another(
    cluster: SimulatedCluster, partitions: Sequence[tuple[str, int]], fits: Callable[[Any], bool]
) -> tuple[Machine, Any]:
    """Wait for a partition that `fits` and whose leader is not the controller; gives the controller and the
    leader's replica.
    """

    def find() -> tuple[Machine, Any] | None:
        controller = cluster.controller()
        if controller is None:
            return None
        leaders = [one for key in partitions if (one := cluster.leader(*key)) is not None]
        fitting = (one for one in leaders if one.broker_id != controller.number and fits(one))
        return next(((controller, one) for one in fitting), None)

    found: tuple[Machine, Any] = await _until(find)
    return found


@contextmanager
def _cut(cluster: SimulatedCluster, *pairs: tuple[str, str]) -> Iterator[None]:
    cluster.network.cuts.update(pairs)
    try:
        yield
    finally:
        cluster.network.cuts.difference_update(pairs)


def _replica(machine: Machine, topic: str, index: int) -> Any:
    return machine.broker.replicas.find(topic, index) if machine.is_started else None


def _high_watermark(machine: Machine, topic: str, index: int) -> int:
    replica = _replica(machine, topic, index)
    return -1 if replica is None else int(replica.log.high_watermark)


async def late_fetch(cluster: SimulatedCluster, topic: str, index: int) -> None:
    """A follower's fetch is held up while its replica is taken from it and given back, empty.

    Meanwhile nobody writes to the leader: what the fetch says when it comes would make the follower one that
    has everything.
    """
    leader, controller = cluster.leader(topic, index), cluster.controller()
    if leader is None or controller is None:
        return
    replicas, own = leader.replicas, f"b{leader.broker_id}"
    able = [one for one in replicas if one not in (leader.broker_id, controller.number)]
    if len(replicas) < len(cluster.machines) or not able:
        return
    follower = cluster.machines[able[0]]

    def reassign(wanted: Sequence[int]) -> None:
        cluster.administer(lambda controller: controller.reassign(topic, index, wanted))

    with _cut(cluster, ("clients", own)):
        with _cut(cluster, (follower.host, own)):
            await asyncio.sleep(FETCH_WAIT_S)
            reassign([one for one in replicas if one != follower.number])
            await _until(lambda: follower.is_started and _replica(follower, topic, index) is None)
            reassign(replicas)
            await _until(lambda: _replica(follower, topic, index) and follower.number in leader.replicas)
        cluster.world.note(f"{topic}-{index}: {follower.host}, whose replica is new, is heard of again")
        # Only by what it has sent before: no new connection is made without the way back.
        with _cut(cluster, (own, follower.host)):
            await asyncio.sleep(FETCH_WAIT_S)


async def late_return(cluster: SimulatedCluster, returning: Machine) -> None:
    """Who died comes back when the leader dies, which has just committed records without it.

    The new leader has these, and has not heard that they are committed; who has come back does not have them,
    and for a while does not get them either.
    """
    if not returning.is_started:
        return
    ends = {one.key: one.log.log_end_offset for one in returning.broker.replicas}
    last_life = returning.broker.controller.broker_epoch
    returning.pause(False)
    returning.kill()
    returning.expire()

    def committed_without_it() -> tuple[tuple[str, int], Machine, Machine] | None:
        for key, end in ends.items():
            leader = cluster.leader(*key)
            if leader is None or len(leader.isr) != 2 or leader.broker_id == returning.number:
                continue
            (other,) = (one for one in leader.isr if one != leader.broker_id)
            copy = _replica(cluster.machines[other], *key)
            if copy is not None and copy.log.high_watermark <= end < leader.log.high_watermark:
                return key, cluster.machines[leader.broker_id], cluster.machines[other]
        return None

    leader = None
    try:
        key, leader, heir = await _until(committed_without_it)
        leader.pause(False)
        leader.kill(is_heard=False)
        returning.start()

        def has_asked() -> bool:
            leading = _replica(heir, *key)
            if leading is None or not leading.is_leader:
                return False
            return bool(leading.broker_epoch_of(returning.number) > last_life)

        await _until(has_asked)
        cluster.world.note(f"{key}: {returning.host} is back, and gets nothing from {heir.host}")
        with _cut(cluster, (heir.host, returning.host)):
            await asyncio.sleep(FETCH_WAIT_S)
    finally:
        returning.start()
        if leader is not None:
            leader.start()


async def deposed_deletion(cluster: SimulatedCluster, away: Sequence[Machine]) -> None:
    """A deposed controller has told a broker to delete its replica of a topic, and that is held up until the
    next controller has deleted the topic and made it again.

    Args:
        cluster: all of them.
        away: the broker that hears it so late is the first of them that is not that controller.
    """
    deposed = cluster.controller()
    if deposed is None:
        return
    late = next(one for one in away if one is not deposed)

    def is_there() -> bool:
        return paths.topic(PASSING) in cluster.server.tree.nodes

    def create() -> None:
        cluster.administer(
            lambda controller: controller.create_topic(NewTopic(PASSING, 1, len(cluster.machines)))
        )

    try:
        cluster.administer(lambda controller: controller.delete_topics([PASSING]))
        # It hears first that the topic goes, and then that its replica is to be deleted.
        await _until(lambda: late.is_started and late.broker.image.topic(PASSING) is None)
        with _cut(cluster, (deposed.host, late.host)):
            await asyncio.sleep(FETCH_WAIT_S)
            # It is the third that has to be elected: the one that hears so late could not reach the deposed.
            without = [pair for one in (deposed, late) for pair in ((one.host, STORE), (STORE, one.host))]
            with _cut(cluster, *without):
                deposed.expire()
                await _until(
                    lambda: any(_is_controller(one) for one in cluster.machines if one is not deposed)
                )
            await _until(lambda: not is_there())
            await _until(lambda: not _is_controller(deposed))
            create()
            await _until(lambda: _high_watermark(late, PASSING, 0) > 0)
        cluster.world.note(f"{late.host} hears of the deletion by {deposed.host}")
    finally:
        if not is_there():
            create()


async def quick_return(cluster: SimulatedCluster, partitions: Sequence[tuple[str, int]]) -> None:
    """A leader loses power, and is back while the controller writes the ISR that it has asked for last.

    Then the controller dies. The next sees that the leader is registered, and a state that was written since:
    nothing says that it has been gone, and its log may lack what the others have.

    Args:
        cluster: all of them.
        partitions: the first of them that fits is taken.
    """

    controller, replica = await _led_by_another(
        cluster, partitions, lambda one: len(one.isr) == len(cluster.machines) and _has_unsynced(one)
    )
    topic, index = replica.key
    leader, replicas = cluster.machines[replica.broker_id], replica.replicas
    registration, state = paths.broker_id(leader.number), paths.partition_state(topic, index)

    def reassign(wanted: Sequence[int]) -> None:
        cluster.administer(lambda controller: controller.reassign(topic, index, wanted))

    def version(path: str) -> int:
        node = cluster.server.tree.nodes.get(path)
        return -1 if node is None else node.mzxid

    # The replica that the leader takes into the ISR is the controller's own.
    reassign([one for one in replicas if one != controller.number])
    await _until(lambda: controller.number not in replica.replicas)
    reassign(replicas)
    await _until(lambda: controller.number in replica.replicas and replica.isr_state.wanted)
    with _cut(cluster, (controller.host, STORE)):
        await asyncio.sleep(ASKED_WITHIN_S)
        if cluster.observer.would_lose(leader.host) or not _has_unsynced(replica):
            return
        leader.pause(False)
        leader.lose_power()
        cluster.observer.power_lost(leader.host)
        leader.expire()
        leader.start()
        with suppress(TimeoutError):
            await _until(lambda: version(registration) >= 0, UNSEEN_S)
    written = version(state)
    try:
        await _until(lambda: version(state) > written, UNSEEN_S)
        cluster.world.note(f"{topic}-{index}: {controller.host} has written what {leader.host} has asked for")
        controller.pause(False)
        controller.kill(is_heard=False)
        controller.expire()
        await asyncio.sleep(FETCH_WAIT_S)
    finally:
        controller.start()


async def dead_isr(cluster: SimulatedCluster, partitions: Sequence[tuple[str, int]]) -> None:
    """All of an ISR die at once, while the controller lives; the follower is back first, with an empty disk.

    The leader has everything, and is the one to lead when it is back.

    Args:
        cluster: all of them.
        partitions: the first of them that fits is taken.
    """

    controller, replica = await _led_by_another(cluster, partitions, lambda one: len(one.replicas) > 2)
    topic, index = replica.key
    replicas = replica.replicas
    dying = [one for one in replicas if one != controller.number]
    cluster.administer(lambda controller: controller.reassign(topic, index, dying))
    await _until(lambda: sorted(replica.replicas) == sorted(replica.isr) == sorted(dying))
    leader = cluster.machines[replica.broker_id]
    (follower,) = (cluster.machines[one] for one in dying if one != leader.number)
    if cluster.observer.would_lose(follower.host) or cluster.controller() is not controller:
        return
    for one in (leader, follower):
        one.pause(False)
        one.kill()
    # Not one after the other: whoever is given the lead in between may commit without the first.
    leader.expire()
    follower.expire()
    follower.empty(follower.folders)
    cluster.observer.disk_emptied(follower.host, follower.folders)
    try:
        await asyncio.sleep(FETCH_WAIT_S)
        follower.start()
        with suppress(TimeoutError):
            await _until(lambda: follower.is_started, UNSEEN_S)
        cluster.world.note(f"{topic}-{index}: {follower.host} is back, with an empty disk")
    finally:
        follower.start()
        leader.start()
    cluster.administer(lambda controller: controller.reassign(topic, index, replicas))


def _has_unsynced(replica: Any) -> bool:
    """Return whether something that is committed would not be there after a loss of power."""
    return bool(replica.log.recovery_point < replica.log.high_watermark)


def _is_controller(machine: Machine) -> bool:
    return machine.is_started and machine.broker.controller.is_active
