"""The rules for topics: names, partition counts, assignments. Pure checks with Kafka's errors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from odradek.errors import InvalidReplicaAssignmentError, InvalidTopicError
from odradek.wire.internal_topics import INTERNAL_TOPICS

MAX_NAME_LENGTH = 249
CLUSTER_METADATA_TOPIC = "__cluster_metadata"

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def why_invalid(name: str) -> str | None:
    """Return what is wrong with a topic's name; None if nothing is."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.issuperset(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_name(name: str) -> None:
    """Check a topic's name.

    Raises:
        InvalidTopicError: Kafka does not allow it.
    """
    why = why_invalid(name)
    if why is not None:
        raise InvalidTopicError(f"Topic name is invalid: {why}")


def is_internal(name: str) -> bool:
    """Return whether a topic belongs to the brokers themselves."""
    return name in INTERNAL_TOPICS


def colliding(name: str, existing: Iterable[str]) -> list[str]:
    """The existing topics whose metrics would have the same name: `.` and `_` are one there."""
    if "." not in name and "_" not in name:
        return []
    unified = name.replace(".", "_")
    return [other for other in existing if other != name and other.replace(".", "_") == unified]


def check_collision(name: str, existing: Iterable[str]) -> None:
    """Check that a new topic's name does not collide with one that exists.

    Raises:
        InvalidTopicError: it does.
    """
    others = colliding(name, existing)
    if others:
        raise InvalidTopicError(f"Topic '{name}' collides with existing topics: {', '.join(others)}")


def check_manual_replicas(
    replicas: Sequence[int], brokers: Collection[int], replication_factor: int | None = None
) -> None:
    """Check the replicas that somebody wants a partition to have, as a KRaft controller does.

    Args:
        replicas: as they are wanted.
        brokers: those that are registered.
        replication_factor: how many replicas there must be; None for any number.

    Raises:
        InvalidReplicaAssignmentError: none, an unknown broker, one twice, or another number of replicas.
    """
    if not replicas:
        raise InvalidReplicaAssignmentError("The manual partition assignment includes an empty replica list.")
    before = None
    for broker in sorted(replicas):
        if broker not in brokers:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
        if broker == before:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes the broker {broker} more than once."
            )
        before = broker
    if replication_factor not in (None, len(replicas)):
        raise InvalidReplicaAssignmentError(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this "
            f"is not consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def check_manual_assignment(assignment: Mapping[int, Sequence[int]], brokers: Collection[int]) -> None:
    """Check the manual assignment of a new topic, as a KRaft controller does.

    Args:
        assignment: replicas by partition, in the order in which they were named.
        brokers: those that are registered.

    Raises:
        InvalidReplicaAssignmentError: see `check_manual_replicas`, or indexes that are not 0, 1, 2 …
    """
    factor = None
    for replicas in assignment.values():
        check_manual_replicas(replicas, brokers, factor)
        factor = len(replicas)
    _check_consecutive(assignment)


def check_new_assignment(assignment: Mapping[int, Sequence[int]]) -> None:
    """Check the manual assignment of a new topic, as a controller with ZooKeeper does.

    Brokers may be unknown.

    Raises:
        InvalidReplicaAssignmentError: partitions with different numbers of replicas, a broker twice in one,
            or indexes that are not 0, 1, 2 …
    """
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise InvalidReplicaAssignmentError("All partitions should have the same number of replicas")
    for index, replicas in assignment.items():
        if not replicas:
            raise InvalidReplicaAssignmentError(f"Partition {index} has no replicas")
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignmentError(
                f"Duplicate replica assignment found: partition {index} has {list(replicas)}"
            )
    _check_consecutive(assignment)


def _check_consecutive(assignment: Mapping[int, Sequence[int]]) -> None:
    if sorted(assignment) != list(range(len(assignment))):
        raise InvalidReplicaAssignmentError("partitions should be a consecutive 0-based integer sequence")


def check_added_assignments(
    assignments: Sequence[Sequence[int]], count: int, replication_factor: int, brokers: Collection[int]
) -> None:
    """Check the manual assignments of partitions that are added to a topic.

    Args:
        assignments: replicas of each added partition.
        count: how many partitions are added.
        replication_factor: of the topic's partition 0.
        brokers: the live brokers.

    Raises:
        InvalidReplicaAssignmentError: unknown brokers, not one assignment per partition, duplicates, or
            another replication factor.
    """
    unknown = {broker for replicas in assignments for broker in replicas} - set(brokers)
    if unknown:
        raise InvalidReplicaAssignmentError(
            f"Unknown broker(s) in replica assignment: {', '.join(map(str, sorted(unknown)))}."
        )
    if len(assignments) != count:
        raise InvalidReplicaAssignmentError(
            f"Increasing the number of partitions by {count} but {len(assignments)} assignments provided."
        )
    for index, replicas in enumerate(assignments):
        if not replicas:
            raise InvalidReplicaAssignmentError(
                f"Cannot have replication factor of 0 for added partition {index}."
            )
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignmentError(
                f"Duplicate brokers not allowed in replica assignment: {list(replicas)} "
                f"for added partition {index}."
            )
        if len(replicas) != replication_factor:
            raise InvalidReplicaAssignmentError(
                f"Inconsistent replication factor between partitions: the topic has {replication_factor}, "
                f"added partition {index} has {len(replicas)}."
            )
