"""An administrator whose changes of topics a quota has no room for: it waits, or says so (KIP-599)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek import Admin, NewTopic
from odradek.errors import ThrottlingQuotaExceededError
from odradek.testing import Broker

RATE = 20
"""Partitions a second, and what the bucket holds."""


@pytest.fixture
def admin() -> Iterator[Admin]:
    with (
        Broker(controller_quota_window_num=1) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers, client_id="busy") as admin,
    ):
        admin.alter_client_quotas({(("client-id", "busy"),): {"controller_mutation_rate": float(RATE)}})
        yield admin


def test_it_waits_for_its_quota(admin: Admin) -> None:
    admin.create_topics([NewTopic("a", num_partitions=RATE + 2), NewTopic("b", num_partitions=1)])
    admin.create_partitions({"b": RATE + 4})
    admin.create_topics(["c"])
    admin.delete_topics(["a", "b", "c"])
    assert admin.list_topics() == []


def test_it_says_so_where_it_is_not_to_wait(admin: Admin) -> None:
    with pytest.raises(ThrottlingQuotaExceededError) as refused:
        admin.create_topics(
            [NewTopic("a", num_partitions=2 * RATE), NewTopic("b", num_partitions=1)],
            retry_on_quota_violation=False,
        )
    assert set(refused.value.errors) == {"b"}  # type: ignore[attr-defined]
    assert admin.list_topics() == ["a"]


def test_it_waits_no_longer_than_a_call_may_take() -> None:
    with (
        Broker(controller_quota_window_num=1) as broker,
        Admin(
            bootstrap_servers=broker.bootstrap_servers, client_id="busy", default_api_timeout_ms=10_000
        ) as admin,
    ):
        admin.alter_client_quotas({(("client-id", "busy"),): {"controller_mutation_rate": 0.01}})
        admin.create_topics(["a"])
        with pytest.raises(ThrottlingQuotaExceededError):
            admin.create_topics(["b"])
