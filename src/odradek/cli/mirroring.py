"""The work of `odradek mirror`: topics, records and groups' offsets copied to another cluster.

Records and the state of their partitions (`mirror_state`) are written in one transaction. A mirror that dies
is started again with the same name: `init_transactions` ends what its predecessor left open, keeps that
from writing any more, and the states say where to go on. So each record is copied once, for readers of the
copy that read committed records.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from odradek import Admin, Consumer, ConsumerRecord, NewTopic, Producer, TopicPartition
from odradek.cli.group_tables import consumer_groups
from odradek.cli.mirror_state import PartitionState, decode, encode
from odradek.cli.topics import configs_of
from odradek.client.errors import ClientTimeoutError
from odradek.errors import KafkaError, OdradekError

#: As MirrorMaker's `DefaultConfigPropertyFilter`: configs that belong to a cluster, not to the topic.
LEFT_OUT_CONFIGS = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    }
)
#: DescribeConfigs' number for a config that the topic has of its own.
_TOPIC_SOURCE = 1
#: A group in one of these states has no members who would go on from elsewhere.
_IDLE = ("Empty", "Dead")
_ATTEMPTS = 10
_BACKOFF_S = 0.5
_POLL_MS = 500.0


class Choice(NamedTuple):
    """The names that are copied: those that `included` fits wholly and `excluded` does not."""

    included: re.Pattern[str]
    excluded: re.Pattern[str]

    def has(self, name: str) -> bool:
        """Return whether a name is copied."""
        return self.included.fullmatch(name) is not None and self.excluded.fullmatch(name) is None


class Mirror:
    """Copies from one cluster to another.

    Args:
        name: of the mirror: no two that run may have the same in a target cluster.
        source, target: client configs, under Python's names; those that the copy needs go before them.
        topics, groups: what is copied; topics that are internal never are.
        prefix: put before the names of topics in the target.
        replication_factor: of topics that are made there; -1: the cluster's default.
        max_records: of one transaction.
        tell: is given lines about what changes.

    Attributes:
        copied: how many records.
        translated: how many groups stand in the target where they stand in the source.
    """

    def __init__(
        self,
        name: str,
        source: Mapping[str, Any],
        target: Mapping[str, Any],
        *,
        topics: Choice,
        groups: Choice,
        prefix: str,
        replication_factor: int,
        max_records: int,
        tell: Callable[[str], object],
    ) -> None:
        self.copied = 0
        self.translated = 0
        self.state_topic = f"__odradek-mirror-{name}"
        self._topics = topics
        self._groups = groups
        self._prefix = prefix
        self._replication_factor = replication_factor
        self._max_records = max_records
        self._tell = tell
        self._failures = 0
        self._target_configs = target
        self._states: dict[TopicPartition, PartitionState] = {}
        self._source_admin = Admin(**source)
        self._target_admin = Admin(**target)
        reading = {
            "isolation_level": "read_committed",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        self._consumer = Consumer(**{**source, **reading})
        self._producer = Producer(**{**target, "transactional_id": f"odradek-mirror-{name}"})

    def start(self) -> None:
        """Take over from a predecessor, and learn how far it came.

        Raises:
            KafkaError: the target cluster does not allow it.
        """
        self._make_topic(self.state_topic, 1, {"cleanup.policy": "compact"})
        self._producer.init_transactions()
        with Consumer(**{**self._target_configs, "isolation_level": "read_committed"}) as reader:
            tp = TopicPartition(self.state_topic, 0)
            reader.assign([tp])
            reader.seek_to_beginning(tp)
            end = reader.end_offsets([tp])[tp]
            while reader.position(tp) < end:
                for record in reader.poll(_POLL_MS):
                    if record.key is not None and record.value is not None:
                        partition, state = decode(record.key, record.value)
                        self._states[partition] = state

    def close(self) -> None:
        """Close all clients; an open transaction is aborted."""
        for client in (self._producer, self._consumer, self._source_admin, self._target_admin):
            client.close()

    # Topics

    def refresh_topics(self) -> None:
        """Look for new topics, partitions and configs in the source, and have them in the target."""
        described = {
            name: topic
            for name, topic in self._source_admin.describe_topics().items()
            if self._topics.has(name) and not topic.is_internal
        }
        # Topics without configs have been deleted since, as has a copy without: it is made anew next time.
        configs = _own_configs(self._source_admin, described)
        described = {name: topic for name, topic in described.items() if name in configs}
        there = self._target_admin.describe_topics()
        known = {name: self._prefix + name for name in described if self._prefix + name in there}
        # Configs of topics that are there already are compared, not set blindly: nothing is written then.
        present = _own_configs(self._target_admin, known.values())
        described = {
            name: topic for name, topic in described.items() if name not in known or known[name] in present
        }
        for name, topic in sorted(described.items()):
            copy = self._prefix + name
            count = len(topic.partitions)
            if copy not in there:
                self._make_topic(copy, count, configs[name])
                self._tell(f"topic {name}: made {copy}, partitions: {count}")
                continue
            if len(there[copy].partitions) < count:
                self._target_admin.create_partitions({copy: count})
                self._tell(f"topic {name}: more partitions for {copy}: {count}")
            changed: dict[str, str | None] = {
                key: configs[name].get(key)
                for key in {*configs[name], *present[copy]}
                if configs[name].get(key) != present[copy].get(key)
            }
            if changed:
                self._target_admin.incremental_alter_configs({("topic", copy): changed})
                self._tell(f"topic {name}: configs of {copy} changed: {', '.join(sorted(changed))}")
        self._read(TopicPartition(name, p.partition) for name, t in described.items() for p in t.partitions)

    def _make_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        topic = NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=self._replication_factor,
            configs=dict(configs),
        )
        try:
            self._target_admin.create_topics([topic])
        except KafkaError as error:
            if error.code.name != "TOPIC_ALREADY_EXISTS":
                raise

    def _read(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from where the copy ends; others no longer."""
        wanted = set(partitions)
        before = self._consumer.assignment()
        if gone := before - wanted:
            self._consumer.incremental_unassign(gone)
        new = wanted - before
        if new:
            self._consumer.incremental_assign(new)
        for tp in new:
            if tp in self._states:
                self._consumer.seek(tp, self._states[tp].position)
            else:
                self._consumer.seek_to_beginning(tp)

    # Records

    def end_offsets(self) -> dict[TopicPartition, int]:
        """The ends of what is there to be copied now."""
        return self._consumer.end_offsets(self._consumer.assignment())

    def is_behind(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Return whether something before these ends is still to be copied."""
        assigned = self._consumer.assignment()
        return any(self._consumer.position(tp) < end for tp, end in ends.items() if tp in assigned)

    def step(self) -> None:
        """Copy what has come, in one transaction.

        Raises:
            OdradekError: it cannot be gone on with. A mirror that is started again can, and copies nothing
                twice.
        """
        records = self._consumer.poll(_POLL_MS, self._max_records) if self._consumer.assignment() else []
        if not records:
            if not self._consumer.assignment():
                time.sleep(_POLL_MS / 1000)
            return
        try:
            with self._producer.begin_transaction():
                states = self._copy(records)
        except OdradekError as problem:
            worth_another = problem.requires_abort or getattr(problem, "retriable", False)
            # Nobody knows how a commit ended that timed out; the next start asks the coordinator.
            unknown = isinstance(problem, ClientTimeoutError) and not problem.requires_abort
            self._failures += 1
            if problem.fatal or unknown or not worth_another or self._failures >= _ATTEMPTS:
                raise
            self._tell(f"a transaction was aborted, and is tried again: {problem}")
            for record in reversed(records):
                self._consumer.seek((record.topic, record.partition), record.offset)
            time.sleep(_BACKOFF_S)
            return
        self._failures = 0
        self._states |= states
        self.copied += len(records)

    def _copy(self, records: Iterable[ConsumerRecord]) -> dict[TopicPartition, PartitionState]:
        """Send records, and the states after them."""
        sent = [
            (
                record,
                self._producer.send(
                    self._prefix + record.topic,
                    record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                    headers=record.headers,
                ),
            )
            for record in records
        ]
        self._producer.flush()
        copied: dict[TopicPartition, list[tuple[int, int]]] = {}
        for record, future in sent:
            tp = TopicPartition(record.topic, record.partition)
            copied.setdefault(tp, []).append((record.offset, future.result(0).offset))
        states = {
            tp: self._states.get(tp, PartitionState(0)).after(offsets) for tp, offsets in copied.items()
        }
        for tp, state in states.items():
            key, value = encode(tp, state)
            self._producer.send(self.state_topic, value, key=key, partition=0)
        return states

    # Groups

    def translate_groups(self) -> None:
        """Set groups in the target to where they are in the source, unless they have members there.

        As MirrorMaker's `sync.group.offsets.enabled`, offsets only go forward.
        """
        names = [
            group.group_id
            for group in consumer_groups(self._source_admin)
            if self._groups.has(group.group_id)
        ]
        described = self._target_admin.describe_groups(names) if names else {}
        self.translated = 0
        for name in names:
            if described[name].state not in _IDLE:
                continue
            translated = {
                TopicPartition(self._prefix + tp.topic, tp.partition): offset
                for tp, at in self._source_admin.list_group_offsets(name).items()
                if tp in self._states
                and at.offset >= 0
                and (offset := self._states[tp].translate(at.offset)) is not None
            }
            if not translated:
                continue
            present = {tp: at.offset for tp, at in self._target_admin.list_group_offsets(name).items()}
            ahead = {tp: offset for tp, offset in translated.items() if present.get(tp, -1) < offset}
            try:
                if ahead:
                    self._target_admin.alter_group_offsets(name, ahead)
            except KafkaError as error:
                # Members have come meanwhile; or this one group is not ours to change.
                self._tell(f"group {name}: {error}")
                continue
            self.translated += 1


def _own_configs(admin: Admin, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """Topic → the configs that were set for it; topics that are gone by now are left out."""
    return {
        name: {
            key: entry.value
            for key, entry in entries.items()
            if entry.source == _TOPIC_SOURCE and entry.value is not None and key not in LEFT_OUT_CONFIGS
        }
        for name, entries in configs_of(admin, topics).items()
    }
