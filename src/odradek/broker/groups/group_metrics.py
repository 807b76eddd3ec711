"""Metrics of consumer groups: those of Kafka's coordinator, and the lag, which Kafka does not know.

The lag is that of kafka_exporter, under its names: how far the committed offset is behind the high
watermark. The coordinator of a group knows it of the partitions that its broker leads. Of others there is no
sample, which tells what is not known from a lag of zero.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from odradek.coordinators.groups.states import GroupState
from odradek.errors import KafkaError

if TYPE_CHECKING:
    from odradek.broker.metrics.metrics import Samples
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.coordinators.groups.coordinator import GroupCoordinator

_COORDINATOR = "kafka.coordinator.group:GroupMetadataManager"
_GROUP = "odradek.server:ConsumerGroup"
_OFFSETS_A_STEP = 32


def group_samples(coordinator: GroupCoordinator, replicas: ReplicaManager) -> Samples:
    """Yield what there is to say of the groups that a broker coordinates, with pauses.

    Args:
        coordinator: the broker's; groups that are being loaded are left out.
        replicas: tell the ends of the logs that the broker leads.
    """
    states: Counter[GroupState] = Counter()
    offsets = 0
    for partition in coordinator.runtime.partitions():
        try:
            shard = coordinator.runtime.shard(partition)
        except KafkaError:
            continue
        for group_id, group in list(shard.groups.items()):
            yield None
            states[group.state] += 1
            yield (_GROUP, "Members", (("consumergroup", group_id),)), len(group.members)
            for topic, entries in list(shard.offsets.of_group(group_id).items()):
                for index, entry in list(entries.items()):
                    offsets += 1
                    if offsets % _OFFSETS_A_STEP == 0:
                        yield None
                    tags = (("consumergroup", group_id), ("topic", topic), ("partition", str(index)))
                    yield (_GROUP, "CurrentOffset", tags), entry.offset
                    replica = replicas.find(topic, index)
                    if replica is not None and replica.is_leader:
                        lag = max(0, replica.log.high_watermark - entry.offset)
                        yield (_GROUP, "Lag", tags), lag
    yield (_COORDINATOR, "NumGroups", ()), states.total()
    yield (_COORDINATOR, "NumOffsets", ()), offsets
    for state in GroupState:
        yield (_COORDINATOR, f"NumGroups{state.value}", ()), states[state]
