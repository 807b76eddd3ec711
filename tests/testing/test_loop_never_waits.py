"""No event loop of a broker ever waits for the metadata store, whatever the cluster is put through.

Brokers start and stop with it; in between, all who ask the store do so in another thread. Each place in the
sources that asks has to be passed here: a new one that is not is named at the end.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from odradek import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from odradek.broker.app import Broker as AppBroker
from odradek.broker.config.broker_config import BrokerConfig
from odradek.client import Admin, Producer
from odradek.cluster import paths
from odradek.cluster.nodes import decode_partition_state, encode_partition_state
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import ensure_path
from odradek.testing import Broker, Cluster, Security
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

from .cluster_records import produce, read
from .store_guard import Asked, Place, guarded, places_in_the_sources
from .test_cluster_metadata import Peer
from .test_log_dir_fails import make_unwritable, repair

ALL = {0, 1, 2}
ACL = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "clicks"),
    AccessControlEntry("User:bob", "*", AclOperation.READ, AclPermissionType.ALLOW),
)


def wait_for(cluster: Cluster, topic: str, *, there: bool) -> None:
    cluster.wait_until(
        lambda: all((cluster.image(one).topic(topic) is not None) is there for one in cluster.live)
    )


def write_node(store: MemoryStore, path: str, content: object) -> None:
    """As a tool does that is given ZooKeeper's address."""
    data = json.dumps(content).encode()
    ensure_path(store, path.rpartition("/")[0])
    store.create(path, data)


def is_gone(store: MemoryStore, path: str) -> bool:
    return store.exists(path) is None


def topics_and_partitions(cluster: Cluster, admin: Admin, store: MemoryStore) -> None:
    admin.create_topics(["gone", "grown"])
    wait_for(cluster, "grown", there=True)
    admin.create_partitions({"grown": 3})
    cluster.wait_until(lambda: len(cluster.image(0).topic("grown").partitions) == 3)  # type: ignore[union-attr]
    admin.incremental_alter_configs({("topic", "grown"): {"retention.ms": "100000"}})
    admin.delete_topics(["gone"])
    wait_for(cluster, "gone", there=False)
    # One that is there no more, and one that is: as kafka-topics --zookeeper --delete marks them.
    write_node(store, paths.delete_topic("never"), None)
    write_node(store, paths.delete_topic("grown"), None)
    wait_for(cluster, "grown", there=False)
    cluster.wait_until(lambda: is_gone(store, paths.delete_topic("never")))
    # And as it makes one, which has no id yet.
    assigned = {"version": 2, "partitions": {"0": [0, 1, 2]}, "adding_replicas": {}, "removing_replicas": {}}
    write_node(store, paths.topic("old"), assigned)
    wait_for(cluster, "old", there=True)
    data, _ = store.get(paths.topic("old"))
    node = json.loads(data or b"")
    node["partitions"]["1"] = [2, 1, 0]
    store.set(paths.topic("old"), json.dumps(node).encode())
    cluster.wait_until(lambda: all(cluster.image(one).partition("old", 1) for one in cluster.live))
    notice = {"version": 2, "entity_path": "topics/old"}
    write_node(store, f"{paths.CONFIG_CHANGES}/config_change_0000009999", notice)
    for one in cluster.live:
        admin.incremental_alter_configs(
            {("broker", f"{one}"): {"leader.replication.throttled.rate": "100000000"}}
        )
    admin.alter_client_quotas({(("client-id", "busy"),): {"producer_byte_rate": 10**9}})


def elections_and_reassignments(cluster: Cluster, admin: Admin, store: MemoryStore) -> None:
    partition = [{"topic": "clicks", "partition": 0}]
    write_node(store, paths.PREFERRED_REPLICA_ELECTION, {"version": 1, "partitions": partition})
    cluster.wait_until(lambda: is_gone(store, paths.PREFERRED_REPLICA_ELECTION))
    moved = [{"topic": "clicks", "partition": 0, "replicas": [0, 1]}]
    write_node(store, paths.REASSIGN_PARTITIONS, {"version": 1, "partitions": moved})
    cluster.wait_until(lambda: is_gone(store, paths.REASSIGN_PARTITIONS))
    cluster.wait_for_isr("clicks", {0, 1})
    admin.alter_partition_reassignments({("clicks", 0): (0, 1, 2)})
    cluster.wait_for_isr("clicks", ALL)
    admin.elect_leaders([("clicks", 0)])


def offsets_of_old(cluster: Cluster) -> None:
    commit = OffsetCommitRequest(
        group_id="old",
        topics=[
            OffsetCommitRequestTopic(
                name="clicks",
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)],
            )
        ],
    )
    fetch = OffsetFetchRequest(
        group_id="old", topics=[OffsetFetchRequestTopic(name="clicks", partition_indexes=[0])]
    )
    for one in cluster.live:
        peer = Peer(cluster.brokers[one].address)
        try:
            assert peer.ask(commit, 0).topics[0].partitions[0].error_code == 0
            assert peer.ask(fetch, 0).topics[0].partitions[0].committed_offset == 7
        finally:
            peer.close()


