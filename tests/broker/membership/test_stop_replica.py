"""Replicas that a controller has stopped or deleted."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from replication.replicas import append

from .controlled import ANOTHER_ID, FENCED, FOLDER, ME, MORE, NONE, OTHER, STALE, STORAGE, World, run, state


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
        for delete in (False, True):
            assert await world.stop(0, version=version, epoch=2, delete=delete) == (NONE, [FENCED])
        assert world.replicas.get("t", 0).is_leader
        assert await world.stop(0, version=version, epoch=3) == (NONE, [NONE])
        assert world.replicas.find("t", 0) is None

    run(scenario)


@pytest.mark.parametrize("version", [3, 4])
def test_a_replica_is_stopped_at_the_epoch_that_is_known(version: int) -> None:
    """As Kafka's controller does at the controlled shutdown of a follower (KAFKA-13972)."""

    async def scenario(world: World) -> None:
        await world.lead(state(0, OTHER))
        assert await world.stop(0, version=version, epoch=3, delete=False) == (NONE, [NONE])
        assert world.fetchers.followed == {}
        assert world.replicas.get("t", 0).leader_id == -1

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
