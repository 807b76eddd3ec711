"""The controller of a cluster of several brokers: what concerns brokers as a whole.

Brokers leave in good order (ControlledShutdown), die and are seen to be dead before their session ends, lose
folders; leaders go back to where they are preferred. See `contested_controller`, `topic_deletion` and
`reassignment` for the rest, docs/cluster.md for how it fits together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from odradek.cluster import nodes, paths
from odradek.cluster.controller import decisions, elections
from odradek.cluster.controller.controller_config import ControllerConfig
from odradek.cluster.controller.decisions import Decision, Remove, Write
from odradek.cluster.controller.random_source import RandomSource
from odradek.cluster.controller.reassignment import Reassignment, is_moving
from odradek.cluster.image import ClusterDelta, PartitionImage, TopicImage
from odradek.cluster.nodes import NodeFormatError, PartitionState, encode_partition_state
from odradek.cluster.store.store import MetadataStore, NoNode, SetData
from odradek.errors import (
    BrokerNotAvailableError,
    KafkaError,
    KafkaStorageError,
    NotControllerError,
    OdradekError,
    StaleBrokerEpochError,
)
from odradek.util.clock import Clock

log = logging.getLogger(__name__)

_UNKNOWN_EPOCH = -1
_WRITES = 10
"""How often a write is tried while leaders change the same states: before 2.7 they write ISRs themselves."""

States = Mapping[tuple[str, int], PartitionState]
"""New states by topic and partition."""


class ClusterController(Reassignment):
    """One broker's part in the control of a cluster of several. Made as `Controller` is.

    Its event queue has to run one piece of work after the other; every method that is not said to be safe
    anywhere is to be run in it.
    """

    def __init__(
        self,
        store: MetadataStore,
        broker_id: int,
        config: ControllerConfig,
        clock: Clock,
        rng: RandomSource | None = None,
    ) -> None:
        super().__init__(store, broker_id, config, clock, rng)
        self._unheard: set[int] = set()
        """Brokers of whose failed folders something could not be written down."""

    # --- brokers that die, or seem to ---------------------------------------------------------------------

    def on_broker_refused(self, broker_id: int, epoch: int | None = None) -> None:
        """Nobody listens at a broker's address any more: treat it as dead, whatever its session says.

        It counts as live again with a new registration, or by `on_broker_reachable`.

        Args:
            broker_id: the broker; not this one.
            epoch: of the registration with the address that refused, None for the present one.
        """
        broker = self._image.brokers.get(broker_id)
        if not self.is_active or broker is None or broker_id == self.broker_id:
            return
        if epoch is None or epoch == broker.epoch:
            log.warning("nobody listens at the address of broker %d: it counts as dead", broker_id)
            self.refused[broker_id] = broker.epoch
            self._event(paths.BROKER_IDS)

    def on_broker_reachable(self, broker_id: int) -> None:
        """A broker that was refused can be connected to; if it is still registered, it is live again."""
        if self.is_active and self.refused.pop(broker_id, None) is not None:
            self._event(paths.BROKER_IDS)

    def controlled_shutdown(
        self, broker_id: int, broker_epoch: int = _UNKNOWN_EPOCH
    ) -> list[tuple[str, int]]:
        """Take the lead, and its place in the ISRs, from a broker that wants to leave.

        Args:
            broker_id: the broker.
            broker_epoch: that it knows of itself, -1 if it does not.

        Returns:
            The replicated partitions that it still leads, because nobody else can.

        Raises:
            NotControllerError: this broker is not the active controller.
            BrokerNotAvailableError: there is no such live broker.
            StaleBrokerEpochError: it has registered anew since.
            KafkaStorageError: the store cannot be written.
        """
        self.check_active()
        broker = self._image.brokers.get(broker_id)
        if broker is None:
            raise BrokerNotAvailableError
        if broker_epoch != _UNKNOWN_EPOCH and broker_epoch < broker.epoch:
            raise StaleBrokerEpochError
        self.shutting_down[broker_id] = broker.epoch
        self._write_over(lambda: self._write_states(self._states_without(broker_id)), _WRITES)
        return [
            (topic.name, index)
            for topic, index, partition in self._replicated(broker_id)
            if partition.leader == broker_id
        ]

    def _replicated(self, broker_id: int) -> Iterable[tuple[TopicImage, int, PartitionImage]]:
        for topic, index, partition in self._image.partitions_of(broker_id):
            if len(partition.replicas) > 1 and topic.name not in self._image.marked:
                yield topic, index, partition

    def _states_without(self, broker_id: int) -> dict[tuple[str, int], PartitionState]:
        states: dict[tuple[str, int], PartitionState] = {}
        for topic, index, partition in self._replicated(broker_id):
            if partition.leader == broker_id:
                able = [b for b in self._able(topic.name, index) if b not in self.shutting_down]
                state = elections.controlled_shutdown(partition, able, self.shutting_down, self.epoch)
            else:
                state = elections.without_replica(partition, broker_id, self.epoch)
            if state is not None:
                states[topic.name, index] = state
        return states

    def _write_states(self, states: States) -> None:
        writes: list[Write] = []
        topics: dict[str, TopicImage] = {}
        changed: dict[str, dict[int, PartitionImage]] = {}
        for (name, index), state in states.items():
            partition = self._image.topics[name].partitions[index]
            path = paths.partition_state(name, index)
            writes.append(SetData(path, encode_partition_state(state), partition.partition_epoch))
            after = PartitionImage.of(partition.assignment, state, partition.partition_epoch + 1)
            changed.setdefault(name, {})[index] = after
        for name, partitions in changed.items():
            topic = self._image.topics[name]
            topics[name] = topic._replace(partitions={**topic.partitions, **partitions})
        self._commit_batched(Decision(tuple(writes), ClusterDelta(topics=topics)))

    # --- folders that fail --------------------------------------------------------------------------------

    def notify_log_dir_failure(self) -> None:
        """Have the active controller ask this broker which replicas it can still use (KIP-112).

        Safe in any thread that may use the store.

        Raises:
            StoreError: the store cannot be written.
        """
        self.store.create(
            paths.LOG_DIR_EVENT_PREFIX, nodes.encode_log_dir_event(self.broker_id), sequence=True
        )

    def note_offline(
        self, broker_id: int, partitions: Iterable[tuple[str, int]], broker_epoch: int = _UNKNOWN_EPOCH
    ) -> None:
        """A live broker cannot use its replicas of these partitions: others lead them, or nobody.

        Args:
            broker_id: the broker.
            partitions: of which it has said so.
            broker_epoch: in which of its lives; of another than the present one it says nothing. -1: in this.

        Raises:
            NotControllerError: this broker is not the active controller.
            KafkaStorageError, StoreError: the store cannot be written, or is not as the image says.
        """
        self.check_active()
        broker = self._image.brokers.get(broker_id)
        if broker is None or broker_epoch not in (_UNKNOWN_EPOCH, broker.epoch):
            return
        fresh = {(broker_id, topic, index) for topic, index in partitions} - self.offline_replicas
        if not fresh:
            return
        self.offline_replicas |= fresh
        try:
            self._write_over(self._write_offline, _WRITES)
        except OdradekError:
            # It must not be taken for one that has been heard, and is asked again.
            self.offline_replicas -= fresh
            if self.is_active:
                self._unheard.add(broker_id)
                self._unseen[paths.LOG_DIR_EVENTS] = None
            raise

    def _write_offline(self) -> None:
        image, offline = self._image, self.offline_replicas
        decision = decisions.replicas_offline(image, self.epoch, offline, self.may_elect_unclean)
        if decision:
            self._commit_batched(decision)
        else:
            # Nobody leads or is in sync by it, but clients are to see that it is offline.
            self._replace_image(image, ClusterDelta())

    def _log_dirs_changed(self) -> None:
        brokers = set(self._unheard)
        done: list[Write] = []
        for name in self.store.children(paths.LOG_DIR_EVENTS):
            path = f"{paths.LOG_DIR_EVENTS}/{name}"
            try:
                data, _ = self.store.get(path)
                brokers.add(nodes.decode_log_dir_event(path, data))
            except NoNode:
                continue
            except NodeFormatError as error:
                log.warning("%s", error)
            done.append(Remove(path))
        if not brokers and not done:
            return
        self._unheard.clear()
        listeners = list(self._control_listeners)

        def ask() -> None:
            for listener in listeners:
                for broker in sorted(brokers):
                    listener.resend(broker)

        self.event_queue.publish(self._image, ClusterDelta(), ask)
        self._commit_batched(Decision(tuple(done)))

    def _clear_term(self) -> None:
        super()._clear_term()
        self._unheard.clear()

    # --- leaders that have changed the ISR themselves (before 2.7) ----------------------------------------

    def _isrs_changed(self) -> None:
        for name, index in sorted(self.follow_isr_notices()):
            self._after_isr_change(name, index)

    # --- leaders that go back -----------------------------------------------------------------------------

    def rebalance_leaders(self, imbalance_percentage: int = 10) -> int:
        """Give partitions back to their preferred leaders where too many are elsewhere.

        Args:
            imbalance_percentage: `leader.imbalance.per.broker.percentage`: a broker gets its leads back when
                more of those that it is preferred for are with others.

        Returns:
            How many leaders were changed; 0 where this broker is not the active controller, or not any more.

        Raises:
            KafkaStorageError, StoreError: the store cannot be written, or changes all the time.
        """
        moved = 0

        def move() -> None:
            nonlocal moved
            states = self._states_by_preference(imbalance_percentage)
            self._write_states(states)
            moved = len(states)

        if self.is_active:
            # Leaders may have changed states themselves (before 2.7), and so may brokers that were lost.
            with suppress(NotControllerError):
                self._write_over(move, _WRITES)
        return moved

    def _states_by_preference(self, imbalance_percentage: int) -> States:
        preferred: dict[int, int] = {}
        away: dict[int, list[tuple[str, int]]] = {}
        for topic in self._image.topics.values():
            if topic.name in self._image.marked:
                continue
            for index, partition in topic.partitions.items():
                first = partition.replicas[0]
                preferred[first] = preferred.get(first, 0) + 1
                if partition.leader != first:
                    away.setdefault(first, []).append((topic.name, index))
        states: dict[tuple[str, int], PartitionState] = {}
        for broker, partitions in away.items():
            if broker not in self._image.brokers or broker in self.shutting_down:
                continue
            if len(partitions) * 100 <= preferred[broker] * imbalance_percentage:
                continue
            for name, index in partitions:
                partition = self._image.topics[name].partitions[index]
                state = elections.preferred(partition, self._able(name, index), self.epoch)
                if state is not None and not is_moving(partition):
                    states[name, index] = state
        return states

    def _elections_asked(self) -> None:
        """Elect what `/admin/preferred_replica_election` asks for (tools up to 2.3), and remove it."""
        path = paths.PREFERRED_REPLICA_ELECTION
        try:
            data, _ = self.store.get(path)
            asked = nodes.decode_elections(path, data)
        except NoNode:
            return
        except NodeFormatError as error:
            log.warning("%s", error)
            asked = []
        for topic, index in asked:
            try:
                self.elect_leader(topic, index, unclean=False)
            except (NotControllerError, KafkaStorageError):
                raise
            except KafkaError as error:
                log.info("the preferred leader of %s-%d is not elected: %s", topic, index, error)
        self._commit(Decision((Remove(path),)))

    def _active_handlers(self) -> Mapping[str, Callable[[], None]]:
        return {
            **super()._active_handlers(),
            paths.LOG_DIR_EVENTS: self._log_dirs_changed,
            paths.ISR_CHANGES: self._isrs_changed,
            paths.PREFERRED_REPLICA_ELECTION: self._elections_asked,
        }

    def _resume(self) -> None:
        super()._resume()
        self._elections_asked()
