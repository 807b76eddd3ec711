"""Reads the nodes, and leaves out what does not hold what Kafka writes there.

A topic or broker that cannot be read is not known to anybody until it is repaired, and all others go on: a
term that could not begin for it would begin at another broker, and so on. Configs that cannot be read any
more stay as they were known: with a topic's defaults in their place records could be deleted. Where they are
not known, at a start, that is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from odradek.cluster import loading, nodes, paths
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage, TopicImage
from odradek.cluster.nodes import NodeFormatError
from odradek.util.repeats import Repeats
from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)
repeats = Repeats(logger)


class MetadataReader:
    """Reads what the context's store holds.

    Raises:
        StoreError: by each method, where the store cannot be read.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def outside(self, *, strict: bool = False) -> ClusterImage:
        """Return what each broker knows by the store: the cluster's id, configs, who is the controller.

        Args:
            strict: whether configs that cannot be read are refused, with a `NodeFormatError`.
        """
        store, bad = self._context.store, set[str]()
        cluster_id, _ = store.get(paths.CLUSTER_ID)
        image = ClusterImage(cluster_id=nodes.decode_cluster_id(paths.CLUSTER_ID, cluster_id))
        configs = loading.load_configs(store, None if strict else partial(self._note_bad, bad))
        delta = ClusterDelta(configs=configs, controller=loading.load_controller(store))
        return self._with_known_configs(image.apply(delta), bad)

    def everything(self, written: dict[TopicPartition, int] | None = None) -> ClusterImage:
        """Return everything that there is, as the active controller says it.

        Args:
            written: gets the transaction that last wrote the state of each partition.
        """
        context, bad = self._context, set[str]()
        image = loading.load_image(context.store, written, partial(self._note_bad, bad))
        image = self._with_known_configs(image, bad)
        live = {b: x for b, x in image.brokers.items() if context.refused.get(b) != x.epoch}
        # A mark that has not been taken back yet must not have anything deleted.
        marked = image.marked if context.config.delete_topic_enable else frozenset()
        # Never another controller's epoch: with it a deposed controller's requests would be obeyed.
        return image._replace(
            brokers=live, marked=marked, controller_id=context.broker_id, controller_epoch=context.epoch
        )

    def everything_again(self) -> ClusterImage | None:
        """Return what there is now in a term, with the brokers that are known; None outside of a term.

        Who lives is for `PartitionStateMachine` to see: with each change there may be leaders to elect.
        """
        if not self._context.is_active:
            return None
        return self.everything()._replace(brokers=self._context.image.brokers)

    def brokers(self) -> dict[int, BrokerImage]:
        """Return the registered brokers."""
        return loading.load_brokers(self._context.store, self.leave_out)

    def topic(self, name: str) -> TopicImage | None:
        """Return a topic; None where there is none."""
        return loading.load_topic(self._context.store, name, self.leave_out)

    def entities(self, entities: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the configs of these entities."""
        return loading.load_entities(self._context.store, entities, self.leave_out)

    def leave_out(self, error: NodeFormatError) -> None:
        """Say what is not followed until it can be read; what is all right goes on without it."""
        repeats.log(logging.ERROR, error.path, "left alone: %s", error)

    def _note_bad(self, bad: set[str], error: NodeFormatError) -> None:
        bad.add(error.path)
        self.leave_out(error)

    def _with_known_configs(self, image: ClusterImage, bad: Collection[str]) -> ClusterImage:
        if not bad:
            return image
        known_configs = {
            e: c for e, c in self._context.image.configs.items() if paths.entity_config(e) in bad
        }
        return image._replace(configs={**image.configs, **known_configs})
