"""The controller's requests: which broker is told what, in which order and version; and their queues."""

from __future__ import annotations

import random

import pytest

from odradek.cluster.controller import control_request_forms
from odradek.cluster.controller.broker_queues import MERGE_FROM, BrokerQueues
from odradek.cluster.controller.control_request_forms import ControlRequest, deleted_by
from odradek.cluster.controller.control_requests import ControlRequests
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage, PartitionImage, TopicImage
from odradek.cluster.nodes import BrokerRegistration, Endpoint
from odradek.wire.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.wire.messages.stop_replica import StopReplicaRequest
from odradek.wire.messages.update_metadata import UpdateMetadataRequest


def _broker(broker: int, epoch: int) -> BrokerImage:
    return BrokerImage(
        broker, epoch, BrokerRegistration((Endpoint("PLAINTEXT", "h", 9000 + broker),), "r", timestamp_ms=1)
    )


PARTITION = PartitionImage((1, 2), (1, 2), 1, 0, 0, 1)
TOPIC = TopicImage("t", b"\x01" * 16, {0: PARTITION})
IMAGE = ClusterImage("c", 1, 5).apply(
    ClusterDelta(brokers={b: _broker(b, 10 + b) for b in (1, 2, 3)}, topics={"t": TOPIC})
)


def _started(ibp: str = "3.9", image: ClusterImage = IMAGE) -> ControlRequests:
    requests = ControlRequests(ibp, "PLAINTEXT", 1)
    requests.everything(image)
    return requests


def _with(partition: PartitionImage, image: ClusterImage = IMAGE) -> tuple[ClusterImage, ClusterDelta]:
    delta = ClusterDelta(topics={"t": TOPIC._replace(partitions={0: partition})})
    return image.apply(delta), delta


def _names(requests: dict[int, list[ControlRequest]]) -> dict[int, list[str]]:
    return {b: [type(one.message).__name__.removesuffix("Request") for one in r] for b, r in requests.items()}


def test_a_new_controller_tells_everybody_everything() -> None:
    requests = ControlRequests("3.9", "PLAINTEXT", 1).everything(IMAGE)
    assert _names(requests) == {
        1: ["UpdateMetadata", "LeaderAndIsr", "UpdateMetadata"],
        2: ["UpdateMetadata", "LeaderAndIsr", "UpdateMetadata"],
        3: ["UpdateMetadata", "UpdateMetadata"],
    }
    first, leader, update = requests[2]
    assert first.message.topic_states == []
    assert [b.id for b in first.message.live_brokers] == [1, 2, 3]
    assert (leader.version, update.version) == (7, 8)
    assert leader.message.broker_epoch == update.message.broker_epoch == 12
    assert leader.message.controller_epoch == 5
    assert leader.message.type == 0
    state = leader.message.topic_states[0].partition_states[0]
    assert (state.leader, state.isr, state.is_new) == (1, [1, 2], False)
    assert [(one.broker_id, one.port) for one in leader.message.live_leaders] == [(1, 9001)]
    assert update.message.topic_states[0].topic_id == b"\x01" * 16


PROTOCOLS = ["0.8.2", "0.9.0", "0.10.0", "0.11.0", "1.0", "2.2", "2.4-IV0", "2.4", "2.6", "2.8", "3.2", "3.9"]


def _all_kinds(ibp: str) -> list[ControlRequest]:
    """What a controller says when its term begins, and when a topic is deleted."""
    builder = ControlRequests(ibp, "PLAINTEXT", 1)
    sent = [one for each in builder.everything(IMAGE).values() for one in each]
    marked = ClusterDelta(topics_marked=frozenset({"t"}))
    return sent + [one for each in builder.changes(IMAGE.apply(marked), marked).values() for one in each]


def test_every_version_is_sent() -> None:
    sent = {(type(one.message), one.version) for ibp in PROTOCOLS for one in _all_kinds(ibp)}
    assert sent == {
        *((LeaderAndIsrRequest, version) for version in range(8)),
        *((StopReplicaRequest, version) for version in range(5)),
        *((UpdateMetadataRequest, version) for version in range(9)),
    }


@pytest.mark.parametrize("ibp", PROTOCOLS)
def test_every_version_can_be_encoded(ibp: str) -> None:
    sent = _all_kinds(ibp)
    kinds = {type(one.message) for one in sent}
    assert kinds == {LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest}
    for message, version, _ in sent:
        codec = type(message).codec(version)
        again = type(message).decode(message.encode(version), version)
        assert again.encode(version) == message.encode(version), codec
        if isinstance(message, StopReplicaRequest):
            assert deleted_by(again, version) == {("t", 0)}


