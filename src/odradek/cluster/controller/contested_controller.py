"""A controller among several brokers: it may become active, cease to be, and find what another left undone.

A broker that is not the active controller knows, by the store, its configs and who the controller is; all
else comes to it by UpdateMetadata. The active one has the whole image, and tells it to its control listeners,
which send it to the brokers.

Invariants:

- every change of the store that a watch reports is looked at in the event queue, one after the other, and
  never inside the handling of another one;
- control listeners hear `start` once per term, before anything else of it, and `stop` when it ends, whatever
  ended it;
- large changes are written in several transactions, each under the check of the controller epoch; when one
  fails the image is read anew, because some are written;
- what fails because the store is away for a moment is done by the next `look_again`: nobody else comes back
  to it, and a write whose answer was lost may have been done.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from odradek.cluster import loading, nodes, paths
from odradek.cluster.controller import decisions
from odradek.cluster.controller.controller import Controller, difference
from odradek.cluster.controller.controller_config import ControllerConfig
from odradek.cluster.controller.decisions import Decision, Remove, Write
from odradek.cluster.controller.random_source import RandomSource
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage, TopicImage
from odradek.cluster.inter_broker_versions import has_features, has_topic_ids
from odradek.cluster.nodes import NO_TOPIC_ID, BrokerRegistration, NodeFormatError
from odradek.cluster.store.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    MetadataStore,
    NodeExists,
    NoNode,
    SessionExpired,
    SetData,
    StoreError,
    WatchEvent,
)
from odradek.errors import KafkaStorageError, NotControllerError, OdradekError
from odradek.util.clock import Clock
from odradek.util.repeats import Repeats
from odradek.util.topic_partition import TopicPartition

log = logging.getLogger(__name__)
repeats = Repeats(log)

STAND_BACK_MS = 3_000
"""How long a broker leaves it to others to be elected."""

WRITES_PER_TRANSACTION = 500
"""Larger changes are written in several transactions."""

ConfigListener = Callable[[Mapping[str, Mapping[str, str]]], None]
"""Called with changed entities (`topics/clicks`, …) and all of their configs; empty when none are left."""


class ControlListener(Protocol):
    """Tells the brokers what the active controller knows. Called where the event queue publishes."""

    def start(self, image: ClusterImage) -> None:
        """This broker is the active controller from now on, and this is all there is."""
        ...

    def on_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Something has changed."""
        ...

    def resend(self, broker_id: int) -> None:
        """A broker is to be asked for the state of all of its replicas."""
        ...

    def await_return(self, broker: BrokerImage) -> None:
        """A registered broker is left out, as nobody listens at its address: see whether it comes back."""
        ...

    def stop(self) -> None:
        """This broker is no longer the active controller."""
        ...


