"""Folders that know more than the metadata: a cluster's id and its topics are taken over from what is there.

So a folder of Kafka's is taken up, and one whose metadata was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.broker.metadata.auto_creation import new_topic
from odradek.cluster import nodes, paths
from odradek.cluster.controller.adoption import KEEP_EVERYTHING, FoundPartition
from odradek.cluster.store.store import Create
from odradek.wire.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.cluster.image import ClusterImage
    from odradek.cluster.store.store import MetadataStore
    from odradek.log.folders.log_manager import LogManager

logger = logging.getLogger(__name__)


def adopt_cluster_id(logs: LogManager, store: MetadataStore) -> None:
    """A data folder may come with a cluster id, from Kafka or from a lost store: it is kept."""
    stored = logs.identity.stored_cluster_id()
    if stored is None or store.exists(paths.CLUSTER_ID) is not None:
        return
    if store.exists("/cluster") is None:
        store.multi([Create("/cluster", None)])
    store.multi([Create(paths.CLUSTER_ID, nodes.encode_cluster_id(stored))])


def adopt_topics(logs: LogManager, controller: KafkaController, config: BrokerConfig) -> None:
    """Create topics from the logs where there are logs but no topics.

    Args:
        logs: all of them are open.
        controller: it has started.
        config: for the topics whose configs are known without metadata.
    """
    opened = logs.all()
    if not (opened or logs.damaged) or controller.image.topics:
        return

    def configs(topic: str) -> Mapping[str, str]:
        if topic in (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC):
            return {name: value for name, value in new_topic(config, topic).configs.items() if value}
        return KEEP_EVERYTHING

    left = controller.adopt_topics(
        [
            *(
                FoundPartition(
                    partition_log.topic,
                    partition_log.partition,
                    partition_log.topic_id,
                    partition_log.epochs.latest,
                )
                for partition_log in opened
            ),
            *(FoundPartition(*key, logs.damaged.topic_id(key), -1) for key in logs.damaged),
        ],
        configs,
        max(
            (producer for partition_log in opened for producer in partition_log.producers.entries), default=-1
        ),
    )
    if controller.image.topics:
        logger.warning(
            "no metadata was there: topics were made of the logs count=%d. Their configs are not known: "
            "they keep all records (retention.ms and retention.bytes are -1) until they are configured",
            len(controller.image.topics),
        )
    for topic, why in left.items():
        logger.warning("topic not taken over topic=%s: %s", topic, why)


def report_strangers(logs: LogManager, image: ClusterImage) -> None:
    """Logs that no topic is known for are left alone; whoever has lost the metadata should know."""
    strangers = [
        f"{log.topic}-{log.partition}"
        for log in logs.all()
        if image.partition(log.topic, log.partition) is None
    ]
    if strangers:
        shown = ",".join(sorted(strangers)[:10]) + (",..." if len(strangers) > 10 else "")
        logger.warning(
            "partitions on disk belong to no topic and are not served count=%d partitions=%s",
            len(strangers),
            shown,
        )
