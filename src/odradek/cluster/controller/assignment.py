"""The assignment of a new topic's partitions to brokers.

Kafka's goals: replicas spread evenly; the partitions that one broker leads have their other replicas spread
over the other brokers; with racks, the replicas of a partition are in different racks as far as there are
racks.

The first replicas go round robin over the brokers from a random start. The others follow at a distance (the
*shift*) that grows by one whenever all brokers have had a turn, so that not the same brokers always pair up.
With racks, the same is done over a list of brokers that alternates between the racks, passing over brokers in
racks that have a replica already while some rack has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.cluster.controller.random_source import RandomSource, SystemRandomSource
from odradek.errors import InvalidPartitionsError, InvalidReplicationFactorError, UnknownServerError

Racks = Mapping[int, str | None]
"""The racks of brokers by id; all or none of them should be known."""


def assign_replicas(
    racks: Racks,
    partitions: int,
    replication_factor: int,
    *,
    start_index: int | None = None,
    first_partition: int = 0,
    rng: RandomSource | None = None,
) -> dict[int, tuple[int, ...]]:
    """Assign new partitions to brokers.

    Args:
        racks: the live brokers.
        partitions: how many partitions to assign.
        replication_factor: replicas of each.
        start_index: where round robin starts, and the first shift; random without it.
        first_partition: index of the first partition: how many the topic has already.
        rng: the source of randomness.

    Returns:
        Replicas by partition, the preferred leader first.

    Raises:
        InvalidPartitionsError: `partitions` is not positive.
        InvalidReplicationFactorError: not positive, or more than there are brokers.
        UnknownServerError: some brokers have a rack and some have none.
    """
    if partitions <= 0:
        raise InvalidPartitionsError("Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise InvalidReplicationFactorError("Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        raise InvalidReplicationFactorError(
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}."
        )
    if all(rack is None for rack in racks.values()):
        brokers, racks_known = sorted(racks), None
    else:
        racks_known = {broker: rack for broker, rack in racks.items() if rack is not None}
        if len(racks_known) < len(racks):
            raise UnknownServerError(
                "Not all brokers have rack information for replica rack aware assignment."
            )
        brokers = rack_alternated(racks_known)
    rng = rng if rng is not None else SystemRandomSource()
    start = start_index if start_index is not None else rng.randrange(len(brokers))
    shift = start_index if start_index is not None else rng.randrange(len(brokers))
    assignment: dict[int, tuple[int, ...]] = {}
    for index in range(first_partition, first_partition + partitions):
        if index > 0 and index % len(brokers) == 0:
            shift += 1
        first = (index + start) % len(brokers)
        if racks_known is None:
            followers = tuple(
                brokers[_follower(first, shift, j, len(brokers))] for j in range(replication_factor - 1)
            )
            assignment[index] = (brokers[first], *followers)
        else:
            assignment[index] = _across_racks(brokers, racks_known, first, shift, replication_factor)
    return assignment


def _across_racks(
    brokers: Sequence[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    rack_count = len(set(racks.values()))
    replicas = [brokers[first]]
    used = {racks[brokers[first]]}
    step = 0
    while len(replicas) < replication_factor:
        broker = brokers[_follower(first, shift * rack_count, step, len(brokers))]
        step += 1
        if broker not in replicas and (racks[broker] not in used or len(used) == rack_count):
            replicas.append(broker)
            used.add(racks[broker])
    return tuple(replicas)


def _follower(first: int, shift: int, step: int, brokers: int) -> int:
    return (first + 1 + (shift + step) % (brokers - 1)) % brokers


def rack_alternated(racks: Mapping[int, str]) -> list[int]:
    """The brokers such that neighbours are in different racks as far as possible.

    The first broker of each rack comes first, in the order of the racks' names, then the second of each …
    """
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(len(column) for column in columns)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]
