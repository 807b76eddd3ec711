"""A partition that is taken out of a data folder, and made anew in another one: it is never there twice.

Where it is all the same, since a folder was away meanwhile, it is offline alone until an operator says which
one counts; neither is touched.
"""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from odradek.errors import KafkaStorageError
from odradek.log import DataDirectoryError, LogManager, PartitionLog
from odradek.log.storage.file_names import marker_of_dir
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, values_of
from .test_data_directories import CONFIG, FIRST, SECOND, TOPIC_ID, append, below, with_logs

OTHER_ID = bytes(range(2, 18))
KEY = ("t", 0)


def start(
    files: MemoryFileSystem,
    *directories: Path,
    refuses_damage: bool = False,
    clock: ManualClock | None = None,
) -> LogManager:
    files.restart()
    manager = LogManager(
        list(directories or (FIRST, SECOND)),
        files,
        clock or ManualClock(NOW_MS),
        CONFIG,
        refuses_damage=refuses_damage,
    )
    manager.identity.check(1, "cluster")
    manager.load()
    return manager


def elsewhere(folder: Path) -> Path:
    """Return the other data folder."""
    return SECOND if folder == FIRST else FIRST


def make_elsewhere(manager: LogManager, before: Path) -> PartitionLog:
    """Make the partition anew, in the other folder, with records."""
    manager.moves.prefer(KEY, elsewhere(before))
    manager.prepare([(*KEY, TOPIC_ID)])
    manager.moves.prefer(KEY, elsewhere(before))
    log = manager.create(*KEY, CONFIG, TOPIC_ID, is_copied=True)
    append(log, b"anew")
    log.flush()
    return log


def plain_folders(files: MemoryFileSystem) -> list[Path]:
    return sorted(path for path in files.dirs if path.name == "t-0")


@pytest.mark.parametrize("seed", range(8))
def test_a_deletion_that_could_not_be_synced_gives_its_folder_up(seed: int) -> None:
    """The rename may not get to the disk: made anew elsewhere, it would be there twice after a power loss."""
    files = MemoryFileSystem(random.Random(seed))
    manager, logs = with_logs(files)
    manager.checkpoint()
    for log in logs:
        log.flush()
    home = logs[0].directory.parent
    assert manager.delete(*KEY, sync=False)
    files.failing["fsync_dir"] = below(home)
    failed = manager.taken_out.sync()
    assert list(failed) == [home]
    for path, error in failed.items():
        manager.directories.note_error(path, error)
    assert manager.directories.failure_of(home) is not None
    assert not manager.offline.is_gone(KEY)
    with pytest.raises(KafkaStorageError, match="which has failed"):
        make_elsewhere(manager, home)
    files.failing.clear()
    files.lose_power()
    manager = start(files)
    assert len(plain_folders(files)) == (manager.get(*KEY) is not None) + (KEY in manager.damaged)
    found = manager.get(*KEY)
    if found is not None:
        assert values_of(found) == [(0, b"v")]
    for log in logs[1:]:
        whole = manager.get(log.topic, log.partition)
        assert whole is not None and values_of(whole) == [(0, b"v")]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_deleted_is_made_anew_once_that_is_on_the_disk(seed: int) -> None:
    """A full disk fails the sync, and nothing else: it is made up for before the partition is made anew."""
    files = MemoryFileSystem(random.Random(seed))
    manager, logs = with_logs(files)
    home = logs[0].directory.parent
    assert manager.delete(*KEY, sync=False)
    files.failing["fsync_dir"], files.failing_with = below(home), errno.ENOSPC
    for _ in range(2):
        # Asked again it fails again: nothing has been synced.
        failed = manager.taken_out.sync()
        assert list(failed) == [home]
        for path, error in failed.items():
            manager.directories.note_error(path, error)
        assert manager.directories.failure_of(home) is None
    with pytest.raises(KafkaStorageError, match="would be back after a loss of power"):
        make_elsewhere(manager, home)
    assert plain_folders(files) == []
    files.failing.clear()
    anew = make_elsewhere(manager, home)
    assert anew.directory.parent != home
    manager.checkpoint()
    files.lose_power()
    manager = start(files)
    assert not manager.damaged
    found = manager.get(*KEY)
    assert found is not None and values_of(found) == [(0, b"anew")]
    assert plain_folders(files) == [found.directory]


class Meanwhile(MemoryFileSystem):
    """While a folder is synced, somebody else asks for the same, as another thread may."""

    manager: LogManager | None = None
    asked = 0

    def fsync_dir(self, directory: Path) -> None:
        manager, self.manager = self.manager, None
        if manager is not None:
            self.asked += 1
            before = self.operations
            assert not manager.taken_out.sync()
            assert self.operations > before, "told that it is on the disk before it is"
        super().fsync_dir(directory)


def test_who_asks_while_it_is_synced_waits_as_well() -> None:
    files = Meanwhile()
    manager, _ = with_logs(files)
    assert manager.delete(*KEY, sync=False)
    files.manager = manager
    assert not manager.taken_out.sync()
    assert files.asked == 1
    before = files.operations
    assert not manager.taken_out.sync()
    assert files.operations == before


class DeletedMeanwhile(MemoryFileSystem):
    """While a folder is synced, a partition is made anew in it and deleted again."""

    manager: LogManager | None = None

    def fsync_dir(self, directory: Path) -> None:
        super().fsync_dir(directory)
        manager, self.manager = self.manager, None
        if manager is not None:
            manager.moves.prefer(KEY, directory)
            append(manager.create(*KEY, CONFIG, TOPIC_ID))
            manager.delete(*KEY, sync=False)


