"""From which replica a consumer had better read, by rack."""

from __future__ import annotations

import pytest

from odradek.replication.replica_selector import (
    LEADER_SELECTOR,
    RACK_AWARE_SELECTOR,
    SELECTORS,
    ReplicaView,
)

from .replicas import ME, NOW, SECOND, THIRD, append, follow, lead, make

NEAR = [
    ReplicaView(2, "a", 90, 0),
    ReplicaView(3, "b", 100, 50),
    ReplicaView(4, "b", 100, 20),
    ReplicaView(5, "b", 100, 20),
    ReplicaView(6, None, 200, 0),
]


@pytest.mark.parametrize(
    ("rack", "leader_rack", "expected"),
    [
        ("a", "c", 2),
        ("b", "c", 5),
        ("c", "c", -1),
        ("b", "b", -1),
        ("d", "c", -1),
        ("", None, -1),
        ("a", None, 2),
    ],
)
def test_the_nearest_is_the_leader_or_who_has_copied_most(
    rack: str, leader_rack: str | None, expected: int
) -> None:
    assert SELECTORS[RACK_AWARE_SELECTOR](rack, leader_rack, NEAR) == expected
    assert SELECTORS[LEADER_SELECTOR](rack, leader_rack, NEAR) == -1


def test_only_who_is_in_sync_and_has_the_offset_is_near() -> None:
    partition, _ = make()
    lead(partition, replicas=(ME, SECOND, THIRD), isr=(ME, SECOND))
    append(partition, 5)
    assert not [one for one, _ in partition.followers_at(0)]
    follow(partition, SECOND, 3)
    follow(partition, THIRD, 3)
    assert [one for one, _ in partition.followers_at(3)] == [SECOND]
    assert not [one for one, _ in partition.followers_at(4)]
    partition.record_follower_fetch(SECOND, fetch_offset=5, log_start_offset=2, now_ms=NOW)
    assert not [one for one, _ in partition.followers_at(1)]
    assert [one for one, _ in partition.followers_at(2)] == [SECOND]
