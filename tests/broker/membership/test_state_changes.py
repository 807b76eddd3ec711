"""What a controller says to a broker of several, and what its replicas, logs and fetchers make of it."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.interbroker.replica_fetcher_manager import Assignment
from odradek.broker.membership.state_changes import StateChanges
from odradek.broker.metadata.metadata_cache import MetadataCache
from odradek.broker.replicas.replica_manager import ReplicaManager
from odradek.cluster import nodes, paths
from odradek.cluster.image import ClusterDelta, PartitionImage, TopicImage
from odradek.cluster.store.memory import MemoryStore
from odradek.cluster.store.store import StoreUnavailable, ensure_path
from odradek.errors import KafkaStorageError, NotLeaderOrFollowerError
from odradek.errors.codes import ErrorCode
from odradek.log.config import LogConfig
from odradek.log.folders.log_manager import LogManager
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.replication.delayed import Purgatory
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from odradek.util.topic_partition import TopicPartition
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from odradek.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from replication.replicas import append
from waiting import until_async

ME, OTHER, THIRD = 0, 1, 2
ID, ANOTHER_ID = bytes(15) + b"\x01", bytes(15) + b"\x02"
FOLDER, MORE = Path("/data"), Path("/more")
CONTROLLER_EPOCH = 7
BROKER_EPOCH = 100
NONE = ErrorCode.NONE
STALE = ErrorCode.STALE_CONTROLLER_EPOCH
STORAGE = ErrorCode.KAFKA_STORAGE_ERROR
FENCED = ErrorCode.FENCED_LEADER_EPOCH


class Fetchers:
    """Writes down whom it follows."""

    def __init__(self) -> None:
        self.followed: dict[TopicPartition, tuple[int, int]] = {}
        self.added = 0

    def add(self, assignments: Iterable[Assignment]) -> None:
        for one in assignments:
            self.followed[one.replica.key] = (one.leader_id, one.leader_epoch)
            self.added += 1

    def remove(self, keys: Iterable[TopicPartition]) -> None:
        for key in keys:
            self.followed.pop(key, None)

    def shutdown_idle_fetchers(self) -> None:
        pass


class World:
    """Broker 0, its logs in memory, and what it is told."""

    def __init__(self, files: MemoryFileSystem | None = None, data_dirs: Sequence[Path] = (FOLDER,)) -> None:
        self.clock = ManualClock()
        self.files = files or MemoryFileSystem(now_ms=self.clock.now_ms)
        self.logs = LogManager(data_dirs, self.files, self.clock)
        self.logs.load()
        self.metadata = MetadataCache("a cluster", {})
        self.replicas = ReplicaManager(
            broker_id=ME,
            logs=self.logs,
            purgatory=Purgatory(ManualTimers(self.clock)),
            clock=self.clock,
            log_config=lambda topic, image: LogConfig.from_topic(image.topic_config(topic), LogConfig()),
            image=self.metadata.image,
        )
        self.replicas.follows_image = False
        self.metadata.add_listener(self.replicas.follow_configs)
        self.fetchers = Fetchers()
        self.store: Any = MemoryStore()
        self.broker_epoch = BROKER_EPOCH
        self.led: list[set[str]] = []
        self.changes = StateChanges(
            broker_id=ME,
            replicas=self.replicas,
            logs=self.logs,
            metadata=self.metadata,
            store=lambda: self.store,
            fetchers=self.fetchers,
            broker_epoch=lambda: self.broker_epoch,
        )
        self.changes.on_leadership = self.led.append

    async def lead(
        self,
        *states: LeaderAndIsrPartitionState,
        version: int = 7,
        topic_id: bytes = ID,
        **fields: Any,
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        request = leader_and_isr(*states, version=version, topic_id=topic_id, **fields)
        response = await self.changes.lead_or_follow(request, version)
        errors = [one.error_code for one in response.partition_errors]
        errors += [one.error_code for topic in response.topics for one in topic.partition_errors]
        return ErrorCode(response.error_code), [ErrorCode(one) for one in errors]

    async def stop(
        self, *indexes: int, version: int = 4, epoch: int = -2, delete: bool = True, **fields: Any
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        request = stop_replica(*indexes, version=version, epoch=epoch, delete=delete, **fields)
        response = await self.changes.stop_replicas(request, version)
        errors = [ErrorCode(one.error_code) for one in response.partition_errors]
        return ErrorCode(response.error_code), errors

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.files.dirs if path.parent == FOLDER)


def state(index: int = 0, leader: int = ME, epoch: int = 3, **fields: Any) -> LeaderAndIsrPartitionState:
    known = {
        "topic_name": "t",
        "isr": [ME, OTHER],
        "replicas": [ME, OTHER],
        "partition_epoch": epoch,
        "controller_epoch": CONTROLLER_EPOCH,
    }
    return LeaderAndIsrPartitionState(
        partition_index=index, leader=leader, leader_epoch=epoch, **{**known, **fields}
    )


def leader_and_isr(
    *states: LeaderAndIsrPartitionState,
    version: int,
    topic_id: bytes = ID,
    controller_epoch: int = CONTROLLER_EPOCH,
    broker_epoch: int = BROKER_EPOCH,
) -> LeaderAndIsrRequest:
    request = LeaderAndIsrRequest(
        controller_id=OTHER,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch if version >= 2 else -1,
    )
    if version < 2:
        request.ungrouped_partition_states = list(states)
    else:
        request.topic_states = [
            LeaderAndIsrTopicState(
                topic_name="t", topic_id=topic_id if version >= 5 else bytes(16), partition_states=[*states]
            )
        ]
    return request


def stop_replica(
    *indexes: int,
    version: int,
    epoch: int,
    delete: bool,
    controller_epoch: int = CONTROLLER_EPOCH,
    broker_epoch: int = BROKER_EPOCH,
) -> StopReplicaRequest:
    request = StopReplicaRequest(
        controller_id=OTHER,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch if version >= 1 else -1,
    )
    if version < 3:
        request.delete_partitions = delete
    if version == 0:
        request.ungrouped_partitions = [
            StopReplicaPartitionV0(topic_name="t", partition_index=index) for index in indexes
        ]
    elif version < 3:
        request.topics = [StopReplicaTopicV1(name="t", partition_indexes=list(indexes))]
    else:
        request.topic_states = [
            StopReplicaTopicState(
                topic_name="t",
                partition_states=[
                    StopReplicaPartitionState(
                        partition_index=index, leader_epoch=epoch, delete_partition=delete
                    )
                    for index in indexes
                ],
            )
        ]
    return request


def run(scenario: Callable[[World], Coroutine[Any, Any, None]], world: World | None = None) -> None:
    async def main() -> None:
        await scenario(world or World())

    asyncio.run(main())


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


def test_a_deletion_that_is_not_on_the_disk_is_not_told_and_nothing_is_made_anew_beside_it() -> None:
    """After a loss of power the replica would be in two data folders, and nobody could tell which counts."""

    async def scenario(world: World) -> None:
        await world.lead(state(0))
        home = world.replicas.get("t", 0).log.directory.parent
        append(world.replicas.get("t", 0), 1)
        world.files.failing["fsync_dir"] = lambda path: path == home
        for _ in range(3):
            assert await world.stop(0) == (NONE, [STORAGE])
            assert world.logs.directories.failure_of(home) is not None
            # Given back, as the controller does which has a reassignment go back, it waits for its folder.
            given = state(0, leader=OTHER, isr=[OTHER], is_new=True)
            assert await world.lead(given) == (NONE, [STORAGE])
        # Only others are made where there is room.
        assert await world.lead(state(1, is_new=True)) == (NONE, [NONE])
        assert world.replicas.get("t", 1).log.directory.parent != home
        assert [path for path in world.files.dirs if path.name == "t-0"] == []

    run(scenario, World(data_dirs=(FOLDER, MORE)))


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_deletion_is_told_once_it_is_on_the_disk_though_a_sync_before_failed(goes_on: bool) -> None:
    """A full disk may refuse to sync, and not fail for good: what has failed once is synced again."""

    async def scenario(world: World) -> None:
        await world.lead(state(0))
        home = world.replicas.get("t", 0).log.directory.parent
        world.files.failing["fsync_dir"] = lambda path: path == home
        world.files.failing_with = errno.ENOSPC
        for _ in range(2):
            assert await world.stop(0) == (NONE, [STORAGE])
        assert world.logs.directories.failure_of(home) is None
        if goes_on:
            assert await world.lead(state(0, is_new=True)) == (NONE, [STORAGE])
        world.files.failing.clear()
        assert await world.stop(0) == (NONE, [NONE])
        assert await world.lead(state(0, is_new=True)) == (NONE, [NONE])

    run(scenario, World(data_dirs=(FOLDER, MORE)))


def fail_to_make(world: World, name: str) -> None:
    """No folder of this name, nor a file in it, can be made from now on."""
    make_dirs, open_file = world.files.make_dirs, world.files.open

    def refuse_folder(path: Path) -> None:
        check(path)
        make_dirs(path)

    def refuse_file(path: Path, *, create: bool = False) -> Any:
        check(path)
        return open_file(path, create=create)

    def check(path: Path) -> None:
        if name in str(path):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    world.files.make_dirs = refuse_folder  # type: ignore[method-assign]
    world.files.open = refuse_file  # type: ignore[method-assign]


def mend(world: World) -> None:
    """The files are as they should be again."""
    del world.files.make_dirs, world.files.open


def test_metadata_alone_makes_no_leader_of_a_replica_that_was_offline() -> None:
    """A client that asks for it may be faster than the controller, which has elected somebody else."""

    async def scenario(world: World) -> None:
        fail_to_make(world, "t-0")
        assert await world.lead(state(0)) == (NONE, [STORAGE])
        mend(world)
        topic = TopicImage("t", ID, {0: PartitionImage((ME, OTHER), (ME, OTHER), ME, 3, 3, 7)})
        world.metadata._apply(ClusterDelta(topics={"t": topic}))
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

        world.changes.on_leadership = fail
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


# ---------------------------------------------------------------------- StopReplica


@pytest.mark.parametrize("version", range(5))
def test_a_replica_is_stopped_and_its_log_stays(version: int) -> None:
    async def scenario(world: World) -> None:
        await world.lead(state(0, OTHER), state(1))
        assert await world.stop(0, 1, version=version, epoch=4, delete=False) == (NONE, [NONE, NONE])
        assert world.fetchers.followed == {}
        assert world.replicas.get("t", 1).leader_id == -1
        assert world.folders() == ["t-0", "t-1"]
        # The same leader again is followed again.
        await world.lead(state(0, OTHER))
        assert world.fetchers.followed == {("t", 0): (OTHER, 3)}

    run(scenario)


@pytest.mark.parametrize("version", range(5))
def test_a_replica_is_deleted_and_is_so_the_second_time(version: int) -> None:
    async def scenario(world: World) -> None:
        await world.lead(state(0))
        append(world.replicas.get("t", 0), 3)
        for _ in range(2):
            assert await world.stop(0, version=version) == (NONE, [NONE])
            assert world.replicas.find("t", 0) is None and world.logs.get("t", 0) is None
        assert all(name.endswith("-delete") for name in world.folders())
        assert world.led[-1] == {"t"}
        # A topic made anew begins anew.
        await world.lead(state(0, epoch=0), topic_id=ANOTHER_ID)
        assert world.replicas.get("t", 0).log.log_end_offset == 0

    run(scenario)


@pytest.mark.parametrize("version", [3, 4])
def test_stop_replica_of_an_older_epoch_is_fenced(version: int) -> None:
    async def scenario(world: World) -> None:
        await world.lead(state(0))
        assert await world.stop(0, version=version, epoch=2) == (NONE, [FENCED])
        assert await world.stop(0, version=version, epoch=3, delete=False) == (NONE, [FENCED])
        assert world.replicas.get("t", 0).is_leader
        assert await world.stop(0, version=version, epoch=3) == (NONE, [NONE])
        assert world.replicas.find("t", 0) is None

    run(scenario)


@pytest.mark.parametrize("version", range(5))
def test_stop_replica_of_an_older_controller_changes_nothing(version: int) -> None:
    async def scenario(world: World) -> None:
        await world.lead(state(0), controller_epoch=9)
        assert await world.stop(0, version=version, controller_epoch=8) == (STALE, [])
        assert world.replicas.get("t", 0).is_leader

    run(scenario)


def test_a_log_that_cannot_be_removed_is_a_storage_error_until_it_can() -> None:
    async def scenario(world: World) -> None:
        await world.lead(state(0))
        rename = world.files.rename

        def refuse(source: Path, target: Path) -> None:
            raise OSError(errno.EACCES, "Permission denied", str(source))

        world.files.rename = refuse  # type: ignore[method-assign]
        assert await world.stop(0) == (NONE, [STORAGE])
        assert world.folders() == ["t-0"]
        world.files.rename = rename  # type: ignore[method-assign]
        assert await world.stop(0) == (NONE, [NONE])
        assert world.folders() != ["t-0"]

    run(scenario)


def test_a_replica_that_is_given_back_while_its_folder_is_away_waits_for_it() -> None:
    """StopReplica cannot delete it, and made anew elsewhere it would be there twice (KAFKA-7313)."""

    async def scenario(world: World) -> None:
        world.logs.on_failure = lambda _, keys, reason: world.replicas.take_offline(keys, reason)
        await world.lead(state(0))
        append(world.replicas.get("t", 0))
        home = world.replicas.get("t", 0).log.directory
        world.logs.directories.fail(home.parent, "for the test")
        back = state(0, leader=OTHER, epoch=6, isr=[OTHER], replicas=[OTHER, ME], is_new=True)
        for _ in range(2):
            assert await world.stop(0, epoch=5) == (NONE, [STORAGE])
            assert await world.lead(back) == (NONE, [STORAGE])
        assert not world.fetchers.followed
        world.logs.close()
        # Nobody knows any more what is in the folder.
        folders = [FOLDER, MORE]
        world.files.failing["open"] = lambda path: home.parent in path.parents
        away = World(world.files, folders)
        assert away.logs.online_dirs == [one for one in folders if one != home.parent]
        assert await away.stop(0, epoch=7) == (NONE, [STORAGE])
        assert await away.lead(back) == (NONE, [STORAGE])
        # A topic that has just been made is not in it.
        assert await away.lead(state(1, is_new=True)) == (NONE, [NONE])
        away.logs.close()
        world.files.failing.clear()
        again = World(world.files, folders)
        assert await again.lead(back) == (NONE, [NONE])
        assert again.replicas.get("t", 0).log.directory == home
        assert again.replicas.get("t", 0).log.log_end_offset == 1
        assert ("t", 0) in again.fetchers.followed
        assert await again.stop(0, epoch=8) == (NONE, [NONE])

    run(scenario, World(data_dirs=[FOLDER, MORE]))


def test_a_log_that_nobody_has_taken_up_is_deleted_all_the_same() -> None:
    async def scenario(world: World) -> None:
        await world.lead(state(0))
        world.logs.close()
        again = World(world.files)
        assert again.logs.get("t", 0) is not None
        assert await again.stop(0) == (NONE, [NONE])
        assert again.logs.get("t", 0) is None

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
        told: list[int] = []
        world.changes.on_old_epochs = lambda: told.append(1)
        log = world.logs.create("t", 0, topic_id=ID)
        log.assign_epoch(6, log.log_end_offset)
        assert await world.lead(state(epoch=3), state(1, epoch=3, is_new=True)) == (NONE, [STALE, NONE])
        assert told == [1]
        assert log.epochs.latest == 6, "what it knows is not forgotten"
        assert await world.lead(state(epoch=3, leader=OTHER)) == (NONE, [NONE])
        assert await world.lead(state(epoch=7)) == (NONE, [NONE])
        assert told == [1]
        assert log.epochs.latest == 7

    run(scenario)
