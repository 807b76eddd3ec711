"""Input and plans of `odradek reassign-partitions`, worked out without a cluster: plans, throttles, and
texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from odradek.client.types import PartitionReassignment, TopicPartition, TopicPartitionReplica
from odradek.errors import OdradekError

ANY_LOG_DIR = "any"

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

Assignment = dict[TopicPartition, tuple[int, ...]]
LogDirs = dict[TopicPartitionReplica, str]

_FORM = '{"version": 1, "partitions": [{"topic": …, "partition": …, "replicas": […], "log_dirs": […]}]}'


class Plan(NamedTuple):
    """The plan in `--reassignment-json-file`: replicas, and folders where not any will do."""

    replicas: Assignment
    log_dirs: LogDirs


def read_plan(path: Path) -> Plan:
    """Read a plan.

    Raises:
        OdradekError: it is not of the form, empty, or names something twice.
    """
    rows = _rows(path, "partitions", _FORM)
    plan = Plan({}, {})
    twice: set[str] = set()
    for row in rows:
        try:
            tp = TopicPartition(str(row["topic"]), int(row["partition"]))
            replicas = tuple(int(broker) for broker in row["replicas"])
            folders = [str(folder) for folder in row.get("log_dirs", [ANY_LOG_DIR] * len(replicas))]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OdradekError(f"{path} is not of the form {_FORM}: {error!r}") from error
        if not replicas:
            raise OdradekError(f"Partition replica list cannot be empty: {tp}")
        if len(set(replicas)) != len(replicas):
            raise OdradekError(
                f"Partition replica lists may not contain duplicate entries: {tp} has {list(replicas)}"
            )
        if len(folders) != len(replicas):
            raise OdradekError(
                f"Size of replicas list {list(replicas)} is different from size of log dirs list {folders} "
                f"for partition {tp}"
            )
        if tp in plan.replicas:
            twice.add(str(tp))
        plan.replicas[tp] = replicas
        for broker, folder in zip(replicas, folders, strict=True):
            if folder != ANY_LOG_DIR:
                plan.log_dirs[TopicPartitionReplica(*tp, broker)] = folder
    if twice:
        raise OdradekError(
            f"Partition reassignment contains duplicate topic partitions: {','.join(sorted(twice))}"
        )
    if not plan.replicas:
        raise OdradekError("Partition reassignment list cannot be empty")
    return plan


def read_topics(path: Path) -> list[str]:
    """The topics of a `--topics-to-move-json-file`.

    Raises:
        OdradekError: it is not of the form, or names a topic twice.
    """
    form = '{"version": 1, "topics": [{"topic": …}]}'
    try:
        names = [str(row["topic"]) for row in _rows(path, "topics", form)]
    except (KeyError, TypeError) as error:
        raise OdradekError(f"{path} is not of the form {form}: {error!r}") from error
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise OdradekError(f"List of topics to reassign contains duplicate entries: {','.join(twice)}")
    return names


def _rows(path: Path, name: str, form: str) -> list[Any]:
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        version = int(content.get("version", 1))
        rows = list(content.get(name, []))
    except (ValueError, TypeError, AttributeError) as error:
        raise OdradekError(f"{path} is not of the form {form}: {error!r}") from error
    if version != 1:
        raise OdradekError(f"Not supported version field value {version}")
    return rows


def as_plan(replicas: Mapping[TopicPartition, Sequence[int]]) -> str:
    """An assignment in the form that `read_plan` reads; every log dir is `any`."""
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "replicas": list(brokers),
            "log_dirs": [ANY_LOG_DIR] * len(brokers),
        }
        for tp, brokers in sorted(replicas.items())
    ]
    return json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"), ensure_ascii=False)


# --- throttles ----------------------------------------------------------------------------------------------


class Moves(NamedTuple):
    """From which brokers partitions are copied, and to which."""

    sources: dict[TopicPartition, set[int]]
    targets: dict[TopicPartition, set[int]]

    @property
    def brokers(self) -> set[int]:
        """All that take part."""
        return {broker for some in (*self.sources.values(), *self.targets.values()) for broker in some}

    def throttled_replicas(self) -> dict[str, dict[str, str | None]]:
        """Topic → its two configs that say which replicas are throttled."""
        configs: dict[str, dict[str, str | None]] = {}
        for name, moves in ((LEADER_REPLICAS, self.sources), (FOLLOWER_REPLICAS, self.targets)):
            words: dict[str, list[str]] = {}
            for tp, brokers in sorted(moves.items()):
                words.setdefault(tp.topic, []).extend(
                    f"{tp.partition}:{broker}" for broker in sorted(brokers)
                )
            for topic, some in words.items():
                configs.setdefault(topic, {})[name] = ",".join(some)
        return configs


def moves(
    assignment: Mapping[TopicPartition, Sequence[int]],
    present: Mapping[TopicPartition, Sequence[int]],
    under_way: Mapping[TopicPartition, PartitionReassignment],
) -> Moves:
    """Return what is copied when `assignment` is executed, and what is being copied already."""
    copies = Moves({}, {})
    for tp, moving in under_way.items():
        copies.sources[tp] = set(moving.replicas) - set(moving.adding_replicas)
        copies.targets[tp] = set(moving.adding_replicas)
    for tp, brokers in assignment.items():
        sources = copies.sources.setdefault(tp, set(present[tp]))
        copies.targets[tp] = set(brokers) - sources
    return copies


# --- texts --------------------------------------------------------------------------------------------------


def numbers(brokers: Iterable[int]) -> str:
    """`1,2,3`."""
    return ",".join(map(str, brokers))


def names(partitions: Iterable[TopicPartition | TopicPartitionReplica]) -> str:
    """`t-0,t-1`, sorted."""
    return ",".join(str(partition) for partition in sorted(partitions))


def plural(count: int) -> str:
    """An `s`, except for one."""
    return "" if count == 1 else "s"


def under_way_line(tp: TopicPartition, moving: PartitionReassignment) -> str:
    """A line of `--list`."""
    text = f"{tp}: replicas: {numbers(moving.replicas)}."
    if moving.adding_replicas:
        text += f" adding: {numbers(moving.adding_replicas)}."
    if moving.removing_replicas:
        text += f" removing: {numbers(moving.removing_replicas)}."
    return text


def status_line(tp: TopicPartition, target: Sequence[int], present: Sequence[int], *, is_moving: bool) -> str:
    """A line of `--verify` about a partition."""
    if is_moving:
        return f"Reassignment of partition {tp} is still in progress."
    if tuple(present) == tuple(target):
        return f"Reassignment of partition {tp} is completed."
    return (
        f"There is no active reassignment of partition {tp}, but replica set is {numbers(present)} "
        f"rather than {numbers(target)}."
    )


class Place(NamedTuple):
    """In which folder a replica is, and in which its copy, that will take its place; None: in none."""

    present: str | None
    future: str | None


def place_line(replica: TopicPartitionReplica, target: str, place: Place) -> str:
    """A line of `--verify` about a replica's folder."""
    tp = TopicPartition(replica.topic, replica.partition)
    if place.present is None:
        return (
            f"Partition {tp} is not found in any live log dir on broker {replica.broker_id}. There is likely "
            "an offline log directory on the broker."
        )
    if place.future == target:
        return f"Reassignment of replica {replica} is still in progress."
    if place.future is not None:
        return (
            f"Partition {tp} on broker {replica.broker_id} is being moved to log dir {place.future} instead "
            f"of {target}."
        )
    if place.present == target:
        return f"Reassignment of replica {replica} completed successfully."
    return (
        f"Partition {tp} on broker {replica.broker_id} is not being moved from log dir {place.present} to "
        f"{target}."
    )
