"""A clean-up between two tests: nothing of the one before is there, and nothing comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek import Consumer, Producer
from odradek.client import Admin
from odradek.testing import Broker, Cluster, Security, UnmetFaultError
from odradek.util.acl import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePattern,
    ResourceType,
)
from waiting import WITHIN_S, gathered

from .looking.threads import consuming


def use(server: Broker | Cluster) -> None:
    """Leave topics, a group with offsets, and transactions behind."""
    server.create_topic("orders", 3, {"retention.ms": "60000"})
    server.seed("orders", ["a", "b"], partition=0)
    server.seed("orders", ["c"], transaction="committed", partition=1)
    server.seed("orders", ["d"], transaction="aborted", partition=1)
    with consuming(server, "orders", "billing"):
        server.wait_for_commit("billing", "orders", 0, offset=2, timeout_s=WITHIN_S)


def check_clean(server: Broker | Cluster) -> None:
    assert server.topics() == {}
    assert server.groups() == {}
    assert all(
        broker.call(
            lambda services: (
                not services.image.topics.keys() - {"__consumer_offsets"}
                and not services.transactions.coordinator.list().transactions
            )
        )
        for broker in ([server] if isinstance(server, Broker) else server.brokers)
    )


def test_topics_groups_and_transactions_are_gone(odradek_broker: Broker) -> None:
    for _ in range(3):
        use(odradek_broker)
        with Producer(
            bootstrap_servers=odradek_broker.bootstrap_servers, transactional_id="open"
        ) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("orders", b"x").result(WITHIN_S)
            odradek_broker.clean_up()
            check_clean(odradek_broker)
            # Nobody is there who could end it.
            producer.close(0)


def test_offsets_begin_anew_and_a_group_reads_from_the_start(odradek_broker: Broker) -> None:
    for value in (b"one", b"two"):
        odradek_broker.seed("orders", [value])
        with Consumer(
            bootstrap_servers=odradek_broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["orders"])
            assert gathered(lambda: [r.value for r in consumer.poll(0.1)], 1, "the record") == [value]
            consumer.commit()
        odradek_broker.assert_records("orders", [{"value": value, "offset": 0}])
        odradek_broker.clean_up()


def test_offsets_of_a_transaction_that_is_under_way_are_gone(odradek_broker: Broker) -> None:
    """They would keep who reads them waiting (UNSTABLE_OFFSET_COMMIT), and the group."""
    for _ in range(2):
        odradek_broker.seed("orders", ["a"])
        config = {"bootstrap_servers": odradek_broker.bootstrap_servers}
        with Producer(transactional_id="t", **config) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send_offsets_to_transaction({("orders", 0): 1}, "billing")
            assert odradek_broker.groups()["billing"].offsets == {}
            odradek_broker.clean_up()
            check_clean(odradek_broker)
            producer.close(0)
        odradek_broker.seed("orders", ["a"])
        with consuming(odradek_broker, "orders", "billing"):
            odradek_broker.wait_for_commit("billing", "orders", offset=1, timeout_s=WITHIN_S)
        odradek_broker.clean_up()


def test_the_topic_of_groups_is_there_for_the_next_test(odradek_broker: Broker) -> None:
    use(odradek_broker)
    odradek_broker.clean_up()
    assert odradek_broker.call(lambda app: list(app.image.topics)) == ["__consumer_offsets"]


def test_a_client_that_is_left_open_brings_nothing_back(odradek_broker: Broker) -> None:
    odradek_broker.create_topic("orders")
    address = odradek_broker.bootstrap_servers
    with consuming(odradek_broker, "orders", "billing"):
        odradek_broker.wait_for_group("billing", members=1, timeout_s=WITHIN_S)
        odradek_broker.clean_up()
        assert odradek_broker.bootstrap_servers != address
        odradek_broker.record_requests()
        use_another = "clicks"
        odradek_broker.seed(use_another, ["a"])
        with consuming(odradek_broker, use_another, "others", "newcomer"):
            odradek_broker.wait_for_commit("others", use_another, offset=1, timeout_s=WITHIN_S)
        assert list(odradek_broker.topics()) == [use_another]
        assert list(odradek_broker.groups()) == ["others"]
        assert odradek_broker.requests(client_id="me") == []


def test_a_port_that_was_given_stays() -> None:
    with Broker() as free:
        port = free.port
    with Broker(port=port) as broker:
        use(broker)
        broker.clean_up()
        assert broker.port == port
        check_clean(broker)
        use(broker)


def test_faults_and_recorded_requests_are_gone(odradek_broker: Broker) -> None:
    odradek_broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
    odradek_broker.record_requests()
    use(odradek_broker)
    with pytest.raises(UnmetFaultError):
        odradek_broker.clean_up()
    check_clean(odradek_broker)
    with pytest.raises(RuntimeError, match="record_requests"):
        odradek_broker.requests()
    with Producer(bootstrap_servers=odradek_broker.bootstrap_servers) as producer:
        producer.send("orders", b"a").result(WITHIN_S)


@pytest.mark.parametrize("done", ["pause", "kill", "stop", "restart", "fill_disk"])
def test_a_broker_goes_on_whatever_was_done_to_it(odradek_broker: Broker, done: str) -> None:
    odradek_broker.seed("orders", ["a"])
    getattr(odradek_broker, done)()
    odradek_broker.clean_up()
    check_clean(odradek_broker)
    use(odradek_broker)


def test_what_is_kept(odradek_broker: Broker) -> None:
    odradek_broker.seed("stays", ["a"])
    odradek_broker.keep()
    odradek_broker.seed("goes", ["b"])
    odradek_broker.clean_up()
    odradek_broker.assert_records("stays", ["a"])
    assert list(odradek_broker.topics()) == ["stays"]


def test_what_was_in_a_named_folder_stays(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        broker.seed("stays", ["a"])
    with Broker(data=tmp_path) as broker:
        broker.seed("goes", ["b"])
        broker.restart()
        broker.clean_up()
        assert list(broker.topics()) == ["stays"]


def dynamic_configs(broker: Broker) -> dict[str, Any]:
    return broker.call(lambda services: {entity: dict(c) for entity, c in services.image.configs.items()})


def test_dynamic_configs_users_and_acls_are_as_at_the_start() -> None:
    binding = AclBinding(
        ResourcePattern(ResourceType.TOPIC, "orders"),
        AccessControlEntry("User:alice", "*", AclOperation.WRITE, AclPermissionType.ALLOW),
    )
    security = Security(users={"root": "r", "alice": "a"}, super_users=("User:root",), acls=(binding,))
    with Broker(security=security) as broker:
        before = dynamic_configs(broker)
        with Admin(broker.client_configs("root")) as admin:
            admin.incremental_alter_configs({("broker", "0"): {"message.max.bytes": "2000"}})
            admin.alter_user_scram_credentials({("bob", "SCRAM-SHA-256"): "secret"})
            admin.delete_acls([AclBindingFilter()])
        assert dynamic_configs(broker) != before
        broker.clean_up()
        assert dynamic_configs(broker) == before
        assert broker.call(lambda app: app.config.message_max_bytes) != 2000
        assert broker.call(lambda app: list(app.acls.authorizer.index.bindings())) == [binding]


@pytest.mark.parametrize("odradek_broker", ["0.9", "2.2"], indirect=True)
def test_of_a_release(odradek_broker: Broker) -> None:
    odradek_broker.create_topic("orders")
    with Producer(bootstrap_servers=odradek_broker.bootstrap_servers, enable_idempotence=False) as producer:
        producer.send("orders", b"a").result(WITHIN_S)
    odradek_broker.clean_up()
    check_clean(odradek_broker)


def test_a_cluster() -> None:
    with Cluster(3) as cluster:
        use(cluster)
        cluster.kill(2)
        cluster.isolate(1)
        cluster.clean_up()
        assert cluster.live == [0, 1, 2]
        check_clean(cluster)
        use(cluster)
        cluster.clean_up()
        check_clean(cluster)
