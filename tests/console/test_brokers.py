"""The pages of brokers: on one, and on a cluster one of whose brokers dies."""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.types import ClusterDescription, LogDirDescription, Node, PartitionInfo, TopicDescription
from odradek.console.views.brokers import broker_rows, log_dir_rows
from odradek.errors import KafkaStorageError
from odradek.testing import Broker, Cluster
from waiting import until

from .conftest import Visitor
from .test_topics import row


def test_a_broker_with_log_dirs_configs_and_versions(broker: Broker, visitor: Visitor) -> None:
    cells = row(visitor.get("/brokers"), "0")
    assert cells[1] == broker.bootstrap_servers
    assert cells[3] == "controller"
    page = visitor.get("/brokers/0")
    assert row(page, "Produce")[1] == "0"
    assert row(page, "offsets.topic.num.partitions read-only")[1:3] == ["5", "STATIC_BROKER_CONFIG"]
    assert "odradek log-dirs --bootstrap-server" in page
    assert "There is no broker 7" in visitor.get("/brokers/7", 404)


def test_a_cluster_whose_leader_dies_is_shown_meanwhile(visit: Callable[..., Visitor]) -> None:
    with Cluster(3) as cluster:
        cluster.create_topic("clicks", replication_factor=3)
        visitor = visit(cluster.bootstrap_servers)
        visitor.log_in()
        dead = cluster.leader("clicks")
        cluster.kill(dead)

        def clicks() -> list[str]:
            return row(visitor.get("/topics"), "clicks")

        until(
            clicks,
            "a partition with a leader that lacks a replica",
            holds=lambda cells: cells[3:5] == ["1", "0"],
        )
        # The dead broker has not told its sizes: they are not known.
        assert clicks()[5] == "not known"
        assert row(visitor.get("/brokers"), str(dead))[1] == "gone"
        assert "(not in sync)" in visitor.get("/topics/clicks")


def test_rows_of_brokers() -> None:
    nodes = (Node(1, "one", 9092), Node(2, "two", 9092, "r"))
    cluster = ClusterDescription("c", nodes[1], nodes)
    topic = TopicDescription("t", bytes(16), False, (PartitionInfo("t", 0, 1, (1, 3), (1,), (3,)),))
    failed = LogDirDescription(KafkaStorageError("the disk is gone"), {})
    rows = broker_rows(cluster, [topic], {1: {"/a": failed}})
    assert [(r.broker, r.is_alive, r.is_controller, r.leaders, r.replicas, r.in_sync) for r in rows] == [
        (1, True, False, 1, 1, 1),
        (2, True, True, 0, 0, 0),
        (3, False, False, 0, 1, 0),
    ]
    assert [(r.log_dirs, r.failed_log_dirs, r.size) for r in rows] == [
        (1, 1, 0),
        (None, 0, None),
        (None, 0, None),
    ]
    (folder,) = log_dir_rows({"/a": failed})
    assert "the disk is gone" in folder.error
    assert folder.total is None
