"""Three machines with brokers, a metadata store and a network between them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from odradek.cluster import paths
from odradek.cluster.nodes import decode_partition_state
from odradek.coordinators.runtime import ShardState
from odradek.coordinators.transactions.states import PREPARED
from odradek.errors import OdradekError
from odradek.testing.broker import create_topic
from odradek.wire.internal_topics import TRANSACTION_STATE_TOPIC

from .faults import BROKERS, begin
from .invariants import Hooks, Observer
from .machine import PORT, Machine
from .sockets import Network
from .store_sessions import Ensemble
from .world import VirtualClock, World

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from .faults import Fault

LOOK_S = 0.1
REPAIR_S = 1.0


class NotInTime(Exception):
    """Something that had to come did not."""


class SimulatedCluster:
    """See the module.

    Attributes:
        machines: by broker id.
        server: the metadata store.
        network: between all of them, and the clients.
        observer: looks whether invariants hold.
    """

    def __init__(self, world: World, hooks: Hooks, folders: Sequence[str]) -> None:
        self.world = world
        self.network = Network(world)
        self.server = Ensemble(VirtualClock(world))
        self.machines = [
            Machine(world, self.network, self.server, number, folders) for number in range(BROKERS)
        ]
        self.observer = Observer(world, {one.host: one for one in self.machines})
        hooks.observer = self.observer
        for machine in self.machines:
            machine.may_return = self.observer.may_return
        self.server.on_change = self.observer.node_changed
        self._ambushes: list[asyncio.Task[None]] = []

    @property
    def bootstrap_servers(self) -> str:
        """For clients."""
        return ",".join(f"{one.host}:{PORT}" for one in self.machines)

    def start(self) -> None:
        """Start all brokers."""
        for machine in self.machines:
            machine.start()

    def controller(self) -> Machine | None:
        """The broker that is the active controller, if one believes that it is."""
        return next(
            (one for one in self.machines if one.is_started and one.broker.controller.is_active), None
        )

    async def until(self, look: Callable[[], Any], seconds: float, what: str) -> Any:
        """Look again and again until something true comes of it.

        Raises:
            NotInTime: nothing has.
        """
        deadline_s = self.world.now_s + seconds
        while True:
            found = look()
            if found:
                return found
            if self.world.now_s > deadline_s:
                raise NotInTime(f"not within {seconds:g} s: {what}")
            await asyncio.sleep(LOOK_S)

    async def create_topic(self, name: str, partitions: int, configs: dict[str, str] | None = None) -> None:
        """Create a topic, and wait until all its partitions are led."""
        machine = await self.until(self.controller, 60, "a controller")
        made = create_topic(machine.broker, name, partitions, configs or {}, BROKERS)
        await self.until(made.done, 60, f"the creation of {name}")
        made.result()
        await self.until(
            lambda: all(self.leader(name, index) is not None for index in range(partitions)),
            60,
            f"leaders of {name}",
        )

    def leader(self, topic: str, index: int) -> Any:
        """The replica of a broker that believes that it leads a partition; None if there is none."""
        for machine in self.machines:
            if machine.is_started:
                found = machine.broker.replicas.find(topic, index)
                if found is not None and found.is_leader:
                    return found
        return None

    def gave_up(self, transactional_id: str) -> bool:
        """Return whether a transactional id can do nothing any more, as in Kafka.

        Records of the transaction topic were lost, and forgiven. So the coordinator ends a transaction under
        an epoch that partitions know to be over; they say INVALID_PRODUCER_EPOCH, and it asks them no more.
        """
        if (TRANSACTION_STATE_TOPIC, 0) not in self.observer.forgiven:
            return False
        for machine in self.machines:
            if not machine.is_started:
                continue
            transactions = machine.broker.transactions
            if transactions.coordinator.runtime.state(0) is not ShardState.ACTIVE:
                continue
            shard = transactions.coordinator.runtime.shard(0)
            found = shard.transactions.get(transactional_id)
            return found is not None and found.state in PREPARED and transactional_id not in shard.owed
        return False

    def is_last(self, number: int) -> bool:
        """Return whether a broker is in an ISR, as the metadata store says, in which nobody else is alive."""
        nodes = self.server.tree.nodes.items()
        isrs = [
            decode_partition_state("", n.data).isr for path, n in nodes if path.endswith("/state") and n.data
        ]
        return any(
            number in isr and not any(self.machines[one].is_alive for one in isr if one != number)
            for isr in isrs
        )

    # ------------------------------------------------------------------ faults

    async def suffer(self, faults: list[Fault]) -> None:
        """Have faults happen, and end."""
        began_s = self.world.now_s
        loop = asyncio.get_running_loop()
        for fault in faults:
            await asyncio.sleep(max(0.0, began_s + fault.at_s - self.world.now_s))
            self.world.note(f"fault {fault.text()}")
            undo = begin(self, fault)
            loop.call_later(fault.lasts_s, undo)

    def administer(self, work: Callable[[Any], object]) -> None:
        """Have the controller do something; it may refuse, or be none any more."""
        machine = self.controller()
        if machine is not None:
            controller = machine.broker.controller
            controller.event_queue.post(partial(_if_it_can, partial(work, controller)))

    def lie_in_wait(self, ambush: Coroutine[Any, Any, None]) -> None:
        """Have a fault that waits for its moment happen; see `ambushes`."""
        self._ambushes.append(self.world.control.create_task(ambush))

    async def heal(self) -> None:
        """End all faults."""
        self.world.note("all is healed")
        for ambush in self._ambushes:
            ambush.cancel()
            with suppress(asyncio.CancelledError, TimeoutError):
                await ambush
        self.network.cuts.clear()
        self.network.slow.clear()
        self.server.is_late = False
        for machine in self.machines:
            machine.pause(False)
            machine.slow_disk(False)
            machine.disk.crash_after = None
            machine.mend_folder()
        self.world.control.call_later(REPAIR_S, self._give_folders_back)

    def _give_folders_back(self) -> None:
        """Start brokers anew that were starting when their folder came in order, and have given it up."""
        for machine in self.machines:
            if machine.has_failed_folder:
                machine.mend_folder()
        self.world.control.call_later(REPAIR_S, self._give_folders_back)

    # ------------------------------------------------------------------ at the end

    def repair(self) -> None:
        """Do what docs/cluster.md has an operator do with a damaged replica that others have as well."""
        for machine in self.machines:
            if not machine.is_started or machine.has_failed_folder:
                continue
            logs = machine.broker.logs
            for key in [key for key in self.observer.partitions if key in logs.damaged]:
                known = self.observer.partitions[key]
                if known.isr == (machine.host,) and known.is_forgiven:
                    # It was the last in sync, and lost power: nobody else may lead unless somebody says so.
                    self.world.note(f"{key} is led by somebody else than {machine.host}")
                    self.administer(partial(_elect_unclean, topic=key[0], index=key[1]))
                if machine.host in known.isr:
                    continue
                self.world.note(f"{key} of {machine.host} is rebuilt")
                machine.kill()
                machine.move_out(*key)
                self.observer.replica_removed(machine.host, key)
                machine.start()
                break

    async def settle(self, seconds: float) -> None:
        """Wait until all is as it is to be when all is well.

        Raises:
            NotInTime: it is not.
        """
        until_s = self.world.now_s + seconds
        while what := self.unsettled():
            if self.world.now_s > until_s:
                raise NotInTime(f"not within {seconds:g} s: {what}")
            await asyncio.sleep(REPAIR_S)
            self.repair()

    def unsettled(self) -> str:
        """What is not yet as it is to be when all is well; empty when everything is."""
        for machine in self.machines:
            if not machine.is_started:
                return f"{machine.host} has not started"
            if machine.has_failed_folder:
                return f"{machine.host} has given a folder up"
        tree = self.server.tree
        if tree.nodes[paths.DELETE_TOPICS].children:
            return f"still to be deleted are {sorted(tree.nodes[paths.DELETE_TOPICS].children)}"
        for topic in sorted(tree.nodes[paths.TOPICS].children):
            partitions = tree.nodes.get(paths.topic(topic) + "/partitions")
            for index in sorted(map(int, partitions.children)) if partitions is not None else ():
                found = [one.broker.replicas.find(topic, index) for one in self.machines]
                leaders = [one for one in found if one is not None and one.is_leader]
                if any(one is None for one in found) or any(len(one.replicas) < BROKERS for one in leaders):
                    everywhere = list(range(BROKERS))
                    self.administer(partial(_reassign, topic=topic, index=index, replicas=everywhere))
                    return f"{topic}-{index} lacks replicas"
                if len(leaders) != 1:
                    return f"{topic}-{index} has not one leader"
                (leader,) = leaders
                if len(leader.isr) != BROKERS or leader.isr_state.wanted is not None:
                    return f"{topic}-{index}: the ISR is {leader.isr}"
                ends = {(one.log.log_end_offset, one.log.high_watermark) for one in found}
                if ends != {(leader.log.log_end_offset,) * 2}:
                    return f"{topic}-{index}: logs end at {sorted(ends)}"
        return ""


def _reassign(controller: Any, *, topic: str, index: int, replicas: list[int]) -> None:
    controller.reassign(topic, index, replicas)


def _elect_unclean(controller: Any, *, topic: str, index: int) -> None:
    controller.elect_leader(topic, index, unclean=True)


def _if_it_can(work: Callable[[], object]) -> None:
    with suppress(OdradekError):
        work()
