"""The controller changes in-sync sets for leaders, and follows those that leaders of old write themselves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from odradek.cluster import nodes, paths
from odradek.cluster.controller import isr_changes
from odradek.cluster.controller.alter_partition import IsrChange
from odradek.cluster.controller.kafka_controller import KafkaController
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.image import ClusterDelta, ClusterImage, PartitionImage
from odradek.cluster.nodes import LEADER_RECOVERING, BrokerRegistration, Endpoint, PartitionState
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import Op, OpResult, StoreUnavailable
from odradek.errors import (
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    KafkaError,
    KafkaStorageError,
    NotControllerError,
    UnknownTopicOrPartitionError,
)
from odradek.util.clock import ManualClock

from ..scenario import Config

REGISTRATION = BrokerRegistration((Endpoint("PLAINTEXT", "h", 9092),))


class CountingStore(MemoryStore):
    """Notes its transactions."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server)
        self.multis: list[list[Op]] = []
        self.fails = False

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        if self.fails:
            raise StoreUnavailable("/", "no")
        self.multis.append(list(ops))
        return super().multi(ops)


class Cluster:
    """Brokers 0, 1, 2; 0 is the controller. Topic `t`: partition p led by broker p, all in sync."""

    def __init__(self) -> None:
        server = MemoryServer(ManualClock())
        self.store = CountingStore(server)
        self.other = MemoryStore(server)
        self.controller = KafkaController(self.store, 0, Config(), ManualClock())
        self.controller.open()
        for broker in (1, 2):
            self.other.create(f"/brokers/ids/{broker}", nodes.encode_registration(REGISTRATION), True)
        self.controller.start(REGISTRATION)
        self.controller.create_topic(NewTopic("t", assignment={0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1]}))
        self.told: list[ClusterDelta] = []
        self.controller.add_listener(self._tell)
        self.store.multis.clear()

    def _tell(self, image: ClusterImage, delta: ClusterDelta) -> None:
        self.told.append(delta)

    def partition(self, index: int) -> PartitionImage:
        return self.controller.image.topics["t"].partitions[index]

    def change(self, index: int, isr: tuple[int, ...], **other: object) -> IsrChange:
        now = self.partition(index)
        wish = IsrChange("t", index, index, now.leader_epoch, now.partition_epoch, isr)
        return wish._replace(**other)  # type: ignore[arg-type]

    def write_itself(self, index: int, isr: tuple[int, ...]) -> None:
        """What a leader of old does."""
        now = self.partition(index)
        state = PartitionState(now.leader, now.leader_epoch, isr, now.controller_epoch)
        path = paths.partition_state("t", index)
        self.other.set(path, nodes.encode_partition_state(state), now.partition_epoch)

    def notice(self, data: bytes) -> None:
        self.other.create(paths.ISR_CHANGE_PREFIX, data, sequence=True)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def kinds(outcomes: list[PartitionImage | KafkaError]) -> list[object]:
    return [type(one) if isinstance(one, KafkaError) else one.isr for one in outcomes]


def test_many_are_one_transaction_and_what_is_wrong_with_one_is_its_own(cluster: Cluster) -> None:
    outcomes = cluster.controller.alter_partitions(
        [
            cluster.change(0, (0, 1)),
            cluster.change(1, (1, 7)),
            cluster.change(2, (2,)),
            IsrChange("nope", 0, 0, 0, 0, (0,)),
        ]
    )
    assert kinds(outcomes) == [(0, 1), IneligibleReplicaError, (2,), UnknownTopicOrPartitionError]
    assert [len(ops) for ops in cluster.store.multis] == [3]
    assert [delta.topics["t"].partitions[2].isr for delta in cluster.told] == [(2,)]
    assert [cluster.partition(p).partition_epoch for p in range(3)] == [1, 0, 1]
    assert [cluster.partition(p).leader_epoch for p in range(3)] == [0, 0, 0]


def test_two_of_one_partition_are_looked_at_in_order(cluster: Cluster) -> None:
    first = cluster.change(0, (0, 1))
    outcomes = cluster.controller.alter_partitions([first, cluster.change(0, (0, 2)), first])
    assert kinds(outcomes) == [(0, 1), InvalidUpdateVersionError, (0, 1)]


def test_very_many_are_several_transactions(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_changes, "CHANGES_AT_ONCE", 2)
    outcomes = cluster.controller.alter_partitions([cluster.change(p, (p,)) for p in range(3)])
    assert kinds(outcomes) == [(0,), (1,), (2,)]
    assert [len(ops) for ops in cluster.store.multis] == [3, 2]


def test_what_somebody_else_has_written_fails_alone(cluster: Cluster) -> None:
    cluster.write_itself(1, (1,))
    outcomes = cluster.controller.alter_partitions(
        [cluster.change(0, (0,)), cluster.change(1, (1, 2)), cluster.change(2, (2,))]
    )
    assert kinds(outcomes) == [(0,), InvalidUpdateVersionError, (2,)]
    assert cluster.partition(1).isr == (1,)


def test_the_same_wish_again_is_granted_without_a_write(cluster: Cluster) -> None:
    wish = cluster.change(0, (0, 1))
    cluster.controller.alter_partitions([wish])
    cluster.store.multis.clear()
    again = cluster.controller.alter_partitions([wish])[0]
    assert again == cluster.partition(0)
    assert (cluster.store.multis, cluster.partition(0).partition_epoch) == ([], 1)