def test_what_is_deleted_while_it_is_synced_is_not_synced_with_it() -> None:
    files = DeletedMeanwhile()
    manager, _ = with_logs(files)
    assert manager.delete(*KEY, sync=False)
    files.manager = manager
    assert not manager.taken_out.sync()
    before = files.operations
    assert not manager.taken_out.sync()
    assert files.operations > before


def in_both(files: MemoryFileSystem, *, clean: bool, topic_id: bytes = TOPIC_ID) -> tuple[Path, Path]:
    """A folder was out of `log.dirs` while its partition was given back, and is there again; old and new."""
    manager, logs = with_logs(files)
    old = logs[0].directory
    for log in logs:
        log.flush()
    manager.close()
    left = elsewhere(old.parent)
    manager = start(files, left)
    append(manager.create(*KEY, CONFIG, topic_id, is_copied=True), b"anew")
    manager.checkpoint()
    if clean:
        manager.close()
    return old, left / "t-0"


def contents(files: MemoryFileSystem, *folders: Path) -> dict[Path, bytes]:
    return {path: bytes(inode.data) for path, inode in files.files.items() if path.parent in folders}


@pytest.mark.parametrize("clean", [False, True])
def test_in_two_folders_it_is_offline_alone(clean: bool) -> None:
    files = MemoryFileSystem()
    old, new = in_both(files, clean=clean)
    before = contents(files, old, new)
    assert {path.parent for path in before} == {old, new}
    for ends_well in (True, False, True):
        manager = start(files)
        assert list(manager.damaged) == [KEY]
        reason = manager.damaged[KEY].reason
        assert str(old) in reason and str(new) in reason and "Move the folder away" in reason
        assert manager.get(*KEY) is None
        assert not manager.offline.is_gone(KEY)
        for is_new, is_copied in ((True, False), (False, True), (False, False)):
            with pytest.raises(KafkaStorageError, match="is in both"):
                manager.create(*KEY, CONFIG, TOPIC_ID, is_new=is_new, is_copied=is_copied)
        others = [manager.get("t", partition) for partition in (1, 2, 3)]
        assert all(log is not None and values_of(log)[0] == (0, b"v") for log in others)
        manager.checkpoint()
        if ends_well:
            assert manager.close()
        assert contents(files, old, new) == before
    # Whichever the operator takes for the newer one has what it had.
    kept, gone, value = random.Random(clean).choice([(old, new, b"v"), (new, old, b"anew")])
    files.rename(gone, Path("/") / "aside")
    manager = start(files)
    assert not manager.damaged
    log = manager.get(*KEY)
    assert log is not None and log.directory == kept
    assert values_of(log) == [(0, value)]


def test_in_two_folders_the_start_is_refused_if_that_is_wanted() -> None:
    files = MemoryFileSystem()
    old, new = in_both(files, clean=True)
    before = contents(files, old, new)
    with pytest.raises(DataDirectoryError, match="is in both"):
        start(files, refuses_damage=True)
    assert contents(files, old, new) == before


def test_in_two_folders_and_damaged_in_one() -> None:
    files = MemoryFileSystem()
    old, new = in_both(files, clean=True)
    for path in contents(files, old):
        if path.suffix == ".log":
            del files.files[path]
    manager = start(files)
    assert list(manager.damaged) == [KEY]
    assert "is in both" in manager.damaged[KEY].reason
    assert manager.close()
    files.rename(new, Path("/") / "aside")
    manager = start(files)
    assert list(manager.damaged) == [KEY]
    assert "is in both" not in manager.damaged[KEY].reason


def test_deleted_it_goes_in_both() -> None:
    files = MemoryFileSystem()
    old, _ = in_both(files, clean=True)
    clock = ManualClock(NOW_MS)
    manager = start(files, clock=clock)
    assert manager.delete(*KEY)
    assert manager.offline.is_gone(KEY)
    assert plain_folders(files) == []
    assert len([path for path in files.dirs if marker_of_dir(path.name) == "delete"]) == 2
    made = make_elsewhere(manager, old.parent)
    clock.advance(10**9)
    manager.removals.begin(clock.now_ms()).run()
    assert not any(marker_of_dir(path.name) for path in files.dirs)
    manager.checkpoint()
    files.lose_power()
    manager = start(files)
    found = manager.get(*KEY)
    assert found is not None and found.directory == made.directory
    assert values_of(found) == [(0, b"anew")]


def test_in_two_folders_and_one_fails_then_neither_is_deleted() -> None:
    files = MemoryFileSystem()
    old, new = in_both(files, clean=True)
    manager = start(files)
    manager.directories.fail(old.parent, "for the test")
    assert not manager.delete(*KEY)
    assert not manager.offline.is_gone(KEY)
    assert set(plain_folders(files)) == {old, new}


def test_whose_it_is_where_the_two_belong_to_different_topics() -> None:
    files = MemoryFileSystem()
    in_both(files, clean=True, topic_id=OTHER_ID)
    damaged = start(files).damaged
    assert damaged.topic_id(KEY) is None
    assert not damaged.may_be_of(KEY, TOPIC_ID)
    files = MemoryFileSystem()
    in_both(files, clean=True)
    damaged = start(files).damaged
    assert damaged.topic_id(KEY) == TOPIC_ID
    assert damaged.may_be_of(KEY, TOPIC_ID) and not damaged.may_be_of(KEY, OTHER_ID)
