"""__consumer_offsets: the topology of a streams group."""

from __future__ import annotations

from odradek.wire.fields import array, int16, int32, string
from odradek.wire.message import Data, Struct, record_value, struct


@struct
class TopicConfig(Struct):
    """An element of `TopicInfo.topic_configs`."""

    key: str = string()
    value: str = string()


@struct
class TopicInfo(Struct):
    """An element of `Subtopology.state_changelog_topics`."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[TopicConfig] = array(TopicConfig)


@struct
class CopartitionGroup(Struct):
    """An element of `Subtopology.copartition_groups`."""

    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


@struct
class Subtopology(Struct):
    """An element of `StreamsGroupTopologyValue.subtopologies`."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


@record_value(versions="0", flexible="0+")
class StreamsGroupTopologyValue(Data):
    """The topology."""

    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)