def test_a_write_whose_answer_was_lost_is_found_when_it_is_asked_for_again(cluster: Cluster) -> None:
    wish = cluster.change(0, (0, 1))
    cluster.write_itself(0, (0, 1))
    assert kinds(cluster.controller.alter_partitions([wish])) == [(0, 1)]
    assert cluster.partition(0).partition_epoch == 1


REFUSED: list[tuple[dict[str, object], type[KafkaError]]] = [
    ({"leader_epoch": -1}, FencedLeaderEpochError),
    ({"leader_epoch": 1}, NotControllerError),
    ({"partition_epoch": 1}, NotControllerError),
    ({"partition_epoch": -1}, InvalidUpdateVersionError),
    ({"broker_id": 1}, InvalidRequestError),
    ({"isr": (1, 2)}, InvalidRequestError),
    ({"isr": (0, 9)}, IneligibleReplicaError),
    ({"isr": (0,), "leader_recovery_state": LEADER_RECOVERING}, InvalidRequestError),
    ({"epochs": {1: 12345}}, IneligibleReplicaError),
]


@pytest.mark.parametrize(("other", "error"), REFUSED)
def test_what_is_refused(cluster: Cluster, other: dict[str, object], error: type[KafkaError]) -> None:
    assert kinds(cluster.controller.alter_partitions([cluster.change(0, (0, 1))._replace(**other)])) == [
        error
    ]  # type: ignore[arg-type]
    assert cluster.store.multis == []


def test_present_broker_epochs_are_good(cluster: Cluster) -> None:
    epoch = cluster.controller.image.brokers[1].epoch
    assert kinds(cluster.controller.alter_partitions([cluster.change(0, (0, 1), epochs={1: epoch})])) == [
        (0, 1)
    ]


def test_a_leader_that_recovers_is_alone_until_it_has_recovered(cluster: Cluster) -> None:
    state = PartitionState(0, 0, (0,), 1, LEADER_RECOVERING)
    cluster.other.set(paths.partition_state("t", 0), nodes.encode_partition_state(state))
    cluster.notice(nodes.encode_isr_change([("t", 0)]))
    both = cluster.change(0, (0, 1), leader_recovery_state=LEADER_RECOVERING)
    assert kinds(cluster.controller.alter_partitions([both])) == [InvalidRequestError]
    assert kinds(cluster.controller.alter_partitions([cluster.change(0, (0, 1))])) == [(0, 1)]
    assert cluster.partition(0).leader_recovery_state == 0


def test_only_the_active_controller_changes_anything(cluster: Cluster) -> None:
    cluster.other.set(paths.CONTROLLER_EPOCH, b"9")
    state = cluster.other.get(paths.partition_state("t", 0))
    with pytest.raises(NotControllerError):
        cluster.controller.alter_partitions([cluster.change(0, (0,))])
    assert cluster.other.get(paths.partition_state("t", 0)) == state
    with pytest.raises(NotControllerError):
        cluster.controller.alter_partitions([])


def test_a_store_that_cannot_be_written_refuses_all(cluster: Cluster) -> None:
    cluster.store.fails = True
    with pytest.raises(KafkaStorageError):
        cluster.controller.alter_partitions([cluster.change(0, (0,))])
    assert cluster.partition(0).isr == (0, 1, 2)


# ---------------------------------------------------------------------- notices


def test_a_notice_has_states_read_anew_and_goes(cluster: Cluster) -> None:
    cluster.write_itself(0, (0, 1))
    cluster.write_itself(2, (2,))
    assert cluster.told == []
    cluster.notice(b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":2}]}')
    assert [cluster.partition(p).isr for p in range(3)] == [(0, 1), (1, 2, 0), (2,)]
    assert [set(delta.topics) for delta in cluster.told] == [{"t"}]
    assert cluster.store.children(paths.ISR_CHANGES) == []


def test_a_notice_of_nothing_new_tells_nobody(cluster: Cluster) -> None:
    cluster.notice(nodes.encode_isr_change([("t", 0), ("t", 9), ("nope", 0)]))
    assert cluster.told == []
    assert cluster.store.children(paths.ISR_CHANGES) == []


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", b"{}", b'{"partitions":[1]}', b'{"partitions":[{"topic":"t"}]}']
)
def test_a_notice_that_is_none_goes_as_well(cluster: Cluster, data: bytes) -> None:
    cluster.write_itself(0, (0,))
    cluster.notice(data)
    assert cluster.store.children(paths.ISR_CHANGES) == []
    assert cluster.partition(0).isr == (0, 1, 2)


def test_notices_are_the_active_controllers_business(cluster: Cluster) -> None:
    cluster.controller.context.is_active = False
    cluster.notice(nodes.encode_isr_change([("t", 0)]))
    assert len(cluster.store.children(paths.ISR_CHANGES)) == 1


def test_a_notice_reads_as_kafka_writes_it() -> None:
    kafkas = (
        b'{"version":1,"partitions":[{"topic":"orders","partition":0},{"topic":"clicks","partition":12}]}'
    )
    partitions = [("orders", 0), ("clicks", 12)]
    assert nodes.encode_isr_change(partitions) == kafkas
    assert nodes.decode_isr_change("/x", kafkas) == partitions
