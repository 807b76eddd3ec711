"""Configs of topics, brokers, clients and users: written with a notice, which every broker follows.

As with ZooKeeper any broker of a cluster may write them. Kafka: `ConfigHandler`, `ZkConfigManager`,
`ZkNodeChangeNotificationListener`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from odradek.cluster import loading, nodes, paths
from odradek.cluster.controller import decisions
from odradek.cluster.controller.controller_context import ControllerContext, allows_unclean
from odradek.cluster.controller.decisions import Decision, Remove, Write
from odradek.cluster.controller.image_publisher import ImagePublisher
from odradek.cluster.controller.metadata_reader import MetadataReader
from odradek.cluster.controller.metadata_writer import MetadataWriter
from odradek.cluster.image import ClusterDelta
from odradek.cluster.nodes import NodeFormatError
from odradek.cluster.store.store import StoreError
from odradek.errors import KafkaStorageError, OdradekError

logger = logging.getLogger(__name__)

CONFIG_CHANGE_EXPIRY_MS = 15 * 60 * 1000
"""After so long all have read a notice; the same time as in Kafka's `ZkNodeChangeNotificationListener`."""


class ConfigChanges:
    """Writes configs, and follows those that others write."""

    def __init__(
        self,
        context: ControllerContext,
        images: ImagePublisher,
        reader: MetadataReader,
        writer: MetadataWriter,
    ) -> None:
        self._context = context
        self._images = images
        self._reader = reader
        self._writer = writer

    def config_of(self, entity_path: str) -> Mapping[str, str]:
        """Return the present configs of an entity, for a change of them: as they stand in the store, where
        any broker may have changed them.

        Raises:
            KafkaStorageError: the store cannot be read.
        """
        try:
            return loading.load_config(self._context.store, entity_path)
        except StoreError as error:
            raise KafkaStorageError(str(error)) from error

    def alter_config(self, entity_path: str, configs: Mapping[str, str]) -> None:
        """Replace the configs of `topics/<t>`, `brokers/<id>`, `brokers/<default>`, …; checked by the caller.

        Raises:
            NotControllerError: this broker has just ceased to be the active one.
            KafkaStorageError: the store cannot be written.
        """
        decision = decisions.set_config(entity_path, configs)
        if not self._context.is_active:
            self._writer.write_by_any(decision)
            return
        try:
            self._writer.commit(decision)
        except StoreError as error:
            raise KafkaStorageError(str(error)) from error
        try:
            self._purge()
        except OdradekError as error:
            # Nothing that was asked for: the change is written.
            logger.info("old notices of configs stay until the next change: %s", error)

    def _purge(self) -> None:
        store, horizon = self._context.store, self._context.clock.now_ms() - CONFIG_CHANGE_EXPIRY_MS
        notices = self._notices()
        old: list[Write] = [
            Remove(path)
            for path, stat in zip(notices, store.exists_many(notices), strict=True)
            if stat is not None and stat.ctime < horizon
        ]
        if old:
            self._writer.commit(Decision(tuple(old)))

    def follow_notices(self) -> None:
        """Read anew the configs that notices name.

        Raises:
            StoreError: the store cannot be read; the next notice has all of them looked at again.
        """
        notices = self._notices()
        # What is gone by now was old: whoever has changed something since removes those.
        named = dict.fromkeys(
            self._named_by(path, notice.data)
            for path, notice in zip(notices, self._context.store.get_many(notices), strict=True)
            if notice is not None
        )
        configs = {
            entity: config
            for entity, config in self._reader.entities([name for name in named if name is not None]).items()
            if config != self._context.image.config(entity)
        }
        if configs:
            self._images.apply(ClusterDelta(configs=configs))

    def _notices(self) -> list[str]:
        names = self._context.store.children(paths.CONFIG_CHANGES)
        return [f"{paths.CONFIG_CHANGES}/{name}" for name in names]

    def _named_by(self, path: str, notice: bytes | None) -> str | None:
        """The entity whose configs have changed by a notice; None for one to be passed over."""
        try:
            return nodes.decode_config_change(path, notice)
        except NodeFormatError as error:
            self._reader.leave_out(error)
            return None


def may_allow_unclean(delta: ClusterDelta, broker_id: int) -> bool:
    """Return whether configs have changed so that a replica outside of its ISR may lead."""
    # Of brokers' configs those that hold for this broker, by whose defaults it elects. Kafka:
    # `DynamicLogConfig.reconfigure` in the broker of the controller.
    here = ("brokers/<default>", f"brokers/{broker_id}")
    return any(
        allows_unclean(config) is True and (entity.startswith("topics/") or entity in here)
        for entity, config in delta.configs.items()
    )
