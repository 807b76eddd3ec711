"""The cluster as a broker's metadata cache has it, which follows the controller some answers later. No I/O.

With KRaft a broker applies the metadata log by and by (`BrokerMetadataPublisher`): first its cache knows a
topic, then its replica leads, then its coordinator is elected. With ZooKeeper UpdateMetadata comes later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.wire.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from odradek.cluster.image import ClusterImage, TopicImage
    from odradek.testing.unready.unreadiness import Unreadiness

TOPIC, CONFIGS, LEADER, END_OFFSET, COORDINATOR, DELETED = (
    "topic",
    "configs",
    "leader",
    "end offset",
    "coordinator",
    "deleted",
)
"""The kinds of subjects that are not ready at once."""

TOPIC_OF = {"group": GROUP_METADATA_TOPIC, "transactional_id": TRANSACTION_STATE_TOPIC}
"""By the kind of a key, the topic whose leaders coordinate."""

_CONFIGS_OF_TOPIC = "topics/"


class LaggingMetadata:
    """The metadata that one broker tells of its cluster, beside those that it knows."""

    def __init__(self, unreadiness: Unreadiness) -> None:
        """
        Args:
            unreadiness: counts the answers.
        """
        self._unreadiness = unreadiness
        self._image: ClusterImage | None = None
        self._topics: dict[str, TopicImage | None] = {}
        """As they are told, None for not at all, until they are ready."""
        self._configs: dict[str, Mapping[str, str]] = {}
        """By topic; likewise."""

    def follow(self, image: ClusterImage, broker_id: int, *, told_at_once: Collection[str] = ()) -> None:
        """Take up what has appeared in the cluster since the last image.

        Args:
            image: the cluster as it is. In the first one nothing has just appeared but coordinators: a broker
                that starts has to load them.
            broker_id: of this broker.
            told_at_once: topics that are to be told as they are.
        """
        before, self._image = self._image, image
        if before is None:
            for name in TOPIC_OF.values():
                for index in _newly_led(broker_id, None, image.topic(name)):
                    self._unreadiness.appeared((COORDINATOR, name, index))
            return
        if before.topics is not image.topics or before.marked != image.marked:
            for name in {**before.topics, **image.topics}:
                self._follow_topic(
                    name,
                    before.topic(name),
                    image.topic(name),
                    broker_id,
                    is_told_at_once=name in told_at_once,
                )
        if before.configs is not image.configs:
            self._follow_configs(before, image, told_at_once)

    def _follow_topic(
        self,
        name: str,
        old: TopicImage | None,
        new: TopicImage | None,
        broker_id: int,
        *,
        is_told_at_once: bool,
    ) -> None:
        if _looks_alike(old, new):
            return
        told = old if self._unreadiness.is_ready((TOPIC, name)) else self._topics.get(name, old)
        self._topics.pop(name, None)
        if new is None:
            self._unreadiness.appeared((DELETED, name))
        if is_told_at_once or _looks_alike(told, new):
            self._unreadiness.make_ready((TOPIC, name))
        else:
            self._unreadiness.appeared((TOPIC, name))
            self._topics[name] = told
        for index in _newly_led(broker_id, old, new):
            if name in TOPIC_OF.values():
                self._unreadiness.appeared((COORDINATOR, name, index))
            if not is_told_at_once:
                self._unreadiness.appeared((LEADER, name, index))
                if old is not None and index in old.partitions:
                    self._unreadiness.appeared((END_OFFSET, name, index))

    def _follow_configs(
        self, before: ClusterImage, image: ClusterImage, told_at_once: Collection[str]
    ) -> None:
        for path in {**before.configs, **image.configs}:
            name = path.removeprefix(_CONFIGS_OF_TOPIC)
            old, new = before.config(path), image.config(path)
            # A topic that is made comes with its configs.
            if name == path or old == new or before.topic(name) is None or name in told_at_once:
                continue
            told = old if self._unreadiness.is_ready((CONFIGS, name)) else self._configs.get(name, old)
            self._unreadiness.appeared((CONFIGS, name))
            self._configs[name] = told

    def topic_name(self, image: ClusterImage, topic_id: bytes) -> str | None:
        """Return the name of a topic that is there, or that is told still; None for none."""
        told = (name for name, topic in self._topics.items() if topic and topic.topic_id == topic_id)
        return image.topic_name(topic_id) or next(told, None)

    def answer(self, image: ClusterImage, names: Iterable[str] | None) -> ClusterImage:
        """Return the cluster as an answer tells it, which is counted.

        Args:
            image: as it is.
            names: the topics that the answer is about; None for all.
        """
        told = self._lagging(image)
        for name in list(self._topics) if names is None else dict.fromkeys(names):
            self._unreadiness.answered((TOPIC, name))
        return told

    def answer_configs(self, image: ClusterImage, names: Iterable[str]) -> ClusterImage:
        """Return the cluster with the configs that an answer tells of some topics, which is counted."""
        configs = dict(image.configs)
        for name in dict.fromkeys(names):
            if self._unreadiness.answered((CONFIGS, name)):
                configs[_CONFIGS_OF_TOPIC + name] = self._configs[name]
            else:
                self._configs.pop(name, None)
        return image._replace(configs=configs)

    def _lagging(self, image: ClusterImage) -> ClusterImage:
        for name in [name for name in self._topics if self._unreadiness.is_ready((TOPIC, name))]:
            del self._topics[name]
        if not self._topics:
            return image
        topics, names = dict(image.topics), dict(image.topic_names)
        for name, topic in self._topics.items():
            names.pop(image.topic_id(name), None)
            if topic is None:
                topics.pop(name, None)
            else:
                topics[name] = topic
                names[topic.topic_id] = name
        return image._replace(topics=topics, topic_names=names, marked=image.marked - self._topics.keys())


def _looks_alike(old: TopicImage | None, new: TopicImage | None) -> bool:
    """Return whether clients are told the same of both, but for the replicas in sync."""
    if old is None or new is None:
        return old is new
    return old.topic_id == new.topic_id and _leaders(old) == _leaders(new)


def _leaders(topic: TopicImage) -> dict[int, int]:
    return {index: partition.leader for index, partition in topic.partitions.items()}


def _newly_led(broker_id: int, old: TopicImage | None, new: TopicImage | None) -> list[int]:
    """Return the partitions of which a broker has become the leader."""
    if new is None:
        return []
    before = old.partitions if old is not None and old.topic_id == new.topic_id else {}
    return [
        index
        for index, partition in new.partitions.items()
        if partition.leader == broker_id and (index not in before or before[index].leader != broker_id)
    ]
