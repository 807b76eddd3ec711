"""A partition's leader moves while a producer writes: what failed at the old one goes on without a pause."""

from __future__ import annotations

import pytest

from odradek.client import Admin, Producer
from odradek.testing import Cluster

LONG_MS = 60_000
"""Who waits for this pause between tries has not been acknowledged when the test gives up."""


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_batch_that_came_to_the_old_leader_does_not_wait_for_the_backoff(idempotent: bool) -> None:
    with Cluster(2) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        cluster.create_topic("moves")
        old, new = cluster.partition("moves").replicas
        with Producer(
            bootstrap_servers=cluster.bootstrap_servers,
            acks="all",
            enable_idempotence=idempotent,
            retry_backoff_ms=LONG_MS,
            retry_backoff_max_ms=LONG_MS,
            delivery_timeout_ms=2 * LONG_MS,
        ) as producer:
            assert producer.send("moves", value=b"to the old", partition=0).result(60).offset == 0
            admin.alter_partition_reassignments({("moves", 0): (new, old)})
            cluster.wait_until(lambda: cluster.partition("moves").replicas == (new, old))
            admin.elect_leaders([("moves", 0)])
            cluster.wait_until(lambda: cluster.leader("moves") == new)
            assert producer.send("moves", value=b"to the new", partition=0).result(60).offset == 1
