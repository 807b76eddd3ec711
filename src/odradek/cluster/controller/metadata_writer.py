"""Writes what `decisions` decides, under the check of the controller epoch: no other part does.

Every write is one transaction that begins with the check of `/controller_epoch`, so that a deposed controller
cannot write. The nodes are written first, then the image changes, then listeners hear of it. Large changes
are written in several transactions; when one fails the image is read anew, because some are written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from odradek.cluster import nodes, paths
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.controller.decisions import Decision, Put, Remove, Write
from odradek.cluster.controller.image_publisher import ImagePublisher
from odradek.cluster.controller.metadata_reader import MetadataReader
from odradek.cluster.controller.node_watchers import NodeWatchers
from odradek.cluster.controller.random_source import random_uuid
from odradek.cluster.image import ClusterDelta, ClusterImage
from odradek.cluster.inter_broker_versions import has_features
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
    parent_of,
)
from odradek.errors import KafkaError, KafkaStorageError, NotControllerError, OdradekError, UnknownServerError
from odradek.util.repeats import Repeats

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

Result = TypeVar("Result")

WRITES_PER_TRANSACTION = 500
"""Larger changes are written in several transactions: a message of ZooKeeper's is at most 1 MB."""

WRITES_OVER = 10
"""How often a write is tried while leaders change the same states: before 2.7 they write ISRs themselves."""

_MAX_ATTEMPTS = 3
"""Where nobody else but tools writes, a second look finds what was written."""


class MetadataWriter:
    """The one way from a decision to the nodes, and from there to the image.

    Args:
        context: has the session and the epoch.
        images: hears what has been written.
        watchers: wait while something is written.
        reader: reads anew what others have written.
        on_deposed: called when another broker is the controller, or the session is over.
    """

    def __init__(
        self,
        context: ControllerContext,
        images: ImagePublisher,
        watchers: NodeWatchers,
        reader: MetadataReader,
        on_deposed: Callable[[], None],
    ) -> None:
        self._context = context
        self._images = images
        self._watchers = watchers
        self._reader = reader
        self._on_deposed = on_deposed
        self._in_doubt = False
        """Whether the store may have what the image has not; ends with the term: the next one reads anew."""

    def end_term(self) -> None:
        """Forget what may not have been written."""
        self._in_doubt = False

    def commit(self, decision: Decision) -> None:
        """Write a decision under the check of the epoch, then make it true here.

        Raises:
            NotControllerError: this broker is no longer the active controller.
            KafkaStorageError: the store cannot be written, or nobody knows whether it was.
            StoreError: a node is not as the image says.
        """
        try:
            self._commit(decision)
        except NotControllerError:
            self._on_deposed()
            raise
        except SessionExpired as error:
            self._on_deposed()
            raise NotControllerError from error
        except KafkaStorageError:
            self.doubt()
            raise

    def _commit(self, decision: Decision) -> None:
        context = self._context
        context.check_active()
        # An event of the write itself may come before the image has its change, and would be taken for
        # somebody else's.
        self._watchers.is_held = True
        try:
            if decision.writes:
                check = Check(paths.CONTROLLER_EPOCH, context.epoch_version)
                context.store.multi([check, *self._resolve(decision.writes)])
        except BadVersion as error:
            if error.op_index == 0:
                # The check of `/controller_epoch` has failed: another controller was elected.
                context.is_active = False
                raise NotControllerError from error
            raise
        except StoreUnavailable as error:
            repeats.log(logging.ERROR, None, "metadata cannot be written: %s", error)
            raise KafkaStorageError(str(error)) from error
        finally:
            self._watchers.is_held = False
        self._images.apply(decision.delta)
        self._watchers.handle_pending()

    def commit_batched(self, decision: Decision, keep_together: int = 0) -> None:
        """Write a large decision in several transactions; its delta counts when all are written.

        Args:
            decision: what to write.
            keep_together: so many of the last writes are one transaction.

        Raises:
            NotControllerError, KafkaStorageError, StoreError: as `commit`.
        """
        if not decision:
            return
        *first, last = _batches(decision.writes, keep_together)
        written = False
        try:
            for part in first:
                self.commit(Decision(tuple(part)))
                written = True
            self.commit(Decision(tuple(last), decision.delta))
        except OdradekError:
            if written:
                # A part stands in the store, and the delta of none of it in the image.
                with suppress(OdradekError):
                    self.refresh()
            raise

    def write_over(
        self,
        write: Callable[[], None],
        attempts: int = _MAX_ATTEMPTS,
        refresh: Callable[[], None] | None = None,
    ) -> None:
        """Write what follows from the image, again after a look at the store where others have changed it.

        Args:
            write: decides and writes.
            attempts: how often it is tried.
            refresh: takes the look; at everything when None.

        Raises:
            NotControllerError, KafkaStorageError, StoreError: as `commit`.
        """
        for _ in range(attempts - 1):
            try:
                return write()
            except StoreError:
                (refresh or self.refresh)()
        return write()

    def write_over_for(self, topic: str, write: Callable[[], None], *, attempts: int = WRITES_OVER) -> None:
        """Write what somebody has asked for about partitions of a topic, whose leaders may change its states.

        Args:
            topic: the topic.
            write: decides and writes.
            attempts: how often it is tried.

        Raises:
            KafkaError: it is not written; see `as_kafka`.
        """
        # Not the whole image: there may be as many readings as partitions in a request.
        refresh = partial(self.refresh_topic, topic)
        try:
            self.write_over(write, attempts, refresh)
        except StoreError as error:
            refresh()
            raise as_kafka(error, topic) from error

    def write_by_any(self, decision: Decision) -> None:
        """Write what any broker may, active controller or not.

        Raises:
            KafkaStorageError: the store cannot be written.
        """
        try:
            self._context.store.multi(self._resolve(decision.writes))
        except StoreError as error:
            raise KafkaStorageError(str(error)) from error
        self._images.apply(decision.delta)

    def _resolve(self, writes: Sequence[Write]) -> list[Op]:
        looked_up = [write.path for write in writes if isinstance(write, Put | Remove)]
        stats = dict(zip(looked_up, self._context.store.exists_many(looked_up), strict=True))
        ops: list[Op] = []
        for write in writes:
            if isinstance(write, Put):
                exists = stats[write.path] is not None
                ops.append(SetData(write.path, write.data) if exists else Create(write.path, write.data))
            elif isinstance(write, Remove):
                if stats[write.path] is not None:
                    ops.append(Delete(write.path))
            else:
                ops.append(write)
        return ops

    # --- what others have written -------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read everything anew and tell what is different.

        Raises:
            NotControllerError: the session is over.
            KafkaStorageError: the store cannot be read; the next `look_again` does it.
        """
        image = self._read(self._reader.everything_again)
        if image is not None:
            delta = difference(self._context.image, image)
            if delta:
                self._images.replace(image, delta)

    def refresh_topic(self, name: str) -> None:
        """Read a topic anew, or everything where it is gone or replaced: its configs are others, too.

        Raises:
            NotControllerError, KafkaStorageError: as `refresh`.
        """
        known = self._context.image.topics.get(name)
        topic = None if known is None else self._read(partial(self._reader.topic, name))
        if known is None or topic is None or topic.topic_id != known.topic_id:
            self.refresh()
        elif topic != known:
            self._images.apply(ClusterDelta(topics={name: topic}))

    def _read(self, read: Callable[[], Result]) -> Result:
        try:
            return read()
        except SessionExpired as error:
            self._on_deposed()
            raise NotControllerError from error
        except StoreUnavailable as error:
            self.doubt()
            raise KafkaStorageError(str(error)) from error

    def doubt(self) -> None:
        """Leave it to the next `look_again` to compare everything with the store: something was not written,
        or nobody knows whether it was."""
        if self._context.is_active:
            self._in_doubt = True
            self._watchers.note_unseen(paths.BROKER_IDS)

    def end_doubt(self) -> None:
        """Compare everything with the store, if there is a doubt."""
        if self._in_doubt:
            self.refresh()
            self._in_doubt = False


def create_missing(context: ControllerContext) -> None:
    """Create what every cluster has, nodes and the cluster's id, as far as it is missing."""
    store: MetadataStore = context.store
    missing: dict[str, bytes | None] = {}
    for path in (*paths.PERSISTENT_PATHS, "/cluster"):
        parent = parent_of(path)
        for node in (parent, path) if parent != "/" else (path,):
            if store.exists(node) is None:
                missing[node] = None
    if store.exists(paths.CLUSTER_ID) is None:
        cluster_id = nodes.topic_id_to_text(random_uuid(context.rng))
        missing[paths.CLUSTER_ID] = nodes.encode_cluster_id(cluster_id)
    if not missing:
        return
    try:
        store.multi([Create(path, data) for path, data in missing.items()])
    except NodeExists:
        # Another broker starts at the same time: one by one, whoever is first.
        for path, data in missing.items():
            with suppress(NodeExists):
                store.create(path, data)


