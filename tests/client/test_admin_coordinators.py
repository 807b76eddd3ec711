"""How many requests it takes to ask coordinators about many groups and transactional ids."""

from __future__ import annotations

from collections import Counter

import pytest

from odradek.client import Admin
from odradek.testing import Broker, Cluster

GROUPS = [f"g{n}" for n in range(20)]


@pytest.mark.parametrize(("release", "find"), [(None, 1), ("2.8", 20)])
def test_a_coordinator_is_asked_once_about_all_its_groups(release: str | None, find: int) -> None:
    with Broker(kafka_version=release) as broker, Admin(**broker.client_configs()) as admin:
        broker.create_topic("orders")
        for group in GROUPS:
            admin.alter_group_offsets(group, {("orders", 0): 1})
        before = broker.requests_by_api()

        def since() -> Counter[str]:
            nonlocal before
            before, last = broker.requests_by_api(), before
            return before - last

        described = admin.describe_groups([*GROUPS, GROUPS[0]])
        assert list(described) == GROUPS
        assert {group.state for group in described.values()} == {"Empty"}
        assert since() == {"FindCoordinator": find, "DescribeGroups": 1}
        admin.delete_groups(GROUPS)
        assert since() == {"FindCoordinator": find, "DeleteGroups": 1}
        assert {group.state for group in admin.describe_groups(GROUPS).values()} == {"Dead"}


def test_each_of_two_coordinators_is_asked_once() -> None:
    with Cluster(2) as cluster, Admin(**cluster.client_configs()) as admin:
        ids = [f"t{n}" for n in range(20)]
        assert list(admin.fence_producers(ids)) == ids
        before = sum((member.requests_by_api() for member in cluster.brokers), Counter())
        described = admin.describe_transactions(ids)
        after = sum((member.requests_by_api() for member in cluster.brokers), Counter()) - before
        assert list(described) == ids
        assert {state.coordinator_id for state in described.values()} == {0, 1}
        assert after["DescribeTransactions"] == 2
        assert after["FindCoordinator"] == 1
