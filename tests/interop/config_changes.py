"""Waiting until a broker has heard of what was changed about quotas and configs."""

from __future__ import annotations

import time
import uuid

from interop import members
from odradek import Admin

MARK = "log.segment.delete.delay.ms"
"""A config that a running broker takes up, and of which nothing here depends."""


def until_heard(at: str) -> None:
    """Wait until the only broker of a cluster has taken up what was changed before.

    One with ZooKeeper is told of quotas and configs in one line, in their order, a moment after they were
    written, and says of its own configs what it goes by: a further change that it tells of comes after the
    others.
    """
    value = str(60_000 + uuid.uuid4().int % 1_000_000)
    with Admin(bootstrap_servers=at) as admin:
        (broker,) = admin.describe_cluster().nodes
        admin.incremental_alter_configs({("broker", ""): {MARK: value}})

        def heard() -> bool:
            (configs,) = admin.describe_configs([("broker", str(broker.id))], names=[MARK]).values()
            time.sleep(0.02)
            return configs[MARK].value == value

        members.until("the broker has heard of the change", heard)