def transactions(cluster: Cluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="copier") as producer:
        producer.init_transactions()
        for topic in ("clicks", "grows"):
            producer.begin_transaction()
            producer.send(topic, b"one", partition=0).result(60)
            producer.commit_transaction()


def sessions_end(cluster: Cluster) -> None:
    for one in sorted(ALL):
        epoch = cluster.broker(one).call(lambda b: b.controller.broker_epoch)
        cluster.expire(one)
        cluster.wait_until(
            lambda one=one, epoch=epoch: cluster.broker(one).call(lambda b: b.controller.broker_epoch) > epoch
        )
        cluster.wait_for_isr("clicks", ALL)


def controllers_die(cluster: Cluster) -> None:
    controller = cluster.controller
    cluster.kill(controller)
    cluster.wait_until(lambda: cluster.controller != controller)
    cluster.restart(controller)
    cluster.wait_for_isr("clicks", ALL)
    stopped = cluster.controller
    cluster.stop(stopped)
    cluster.restart(stopped)
    cluster.wait_for_isr("clicks", ALL)


def a_follower_leaves_and_comes(cluster: Cluster) -> None:
    leader = cluster.leader("clicks")
    lost = next(one for one in sorted(ALL) if one not in (leader, cluster.controller))
    cluster.cut(lost, leader)
    produce(cluster, "clicks", [b"without it"])
    store = MemoryStore(cluster.server)
    cluster.wait_until(lambda: lost not in isr_of(store))
    # Of old the controller hears of it later.
    cluster.wait_until(lambda: lost not in cluster.partition("clicks").isr)
    cluster.heal()
    cluster.wait_until(lambda: lost in isr_of(store))


def isr_of(store: MemoryStore) -> list[int]:
    data, _ = store.get(paths.partition_state("clicks", 0))
    return json.loads(data or b"")["isr"]  # type: ignore[no-any-return]


def a_folder_fails(cluster: Cluster, data: Path, asked: Asked) -> None:
    cluster.create_topic("spread", 4)
    follower = next(one for one in sorted(ALL) if one != cluster.controller)
    folder = data / f"broker-{follower}" / "1"
    make_unwritable(folder)
    partitions = [("spread", index) for index in range(4)]
    for _, index in partitions:
        # Nothing else is written there perhaps: its broker would not notice.
        produce(cluster, "spread", [b"one"], partition=index)
    cluster.wait_until(lambda: any(follower not in cluster.partition(*one).isr for one in partitions))
    told = "cluster/controller/log_dir_events.py", "follow_notices"
    cluster.wait_until(lambda: told in asked.places)
    cluster.stop(follower)
    repair(folder)
    cluster.restart(follower)
    for index in range(4):
        cluster.wait_for_isr("spread", ALL, index)


def a_stray(cluster: Cluster, admin: Admin) -> None:
    """The controller dies before it tells a broker that its replica is another one's now."""
    controller = cluster.controller
    victim = min(ALL - {controller})
    others = tuple(sorted(ALL - {victim}))
    folder = cluster.broker(victim).call(lambda b: b.replicas.get("grows", 0).log.directory)
    cluster.cut(controller, victim, one_way=True)
    admin.alter_partition_reassignments({("grows", 0): others})
    cluster.wait_until(
        lambda: cluster.image(controller).partition("grows", 0).replicas == others  # type: ignore[union-attr]
    )
    cluster.kill(controller)
    cluster.heal()
    cluster.wait_until(lambda: not folder.exists())
    cluster.restart(controller)
    cluster.wait_for_isr("clicks", ALL)


def a_disk_is_empty(cluster: Cluster, data: Path) -> None:
    lost = cluster.leader("clicks")
    for one in sorted(ALL):
        cluster.kill(one)
    shutil.rmtree(data / f"broker-{lost}")
    store = MemoryStore(cluster.server)
    cluster.wait_until(lambda: store.children(paths.BROKER_IDS) == [])
    # As where all have died at once: a controller was there to see the first ones go.
    path = paths.partition_state("clicks", 0)
    state = decode_partition_state(path, store.get(path).data)
    store.set(path, encode_partition_state(state._replace(leader=lost, isr=tuple(sorted(ALL)))))
    cluster.restart(lost)
    for one in sorted(ALL - {lost}):
        cluster.restart(one)
    cluster.wait_for_isr("clicks", ALL)


def a_transaction_of_a_topic_that_goes(cluster: Cluster, admin: Admin, asked: Asked) -> None:
    admin.create_topics(["goes"])
    wait_for(cluster, "goes", there=True)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="late") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("goes", b"one", partition=0).result(60)
        admin.delete_topics(["goes"])
        wait_for(cluster, "goes", there=False)
        producer.commit_transaction()


