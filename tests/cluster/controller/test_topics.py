"""Names, collisions and manual assignments of topics."""

from __future__ import annotations

import pytest

from odradek.cluster.controller import topics
from odradek.errors import InvalidReplicaAssignmentError, InvalidTopicError


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "...", "x" * 249, "__consumer_offsets", "-"])
def test_names_that_kafka_allows(name: str) -> None:
    topics.check_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "longer than the max allowed length 249"),
        ("a b", "other than ASCII alphanumerics"),
        ("a/b", "other than ASCII alphanumerics"),
        ("ä", "other than ASCII alphanumerics"),
        ("a\n", "other than ASCII alphanumerics"),
        ("a\0", "other than ASCII alphanumerics"),
    ],
)
def test_names_that_kafka_refuses(name: str, why: str) -> None:
    with pytest.raises(InvalidTopicError) as caught:
        topics.check_name(name)
    assert str(caught.value).startswith("Topic name is invalid: ")
    assert why in str(caught.value)


def test_dots_and_underscores_collide() -> None:
    assert topics.colliding("a.b", ["a_b", "a.b", "ab", "a-b"]) == ["a_b"]
    assert topics.colliding("ab", ["a_b"]) == []
    with pytest.raises(InvalidTopicError, match=r"^Topic 'a\.b' collides with existing topics: a_b$"):
        topics.check_collision("a.b", ["a_b"])


@pytest.mark.parametrize(
    ("assignment", "why"),
    [
        ({}, "same number of replicas"),
        ({0: [1, 2], 1: [1]}, "same number of replicas"),
        ({0: [1, 1]}, "Duplicate replica assignment"),
        ({1: [1]}, "consecutive 0-based"),
        ({0: [1], 2: [1]}, "consecutive 0-based"),
        ({-1: [1], 0: [1]}, "consecutive 0-based"),
        ({0: []}, "no replicas"),
    ],
)
def test_manual_assignments_that_cannot_be(assignment: dict[int, list[int]], why: str) -> None:
    with pytest.raises(InvalidReplicaAssignmentError, match=why):
        topics.check_new_assignment(assignment)


@pytest.mark.parametrize(
    ("assignment", "why"),
    [
        ({0: []}, "an empty replica list."),
        ({0: [1, 99]}, "broker 99, but no such broker is registered."),
        ({0: [99], 2: [1]}, "broker 99, but no such broker is registered."),
        ({0: [-1]}, "broker -1, but no such broker is registered."),
        ({0: [1, 1]}, "the broker 1 more than once."),
        ({0: [1], 1: [1, 2]}, r"a partition with 2 replica\(s\), .* which have 1 replica\(s\)."),
        ({1: [1]}, "consecutive 0-based"),
        ({-1: [1], 0: [1]}, "consecutive 0-based"),
    ],
)
def test_manual_assignments_that_cannot_be_with_kraft(assignment: dict[int, list[int]], why: str) -> None:
    with pytest.raises(InvalidReplicaAssignmentError, match=why):
        topics.check_manual_assignment(assignment, {1, 2})
    topics.check_manual_assignment({1: [2, 1], 0: [1, 2]}, {1, 2})


def test_unknown_brokers_are_allowed_in_a_new_topic_with_zookeeper_only() -> None:
    topics.check_new_assignment({0: [99], 1: [98]})
    with pytest.raises(InvalidReplicaAssignmentError, match=r"Unknown broker\(s\).*: 98, 99\."):
        topics.check_added_assignments([[99], [98]], 2, 1, {1})


@pytest.mark.parametrize(
    ("assignments", "why"),
    [
        ([[1]], "Increasing the number of partitions by 2 but 1 assignments provided"),
        ([[1], []], "replication factor of 0"),
        ([[1], [1, 1]], "Duplicate brokers"),
        ([[1], [1, 2]], "Inconsistent replication factor"),
    ],
)
def test_added_assignments_that_cannot_be(assignments: list[list[int]], why: str) -> None:
    with pytest.raises(InvalidReplicaAssignmentError, match=why):
        topics.check_added_assignments(assignments, 2, 1, {1, 2})
