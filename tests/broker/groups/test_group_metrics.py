"""The lag of a group, as its coordinator shows it."""

from __future__ import annotations

from odradek import Consumer, Producer
from odradek.testing import Broker

_GROUP = "odradek.server:ConsumerGroup"
_COORDINATOR = "kafka.coordinator.group:GroupMetadataManager"


def test_lag_is_what_is_not_committed() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(5):
                producer.send("orders", value=b"%d" % number)
        with Consumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=2,
        ) as consumer:
            records = next(iter(consumer))
            assert records.offset == 0
            consumer.commit()
            metrics = broker.metrics()
            tags = (("consumergroup", "billing"), ("topic", "orders"), ("partition", "0"))
            committed = metrics[_GROUP, "CurrentOffset", tags]
            assert committed > 0
            assert metrics[_GROUP, "Lag", tags] == 5 - committed
            assert metrics[_GROUP, "Members", tags[:1]] == 1
            assert metrics[_COORDINATOR, "NumGroupsStable", ()] == 1
        metrics = broker.metrics()
        assert metrics[_COORDINATOR, "NumGroupsEmpty", ()] == 1
        assert metrics[_COORDINATOR, "NumGroups", ()] == 1