def test_an_election_is_told_to_replicas_and_metadata_to_all() -> None:
    image, delta = _with(PARTITION._replace(leader=2, leader_epoch=1, partition_epoch=1))
    requests = _started().changes(image, delta)
    assert _names(requests) == {
        1: ["LeaderAndIsr", "UpdateMetadata"],
        2: ["LeaderAndIsr", "UpdateMetadata"],
        3: ["UpdateMetadata"],
    }
    assert requests[1][0].message.topic_states[0].partition_states[0].is_new is False


def test_an_isr_that_a_leader_changed_is_metadata_only() -> None:
    image, delta = _with(PARTITION._replace(isr=(1,), partition_epoch=1))
    assert _names(_started().changes(image, delta)) == {b: ["UpdateMetadata"] for b in (1, 2, 3)}


def test_new_partitions_and_new_replicas_are_new() -> None:
    builder = _started(image=IMAGE._replace(topics={}))
    requests = builder.changes(IMAGE, ClusterDelta(topics={"t": TOPIC}))
    assert requests[2][0].message.topic_states[0].partition_states[0].is_new is True
    image, delta = _with(
        PARTITION._replace(replicas=(3, 1, 2), adding=(3,), removing=(2,), leader_epoch=1, partition_epoch=1)
    )
    requests = builder.changes(image, delta)
    states = {b: r[0].message.topic_states[0].partition_states[0] for b, r in requests.items()}
    assert {b: state.is_new for b, state in states.items()} == {1: False, 2: False, 3: True}
    assert (states[3].adding_replicas, states[3].removing_replicas) == ([3], [2])


def test_a_removed_replica_is_deleted_last() -> None:
    image, delta = _with(PARTITION._replace(replicas=(1,), isr=(1,), leader_epoch=1, partition_epoch=1))
    requests = _started().changes(image, delta)
    assert _names(requests)[2] == ["UpdateMetadata", "StopReplica"]
    (stop,) = requests[2][1].message.topic_states[0].partition_states
    assert (stop.delete_partition, stop.leader_epoch) == (True, 1)


def test_a_partition_without_a_leader_yet_is_not_told() -> None:
    image, delta = _with(PartitionImage((9,), (), -1, -1, -1))
    assert _started(image=image._replace(topics={})).changes(image, delta) == {}


def test_a_dead_broker_is_offline_and_told_nothing() -> None:
    delta = ClusterDelta(
        brokers_gone=frozenset({2}),
        topics={"t": TOPIC._replace(partitions={0: PARTITION._replace(isr=(1,), leader_epoch=1)})},
    )
    requests = _started().changes(IMAGE.apply(delta), delta)
    assert _names(requests) == {1: ["LeaderAndIsr", "UpdateMetadata"], 3: ["UpdateMetadata"]}
    update = requests[3][0].message
    assert [b.id for b in update.live_brokers] == [1, 3]
    assert update.topic_states[0].partition_states[0].offline_replicas == [2]


def test_a_broker_with_another_epoch_is_told_everything_the_others_who_lives() -> None:
    delta = ClusterDelta(brokers={2: _broker(2, 99)})
    requests = _started().changes(IMAGE.apply(delta), delta)
    assert _names(requests)[2] == ["UpdateMetadata", "LeaderAndIsr"]
    assert _names(requests)[3] == ["UpdateMetadata", "UpdateMetadata"]
    assert {one.broker_epoch for one in requests[2]} == {99}
    # All topics first: what it holds may take long, and clients are not to take them for gone meanwhile.
    everything = requests[2][0].message
    assert [b.id for b in everything.live_brokers] == [1, 2, 3]
    assert [topic.topic_name for topic in everything.topic_states] == ["t"]


def test_a_marked_topic_is_taken_from_metadata_and_deleted_now_and_on_return() -> None:
    builder = _started()
    delta = ClusterDelta(topics_marked=frozenset({"t"}))
    marked = IMAGE.apply(delta)
    requests = builder.changes(marked, delta)
    assert _names(requests) == {
        1: ["UpdateMetadata", "StopReplica"],
        2: ["UpdateMetadata", "StopReplica"],
        3: ["UpdateMetadata"],
    }
    assert requests[3][0].message.topic_states[0].partition_states[0].leader == -2
    (stop,) = requests[1][1].message.topic_states[0].partition_states
    assert (stop.delete_partition, stop.leader_epoch) == (True, -2)
    back = ClusterDelta(brokers={2: _broker(2, 99)})
    requests = builder.changes(marked.apply(back), back)
    assert _names(requests)[2] == ["UpdateMetadata", "StopReplica"]
    assert requests[2][0].message.topic_states[0].partition_states[0].leader == -2
    assert "StopReplica" not in _names(requests)[1]
    gone = ClusterDelta(topics_gone={"t": TOPIC})
    assert builder.changes(marked.apply(back).apply(gone), gone) == {}


