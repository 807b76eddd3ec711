"""The controller: the thin shell that writes what `decisions` decides, and tells the broker.

A broker opens it (cluster id, topics, configs), registers, and tries to become the controller: it creates the
ephemeral `/controller` together with the next controller epoch. Every write of the controller is one
transaction that begins with the check of `/controller_epoch`, so that a deposed controller cannot write. In a
broker with the embedded store there is no other broker: it always becomes the controller, and the requests
that a cluster's controller sends to brokers are the calls of `on_image`.

Invariants:

- the nodes are written first, then the image changes, then listeners hear of it, in that order;
- `image` is what the nodes said after the last write or watch event; it is never changed in place;
- events of the store that arrive during a write are looked at after it, against the image that includes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from odradek.cluster import loading, nodes, paths
from odradek.cluster.controller import decisions
from odradek.cluster.controller.adoption import FoundPartition, adopt
from odradek.cluster.controller.controller_config import ControllerConfig
from odradek.cluster.controller.decisions import Decision, Put, Remove, Write
from odradek.cluster.controller.event_queue import EventQueue, ImmediateQueue
from odradek.cluster.controller.isr_changes import IsrChanges
from odradek.cluster.controller.random_source import RandomSource, SystemRandomSource, random_uuid
from odradek.cluster.image import ClusterDelta, ClusterImage, TopicImage
from odradek.cluster.nodes import BrokerRegistration, ControllerNode, ProducerIdBlock
from odradek.cluster.producer_ids import MAX_PRODUCER_ID, PRODUCER_ID_BLOCK_SIZE, block_with
from odradek.cluster.store.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    MetadataStore,
    NodeExists,
    NoNode,
    Op,
    SessionExpired,
    SetData,
    StoreError,
    StoreUnavailable,
    WatchEvent,
    parent_of,
)
from odradek.errors import KafkaStorageError, NotControllerError, OdradekError, UnknownServerError
from odradek.util.clock import Clock
from odradek.util.repeats import Repeats

log = logging.getLogger(__name__)
repeats = Repeats(log)

CONFIG_CHANGE_EXPIRY_MS = 15 * 60 * 1000
_MAX_ATTEMPTS = 3

ImageListener = Callable[[ClusterImage, ClusterDelta], None]
"""Called with the new image and what has changed. On `topics_marked` a broker stops serving these topics and
deletes its replicas of them before it returns; `topics_gone` then says that the nodes are gone as well."""


class Controller(IsrChanges):
    """One broker's view of the cluster's metadata, and the controller when it is the active one.

    Args:
        store: the session; the controller does not close it.
        broker_id: of this broker.
        config: defaults for new topics.
        clock: for timestamps in nodes.
        rng: for topic ids, the cluster id and where round robin starts.

    Attributes:
        event_queue: runs the work and changes the image; in the caller's thread unless it is replaced.
        offline_replicas: (broker, topic, partition) of replicas that live brokers cannot use.
        shutting_down: epochs of live brokers that have asked to leave: they are not to lead.
    """

    def __init__(
        self,
        store: MetadataStore,
        broker_id: int,
        config: ControllerConfig,
        clock: Clock,
        rng: RandomSource | None = None,
    ) -> None:
        self.store = store
        self.broker_id = broker_id
        self.config = config
        self.clock = clock
        self.rng: RandomSource = rng if rng is not None else SystemRandomSource()
        self.broker_epoch = -1
        self.is_active = False
        self.event_queue: EventQueue = ImmediateQueue()
        self.offline_replicas: frozenset[tuple[int, str, int]] = frozenset()
        self.shutting_down: dict[int, int] = {}
        self.epoch = 0
        self._epoch_version = -1
        self._previous_election = -1
        self._image = ClusterImage()
        self._listeners: list[ImageListener] = []
        self._writing = False
        self._pending: dict[str, None] = {}

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self._image

    @property
    def cluster_id(self) -> str:
        """The cluster's id; empty before `open`."""
        return self._image.cluster_id

    def add_listener(self, listener: ImageListener) -> None:
        """Have `listener` called at `start` with everything, and then with every change, in order."""
        self._listeners.append(listener)

    # --- coming and going ---------------------------------------------------------------------------------

    def open(self) -> ClusterImage:
        """Create what every cluster has (nodes, cluster id) if it is missing, and load the image.

        Nothing is registered yet: a broker loads its logs between this and `start`.

        Raises:
            StoreError: the store cannot be read or written, or holds what Kafka would not write.
        """
        self._create_missing()
        self._image = loading.load_image(self.store)
        return self._image

    def _create_missing(self) -> None:
        missing: dict[str, bytes | None] = {}
        for path in (*paths.PERSISTENT_PATHS, "/cluster"):
            parent = parent_of(path)
            for node in (parent, path) if parent != "/" else (path,):
                if self.store.exists(node) is None:
                    missing[node] = None
        if self.store.exists(paths.CLUSTER_ID) is None:
            cluster_id = nodes.topic_id_to_text(random_uuid(self.rng))
            missing[paths.CLUSTER_ID] = nodes.encode_cluster_id(cluster_id)
        if not missing:
            return
        try:
            self.store.multi([Create(path, data) for path, data in missing.items()])
        except NodeExists:
            # Another broker starts at the same time: one by one, whoever is first.
            for path, data in missing.items():
                with suppress(NodeExists):
                    self.store.create(path, data)

    def start(self, registration: BrokerRegistration) -> None:
        """Register this broker, try to become the controller, and tell the listeners everything.

        Args:
            registration: the advertised endpoints; the sockets are open by now.

        Raises:
            StoreError: another broker has this id, or the store cannot be written.
        """
        self._register(registration)
        self._elect()
        self._image = loading.load_image(self.store)
        self._publish(loading.full_delta(self._image))
        self._watch()
        if self.is_active:
            self._take_over()

    def _register(self, registration: BrokerRegistration) -> None:
        path = paths.broker_id(self.broker_id)
        try:
            self.store.multi(
                [
                    Create(path, ephemeral=True),
                    SetData(path, nodes.encode_registration(registration)),
                ]
            )
        except NodeExists as error:
            raise NodeExists(
                path,
                f"a broker with id {self.broker_id} is registered already. Give this one another "
                "broker.id, or wait until the session of the other has ended.",
            ) from error
        stat = self.store.exists(path)
        assert stat is not None
        self.broker_epoch = stat.czxid

    def stop(self) -> None:
        """Unregister, and resign as controller. The store stays open."""
        registered, self.broker_epoch = self.broker_epoch >= 0, -1
        was_active, self.is_active = self.is_active, False
        for path in self._HANDLERS:
            self.store.unwatch(path, self._on_event)
        if was_active:
            self._forget(paths.CONTROLLER)
        if registered:
            self._forget(paths.broker_id(self.broker_id))

    def _forget(self, path: str) -> None:
        try:
            self.store.delete(path)
        except NoNode:
            return
        except StoreError as error:
            log.warning("cannot remove %s: %s", path, error)

    def _elect(self) -> None:
        """Try to become the controller; `is_active` says afterwards whether this broker is."""
        # Only the first controller ever creates it.
        with suppress(NodeExists):
            self.store.create(paths.CONTROLLER_EPOCH, nodes.encode_epoch(0))
        data, stat = self.store.get(paths.CONTROLLER_EPOCH)
        epoch = nodes.decode_epoch(paths.CONTROLLER_EPOCH, data) + 1
        self._previous_election = stat.mzxid
        node = ControllerNode(self.broker_id, self.clock.now_ms())
        try:
            self.store.multi(
                [
                    Create(paths.CONTROLLER, nodes.encode_controller(node), ephemeral=True),
                    SetData(paths.CONTROLLER_EPOCH, nodes.encode_epoch(epoch), stat.version),
                ]
            )
        except (NodeExists, BadVersion):
            self.is_active = False
            return
        self.is_active, self.epoch, self._epoch_version = True, epoch, stat.version + 1

    def _take_over(self) -> None:
        """Do what a new controller finds undone: old notices, half-done deletions, missing leaders."""
        if self.store.exists(paths.FEATURE) is None:
            self._commit(Decision((Create(paths.FEATURE, nodes.dump(_NO_FEATURES)),)))
        for parent in (paths.ISR_CHANGES, paths.LOG_DIR_EVENTS):
            stale = tuple(Remove(f"{parent}/{name}") for name in self.store.children(parent))
            if stale:
                self._commit(Decision(stale))
        self._settle()
        self._finish_deletions()

    # --- what others do to the nodes ----------------------------------------------------------------------

    def _watch(self) -> None:
        for path in self._HANDLERS:
            self.store.watch_persistent(path, self._on_event)

    def _on_event(self, event: WatchEvent) -> None:
        self._pending[event.path] = None
        self._handle_pending()

    def _handle_pending(self) -> None:
        while self._pending and not self._writing and self.broker_epoch >= 0:
            path = next(iter(self._pending))
            del self._pending[path]
            try:
                self._HANDLERS[path](self)
            except OdradekError as error:
                # Nobody waits for this; the next event, or the next start, looks at it again.
                log.error("cannot follow the change of %s yet: %s", path, error)

    def _controller_changed(self) -> None:
        if self.is_active and self.store.exists(paths.CONTROLLER) is not None:
            return
        self.is_active = False
        self._elect()
        controller = loading.load_controller(self.store)
        if controller != (self._image.controller_id, self._image.controller_epoch):
            self._apply(ClusterDelta(controller=controller))
        if self.is_active:
            self._refresh()
            self._take_over()

    def _brokers_changed(self) -> None:
        if self.is_active:
            self._settle()
        else:
            self._refresh()

    def _settle(self) -> None:
        """Make leaders fit the brokers that are live."""
        self._write_over(self._make_leaders_fit)
        self._finish_deletions()

    def _make_leaders_fit(self) -> None:
        live = loading.load_brokers(self.store)
        if decision := decisions.brokers_changed(self._image, self.epoch, live, self.may_elect_unclean):
            self._commit(decision)

    def _topics_changed(self) -> None:
        """Topics that another program has created or removed in the store itself."""
        names = set(self.store.children(paths.TOPICS))
        found = names - self._image.topics.keys()
        lost = {n: t for n, t in self._image.topics.items() if n not in names}
        topics = {n: t for n in sorted(found) if (t := self._load_topic(n)) is not None}
        configs: dict[str, Mapping[str, str]] = {f"topics/{n}": {} for n in lost}
        configs |= self._load_entities([f"topics/{n}" for n in topics])
        if topics or lost:
            self._apply(ClusterDelta(topics=topics, topics_gone=lost, configs=configs))
            if self.is_active:
                self._settle()

    def _load_topic(self, name: str) -> TopicImage | None:
        return loading.load_topic(self.store, name)

    def _deletions_changed(self) -> None:
        marked = frozenset(self.store.children(paths.DELETE_TOPICS))
        fresh = (marked & self._image.topics.keys()) - self._image.marked
        if fresh:
            self._apply(ClusterDelta(topics_marked=fresh))
        self._finish_deletions()

    def _configs_changed(self) -> None:
        notices = [f"{paths.CONFIG_CHANGES}/{name}" for name in self.store.children(paths.CONFIG_CHANGES)]
        # What is gone by now was old: whoever has changed something since removes those.
        named = dict.fromkeys(
            self._named_by(path, found.data)
            for path, found in zip(notices, self.store.get_many(notices), strict=True)
            if found is not None
        )
        configs = {
            entity: config
            for entity, config in self._load_entities([one for one in named if one is not None]).items()
            if config != self._image.config(entity)
        }
        if configs:
            self._apply(ClusterDelta(configs=configs))

    def _load_entities(self, entities: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        return loading.load_entities(self.store, entities)

    def _named_by(self, path: str, notice: bytes | None) -> str | None:
        """The entity whose configs have changed by a notice; None for one to be passed over."""
        return nodes.decode_config_change(path, notice)

    def _isr_changes_noticed(self) -> None:
        self.follow_isr_notices()

    _HANDLERS: Mapping[str, Callable[[Controller], None]] = {
        paths.CONTROLLER: _controller_changed,
        paths.BROKER_IDS: _brokers_changed,
        paths.TOPICS: _topics_changed,
        paths.DELETE_TOPICS: _deletions_changed,
        paths.CONFIG_CHANGES: _configs_changed,
        paths.ISR_CHANGES: _isr_changes_noticed,
    }

    # --- writing ------------------------------------------------------------------------------------------

    def check_active(self) -> None:
        """Check that this broker is the active controller.

        Raises:
            NotControllerError: it is not.
        """
        if not self.is_active:
            raise NotControllerError

    def _commit(self, decision: Decision) -> None:
        """Write a decision under the check of the epoch, then make it true here.

        Raises:
            NotControllerError: this broker is no longer the active controller.
            KafkaStorageError: the store cannot be written; nothing was changed.
            StoreError: a node is not as the image says; the image has been read anew.
        """
        self.check_active()
        ops: list[Op] = [Check(paths.CONTROLLER_EPOCH, self._epoch_version)]
        self._writing = True
        try:
            if decision.writes:
                self.store.multi([*ops, *self._resolve(decision.writes)])
        except BadVersion as error:
            if error.op_index == 0:
                self.is_active = False
                raise NotControllerError from error
            raise
        except StoreUnavailable as error:
            repeats.log(logging.ERROR, None, "metadata cannot be written: %s", error)
            raise KafkaStorageError(str(error)) from error
        finally:
            self._writing = False
        self._apply(decision.delta)
        self._handle_pending()

    def _write_over(self, write: Callable[[], None], attempts: int = _MAX_ATTEMPTS) -> None:
        """Write what follows from the image, again after a look at the store where others have changed it."""
        for _ in range(attempts - 1):
            try:
                return write()
            except StoreError:
                self._refresh()
        return write()

    def _resolve(self, writes: Sequence[Write]) -> list[Op]:
        asked = [write.path for write in writes if isinstance(write, Put | Remove)]
        found = dict(zip(asked, self.store.exists_many(asked), strict=True))
        ops: list[Op] = []
        for write in writes:
            if isinstance(write, Put):
                exists = found[write.path] is not None
                ops.append(SetData(write.path, write.data) if exists else Create(write.path, write.data))
            elif isinstance(write, Remove):
                if found[write.path] is not None:
                    ops.append(Delete(write.path))
            else:
                ops.append(write)
        return ops

    def _apply(self, delta: ClusterDelta) -> None:
        if delta:
            self._replace_image(self._image.apply(delta), delta)

    def _replace_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        def change() -> None:
            self._image = image
            self._publish(delta)

        self.event_queue.publish(image, delta, change)

    def _publish(self, delta: ClusterDelta) -> None:
        # A listener may write; its change is told after this one, by the call inside.
        image = self._image
        for listener in list(self._listeners):
            listener(image, delta)

    def _refresh(self) -> None:
        """Read everything anew and tell what is different."""
        image = loading.load_image(self.store)
        delta = difference(self._image, image)
        if delta:
            self._replace_image(image, delta)

    def _finish_deletions(self) -> None:
        if self.is_active:
            ready = decisions.deletable(self._image, self.offline_replicas)
            if ready:
                self._commit(decisions.finish_deletion(self._image, ready))

    def may_elect_unclean(self, topic: str) -> bool:
        """Return whether a topic is rather led by one who may lack records than by nobody."""
        text = self._image.topic_config(topic).get("unclean.leader.election.enable")
        if text is not None:
            return text.strip().lower() == "true"
        return self.config.topic_defaults().get("unclean.leader.election.enable") is True

    # --- services for brokers -----------------------------------------------------------------------------

    def config_of(self, entity_path: str) -> Mapping[str, str]:
        """The present configs of an entity, for a change of them.

        Raises:
            StoreError: the store cannot be read.
        """
        return self._image.config(entity_path)

    def alter_config(self, entity_path: str, configs: Mapping[str, str]) -> None:
        """Replace the configs of `topics/<t>`, `brokers/<id>`, `brokers/<default>`, …; checked by the caller.

        Raises:
            NotControllerError: this broker is not the active controller.
            KafkaStorageError: the store cannot be written.
        """
        self._commit(decisions.set_config(entity_path, configs))
        self._purge_config_changes()

    def _purge_config_changes(self) -> None:
        horizon = self.clock.now_ms() - CONFIG_CHANGE_EXPIRY_MS
        notices = [f"{paths.CONFIG_CHANGES}/{name}" for name in self.store.children(paths.CONFIG_CHANGES)]
        old: list[Write] = [
            Remove(path)
            for path, stat in zip(notices, self.store.exists_many(notices), strict=True)
            if stat is not None and stat.ctime < horizon
        ]
        if old:
            self._commit(Decision(tuple(old)))

    def adopt_topics(
        self,
        found: Iterable[FoundPartition],
        configs: Callable[[str], Mapping[str, str]],
        highest_producer_id: int,
    ) -> Mapping[str, str]:
        """Make topics of logs, where the store has never known any; see `adoption.adopt`.

        Returns:
            Topics that cannot be taken over, with the reason.

        Raises:
            StoreError: the store cannot be written.
        """
        stat = self.store.exists(paths.TOPICS)
        if not self.is_active or stat is None or stat.cversion:
            return {}
        adoption = adopt(
            found,
            self.broker_id,
            self.epoch,
            configs=configs,
            new_topic_id=self._new_topic_id,
            highest_producer_id=highest_producer_id,
        )
        if adoption.decision:
            self._commit(adoption.decision)
        return adoption.left

    def note_offline(self, broker_id: int, partitions: Iterable[tuple[str, int]]) -> None:
        """A live broker cannot use its replicas of these partitions any more: others lead them, or nobody.

        Where the store cannot be written either, the image alone says so.

        Raises:
            NotControllerError: this broker is not the active controller.
            StoreError: a node is not as the image says.
        """
        self.offline_replicas |= {(broker_id, topic, index) for topic, index in partitions}
        decision = decisions.replicas_offline(
            self._image, self.epoch, self.offline_replicas, self.may_elect_unclean
        )
        if decision:
            try:
                self._commit(decision)
            except KafkaStorageError:
                self._apply(decision.delta)

    def allocate_producer_ids(self, above: int = -1) -> ProducerIdBlock:
        """The next block of producer ids, for this broker alone and for good.

        Args:
            above: ids up to this one have been given out, whatever the store says: it may have been restored
                from an older backup.

        Raises:
            KafkaStorageError: the store cannot be reached, or the session with it is over.
            UnknownServerError: the ids are used up, or other brokers took every block first.
        """
        path = paths.PRODUCER_ID_BLOCK
        for _ in range(_MAX_ATTEMPTS):
            try:
                data, stat = self.store.get(path)
                last = nodes.decode_producer_id_block(path, data)
                first = 0 if last is None else last.last + 1
                if first <= above:
                    log.error(
                        "the metadata store would give producer ids from %d on, but they are given out up to"
                        " %d: it was restored from an older backup, perhaps. They go on above that",
                        *(first, above),
                    )
                    first = block_with(self.broker_id, above).last + 1
                if first > MAX_PRODUCER_ID - PRODUCER_ID_BLOCK_SIZE:
                    raise UnknownServerError("all producer ids have been given out")
                block = ProducerIdBlock(self.broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1)
                self.store.set(path, nodes.encode_producer_id_block(block), stat.version)
            except BadVersion:
                continue
            except (StoreUnavailable, SessionExpired) as error:
                raise KafkaStorageError(str(error)) from error
            return block
        raise UnknownServerError("no block of producer ids could be had: others were faster")


_NO_FEATURES = {"features": {}, "version": 2, "status": 1}


def difference(before: ClusterImage, after: ClusterImage) -> ClusterDelta:
    """The delta that makes one image of another."""
    controller = (after.controller_id, after.controller_epoch)
    configs = {e: c for e, c in after.configs.items() if before.configs.get(e) != c}
    configs |= {e: {} for e in before.configs if e not in after.configs}
    return ClusterDelta(
        brokers={b: x for b, x in after.brokers.items() if before.brokers.get(b) != x},
        brokers_gone=frozenset(before.brokers) - after.brokers.keys(),
        topics={n: t for n, t in after.topics.items() if before.topics.get(n) != t},
        topics_gone={n: t for n, t in before.topics.items() if n not in after.topics},
        topics_marked=after.marked - before.marked,
        configs=configs,
        controller=controller if controller != (before.controller_id, before.controller_epoch) else None,
    )
