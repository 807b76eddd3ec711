"""Replica assignment: Kafka's own answers, and what must hold for any cluster."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.cluster.controller.assignment import assign_replicas, rack_alternated
from odradek.cluster.controller.random_source import SystemRandomSource, random_uuid
from odradek.errors import InvalidReplicationFactorError, KafkaError

from ..golden import cluster_lines

KAFKA_NAMES = {
    "InvalidReplicationFactorException": "InvalidReplicationFactorError",
    "InvalidPartitionsException": "InvalidPartitionsError",
    "AdminOperationException": "UnknownServerError",
}


def test_the_assignments_are_kafkas() -> None:
    compared = 0
    for case in cluster_lines("assignments"):
        racks = {int(broker): rack for broker, rack in case["racks"].items()}
        args = (racks, case["partitions"], case["replication_factor"])
        where = {"start_index": case["start_index"], "first_partition": case["first_partition"]}
        if "error" in case:
            with pytest.raises(KafkaError) as caught:
                assign_replicas(*args, **where)
            assert type(caught.value).__name__ == KAFKA_NAMES[case["error"]]
            assert str(caught.value) == case["message"]
        else:
            assert assign_replicas(*args, **where) == {
                int(index): tuple(replicas) for index, replicas in case["assignment"].items()
            }, case
        compared += 1
    assert compared > 300


def test_brokers_alternate_between_racks() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert rack_alternated(racks) == [0, 3, 1, 5, 4, 2]
    del racks[5]
    assert rack_alternated(racks) == [0, 3, 1, 4, 2]


@settings(max_examples=150, deadline=None)
@given(
    brokers=st.integers(1, 12),
    racks=st.integers(0, 4),
    partitions=st.integers(1, 40),
    factor=st.integers(1, 12),
    first=st.integers(0, 20),
    seed=st.integers(0, 2**32),
)
def test_any_assignment_is_fair(
    brokers: int, racks: int, partitions: int, factor: int, first: int, seed: int
) -> None:
    rng = random.Random(seed)
    cluster = {b: (f"r{b % racks}" if racks else None) for b in range(brokers)}
    if factor > brokers:
        with pytest.raises(InvalidReplicationFactorError):
            assign_replicas(cluster, partitions, factor, first_partition=first, rng=rng)
        return
    assignment = assign_replicas(cluster, partitions, factor, first_partition=first, rng=rng)
    assert list(assignment) == list(range(first, first + partitions))
    leaders = Counter(replicas[0] for replicas in assignment.values())
    assert max(leaders.values()) - min(leaders[b] for b in cluster) <= 1, "leaders are spread evenly"
    for replicas in assignment.values():
        assert len(set(replicas)) == factor
        if racks:
            there = min(racks, brokers)
            assert len({cluster[b] for b in replicas}) == min(there, factor), "as many racks as there can be"


def test_random_uuids_are_version_4_and_never_begin_with_a_dash() -> None:
    from odradek.cluster.nodes import topic_id_to_text

    rng = random.Random(1)
    for source in (rng, SystemRandomSource()):
        for _ in range(300):
            value = random_uuid(source)
            assert len(value) == 16
            assert value[6] >> 4 == 4
            assert value[8] >> 6 == 2
            assert not topic_id_to_text(value).startswith("-")


def test_system_chance_stays_in_range() -> None:
    source = SystemRandomSource()
    assert {source.randrange(3) for _ in range(200)} == {0, 1, 2}