class ContestedController(Controller):
    """See the module. Arguments as of `Controller`.

    Attributes:
        refused: epochs of registered brokers at whose address nobody listens: they count as dead.
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
        self.refused: dict[int, int] = {}
        self._control_listeners: list[ControlListener] = []
        self._config_listeners: list[ConfigListener] = []
        self._refused_controller = -1
        self._stands_back_until_ms = -math.inf
        self._gave_way: dict[int, int] = {}
        self._in_term = False
        self._told = False
        self._handling = False
        self._in_doubt = False
        self._unseen: dict[str, None] = {}

    def add_control_listener(self, listener: ControlListener) -> None:
        """Have `listener` tell the brokers, while this one is the active controller."""
        self._control_listeners.append(listener)

    def add_config_listener(self, listener: ConfigListener) -> None:
        """Have `listener` called with all configs at `start`, and then with those that change."""
        self._config_listeners.append(listener)

    # --- coming and going ---------------------------------------------------------------------------------

    def open(self) -> ClusterImage:
        """Create what every cluster has, and load what each broker knows by the store: id, configs.

        Raises:
            StoreError: the store cannot be read or written, or holds what Kafka would not write.
        """
        self._create_missing()
        self._image = self._load_outside()
        return self._image

    def _load_outside(self, on_bad: loading.OnBad | None = None) -> ClusterImage:
        cluster_id, _ = self.store.get(paths.CLUSTER_ID)
        image = ClusterImage(cluster_id=nodes.decode_cluster_id(paths.CLUSTER_ID, cluster_id))
        return image.apply(
            ClusterDelta(
                configs=loading.load_configs(self.store, on_bad),
                controller=loading.load_controller(self.store),
            )
        )

    def start(self, registration: BrokerRegistration) -> None:
        """Register this broker, tell the config listeners all configs, and try to become the controller.

        Also after the end of a session, on a new one in `store`. Run it in the event queue.

        Raises:
            StoreError: another broker has this id, or the store cannot be written.
        """
        self._register(registration)
        for path in (paths.CONTROLLER, paths.CONFIG_CHANGES):
            self.store.watch_persistent(path, self._on_event)
        self._handling = True
        try:
            bad: set[str] = set()
            image = self._with_known_configs(self._load_outside(partial(self._note_bad, bad)), bad)
            # What was removed while there was no session has to be told as well.
            gone: dict[str, Mapping[str, str]] = {
                e: {} for e in self._image.configs if e not in image.configs
            }
            self._replace_image(image, ClusterDelta(configs={**image.configs, **gone}))
            self._controller_changed()
        finally:
            self._handling = False
        self._handle_pending()

    def session_ended(self) -> None:
        """The session is over: resign, and do nothing until the next `start`. Run it in the event queue."""
        self.broker_epoch = -1
        self._pending.clear()
        self._unseen.clear()
        self._resign()

    def stop(self) -> None:
        """Resign and unregister. The store stays open."""
        registered, self.broker_epoch = self.broker_epoch >= 0, -1
        was_active = self.is_active
        for path in (paths.CONTROLLER, paths.CONFIG_CHANGES):
            self.store.unwatch(path, self._on_event)
        self._resign()
        if was_active:
            self._forget_controller()
        if registered:
            self._forget(paths.broker_id(self.broker_id))

    def _forget_controller(self) -> None:
        """Remove `/controller`, unless another controller has come since this one."""
        try:
            self.store.multi([Check(paths.CONTROLLER_EPOCH, self._epoch_version), Delete(paths.CONTROLLER)])
        except (NoNode, BadVersion):
            return
        except StoreError as error:
            log.warning("cannot remove %s: %s", paths.CONTROLLER, error)

    def remove_dead_controller(self, controller_id: int) -> bool:
        """Remove `/controller` if it still names this broker, whose process is known to be gone.

        Returns:
            Whether it was removed; the election that follows is each broker's own.

        Raises:
            StoreError: the store cannot be read or written.
        """
        try:
            _, epoch = self.store.get(paths.CONTROLLER_EPOCH)
            data, stat = self.store.get(paths.CONTROLLER)
        except NoNode:
            return False
        if nodes.decode_controller(paths.CONTROLLER, data).broker_id != controller_id:
            return False
        try:
            # Versions of /controller begin at 0 again with every election: the epoch's do not.
            self.store.multi(
                [Check(paths.CONTROLLER_EPOCH, epoch.version), Delete(paths.CONTROLLER, stat.version)]
            )
        except StoreError as error:
            if error.op_index is None:
                raise
            return False
        return True

    def note_refused_controller(self, controller_id: int) -> None:
        """Nobody listens at the controller's address: whoever follows it need not try it first.

        Should this broker be elected next, its term begins without that one: otherwise all leaders would be
        told twice, before the first message to it is refused and after. May be called in any thread.
        """
        self._refused_controller = controller_id

    def stand_back(self) -> None:
        """Let others be elected for a while: this broker and one that lives refuse each other.

        May be called in any thread.
        """
        self._stands_back_until_ms = self.clock.monotonic_ms() + STAND_BACK_MS

    def give_way(self, broker_id: int, epoch: int) -> None:
        """Let somebody else be the controller who reaches a broker that lives, and that refuses this one.

        Once in the broker's life: if nobody takes it, this one goes on. Run it in the event queue.

        Args:
            broker_id, epoch: the broker, and its registration's epoch.
        """
        if not self.is_active or self._gave_way.get(broker_id) == epoch:
            return
        log.warning(
            "another broker shall be the controller, as broker %d and this one refuse each other", broker_id
        )
        self._gave_way[broker_id] = epoch
        self.stand_back()
        self._resign()
        self._forget_controller()

    def _leave_out_refused(self) -> BrokerImage | None:
        """Have the controller before count as dead, if it refused in the life in which it was elected."""
        broker = self._image.brokers.get(self._refused_controller)
        self._refused_controller = -1
        if broker is None or broker.broker_id == self.broker_id or broker.epoch > self._previous_election:
            return None
        log.warning("nobody listened at the address of controller %d: it counts as dead", broker.broker_id)
        self.refused[broker.broker_id] = broker.epoch
        return broker

    def _resign(self) -> None:
        """End the term, if there is one, and tell those who listen."""
        self.is_active = False
        if not self._in_term:
            return
        self._in_term = False
        for path in self._active_handlers():
            self.store.unwatch(path, self._on_event)
        self._clear_term()
        image = self._image
        outside = ClusterImage(
            image.cluster_id, image.controller_id, image.controller_epoch, configs=image.configs
        )

        def change() -> None:
            self._image = outside
            if self._told:
                for listener in self._control_listeners:
                    listener.stop()
            self._told = False

        self.event_queue.publish(outside, ClusterDelta(), change)

    def _clear_term(self) -> None:
        """Forget what only the active controller knows."""
        self.refused, self.shutting_down, self.offline_replicas = {}, {}, frozenset()
        self._in_doubt = False
        for path in self._active_handlers():
            self._pending.pop(path, None)
            self._unseen.pop(path, None)

    def _take_over(self) -> None:
        try:
            self._begin_term()
        except NotControllerError:
            return
        except BaseException:
            # Another one shall try; an active controller that does nothing would be the worst.
            self._resign()
            self._forget_controller()
            raise
        # The term has begun, whatever comes of what is left of the one before.
        self._guard(self._resume, paths.BROKER_IDS)

    def _begin_term(self) -> None:
        """Read everything, make leaders fit, and only then tell anybody."""
        self._in_term = True
        self._set_feature_status()
        for path in self._active_handlers():
            self.store.watch_persistent(path, self._on_event)
        stale: list[Write] = []
        for parent in (paths.ISR_CHANGES, paths.LOG_DIR_EVENTS):
            stale += [Remove(f"{parent}/{name}") for name in self.store.children(parent)]
        self._commit_batched(Decision(tuple(stale)))
        written: dict[TopicPartition, int] = {}
        self._image = self._load(written)
        self._complete_topics()
        self._let_newer_go(written)
        refused = self._leave_out_refused()
        # Who has registered since is still gone, and has its turn when that is heard of.
        live = {b: broker for b, broker in self._image.brokers.items() if b not in self.refused}
        self._write_over(partial(self._make_leaders_fit_for, live))
        image = self._image

        def change() -> None:
            self._told = True
            for listener in self._control_listeners:
                listener.start(image)
                if refused is not None:
                    listener.await_return(refused)
            for told in list(self._listeners):
                told(image, loading.full_delta(image))

        self.event_queue.publish(image, loading.full_delta(image), change)

    def _set_feature_status(self) -> None:
        """Have `/feature` say whether features have versions; Kafka: `setupFeatureVersioning`."""
        enabled = has_features(self.config.inter_broker_protocol_version)
        data = nodes.dump({"features": {}, "version": 2, "status": int(enabled)})
        try:
            found, stat = self.store.get(paths.FEATURE)
        except NoNode:
            with suppress(NodeExists):
                self._commit(Decision((Create(paths.FEATURE, data),)))
            return
        if bool(nodes.load(paths.FEATURE, found).get("status")) is not enabled:
            self._commit(Decision((SetData(paths.FEATURE, data, stat.version),)))

    def _complete_topics(self) -> None:
        """Add what an older controller has not written for the topics of the image."""

    def _resume(self) -> None:
        """Finish what the controller before has left undone."""
        self._finish_deletions()

    # --- what others do to the nodes ----------------------------------------------------------------------

    def _active_handlers(self) -> Mapping[str, Callable[[], None]]:
        """Return what the active controller watches."""
        return {
            paths.BROKER_IDS: self._brokers_changed,
            paths.TOPICS: self._topics_changed,
            paths.DELETE_TOPICS: self._deletions_changed,
        }

    def _handler(self, path: str) -> Callable[[], None] | None:
        if path == paths.CONTROLLER:
            return self._controller_changed
        if path == paths.CONFIG_CHANGES:
            return self._configs_changed
        return self._active_handlers().get(path) if self.is_active else None

    def _on_event(self, event: WatchEvent) -> None:
        # On a thread of the store's.
        self.event_queue.post(partial(self._event, event.path))

    def _event(self, path: str) -> None:
        self._pending[path] = None
        self._handle_pending()

    def _handle_pending(self) -> None:
        if self._handling or self._writing:
            return
        self._handling = True
        try:
            while self._pending and self.broker_epoch >= 0:
                path = next(iter(self._pending))
                del self._pending[path]
                handler = self._handler(path)
                if handler is not None:
                    self._guard(handler, path)
        finally:
            self._handling = False

    def _guard(self, handler: Callable[[], None], path: str) -> None:
        try:
            handler()
        except NotControllerError:
            return
        except SessionExpired:
            self._resign()
        except OdradekError as error:
            # Nobody waits for this: `look_again` looks at it again.
            log.error("cannot follow the change of %s yet: %s", path, error)
            self._unseen[path] = None

    def look_again(self) -> None:
        """Look at who is the controller and, if it is this broker, at what could not be followed before.

        To be run in the event queue, from time to time and when another broker says that there is a newer
        controller.
        """
        self._pending[paths.CONTROLLER] = None
        self._pending.update(self._unseen)
        self._unseen.clear()
        self._handle_pending()

    def _controller_changed(self) -> None:
        holder = loading.load_controller(self.store)
        if self.is_active:
            if holder == (self.broker_id, self.epoch):
                return
            self._resign()
        if holder[0] == self.broker_id:
            # Left by a term of this broker that could not begin, or by its process before.
            self.remove_dead_controller(self.broker_id)
            holder = loading.load_controller(self.store)
        if holder[0] < 0 and self.clock.monotonic_ms() >= self._stands_back_until_ms:
            self._elect()
            holder = loading.load_controller(self.store)
        if not self.is_active and holder[0] != self._refused_controller:
            self._refused_controller = -1  # it was of a controller before that one
        if holder != (self._image.controller_id, self._image.controller_epoch):
            self._image = self._image.apply(ClusterDelta(controller=holder))
        if self.is_active:
            log.info("broker %d is the controller, epoch %d", self.broker_id, self.epoch)
            self._take_over()

    def _brokers_changed(self) -> None:
        self._settle()

    def _settle(self) -> None:
        if not self.is_active:
            return
        try:
            if self._in_doubt:
                self._refresh()
                self._in_doubt = False
            self._write_over(self._make_leaders_fit)
            self._resume()
        except OdradekError:
            # Whatever made this necessary is in the image by now, and would not be seen a second time.
            self._doubt()
            raise

    def _doubt(self) -> None:
        """Have the next `look_again` compare everything with the store: something was not written, or nobody
        knows whether it was."""
        if self.is_active:
            self._in_doubt = True
            self._unseen[paths.BROKER_IDS] = None

    def _make_leaders_fit(self) -> None:
        live = self._live_brokers()
        self._let_bounced_go(live)
        self._make_leaders_fit_for(live)

    def _make_leaders_fit_for(self, live: Mapping[int, BrokerImage]) -> None:
        decision = decisions.brokers_changed(
            self._image, self.epoch, live, self.may_elect_unclean, partial(self._electable, live)
        )
        if decision:
            self._commit_batched(decision)

    def _live_brokers(self) -> dict[int, BrokerImage]:
        """The registered brokers but the refused ones. Forgets what was known of earlier epochs."""
        found = loading.load_brokers(self.store, self._leave_out)
        epochs = {broker: image.epoch for broker, image in found.items()}
        self.refused = {b: e for b, e in self.refused.items() if epochs.get(b) == e}
        self.shutting_down = {b: e for b, e in self.shutting_down.items() if epochs.get(b) == e}
        known = {b for b, image in self._image.brokers.items() if epochs.get(b) == image.epoch}
        self.offline_replicas = frozenset(one for one in self.offline_replicas if one[0] in known)
        return {broker: image for broker, image in found.items() if broker not in self.refused}

    def _electable(self, live: Collection[int], topic: str, index: int) -> Collection[int]:
        """The live brokers that can use their replica; those that are leaving only when there is no other."""
        if not self.offline_replicas and not self.shutting_down:
            return live
        usable = [b for b in live if (b, topic, index) not in self.offline_replicas]
        partition = self._image.topics[topic].partitions[index]
        staying = [b for b in usable if b not in self.shutting_down]
        return staying if any(b in partition.isr for b in staying) or partition.is_new else usable

    def _let_bounced_go(self, live: Mapping[int, BrokerImage]) -> None:
        """Brokers that have registered anew before anybody saw them gone have died all the same.

        What they led is led by others first, as if they had been seen: they may have lost what was not on
        their disks.
        """
        known = self._image.brokers
        stayed = {b: broker for b, broker in live.items() if b not in known or known[b].epoch == broker.epoch}
        if len(stayed) < len(live):
            self._commit_batched(
                decisions.brokers_changed(
                    self._image, self.epoch, stayed, self.may_elect_unclean, partial(self._electable, stayed)
                )
            )

    def _let_newer_go(self, written: Mapping[TopicPartition, int]) -> None:
        """Brokers that have registered after a state was written, which says that they are in sync.

        They may have died and come back while there was no controller to see it, perhaps when it was their
        own death that ended the last one's term. See `_let_bounced_go`.
        """

        def write() -> None:
            image = self._image
            epochs = {broker: one.epoch for broker, one in image.brokers.items()}
            still = {
                (name, index): zxid
                for (name, index), zxid in written.items()
                if name in image.topics and index in image.topics[name].partitions
            }
            self._commit_batched(decisions.newer_than_states(image, self.epoch, epochs, still))

        # A broker that has lost a replica may be leaving its ISR, and older leaders write them themselves.
        self._write_over(write)

    def _new_topic_id(self) -> bytes:
        return super()._new_topic_id() if self._has_topic_ids else NO_TOPIC_ID

    @property
    def _has_topic_ids(self) -> bool:
        return has_topic_ids(self.config.inter_broker_protocol_version)

    # --- configs ------------------------------------------------------------------------------------------

    def config_of(self, entity_path: str) -> Mapping[str, str]:
        """See `Controller.config_of`: as they stand in the store, where any broker may have changed them."""
        return loading.load_config(self.store, entity_path)

    def alter_config(self, entity_path: str, configs: Mapping[str, str]) -> None:
        """See `Controller.alter_config`. As with ZooKeeper any broker may do it: all read the notice.

        Raises:
            KafkaStorageError: the store cannot be written.
        """
        if self.is_active:
            super().alter_config(entity_path, configs)
            return
        decision = decisions.set_config(entity_path, configs)
        try:
            self.store.multi(self._resolve(decision.writes))
        except StoreError as error:
            raise KafkaStorageError(str(error)) from error
        self._apply(decision.delta)

    # --- writing ------------------------------------------------------------------------------------------

    def _commit(self, decision: Decision) -> None:
        try:
            super()._commit(decision)
        except NotControllerError:
            self._resign()
            raise
        except SessionExpired as error:
            self._resign()
            raise NotControllerError from error
        except KafkaStorageError:
            self._doubt()
            raise

    def _commit_batched(self, decision: Decision, keep_together: int = 0) -> None:
        """Write a large decision in several transactions; its delta counts when all are written.

        Args:
            decision: what to write.
            keep_together: so many of the last writes are one transaction.

        Raises:
            NotControllerError, KafkaStorageError, StoreError: as `_commit`.
        """
        if not decision:
            return
        *first, last = _batches(decision.writes, keep_together)
        written = False
        try:
            for part in first:
                self._commit(Decision(tuple(part)))
                written = True
            self._commit(Decision(tuple(last), decision.delta))
        except OdradekError:
            if written:
                with suppress(OdradekError):
                    self._refresh()
            raise

    def _load(self, written: dict[TopicPartition, int] | None = None) -> ClusterImage:
        bad: set[str] = set()
        image = loading.load_image(self.store, written, partial(self._note_bad, bad))
        image = self._with_known_configs(image, bad)
        live = {b: x for b, x in image.brokers.items() if self.refused.get(b) != x.epoch}
        # Never another controller's epoch: with it a deposed controller's requests would be obeyed.
        return image._replace(brokers=live, controller_id=self.broker_id, controller_epoch=self.epoch)

    def _load_topic(self, name: str) -> TopicImage | None:
        return loading.load_topic(self.store, name, self._leave_out)

    def _load_entities(self, entities: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        return loading.load_entities(self.store, entities, self._leave_out)

    def _named_by(self, path: str, notice: bytes | None) -> str | None:
        try:
            return super()._named_by(path, notice)
        except NodeFormatError as error:
            self._leave_out(error)
            return None

    def _leave_out(self, error: NodeFormatError) -> None:
        """Say what is not followed until it can be read; what is all right goes on without it."""
        repeats.log(logging.ERROR, error.path, "left alone: %s", error)

    def _note_bad(self, bad: set[str], error: NodeFormatError) -> None:
        bad.add(error.path)
        self._leave_out(error)

    def _with_known_configs(self, image: ClusterImage, bad: Collection[str]) -> ClusterImage:
        """Have configs whose nodes cannot be read any more stay as they are known: with a topic's defaults in
        their place records could be deleted. (Where they are not known, at a start, that is refused.)"""
        if not bad:
            return image
        known = {e: c for e, c in self._image.configs.items() if paths.entity_config(e) in bad}
        return image._replace(configs={**image.configs, **known})

    def _replace_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        super()._replace_image(image, delta)
        if (
            self.is_active
            and self._told
            and any(_may_allow_unclean(entity, config) for entity, config in delta.configs.items())
        ):
            # Whoever is left may lead now. Kafka: `TopicUncleanLeaderElectionEnable`.
            self.event_queue.post(partial(self._event, paths.BROKER_IDS))

    def _refresh(self) -> None:
        if self.is_active:
            # Who lives is for `_make_leaders_fit` to see: with each change there may be leaders to elect.
            image = self._load()._replace(brokers=self._image.brokers)
            delta = difference(self._image, image)
            if delta:
                self._replace_image(image, delta)

    def _publish(self, delta: ClusterDelta) -> None:
        image = self._image
        if delta.configs:
            for config_listener in self._config_listeners:
                config_listener(delta.configs)
        if self._told:
            for control_listener in self._control_listeners:
                control_listener.on_image(image, delta)
            for listener in list(self._listeners):
                listener(image, delta)


def _may_allow_unclean(entity: str, config: Mapping[str, str]) -> bool:
    return config.get("unclean.leader.election.enable") == "true" and (
        entity.startswith("topics/") or entity == "brokers/<default>"
    )


def _batches(writes: Sequence[Write], keep_together: int) -> list[Sequence[Write]]:
    size = WRITES_PER_TRANSACTION
    if len(writes) <= size:
        return [writes]
    end = len(writes) - keep_together
    parts = [writes[start : min(start + size, end)] for start in range(0, end, size)]
    return [*parts, writes[end:]] if keep_together else parts
