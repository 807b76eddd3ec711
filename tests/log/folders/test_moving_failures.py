"""A log moves to another data folder while one of the two disks fails."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.errors import KafkaStorageError
from odradek.log.folders.moving import MoveError

from .two_folders import KEY, A, B, C, World, advance, advance_to_the_swap, folders_marked

pytestmark = pytest.mark.usefixtures("small_pieces")


def under(folder: Path) -> Callable[[Path], bool]:
    return lambda path: folder in path.parents or path == folder


@pytest.mark.parametrize("operation", ["copy", "create", "fsync", "rename", "fsync_dir", "pwrite", "mkdir"])
def test_the_new_disk_fails(operation: str) -> None:
    world = World()
    world.files.failing[operation] = under(B)
    move = world.begin()
    with pytest.raises(MoveError):
        world.through(move)
    world.manager.moves.end(move)
    world.files.failing.clear()
    assert world.log.directory == A / "t-0"
    world.put()
    world.check()
    assert not world.log.syncing.moving


def test_the_new_disk_is_full() -> None:
    world = World()
    world.files.failing["copy"], world.files.failing_with = under(B), errno.ENOSPC
    move = world.begin()
    with pytest.raises(MoveError, match="No space"):
        world.through(move)
    world.manager.moves.end(move)
    world.files.failing.clear()
    assert folders_marked(world.files, "future") == []
    assert world.manager.directories.failure_of(B) is None
    world.put()
    world.check()


def test_the_old_disk_fails_just_behind_the_swap() -> None:
    world = World()
    move = world.begin()
    steps, wait = advance_to_the_swap(move)
    world.files.failing["rename"] = under(A)
    with pytest.raises(StopIteration):
        while True:
            wait = advance(steps, wait)
    world.manager.moves.end(move)
    assert world.manager.directories.failure_of(A) is not None
    world.put()
    world.check()
    with pytest.raises(KafkaStorageError):
        world.manager.moves.begin(KEY, A)
    world.files.failing.clear()
    # Both folders have the plain name; the next start knows which one counts.
    assert A / "t-0" in world.files.dirs
    world.again()
    assert world.log.directory == B / "t-0"
    world.check()


def test_no_moves_while_a_folder_is_offline() -> None:
    world = World()
    world.manager.close()
    world.again(A, B, C)
    world.manager.directories.fail(C, "the test says so")
    with pytest.raises(KafkaStorageError):
        world.manager.moves.begin(KEY, B)
