"""Who leads: controlled shutdown, preferred leaders, failed folders."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.cluster import paths
from odradek.cluster.controller.alter_partition import IsrChange
from odradek.cluster.nodes import LEADER_RECOVERING, decode_partition_state, encode_partition_state
from odradek.cluster.store.store import BadVersion, StoreError
from odradek.errors import (
    BrokerNotAvailableError,
    EligibleLeadersNotAvailableError,
    FencedLeaderEpochError,
    IneligibleReplicaError,
    KafkaStorageError,
    StaleBrokerEpochError,
)

from ..brokers import World


def test_a_broker_that_wants_to_leave_leads_nothing_any_more() -> None:
    world = World()
    world.create("t", [2, 1], [1, 2])
    world.create("alone", [2])
    epoch = world.active.image.brokers[2].epoch
    with pytest.raises(StaleBrokerEpochError):
        world.active.controlled_shutdown(2, epoch - 1)
    with pytest.raises(BrokerNotAvailableError):
        world.active.controlled_shutdown(9, -1)
    world.take_told()
    assert world.active.controlled_shutdown(2, epoch) == []
    assert (2, "StopReplica") in world.take_told()
    partitions = world.active.image.topics["t"].partitions
    assert [(p.leader, p.isr) for p in partitions.values()] == [(1, (1,)), (1, (1,))]
    with pytest.raises(IneligibleReplicaError):
        world.join_isr("t", 0, 1, 2)
    assert world.active.rebalance_leaders() == 0
    assert world.active.controlled_shutdown(1, -1) == [("t", 0), ("t", 1)]
    world.kill(2)
    world.begin(2)
    assert list(world.active.shutting_down) == [1]
    world.check()


def test_leaders_go_back_though_states_were_changed_without_a_notice_yet() -> None:
    """Leaders write them themselves before 2.7, and brokers that have lost a replica always do."""
    world = World()
    world.create("t", *[[2, 1]] * 10, [1, 2])
    world.kill(2)
    world.begin(2)
    world.everybody_catches_up()
    path = paths.partition_state("t", 3)
    data, _ = world.reader.get(path)
    world.reader.set(path, data)
    assert world.active.rebalance_leaders(10) == 10
    world.check()


def test_a_deposed_controller_gives_no_leads_back() -> None:
    world = World()
    world.create("t", *[[2, 1]] * 10)
    world.kill(2)
    world.begin(2)
    world.everybody_catches_up()
    deposed = world.active
    epoch, stat = world.reader.get(paths.CONTROLLER_EPOCH)
    world.reader.set(paths.CONTROLLER_EPOCH, epoch, stat.version)
    assert deposed.rebalance_leaders(10) == 0
    assert not deposed.is_active


def test_a_wish_that_is_over_is_fenced_though_one_of_its_members_is_about_to_leave() -> None:
    # INELIGIBLE_REPLICA would have the leader count the ISR from before the wish, which has been granted: it
    # could commit with the one that leaves what the one that has come does not have.
    world = World()
    world.create("t", [1, 2, 3])
    world.join_isr("t", 0, 1, 2)
    before = world.active.image.topics["t"].partitions[0]
    wish = IsrChange("t", 0, 1, before.leader_epoch, before.partition_epoch, (1, 2, 3))
    world.active.alter_partition(wish)
    assert world.active.controlled_shutdown(2) == []
    assert world.active.image.topics["t"].partitions[0].isr == (1, 3)
    # Its answer was lost, and it is sent again.
    with pytest.raises(FencedLeaderEpochError):
        world.active.alter_partition(wish)


def test_leaders_go_back_when_too_many_are_away() -> None:
    world = World()
    world.create("t", *[[2, 1]] * 10, [1, 2])
    world.kill(2)
    world.begin(2)
    world.everybody_catches_up()
    assert world.active.rebalance_leaders(100) == 0
    assert world.active.rebalance_leaders(10) == 10
    assert world.active.rebalance_leaders(10) == 0
    assert world.controllers[2].rebalance_leaders() == 0
    assert [p.leader for p in world.active.image.topics["t"].partitions.values()] == [2] * 10 + [1]
    world.check()


@pytest.mark.parametrize(("asked", "text"), [(1, "true"), (3, "true"), (1, " TRUE ")])
def test_whoever_is_left_leads_as_soon_as_that_is_allowed(asked: int, text: str) -> None:
    world = World()
    world.create("t", [2, 3])
    world.create("u", [2, 3])
    world.kill(3)
    world.kill(2)
    world.begin(3)
    assert {topic.partitions[0].leader for topic in world.active.image.topics.values()} == {-1}
    # Any broker writes configs; the controller hears of it by the notice.
    world.controllers[asked].alter_config("topics/t", {"unclean.leader.election.enable": text})
    world.settle()
    leaders = {name: topic.partitions[0].leader for name, topic in world.active.image.topics.items()}
    assert leaders == {"t": 3, "u": -1}


@pytest.mark.parametrize("by", ["a request", "a node"])
def test_a_leader_that_has_just_changed_the_isr_does_not_keep_an_election_back(by: str) -> None:
    """Before 2.7 leaders write ISRs themselves, and the controller hears of it later."""
    world = World()
    world.create("t", [2, 3, 1])
    world.kill(2)
    world.begin(2)
    world.join_isr("t", 0, 3, 1, 2)
    path = paths.partition_state("t", 0)
    state = decode_partition_state(path, world.reader.get(path).data)
    assert state.leader == 3
    world.reader.set(path, encode_partition_state(state._replace(isr=(3, 2))))
    if by == "a request":
        world.active.elect_leader("t", 0, unclean=False)
    else:
        world.reader.create(
            paths.PREFERRED_REPLICA_ELECTION, b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
        )
        world.settle()
    partition = world.active.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (2, (3, 2))
    world.check()


@pytest.mark.parametrize(("entity", "leader"), [("<default>", 3), ("1", 3), ("3", -1)])
def test_brokers_configs_allow_it_that_hold_for_the_controller(entity: str, leader: int) -> None:
    world = World()
    world.create("t", [2, 3])
    world.kill(3)
    world.kill(2)
    world.begin(3)
    assert world.active.broker_id == 1
    if entity != "3":
        world.config.defaults["unclean.leader.election.enable"] = True
    world.active.alter_config(f"brokers/{entity}", {"unclean.leader.election.enable": "true"})
    world.settle()
    assert world.active.image.topics["t"].partitions[0].leader == leader


@pytest.mark.parametrize("by", ["a failed folder", "a stop"])
def test_leaders_that_change_the_isr_again_and_again_keep_no_lead_where_it_was(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 2.7 they write it themselves, and the controller hears of it later."""
    world = World()
    world.create("t", [2, 1], [2, 1])
    store = world.active.store
    commit, left = store.multi, 3

    def commit_late(ops: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            path = paths.partition_state("t", left % 2)
            store.set(path, store.get(path)[0])
        return commit(ops)

    monkeypatch.setattr(store, "multi", commit_late)
    if by == "a stop":
        assert world.active.controlled_shutdown(2) == []
    else:
        world.active.note_offline(2, [("t", 0), ("t", 1)])
    assert left == 0
    partitions = world.active.image.topics["t"].partitions
    assert [(p.leader, p.isr) for p in partitions.values()] == [(1, (1,)), (1, (1,))]
    world.check()


def test_a_failed_folder_that_could_not_be_written_down_is_heard_of_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.create("t", [2, 1])
    store = world.active.store

    def fail(ops: Any) -> Any:
        raise BadVersion("/t", "changed again")

    with monkeypatch.context() as patched, pytest.raises(StoreError):
        patched.setattr(store, "multi", fail)
        world.active.note_offline(2, [("t", 0)])
    world.active.note_offline(2, [("t", 0)])
    assert world.active.image.topics["t"].partitions[0].leader == 1
    world.check()


def test_a_failed_folder_is_asked_about_and_loses_its_leads() -> None:
    world = World()
    world.create("t", [2, 1], [1, 2])
    world.take_told()
    world.controllers[2].notify_log_dir_failure()
    world.settle()
    assert world.take_told() == [(2, "LeaderAndIsr")]
    assert world.reader.children(paths.LOG_DIR_EVENTS) == []
    world.active.note_offline(2, [("t", 0), ("t", 1)])
    partitions = world.active.image.topics["t"].partitions
    assert [(p.leader, p.isr) for p in partitions.values()] == [(1, (1,)), (1, (1,))]
    # It is offline until the broker is back: it cannot lead even when it is the only one.
    world.create("u", [2])
    world.active.note_offline(2, [("u", 0)])
    # What is lost can begin anew, what is damaged cannot: its broker knows, and says so again.
    world.active.elect_leader("u", 0, unclean=True)
    told = world.active.image.topics["u"].partitions[0]
    assert (told.leader, told.isr, told.leader_recovery_state) == (2, (2,), LEADER_RECOVERING)
    world.active.note_offline(2, [("u", 0)])
    world.begin(4)
    assert world.active.image.topics["u"].partitions[0].leader == -1
    epoch = world.active.image.brokers[2].epoch
    world.kill(2)
    world.begin(2)
    assert world.active.offline_replicas == frozenset()
    # What it has said in its life before comes late.
    world.active.note_offline(2, [("t", 0)], broker_epoch=epoch)
    assert world.active.offline_replicas == frozenset()
    world.check()


def test_an_election_that_must_fail_pushes_nobody_out_of_the_isr() -> None:
    world = World()
    world.create("t", [1, 3])
    world.active.note_offline(1, [("t", 0)])
    world.kill(3)
    with pytest.raises(EligibleLeadersNotAvailableError):
        world.active.elect_leader("t", 0, unclean=True)
    assert world.active.image.topics["t"].partitions[0].isr == (3,)
    world.check()


def test_isrs_that_leaders_wrote_themselves_are_read_after_their_notice() -> None:
    world = World()
    world.create("t", [1, 2])
    data, _ = world.reader.get("/brokers/topics/t/partitions/0/state")
    assert data is not None
    world.reader.set("/brokers/topics/t/partitions/0/state", data.replace(b"[1,2]", b"[1]"))
    notice = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    world.reader.create(f"{paths.ISR_CHANGES}/isr_change_", notice, sequence=True)
    world.settle()
    assert world.active.image.topics["t"].partitions[0].isr == (1,)
    assert world.reader.children(paths.ISR_CHANGES) == []
    world.check()


def test_a_failed_folder_that_could_not_be_written_down_is_asked_about_again() -> None:
    world = World()
    world.create("t", [2, 1])
    world.take_told()
    world.stores[1].away = True
    with pytest.raises(KafkaStorageError):
        world.active.note_offline(2, [("t", 0)])
    world.stores[1].away = False
    world.do(1, lambda controller: controller.look_again())
    assert (2, "LeaderAndIsr") in world.take_told()
    world.active.note_offline(2, [("t", 0)])
    assert world.active.image.topics["t"].partitions[0].leader == 1
    world.check()
