"""Has every partition led by somebody who is alive and in sync, whatever comes and goes.

Leaders are made to fit the brokers that live whenever these change, and one by one where clients ask for an
election. A broker that leaves in good order gives its leads and its places in ISRs away before. Kafka:
`PartitionStateMachine`, `KafkaController.processControlledShutdown`, `KafkaController.onBrokerFailure`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from odradek.cluster import paths
from odradek.cluster.controller import decisions, elections
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.controller.decisions import Decision, Write
from odradek.cluster.controller.metadata_reader import MetadataReader
from odradek.cluster.controller.metadata_writer import WRITES_OVER, MetadataWriter
from odradek.cluster.controller.node_watchers import NodeWatchers
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage, PartitionImage, TopicImage
from odradek.cluster.nodes import NO_LEADER, PartitionState, encode_partition_state
from odradek.cluster.store.store import SetData
from odradek.errors import (
    BrokerNotAvailableError,
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidTopicError,
    OdradekError,
    PreferredLeaderNotAvailableError,
    StaleBrokerEpochError,
)
from odradek.util.topic_partition import TopicPartition
from odradek.wire.epochs import NO_EPOCH

logger = logging.getLogger(__name__)

States = Mapping[TopicPartition, PartitionState]
"""New states by topic and partition."""


class PartitionStateMachine:
    """Elects leaders.

    Args:
        context: says who is alive, and who may be elected.
        watchers: look again when a broker counts as dead, or as live again.
        reader: reads who is registered.
        writer: writes who leads.
        on_settled: called when leaders fit: who has come may be what something else has waited for.
    """

    def __init__(
        self,
        context: ControllerContext,
        watchers: NodeWatchers,
        reader: MetadataReader,
        writer: MetadataWriter,
        on_settled: Callable[[], None],
    ) -> None:
        self._context = context
        self._watchers = watchers
        self._reader = reader
        self._writer = writer
        self._on_settled = on_settled

    # --- brokers that come and go -------------------------------------------------------------------------

    def settle(self) -> None:
        """Make leaders fit the brokers that are live, and do what has waited for that.

        Raises:
            NotControllerError, KafkaStorageError, StoreError: as `MetadataWriter.commit`; the next
                `look_again` does it.
        """
        if not self._context.is_active:
            return
        try:
            self._writer.end_doubt()
            self._writer.write_over(self._make_leaders_fit)
            self._on_settled()
        except OdradekError:
            # Whatever made this necessary is in the image by now, and would not be seen a second time.
            self._writer.doubt()
            raise

    def on_broker_refused(self, broker_id: int, epoch: int | None = None) -> None:
        """Treat a broker as dead, whatever its session says: nobody listens at its address any more.

        It counts as live again with a new registration, or by `on_broker_reachable`.

        Args:
            broker_id: the broker; not this one.
            epoch: of the registration with the address that refused, None for the present one.
        """
        context = self._context
        broker = context.image.brokers.get(broker_id)
        if not context.is_active or broker is None or broker_id == context.broker_id:
            return
        if epoch is None or epoch == broker.epoch:
            logger.warning("nobody listens at the address of broker %d: it counts as dead", broker_id)
            context.refused[broker_id] = broker.epoch
            self._watchers.note(paths.BROKER_IDS)

    def on_broker_reachable(self, broker_id: int) -> None:
        """Count a broker that was refused, and is reached again, as live if it is still registered."""
        if self._context.is_active and self._context.refused.pop(broker_id, None) is not None:
            self._watchers.note(paths.BROKER_IDS)

    def _make_leaders_fit(self) -> None:
        live = self._context.live(self._reader.brokers())
        self._let_bounced_go(live)
        self._make_leaders_fit_for(live)

    def _make_leaders_fit_for(self, live: Mapping[int, BrokerImage]) -> None:
        context = self._context
        self._writer.commit_batched(
            decisions.brokers_changed(
                context.image,
                context.epoch,
                live,
                context.may_elect_unclean,
                partial(context.electable, live),
            )
        )

    def _let_bounced_go(self, live: Mapping[int, BrokerImage]) -> None:
        """Brokers that have registered anew before anybody saw them gone have died all the same.

        What they led is led by others first, as if they had been seen: they may have lost what was not on
        their disks.
        """
        brokers = self._context.image.brokers
        stayed = {
            b: broker for b, broker in live.items() if b not in brokers or brokers[b].epoch == broker.epoch
        }
        if len(stayed) < len(live):
            self._make_leaders_fit_for(stayed)

    def let_newer_go(self, written: Mapping[TopicPartition, int]) -> None:
        """Brokers that have registered after a state was written, which says that they are in sync.

        They may have died and come back while there was no controller to see it, perhaps when it was their
        own death that ended the last one's term. See `_let_bounced_go`.

        Args:
            written: the transactions that last wrote the states.
        """
        context = self._context

        def write() -> None:
            image = context.image
            epochs = {broker: registered.epoch for broker, registered in image.brokers.items()}
            still = {
                (name, index): zxid
                for (name, index), zxid in written.items()
                if name in image.topics and index in image.topics[name].partitions
            }
            self._writer.commit_batched(decisions.newer_than_states(image, context.epoch, epochs, still))

        # A broker that has lost a replica may be leaving its ISR, and older leaders write them themselves.
        self._writer.write_over(write)

    def settle_known(self) -> None:
        """Make leaders fit the brokers that were read when the term began, but those that refused.

        Who has registered since is still gone, and has its turn when that is heard of.
        """
        context = self._context
        live = {b: broker for b, broker in context.image.brokers.items() if b not in context.refused}
        self._writer.write_over(partial(self._make_leaders_fit_for, live))

    # --- what is asked for --------------------------------------------------------------------------------

    def elect_leader(self, topic: str, index: int, *, unclean: bool) -> None:
        """Make the preferred replica lead or, with `unclean`, anybody who is alive if nobody leads.

        Raises:
            UnknownTopicOrPartitionError: no such partition.
            InvalidTopicError: its topic is being deleted.
            ElectionNotNeededError: the right replica leads already.
            PreferredLeaderNotAvailableError: the preferred replica is not alive or not in sync.
            EligibleLeadersNotAvailableError: no replica is alive.
            NotControllerError: this broker is not the active controller.
        """
        self._context.check_active()
        self._writer.write_over_for(topic, partial(self._elect_leader, topic, index, unclean))

    def _elect_leader(self, topic: str, index: int, unclean: bool) -> None:
        context = self._context
        partition = context.partition(topic, index)
        if topic in context.image.marked:
            raise InvalidTopicError("The topic is being deleted")
        live = context.able(topic, index)
        if unclean:
            if partition.leader != NO_LEADER and partition.leader in live:
                raise ElectionNotNeededError
            state = None
            if not partition.is_new:
                state = elections.offline(partition, live, context.epoch, unclean=True)
                if state is None:
                    # Who was the last in sync lives, and cannot use its replica. If the log is lost it can
                    # begin with an empty one, which is what is asked for; if not, the ISR says what it said
                    # before.
                    last = [broker for broker in context.image.brokers if broker in partition.isr]
                    state = elections.begun_anew(partition, last, context.epoch)
            if state is None:
                raise EligibleLeadersNotAvailableError
            context.offline_replicas -= {(state.leader, topic, index)}
        else:
            if partition.leader == partition.replicas[0]:
                raise ElectionNotNeededError
            state = None if partition.is_new else elections.preferred(partition, live, context.epoch)
            if state is None:
                raise PreferredLeaderNotAvailableError
        self._writer.commit(_change(context.image, {(topic, index): state}))

    def write_states(self, states: States) -> None:
        """Write new states of partitions.

        Raises:
            NotControllerError, KafkaStorageError, StoreError: as `MetadataWriter.commit`.
        """
        self._writer.commit_batched(_change(self._context.image, states))

    # --- brokers that leave in good order -----------------------------------------------------------------

    def controlled_shutdown(self, broker_id: int, broker_epoch: int = NO_EPOCH) -> list[TopicPartition]:
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
        context = self._context
        context.check_active()
        broker = context.image.brokers.get(broker_id)
        if broker is None:
            raise BrokerNotAvailableError
        if broker_epoch != NO_EPOCH and broker_epoch < broker.epoch:
            raise StaleBrokerEpochError
        context.shutting_down[broker_id] = broker.epoch
        self._writer.write_over(lambda: self.write_states(self._states_without(broker_id)), WRITES_OVER)
        return [
            (topic.name, index)
            for topic, index, partition in self._replicated(broker_id)
            if partition.leader == broker_id
        ]

    def _replicated(self, broker_id: int) -> Iterable[tuple[TopicImage, int, PartitionImage]]:
        image = self._context.image
        for topic, index, partition in image.partitions_of(broker_id):
            if len(partition.replicas) > 1 and topic.name not in image.marked:
                yield topic, index, partition

    def _states_without(self, broker_id: int) -> States:
        context = self._context
        states: dict[TopicPartition, PartitionState] = {}
        for topic, index, partition in self._replicated(broker_id):
            if partition.leader == broker_id:
                able = [b for b in context.able(topic.name, index) if b not in context.shutting_down]
                state = elections.controlled_shutdown(partition, able, context.shutting_down, context.epoch)
            else:
                state = elections.without_replica(partition, broker_id, context.epoch)
            if state is not None:
                states[topic.name, index] = state
        return states


def _change(image: ClusterImage, states: States) -> Decision:
    writes: list[Write] = []
    changed: dict[str, dict[int, PartitionImage]] = {}
    for (name, index), state in states.items():
        partition = image.topics[name].partitions[index]
        path = paths.partition_state(name, index)
        writes.append(SetData(path, encode_partition_state(state), partition.partition_epoch))
        after = PartitionImage.of(partition.assignment, state, partition.partition_epoch + 1)
        changed.setdefault(name, {})[index] = after
    topics = {
        name: image.topics[name]._replace(partitions={**image.topics[name].partitions, **partitions})
        for name, partitions in changed.items()
    }
    return Decision(tuple(writes), ClusterDelta(topics=topics))
