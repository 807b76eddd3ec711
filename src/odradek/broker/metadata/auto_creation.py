"""Topics that come into being because somebody asks for them (`auto.create.topics.enable`), and the internal
ones.

As in Kafka the first answer for such a topic is LEADER_NOT_AVAILABLE, so that the client asks again. Here
is what the controller does; `broker.remote_creation` asks whichever broker that is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.cluster.controller import topics
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.util.repeats import Repeats
from odradek.wire.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.cluster.controller.topic_manager import Admit

logger = logging.getLogger(__name__)
repeats = Repeats(logger)


MAX_TOPICS_AT_ONCE = 100
"""How many topics one request may bring into being: others wait for its answer."""


def new_topic(config: BrokerConfig, name: str) -> NewTopic:
    """The topic as it is to be when nobody says more than its name."""
    if name == GROUP_METADATA_TOPIC:
        return NewTopic(
            name,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
                "compression.type": "producer",
            },
        )
    if name == TRANSACTION_STATE_TOPIC:
        return NewTopic(
            name,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            configs={
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            },
        )
    return NewTopic(name, config.num_partitions, config.default_replication_factor)


def create_internal(controller: KafkaController, config: BrokerConfig, name: str) -> ErrorCode:
    """Create an internal topic, which may exist already.

    Returns:
        COORDINATOR_NOT_AVAILABLE when it could not be created; the client asks again.
    """
    try:
        controller.create_topic(new_topic(config, name))
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            repeats.log(logging.WARNING, name, "%s could not be created: %s", name, error.message)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


def auto_create(
    controller: KafkaController, config: BrokerConfig, names: Iterable[str], admit: Admit | None = None
) -> dict[str, ErrorCode]:
    """Create topics that were asked for and do not exist.

    Args:
        controller, config: of the broker.
        names: of the topics.
        admit: see `Admit`.

    Returns:
        Per name the error to answer: LEADER_NOT_AVAILABLE for what has been created or existed after all.
    """
    errors, valid = sort_out(names)
    new_topics = [new_topic(config, name) for name in valid]
    try:
        results = controller.create_topics(new_topics, admit=admit)
    except KafkaError:
        # Another broker is the controller: the client will ask again, perhaps there.
        return errors | {topic.name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in new_topics}
    for topic, result in zip(new_topics, results, strict=True):
        errors[topic.name] = ErrorCode.LEADER_NOT_AVAILABLE
        if isinstance(result, KafkaError) and result.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            errors[topic.name] = result.code
    return errors


def sort_out(names: Iterable[str]) -> tuple[dict[str, ErrorCode], list[str]]:
    """The errors of names that nobody is to be asked for now, and the others."""
    errors: dict[str, ErrorCode] = {}
    creatable: list[str] = []
    for name in names:
        if topics.why_invalid(name) is not None:
            errors[name] = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif len(creatable) == MAX_TOPICS_AT_ONCE:
            # The client asks again, and then it is their turn.
            errors[name] = ErrorCode.LEADER_NOT_AVAILABLE
        else:
            creatable.append(name)
    return errors, creatable
