"""What a controller says to a broker of several, and what its replicas, logs and fetchers make of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from odradek.cluster import nodes, paths
from odradek.cluster.image import TopicImage
from odradek.cluster.store.store import StoreUnavailable, ensure_path
from odradek.errors import KafkaStorageError, NotLeaderOrFollowerError
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from waiting import until_async

from .controlled import (
    ANOTHER_ID,
    BROKER_EPOCH,
    CONTROLLER_EPOCH,
    FOLDER,
    ID,
    ME,
    NONE,
    OTHER,
    STALE,
    STORAGE,
    THIRD,
    World,
    fail_to_make,
    leader_and_isr,
    mend,
    run,
    state,
)

# ---------------------------------------------------------------------- LeaderAndIsr


@pytest.mark.parametrize("version", range(8))
def test_a_partition_is_led_and_another_followed(version: int) -> None:
    async def scenario(world: World) -> None:
        errors = await world.lead(state(0), state(1, OTHER, epoch=4), version=version)
        assert errors == (NONE, [NONE, NONE])
        led, followed = world.replicas.get("t", 0), world.replicas.get("t", 1)
        assert led.is_leader and led.leader_epoch == 3 and led.isr == (ME, OTHER)
        assert (followed.leader_id, followed.leader_epoch) == (OTHER, 4)
        assert world.fetchers.followed == {("t", 1): (OTHER, 4)}
        assert world.led == [{"t"}]
        assert led.log.topic_id == (ID if version >= 5 else None)

    run(scenario)


def test_a_log_that_is_older_than_ids_takes_that_of_its_topic() -> None:
    """Brokers that go over to 2.8 have the controller give ids to topics that have none."""

    async def scenario(world: World) -> None:
        await world.lead(state(0, epoch=3), version=4)
        partition = world.replicas.get("t", 0)
        assert partition.log.topic_id is None
        assert await world.lead(state(0, epoch=3), version=7) == (NONE, [NONE])
        assert partition.log.topic_id == ID
        wrong = ErrorCode.INCONSISTENT_TOPIC_ID
        assert await world.lead(state(0, epoch=9), topic_id=ANOTHER_ID) == (NONE, [wrong])

    run(scenario)


@pytest.mark.parametrize("version", range(8))
def test_an_older_controller_changes_nothing(version: int) -> None:
    async def scenario(world: World) -> None:
        await world.lead(state(0), controller_epoch=9)
        errors = await world.lead(state(0, OTHER, epoch=8), state(1), version=version, controller_epoch=8)
        assert errors == (STALE, [STALE, STALE])
        assert world.replicas.get("t", 0).is_leader
        assert world.replicas.find("t", 1) is None and world.folders() == ["t-0"]
        assert world.changes.controller_epoch == 9

    run(scenario)


def test_what_was_meant_for_an_earlier_life_of_this_broker_changes_nothing() -> None:
    async def scenario(world: World) -> None:
        stale = ErrorCode.STALE_BROKER_EPOCH
        assert await world.lead(state(0), broker_epoch=99) == (stale, [stale])
        assert await world.stop(0, broker_epoch=99) == (stale, [])
        update = UpdateMetadataRequest(controller_id=OTHER, controller_epoch=9, broker_epoch=99)
        assert world.changes.update_metadata(update, 8) is stale
        # Nor does it make a controller's epoch known.
        assert world.changes.controller_epoch == 0
        assert world.metadata.image.controller_id == -1 and world.folders() == []
        # The controller may know of this broker's new life before it does itself.
        assert await world.lead(state(0), broker_epoch=101) == (NONE, [NONE])

    run(scenario)


def test_update_metadata_of_an_older_controller_changes_nothing() -> None:
    async def scenario(world: World) -> None:
        newer = UpdateMetadataRequest(controller_id=THIRD, controller_epoch=9)
        assert world.changes.update_metadata(newer, 8) is NONE
        older = UpdateMetadataRequest(controller_id=OTHER, controller_epoch=8)
        assert world.changes.update_metadata(older, 8) is STALE
        assert (world.metadata.image.controller_id, world.metadata.image.controller_epoch) == (THIRD, 9)

    run(scenario)


def _update(*states: UpdateMetadataPartitionState, topic_id: bytes = ID) -> UpdateMetadataRequest:
    topic = UpdateMetadataTopicState(topic_name="t", topic_id=topic_id, partition_states=[*states])
    return UpdateMetadataRequest(
        controller_id=OTHER,
        controller_epoch=CONTROLLER_EPOCH,
        broker_epoch=BROKER_EPOCH,
        topic_states=[topic],
    )


def _elsewhere(
    index: int, epoch: int, replicas: Sequence[int] = (OTHER, THIRD)
) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=index, leader=OTHER, leader_epoch=epoch, replicas=[*replicas], isr=[*replicas]
    )


def test_what_was_given_to_others_while_this_broker_was_not_heard_of_is_led_no_more() -> None:
    """Its session had ended: StopReplica never came, and LeaderAndIsr names only what it still holds."""

    async def scenario(world: World) -> None:
        await world.lead(state(0, epoch=3), state(1, OTHER, epoch=3), state(2, epoch=5), state(3, epoch=3))
        world.led.clear()
        update = _update(_elsewhere(0, 4), _elsewhere(1, 4), _elsewhere(2, 4), _elsewhere(3, 4, (OTHER, ME)))
        assert world.changes.update_metadata(update, 8) is NONE
        assert not world.replicas.get("t", 0).is_leader and world.fetchers.followed == {}
        assert world.led == [{"t"}]
        # What is known here is newer; and what this broker holds is for LeaderAndIsr to say.
        assert world.replicas.get("t", 2).is_leader and world.replicas.get("t", 3).is_leader
        assert world.folders() == ["t-0", "t-1", "t-2", "t-3"], "only StopReplica deletes"
        assert await world.lead(state(0, OTHER, epoch=6)) == (NONE, [NONE])
        assert world.fetchers.followed == {("t", 0): (OTHER, 6)}

    run(scenario)


def test_what_a_newer_controller_gave_to_others_meanwhile_is_not_taken_up() -> None:
    """LeaderAndIsr of the one before waits for the store, and pauses; UpdateMetadata waits for nobody."""
    newer = _update(*(_elsewhere(index, 5) for index in range(40)))
    newer.controller_epoch += 1
    asked, go_on = threading.Event(), threading.Event()

    class Slow:
        def get(self, path: str, watch: object = None) -> object:
            asked.set()
            assert go_on.wait(60)
            raise StoreUnavailable(path)

    async def waits_for_the_store(world: World) -> None:
        world.store = Slow()
        leading = asyncio.ensure_future(world.lead(*(state(index, epoch=4) for index in range(40))))
        assert await asyncio.to_thread(asked.wait, 60)
        assert world.changes.update_metadata(newer, 8) is NONE
        go_on.set()
        assert await leading == (NONE, [STALE] * 40)
        assert not any(one.is_leader for one in world.replicas)

    async def pauses(world: World) -> None:
        await world.lead(*(state(index, epoch=3) for index in range(40)))
        leading = asyncio.ensure_future(
            world.lead(*(state(index, OTHER if index % 2 else ME, epoch=4) for index in range(40)))
        )
        await until_async(
            lambda: world.replicas.get("t", 0),
            "the new epoch of the first partition",
            holds=lambda replica: replica.leader_epoch >= 4,
            every_s=0,
        )
        assert world.changes.update_metadata(newer, 8) is NONE
        _, errors = await leading
        assert errors == [NONE] * 16 + [STALE] * 24
        assert not any(one.is_leader for one in world.replicas) and world.fetchers.followed == {}

    run(waits_for_the_store)
    run(pauses)


def test_a_topic_of_another_id_on_others_is_not_led_here() -> None:
    async def scenario(world: World) -> None:
        await world.lead(state(0, epoch=3))
        world.changes.update_metadata(_update(_elsewhere(0, 0), topic_id=ANOTHER_ID), 8)
        assert not world.replicas.get("t", 0).is_leader

    run(scenario)


@pytest.mark.parametrize("version", [0, 1, 4, 5, 7])
def test_each_partition_has_its_own_error(version: int) -> None:
    async def scenario(world: World) -> None:
        await world.lead(state(0, epoch=5), version=version)
        errors = await world.lead(
            state(0, OTHER, epoch=4), state(1, replicas=[OTHER, THIRD]), state(2), version=version
        )
        assert errors == (NONE, [STALE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NONE])
        assert world.replicas.get("t", 0).leader_epoch == 5 and world.replicas.get("t", 0).is_leader
        assert world.folders() == ["t-0", "t-2"]

    run(scenario)


@pytest.mark.parametrize("version", [0, 2, 7])
@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("../../etc/cron.d/x", 0),
        ("/etc/x", 0),
        ("a/b", 0),
        ("..", 0),
        ("", 0),
        ("a\x00b", 0),
        ("a\n", 0),
        ("a" * 250, 0),
        ("t", -1),
    ],
)
def test_a_name_that_leads_out_of_the_data_folder_is_refused(name: str, index: int, version: int) -> None:
    async def scenario(world: World) -> None:
        before = set(world.files.dirs)
        one = state(index, topic_name=name)
        request = leader_and_isr(one, version=version)
        for topic in request.topic_states:
            topic.topic_name = name
        response = await world.changes.lead_or_follow(request, version)
        errors = [one.error_code for topic in response.topics for one in topic.partition_errors]
        errors += [one.error_code for one in response.partition_errors]
        assert errors == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert set(world.files.dirs) == before
        # The one behind it is taken up all the same.
        assert await world.lead(state(0), version=version) == (NONE, [NONE])

    run(scenario)


def test_a_topic_of_another_id_takes_over_no_log() -> None:
    async def scenario(world: World) -> None:
        wrong = ErrorCode.INCONSISTENT_TOPIC_ID
        await world.lead(state(0))
        assert await world.lead(state(0, epoch=9), topic_id=ANOTHER_ID) == (NONE, [wrong])
        assert world.replicas.get("t", 0).leader_epoch == 3
        world.logs.close()
        # Nor one that nobody has taken up since the start.
        again = World(world.files)
        assert await again.lead(state(0, epoch=9), topic_id=ANOTHER_ID) == (NONE, [wrong])
        assert again.replicas.find("t", 0) is None

    run(scenario)


def test_a_log_whose_topic_id_was_lost_with_the_power_gets_it_again() -> None:
    async def scenario(world: World) -> None:
        await world.lead(state(0))
        world.logs.close()
        # It is not synced with the first records.
        world.files.remove(FOLDER / "t-0" / "partition.metadata")
        again = World(world.files)
        assert await again.lead(state(0, epoch=4)) == (NONE, [NONE])
        wrong = ErrorCode.INCONSISTENT_TOPIC_ID
        assert await again.lead(state(0, epoch=5), topic_id=ANOTHER_ID) == (NONE, [wrong])
        again.logs.close()
        assert World(world.files).logs.get("t", 0).topic_id == ID  # type: ignore[union-attr]

    run(scenario)


def test_the_same_epoch_again_takes_note_of_a_newer_in_sync_set_only() -> None:
    async def scenario(world: World) -> None:
        await world.lead(state(0, partition_epoch=10), state(1, OTHER, partition_epoch=10))
        added = world.fetchers.added
        assert await world.lead(state(0, isr=[ME], partition_epoch=9)) == (NONE, [NONE])
        assert world.replicas.get("t", 0).isr == (ME, OTHER)
        assert await world.lead(state(0, isr=[ME], partition_epoch=11)) == (NONE, [NONE])
        assert world.replicas.get("t", 0).isr == (ME,)
        # What is followed goes on being followed: nothing is fetched anew.
        await world.lead(state(1, OTHER, partition_epoch=11))
        assert world.fetchers.added == added

    run(scenario)


def test_who_begins_to_lead_fetches_no_more_and_the_other_way_round() -> None:
    async def scenario(world: World) -> None:
        await world.lead(state(0, OTHER))
        await world.lead(state(0, ME, epoch=4))
        assert world.fetchers.followed == {} and world.replicas.get("t", 0).is_leader
        await world.lead(state(0, THIRD, epoch=5))
        assert world.fetchers.followed == {("t", 0): (THIRD, 5)}
        await world.lead(state(0, -1, epoch=6))
        assert world.fetchers.followed == {}
        with pytest.raises(NotLeaderOrFollowerError):
            world.replicas.get("t", 0).require_leader()

    run(scenario)


def test_a_replica_without_a_usable_log_is_a_storage_error_and_taken_up_when_told_again() -> None:
    async def scenario(world: World) -> None:
        await world.lead(state(0))
        world.led.clear()
        fail_to_make(world, "t-1")
        assert await world.lead(state(1)) == (NONE, [STORAGE])
        assert ("t", 1) in world.replicas.offline
        # A coordinator that stood on the replica has to be given up.
        assert world.led == [{"t"}]
        mend(world)
        assert await world.lead(state(1)) == (NONE, [NONE])
        assert world.replicas.get("t", 1).is_leader and not world.replicas.offline

    run(scenario)


def test_a_replica_that_is_lost_gets_no_folder_in_which_the_next_start_would_find_an_empty_log() -> None:
    async def scenario(world: World) -> None:
        world.logs.offline.note_lost([("t", 0)])
        assert await world.lead(state(0)) == (NONE, [STORAGE])
        assert not world.files.exists(FOLDER / "t-0")

    run(scenario)


def test_the_log_of_another_topic_of_that_name_is_not_deleted_where_the_topics_id_is_known() -> None:
    async def scenario(world: World) -> None:
        assert await world.lead(state(0)) == (NONE, [NONE])
        world.replicas.take_offline([("t", 0)], "for the test")
        assert world.replicas.delete("t", 0, ANOTHER_ID)
        assert world.logs.get("t", 0) is not None
        assert world.replicas.delete("t", 0, ID)
        assert world.logs.get("t", 0) is None

    run(scenario)


def test_who_is_alone_tries_a_replica_again_that_found_no_room() -> None:
    async def scenario(world: World) -> None:
        fail_to_make(world, "t-0")
        # To nobody else could it be given: the controller need not hear of it.
        assert await world.lead(state(0, is_new=True)) == (NONE, [NONE])
        with pytest.raises(KafkaStorageError):
            world.replicas.get("t", 0)
        mend(world)
        with pytest.raises(KafkaStorageError):
            world.replicas.get("t", 0)
        world.clock.advance(1_000)
        assert world.replicas.get("t", 0).is_leader
        assert world.replicas.offline == {}

    run(scenario, World(tries_again=True))


def test_metadata_alone_makes_no_leader_of_a_replica_that_was_offline() -> None:
    """A client that asks for it may be faster than the controller, which has elected somebody else."""

    async def scenario(world: World) -> None:
        fail_to_make(world, "t-0")
        assert await world.lead(state(0)) == (NONE, [STORAGE])
        mend(world)
        leads = UpdateMetadataPartitionState(
            partition_index=0,
            controller_epoch=CONTROLLER_EPOCH,
            leader=ME,
            leader_epoch=3,
            isr=[ME, OTHER],
            zk_version=7,
            replicas=[ME, OTHER],
        )
        topic = UpdateMetadataTopicState(topic_name="t", topic_id=ID, partition_states=[leads])
        world.metadata.update(UpdateMetadataRequest(controller_id=OTHER, topic_states=[topic]), 8)
        assert world.metadata.image.topics["t"].partitions[0].leader == ME
        world.clock.advance(60_000)
        with pytest.raises(KafkaStorageError):
            world.replicas.get("t", 0)
        assert world.replicas.find("t", 0) is None

    run(scenario)


def test_what_is_followed_is_fetched_though_another_partition_comes_upon_a_bug() -> None:
    async def scenario(world: World) -> None:
        take_up = world.replicas.take_up

        def broken(topic: TopicImage, index: int, *rest: Any, **more: Any) -> ErrorCode:
            if index == 1:
                raise ValueError("a bug")
            return take_up(topic, index, *rest, **more)

        world.replicas.take_up = broken  # type: ignore[method-assign]
        errors = await world.lead(state(0, OTHER), state(1, OTHER), state(2, OTHER))
        assert errors == (NONE, [NONE, ErrorCode.UNKNOWN_SERVER_ERROR, NONE])
        assert world.fetchers.followed == {("t", 0): (OTHER, 3), ("t", 2): (OTHER, 3)}

    run(scenario)


def test_a_listener_that_fails_does_not_undo_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        def fail(topics: set[str]) -> None:
            raise ValueError("a bug")

        world.on_leadership = fail
        assert await world.lead(state(0)) == (NONE, [NONE])
        assert await world.stop(0) == (NONE, [NONE])

    run(scenario)
    assert caplog.text.count("a bug") >= 2


def test_configs_of_new_topics_are_there_before_their_logs() -> None:
    async def scenario(world: World) -> None:
        ensure_path(world.store, "/config/topics")
        world.store.create(paths.entity_config("topics/t"), nodes.encode_config({"retention.ms": "5"}))
        await world.lead(state(0))
        assert world.replicas.get("t", 0).log.config.retention_ms == 5
        assert world.metadata.image.config("topics/t") == {"retention.ms": "5"}

    run(scenario)


def test_a_store_that_is_away_holds_up_no_leadership(caplog: pytest.LogCaptureFixture) -> None:
    class Away:
        def get(self, path: str, watch: object = None) -> object:
            raise StoreUnavailable(path)

    async def scenario(world: World) -> None:
        world.store = Away()
        assert await world.lead(state(0)) == (NONE, [NONE])
        assert world.replicas.get("t", 0).is_leader

    run(scenario)
    assert "configs of new topics cannot be read" in caplog.text


def test_requests_are_worked_on_one_after_the_other() -> None:
    async def scenario(world: World) -> None:
        first = asyncio.ensure_future(world.lead(*(state(index) for index in range(50))))
        second = asyncio.ensure_future(world.stop(*range(50)))
        third = asyncio.ensure_future(world.lead(state(0, epoch=4)))
        assert await first == (NONE, [NONE] * 50)
        assert await second == (NONE, [NONE] * 50)
        assert await third == (NONE, [NONE])
        assert [one.index for one in world.replicas] == [0]

    run(scenario)


def test_the_loop_gets_its_turns_between_many_partitions() -> None:
    async def scenario(world: World) -> None:
        await world.lead(*(state(index) for index in range(60)))
        turns = 0
        following = asyncio.ensure_future(world.lead(*(state(i, OTHER, epoch=4) for i in range(60))))

        def is_over() -> bool:
            nonlocal turns
            turns += not following.done()
            return following.done()

        await until_async(is_over, "the end of the request", every_s=0)
        assert turns >= 3

    run(scenario)


# ---------------------------------------------------------------------- the end


def test_after_the_stop_nothing_is_led_nor_made() -> None:
    async def scenario(world: World) -> None:
        under_way = world.changes.lead_or_follow(leader_and_isr(state(0), version=7), 7)
        waiting = world.changes.lead_or_follow(leader_and_isr(state(1), version=7), 7)
        await asyncio.sleep(0)
        await world.changes.stop()
        assert under_way.done() and waiting.done()
        assert (await waiting).error_code == ErrorCode.STALE_BROKER_EPOCH
        before = world.folders()
        stale = ErrorCode.STALE_BROKER_EPOCH
        assert await world.lead(state(2)) == (stale, [stale])
        assert await world.stop(0) == (stale, [])
        assert world.folders() == before and "t-1" not in before

    run(scenario)


def test_who_lets_go_leaves_nothing_running() -> None:
    async def scenario(world: World) -> None:
        under_way = world.changes.lead_or_follow(leader_and_isr(state(0), version=7), 7)
        await asyncio.sleep(0)
        world.changes.let_go()
        with pytest.raises(asyncio.CancelledError):
            await under_way
        assert world.replicas.find("t", 0) is None

    run(scenario)


def test_what_comes_before_the_registration_waits_for_it_and_is_judged_by_it() -> None:
    async def scenario(world: World) -> None:
        world.broker_epoch = -1
        for_the_life_before = leader_and_isr(state(), version=7, broker_epoch=BROKER_EPOCH - 1)
        asked = world.changes.lead_or_follow(for_the_life_before, 7)
        update = UpdateMetadataRequest(controller_epoch=CONTROLLER_EPOCH, broker_epoch=BROKER_EPOCH - 1)
        told = world.changes.update_metadata(update, 8)
        assert isinstance(told, asyncio.Future)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not asked.done()
        assert not told.done()
        world.broker_epoch = BROKER_EPOCH
        assert (await asked).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert await told is ErrorCode.STALE_BROKER_EPOCH
        assert world.replicas.find("t", 0) is None
        update.broker_epoch = BROKER_EPOCH
        assert world.changes.update_metadata(update, 8) is NONE

    run(scenario)


def test_what_waits_for_a_registration_that_never_comes_ends_with_the_broker() -> None:
    async def scenario(world: World) -> None:
        world.broker_epoch = -1
        asked = world.changes.lead_or_follow(leader_and_isr(state(), version=7), 7)
        await asyncio.sleep(0)
        await world.changes.stop()
        assert (await asked).error_code == ErrorCode.STALE_BROKER_EPOCH

    run(scenario)


def test_nobody_leads_in_an_older_epoch_than_its_log_knows() -> None:
    async def scenario(world: World) -> None:
        log = world.logs.create("t", 0, topic_id=ID)
        log.assign_epoch(6, log.log_end_offset)
        assert await world.lead(state(epoch=3), state(1, epoch=3, is_new=True)) == (NONE, [STALE, NONE])
        assert world.old_epochs == 1
        assert log.epochs.latest == 6, "what it knows is not forgotten"
        assert await world.lead(state(epoch=3, leader=OTHER)) == (NONE, [NONE])
        assert await world.lead(state(epoch=7)) == (NONE, [NONE])
        assert world.old_epochs == 1
        assert log.epochs.latest == 7

    run(scenario)