def set_feature_status(context: ControllerContext, writer: MetadataWriter) -> None:
    """Write to `/feature` whether features have versions (KIP-584; `maybeSetupFeatureVersioning`)."""
    enabled = has_features(context.config.inter_broker_protocol_version)
    data = nodes.dump({"features": {}, "version": 2, "status": int(enabled)})
    try:
        present, stat = context.store.get(paths.FEATURE)
    except NoNode:
        # The next controller looks again, should somebody have made the node in between.
        with suppress(NodeExists):
            writer.commit(Decision((Create(paths.FEATURE, data),)))
        return
    if bool(nodes.load(paths.FEATURE, present).get("status")) is not enabled:
        writer.commit(Decision((SetData(paths.FEATURE, data, stat.version),)))


def difference(before: ClusterImage, after: ClusterImage) -> ClusterDelta:
    """Return the delta that makes one image of another."""
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


def as_kafka(error: Exception, name: str) -> KafkaError:
    """Return the error to be told for a write about topic `name` that failed."""
    if isinstance(error, KafkaError):
        return error
    return UnknownServerError(f"the metadata of topic '{name}' could not be written: {error}")


def _batches(writes: Sequence[Write], keep_together: int) -> list[Sequence[Write]]:
    size = WRITES_PER_TRANSACTION
    if len(writes) <= size:
        return [writes]
    end = len(writes) - keep_together
    parts = [writes[start : min(start + size, end)] for start in range(0, end, size)]
    return [*parts, writes[end:]] if keep_together else parts