def with_three_brokers(asked: Asked, data: Path) -> None:
    with (
        Cluster(
            3,
            data=data,
            folders=2,
            replica_lag_time_max_ms=500,
            replica_fetch_wait_max_ms=100,
            replica_socket_timeout_ms=500,
            # Answers that a cut has swallowed are waited for no longer.
            controller_socket_timeout_ms=1_000,
            log_retention_check_interval_ms=200,
            replica_high_watermark_checkpoint_interval_ms=50,
            leader_imbalance_check_interval_seconds=1,
        ) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        store = MemoryStore(cluster.server)
        cluster.create_topic("clicks")
        cluster.create_topic("grows")
        produce(cluster, "clicks", [b"one"])
        assert read(cluster, "clicks", 1) == [b"one"]
        topics_and_partitions(cluster, admin, store)
        elections_and_reassignments(cluster, admin, store)
        offsets_of_old(cluster)
        transactions(cluster)
        a_transaction_of_a_topic_that_goes(cluster, admin, asked)
        a_follower_leaves_and_comes(cluster)
        a_folder_fails(cluster, data, asked)
        sessions_end(cluster)
        offsets_of_old(cluster)
        controllers_die(cluster)
        a_stray(cluster, admin)
        a_disk_is_empty(cluster, data)


def as_of_old() -> None:
    """Leaders write in-sync sets themselves, and topics are not deleted."""
    with Cluster(
        3,
        inter_broker_protocol_version="2.6",
        replica_lag_time_max_ms=500,
        replica_fetch_wait_max_ms=100,
        replica_socket_timeout_ms=500,
        delete_topic_enable=False,
    ) as cluster:
        store = MemoryStore(cluster.server)
        cluster.create_topic("clicks")
        a_follower_leaves_and_comes(cluster)
        write_node(store, paths.delete_topic("clicks"), None)
        cluster.wait_until(lambda: is_gone(store, paths.delete_topic("clicks")))


def with_users() -> None:
    security = Security(
        users={"alice": "secret", "bob": "other"},
        acls=(ACL,),
        configs={"delegation.token.secret.key": "master", "delegation.token.expiry.check.interval.ms": "100"},
    )
    with Cluster(2, security=security) as cluster, Admin(cluster.client_configs("alice")) as admin:
        more = ACL._replace(pattern=ResourcePattern(ResourceType.TOPIC, "more"))
        admin.create_acls([more])
        admin.delete_acls([AclBindingFilter(ResourcePatternFilter(*more.pattern))])
        kept = admin.create_delegation_token(renewers=["User:bob"])
        admin.renew_delegation_token(kept.hmac, period_ms=2 * 86_400_000)
        gone = admin.create_delegation_token()
        admin.expire_delegation_token(gone.hmac)
        for one in (0, 1):
            epoch = cluster.broker(one).call(lambda b: b.controller.broker_epoch)
            cluster.expire(one)
            cluster.wait_until(
                lambda one=one, epoch=epoch: (
                    cluster.broker(one).call(lambda b: b.controller.broker_epoch) > epoch
                )
            )
        assert [token.token_id for token in admin.describe_delegation_tokens()] == [kept.token_id]


def alone(asked: Asked) -> None:
    with GuardedBroker(asked) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics(["clicks"])
        admin.create_partitions({"clicks": 2})
        admin.incremental_alter_configs({("topic", "clicks"): {"retention.ms": "100000"}})
        peer = Peer(broker.bootstrap_servers)
        try:
            update = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
            answer = peer.ask(UpdateFeaturesRequest(feature_updates=[update]), 1)
            assert not answer.error_code and not any(one.error_code for one in answer.results)
        finally:
            peer.close()
        admin.delete_topics(["clicks"])
        # Another one is the controller, for a while.
        store = MemoryStore(broker.server)
        store.delete(paths.CONTROLLER)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("more", b"one").result(60)


class GuardedBroker(Broker):
    """A broker that is alone."""

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self.server = MemoryServer()
        self._asked = asked

    def _make(self, properties: dict[str, str]) -> AppBroker:
        return AppBroker(BrokerConfig(properties), store=guarded(self._asked)(self.server))


WHILE_THEY_START: set[Place] = {
    ("broker/folders/broker_ids.py", "with_generated_id"),
    ("cluster/controller/topic_manager.py", "adopt_topics"),
}
"""Not passed here."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    asked = Asked()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("odradek.testing.cluster.MemoryStore", guarded(asked))
        patch.setattr("odradek.cluster.access.delegation_tokens.CHANGE_EXPIRY_MS", -1)
        with_three_brokers(asked, tmp_path_factory.mktemp("three"))
        as_of_old()
        with_users()
    alone(asked)
    return asked


def test_no_loop_waits(asked: Asked) -> None:
    assert asked.in_loop == []


def test_each_place_that_asks_was_passed(asked: Asked) -> None:
    assert places_in_the_sources() - asked.places == WHILE_THEY_START