def test_a_follower_that_leaves_stops_and_a_failed_disk_is_offline() -> None:
    image, delta = _with(PARTITION._replace(isr=(1,), leader_epoch=1, partition_epoch=1))
    builder = _started()
    requests = builder.changes(image, delta, shutting_down={2})
    assert _names(requests)[2] == ["LeaderAndIsr", "UpdateMetadata", "StopReplica"]
    assert requests[2][2].message.topic_states[0].partition_states[0].delete_partition is False
    requests = builder.changes(image, ClusterDelta(), offline={(2, "t", 0)})
    assert _names(requests) == {b: ["UpdateMetadata"] for b in (1, 2, 3)}
    assert requests[1][0].message.topic_states[0].partition_states[0].offline_replicas == [2]
    assert _names(builder.resend(image, 2)) == {2: ["LeaderAndIsr"]}
    assert builder.resend(image, 7) == {}


def test_large_changes_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_request_forms, "MAX_PARTITIONS_PER_REQUEST", 2)
    topic = TOPIC._replace(partitions=dict.fromkeys(range(5), PARTITION))
    image = IMAGE._replace(topics={"t": topic})
    requests = ControlRequests("3.9", "PLAINTEXT", 1).everything(image)
    sizes = [
        len(topic.partition_states)
        for one in requests[2]
        if isinstance(one.message, LeaderAndIsrRequest)
        for topic in one.message.topic_states
    ]
    assert sizes == [2, 2, 1]


def test_one_request_under_way_in_order_and_again_when_broken() -> None:
    queues = BrokerQueues()
    queues.keep({1: 11})
    one, two = (ControlRequest(LeaderAndIsrRequest(), 7, 11) for _ in range(2))
    queues.add(1, [one, two])
    assert queues.next(1) is one
    assert queues.next(1) is None
    assert queues.on_broken(1, one)
    assert queues.next(1) is one
    assert queues.on_response(1, one)
    assert not queues.on_response(1, one)
    assert queues.next(1) is two
    assert queues.length(1) == 1


def test_another_epoch_drops_what_was_for_the_one_before() -> None:
    queues = BrokerQueues()
    queues.keep({1: 11, 2: 12})
    old = ControlRequest(LeaderAndIsrRequest(), 7, 11)
    queues.add(1, [old])
    assert queues.next(1) is old
    assert queues.keep({1: 99}) == {1, 2}
    assert not queues.on_broken(1, old)
    queues.add(1, [old])
    assert queues.next(1) is None
    assert queues.brokers == {1: 99}
    queues.add(2, [old])
    assert queues.length(2) == 0


@pytest.mark.parametrize("ibp", ["2.0", "3.9"])
def test_merged_updates_leave_a_broker_knowing_the_same(ibp: str) -> None:
    rng = random.Random(5)
    queues = BrokerQueues()
    queues.keep({3: 13})
    builder, image = _started(ibp), IMAGE
    made: list[ControlRequest] = []
    for epoch in range(1, 60):
        topic = image.topics["t"]
        index = rng.randrange(4)
        partitions = {**topic.partitions, index: PARTITION._replace(isr=(1,), partition_epoch=epoch)}
        delta = ClusterDelta(topics={"t": topic._replace(partitions=partitions)})
        image = image.apply(delta)
        made += (new := builder.changes(image, delta)[3])
        queues.add(3, new)
    assert queues.length(3) == MERGE_FROM
    received: list[ControlRequest] = []
    while (request := queues.next(3)) is not None:
        received.append(request)
        queues.on_response(3, request)
    assert _known(received) == _known(made) != {}
    assert received[-1].message.encode(received[-1].version)


def _known(requests: list[ControlRequest]) -> dict[int, int]:
    known: dict[int, int] = {}
    for one in requests:
        states = list(one.message.ungrouped_partition_states)
        states += [state for topic in one.message.topic_states for state in topic.partition_states]
        known |= {state.partition_index: state.zk_version for state in states}
    return known
