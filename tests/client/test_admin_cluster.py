"""What administrators ask of a cluster as a whole: features, the quorum, configs, the places of replicas."""

from __future__ import annotations

import pytest

from odradek.client import Admin
from odradek.client.errors import IllegalArgumentError, UnsupportedByBrokerError
from odradek.client.types import ReplicaLogDirInfo, TopicPartitionReplica, VersionRange
from odradek.errors import InvalidUpdateVersionError, KafkaError
from odradek.testing import Broker

FEATURE = "transaction.version"


def test_features_are_described_and_changed() -> None:
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        before = admin.describe_features()
        assert before.finalized_features[FEATURE].max_version == 2
        assert before.supported_features[FEATURE] == VersionRange(0, 2)
        assert before.finalized_features_epoch is not None
        admin.update_features({FEATURE: 1}, upgrade_type="safe_downgrade", validate_only=True)
        assert admin.describe_features().finalized_features == before.finalized_features
        admin.update_features({FEATURE: 1}, upgrade_type="safe_downgrade")
        assert admin.describe_features().finalized_features[FEATURE].max_version == 1
        admin.update_features({FEATURE: 2})
        assert admin.describe_features(node_id=0).finalized_features == before.finalized_features
        with pytest.raises(InvalidUpdateVersionError, match="99"):
            admin.update_features({FEATURE: 99})
        with pytest.raises(InvalidUpdateVersionError):
            admin.update_features({FEATURE: 1})
        with pytest.raises(IllegalArgumentError, match="upgrade_type"):
            admin.update_features({FEATURE: 1}, upgrade_type="down")


def test_the_quorum(admin: Admin) -> None:
    quorum = admin.describe_metadata_quorum()
    (voter,) = quorum.voters
    assert voter.replica_id == quorum.leader_id and quorum.observers == ()
    assert voter.last_fetch_timestamp_ms is not None
    assert set(quorum.nodes) == {quorum.leader_id}
    assert quorum.high_watermark >= 0


def test_what_has_configs(admin: Admin, topic: str) -> None:
    node = admin.describe_cluster().nodes[0].id
    assert admin.list_config_resources(["broker"]) == [("broker", str(node))]
    listed = admin.list_config_resources()
    assert {("topic", topic), ("broker", str(node)), ("broker-logger", str(node))} <= set(listed)
    assert ("topic", topic) in admin.list_config_resources(["topic", "group", "client-metrics"])
    with pytest.raises(IllegalArgumentError, match="no kind"):
        admin.list_config_resources(["topics"])


def test_subscriptions_of_a_broker_that_lists_nothing_else() -> None:
    with Broker(kafka_version="4.0") as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.incremental_alter_configs({("client-metrics", "all"): {"metrics": "*"}})
        assert admin.list_config_resources(["client-metrics"]) == [("client-metrics", "all")]
        with pytest.raises(UnsupportedByBrokerError):
            admin.list_config_resources(["client-metrics", "topic"])


def test_where_replicas_are(admin: Admin, topic: str) -> None:
    node = admin.describe_cluster().nodes[0].id
    infos = admin.describe_replica_log_dirs([(topic, 1, node), (topic, 9, node)])
    here = infos[TopicPartitionReplica(topic, 1, node)]
    assert here.current_replica_log_dir in admin.describe_log_dirs()[node]
    assert (here.current_replica_offset_lag, here.future_replica_log_dir) == (0, None)
    assert infos[TopicPartitionReplica(topic, 9, node)] == ReplicaLogDirInfo()
    assert admin.describe_replica_log_dirs([]) == {}


def test_an_old_broker_is_told_apart() -> None:
    with Broker(kafka_version="2.8") as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        for call in (admin.describe_metadata_quorum, admin.list_config_resources):
            with pytest.raises(UnsupportedByBrokerError):
                call()
        with pytest.raises(KafkaError):
            admin.update_features({FEATURE: 1})
