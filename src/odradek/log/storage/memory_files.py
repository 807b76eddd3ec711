"""Files in memory, for tests: they tear writes, run full, fail, and forget what was not synced.

What the model says of a disk:

- A write lands in the page cache. The death of the process (`Killed`, raised at a chosen operation) keeps
  the page cache; the operation at which it happens may have been done not at all, in part, or whole.
- A power failure (`lose_power`) keeps what was synced. Of the rest of a file, a prefix of the writes since
  the last sync survives, chosen by the given random generator, the last of them perhaps torn. Names made,
  moved or removed since the folder was last synced may or may not have got to the disk.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from odradek.log.storage._pywriting import placed
from odradek.log.storage.files import Buffer, LockHeldError


class Killed(BaseException):
    """The process died here. Not an `Exception`, so that no handler in the code under test sees it."""


@dataclass
class Inode:
    """A file's content: what the page cache has, what is on the disk, and the steps between."""

    data: bytearray = field(default_factory=bytearray)
    # Invariant: `durable` with all of `pending` done to it is `data`.
    durable: bytes = b""
    pending: list[tuple[int, bytes] | int] = field(default_factory=list)
    """Writes (position, bytes) and truncations (size) since the last sync."""
    modified_ms: int = 0

    def write(self, position: int, content: bytes) -> None:
        """Put bytes into the page cache."""
        if position > len(self.data):
            self.data.extend(bytes(position - len(self.data)))
        self.data[position : position + len(content)] = content
        self.pending.append((position, content))

    def truncate(self, size: int) -> None:
        """Set the size in the page cache."""
        _resize(self.data, size)
        self.pending.append(size)

    def sync(self) -> None:
        """Get the page cache to the disk."""
        self.durable = bytes(self.data)
        self.pending.clear()

    def lose_power(self, rng: random.Random) -> None:
        """Keep the durable content and a random prefix of what came after it."""
        data = bytearray(self.durable)
        steps = rng.randint(0, len(self.pending))
        for number, step in enumerate(self.pending[:steps], 1):
            if isinstance(step, int):
                _resize(data, step)
                continue
            position, content = step
            # Only the last write that got there can be torn: the writes before it are whole.
            if number == steps:
                content = content[: rng.randint(0, len(content))]
            if position > len(data):
                data.extend(bytes(position - len(data)))
            data[position : position + len(content)] = content
        self.data = data
        self.sync()


def _resize(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))


def _move_names(names: dict[Path, Inode], source: Path, target: Path) -> None:
    """Move the names in one folder to another."""
    for path in [path for path in names if source in path.parents]:
        names[target / path.relative_to(source)] = names.pop(path)


def _moved(dirs: set[Path], source: Path, target: Path) -> set[Path]:
    """Return folders as they are called after a move; see `_move_names`."""
    return {
        target / path.relative_to(source) if path == source or source in path.parents else path
        for path in dirs
    }


class MemoryFile:
    """See `odradek.log.storage.files.File`."""

    def __init__(self, files: MemoryFileSystem, path: Path, inode: Inode) -> None:
        self._files = files
        self.path = path
        self._inode = inode

    def pread(self, size: int, position: int) -> bytes:
        """See `File.pread`."""
        self._files.check_failure("pread", self.path)
        return bytes(self._inode.data[position : position + size])

    def range(self, size: int, position: int) -> None:
        """See `File.range`: there is no descriptor."""

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        """See `File.pwrite`."""
        content = b"".join(parts)
        with_room = self._files.room_for(self._inode, position + len(content))
        if with_room < position + len(content):
            fits = content[: max(0, with_room - position)]
            # As of the operating system: a full disk takes what still fits.
            if fits:
                self._inode.write(position, fits)
            raise OSError(errno.ENOSPC, "No space left on device", str(self.path))
        # `torn` bytes get into the page cache before the process dies or the write fails: recovery has to
        # cope with every length of a batch's beginning.
        torn = self._files.step("pwrite", self.path, len(content))
        if torn is None:
            self._inode.write(position, content)
        else:
            self._inode.write(position, content[:torn])
            self._files.die_or_fail()
        return len(content)

    def pwrite_batch(self, batch: Buffer, position: int, base_offset: int, leader_epoch: int) -> int:
        """See `File.pwrite_batch`."""
        return self.pwrite(placed(batch, base_offset, leader_epoch), position)

    def truncate(self, size: int) -> None:
        """See `File.truncate`. Growing is free, as a sparse file is."""
        self._files.run("truncate", self.path, lambda: self._inode.truncate(size))

    def size(self) -> int:
        """See `File.size`."""
        return len(self._inode.data)

    def fsync(self) -> None:
        """See `File.fsync`."""
        # The content alone: the file's name gets to the disk with `fsync_dir`, as POSIX has it.
        self._files.run("fsync", self.path, self._inode.sync)

    def close(self) -> None:
        """See `File.close`."""


class MemoryLock:
    """See `odradek.log.storage.files.DirectoryLock`."""

    def __init__(self, files: MemoryFileSystem, path: Path) -> None:
        self._files = files
        self._path = path
        self.same_boot = files.boot_of.get(path) == files.boots

    def note_boot(self) -> None:
        """See `DirectoryLock.note_boot`."""
        self._files.boot_of[self._path] = self._files.boots

    def forget_boot(self) -> None:
        """See `DirectoryLock.forget_boot`."""
        self._files.boot_of.pop(self._path, None)

    def release(self) -> None:
        """See `DirectoryLock.release`."""
        self._files.locked.discard(self._path)


def _folder_of(path: Path) -> str:
    """The folder of a path, as text: `Path.parent` would make a path for each file of a disk."""
    return str(path).rpartition("/")[0] or "/"


class MemoryFileSystem:
    """See `odradek.log.storage.files.FileSystem`.

    Attributes for tests: `operations` counts what changes the disk. `kill_at` is the number of the operation
    at which `Killed` is raised, `fail_at` the number of that at which `OSError(EIO)` is; `rng` decides how
    much of this operation is done. `capacity` is the number of bytes that fit in all, None for any. `failing`
    maps an operation's name to a predicate on the path: where it is true, `failing_with` is raised, which is
    EIO unless a test sets it. `boots` is how often power was lost, `boot_of` the count that each lock's file
    has noted.
    """

    def __init__(self, rng: random.Random | None = None, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.rng = rng or random.Random(0)
        self.now_ms = now_ms
        # What processes see. A name may stand for another inode than on the disk, until its folder is synced.
        self.files: dict[Path, Inode] = {}
        self.dirs: set[Path] = {Path("/")}
        # What is on the disk. A loss of power leaves that, with any part of what has changed since.
        self._durable_names: dict[Path, Inode] = {}
        self._durable_dirs: set[Path] = {Path("/")}
        # Of the process that lives: `restart` lets go of them, as the death of a process does.
        self.locked: set[Path] = set()
        self.boots = 0
        self.boot_of: dict[Path, int] = {}
        # The next operation's number; `history` has the name and the path of each, in this order.
        self.operations = 0
        self.history: list[tuple[str, Path]] = []
        self.kill_at: int | None = None
        self.fail_at: int | None = None
        self.capacity: int | None = None
        self.failing: dict[str, Callable[[Path], bool]] = {}
        self.failing_with = errno.EIO
        self._dead = False
        """Whether the operation under way is to raise `Killed`, and not an `OSError`."""
        self._folders_moved: list[tuple[Path, Path]] = []
        """Folders that got another name since the folder they are in was synced."""

    # Faults.

    def check_failure(self, name: str, path: Path) -> None:
        """Raise `failing_with` where `failing` has a predicate that is true of the path."""
        predicate = self.failing.get(name)
        if predicate is not None and predicate(path):
            raise OSError(self.failing_with, os.strerror(self.failing_with), str(path))

    def room_for(self, inode: Inode, size: int) -> int:
        """Return how big the file may become: `size`, or less on a full disk."""
        if self.capacity is None:
            return size
        # Zeros that were only reserved (indexes, preallocated segments) take no room, as in a sparse file.
        used = sum(len(other.data.rstrip(b"\0")) for other in self.files.values())
        free = self.capacity - used
        return size if size - len(inode.data.rstrip(b"\0")) <= free else len(inode.data.rstrip(b"\0")) + free

    def step(self, name: str, path: Path, size: int = 0) -> int | None:
        """Count an operation. Returns None where it is to be done whole, else how many of its `size` units
        are done before it breaks off.
        """
        self.check_failure(name, path)
        number = self.operations
        self.operations += 1
        self.history.append((name, path))
        if number in (self.kill_at, self.fail_at):
            self._dead = number == self.kill_at
            return self.rng.randint(0, size)
        return None

    def die_or_fail(self) -> None:
        """Break off the operation under way."""
        if self._dead:
            raise Killed
        raise OSError(errno.EIO, "Input/output error")

    def run(self, name: str, path: Path, action: Callable[[], None]) -> None:
        """Do an operation that happens whole or not at all."""
        # Also where it fails: an `fsync` that tells of an error may have got everything to the disk.
        done = self.step(name, path, 1)
        if done is None or done:
            action()
        if done is not None:
            self.die_or_fail()

    def restart(self) -> None:
        """Start again as after the death of the process: locks are gone, the page cache is still there."""
        self.kill_at = self.fail_at = None
        self.locked.clear()

    def lose_power(self) -> None:
        """Forget what did not get to the disk, and start again."""
        self.restart()
        self.boots += 1
        rng = self.rng
        names = dict(self._durable_names)
        # Each name by itself: a file system may write the changes of a folder in any order until it is
        # synced.
        for path in sorted(set(names) | set(self.files)):
            if names.get(path) is self.files.get(path) or rng.random() < 0.5:
                continue
            if path in self.files:
                names[path] = self.files[path]
            else:
                # A rename is one step: the old name goes only when the new name has come.
                if any(inode is names[path] for other, inode in self.files.items() if other not in names):
                    continue
                del names[path]
        dirs = {path for path in self.dirs if path in self._durable_dirs or rng.random() < 0.5}
        dirs |= {parent for path in names for parent in path.parents}
        # Moves of folders within a folder get to the disk in their order, so a prefix of them stays; the rest
        # is taken back, the last move first.
        moved = [source.parent for source, _ in self._folders_moved]
        kept = {parent: rng.randint(0, moved.count(parent)) for parent in moved}
        for number, (source, target) in reversed(list(enumerate(self._folders_moved))):
            if moved[:number].count(source.parent) >= kept[source.parent]:
                _move_names(names, target, source)
                dirs = _moved(dirs, target, source)
        self._folders_moved.clear()
        self.files = names
        self.dirs = dirs
        # Once each, though a rename may have left an inode with two names.
        for inode in {id(inode): inode for inode in names.values()}.values():
            inode.lose_power(rng)
        self._durable_names = dict(names)
        self._durable_dirs = set(dirs)

    def replace_disk(self, folder: Path) -> None:
        """Remove all that is below a folder, as when its disk was replaced by an empty one."""
        for names in (self.files, self._durable_names):
            for path in [path for path in names if folder in path.parents]:
                del names[path]
        for dirs in (self.dirs, self._durable_dirs):
            dirs.difference_update([path for path in dirs if folder in path.parents])
        self._folders_moved = [move for move in self._folders_moved if folder not in move[0].parents]

    # Operations.

    def open(self, path: Path, *, create: bool = False) -> MemoryFile:
        """See `FileSystem.open`."""
        self.check_failure("open", path)
        if path not in self.files:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            if path.parent not in self.dirs:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            inode = Inode(modified_ms=self.now_ms())
            self.run("create", path, lambda: self.files.__setitem__(path, inode))
        return MemoryFile(self, path, self.files[path])

    def read(self, path: Path) -> bytes:
        """See `FileSystem.read`."""
        self.check_failure("read", path)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return bytes(self.files[path].data)

    def write_atomically(self, path: Path, content: bytes, *, sync: bool = True) -> None:
        """See `FileSystem.write_atomically`."""
        temporary = path.with_name(path.name + ".tmp")
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.pwrite([content], 0)
            if sync:
                file.fsync()
            self.rename(temporary, path)
        except OSError:
            # As the real file system does; `Killed` leaves it behind for the next start to remove.
            self.files.pop(temporary, None)
            raise
        if sync:
            self.fsync_dir(path.parent)

    def exists(self, path: Path) -> bool:
        """See `FileSystem.exists`."""
        return path in self.files or path in self.dirs

    def is_dir(self, path: Path) -> bool:
        """See `FileSystem.is_dir`."""
        return path in self.dirs

    def size(self, path: Path) -> int:
        """See `FileSystem.size`."""
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return len(self.files[path].data)

    def modified_ms(self, path: Path) -> int:
        """See `FileSystem.modified_ms`."""
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return self.files[path].modified_ms

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        """See `FileSystem.set_modified_ms`."""
        self.files[path].modified_ms = modified_ms

    def list(self, directory: Path) -> list[str]:
        """See `FileSystem.list`."""
        if directory not in self.dirs:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(directory))
        here = [
            path
            for path in [*self.files, *self.dirs]
            if _folder_of(path) == str(directory) and path != directory
        ]
        return sorted(path.name for path in here)

    def entries(self, directory: Path, sized: tuple[str, ...] = ("",)) -> dict[str, int]:
        """See `FileSystem.entries`."""
        sizes = {}
        for name in self.list(directory):
            inode = self.files.get(directory / name)
            sizes[name] = -1 if inode is None else len(inode.data) if name.endswith(sized) else 0
        return sizes

    def make_dirs(self, directory: Path) -> None:
        """See `FileSystem.make_dirs`."""
        missing = [path for path in [directory, *directory.parents] if path not in self.dirs]
        for path in reversed(missing):
            self.run("mkdir", path, lambda path=path: self.dirs.add(path))  # type: ignore[misc]

    def rename(self, source: Path, target: Path) -> None:
        """See `FileSystem.rename`."""
        if source not in self.files and source not in self.dirs:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(source))
        self.run("rename", source, lambda: self._move(source, target))

    def _move(self, source: Path, target: Path) -> None:
        if source in self.files:
            self.files[target] = self.files.pop(source)
            return
        # A folder's new name is one entry in the folder above it, whatever is in it.
        for names in (self.files, self._durable_names):
            _move_names(names, source, target)
        self.dirs = _moved(self.dirs, source, target)
        self._durable_dirs = _moved(self._durable_dirs, source, target)
        self._folders_moved.append((source, target))

    def copy(self, source: Path, target: Path, position: int = 0, size: int | None = None) -> int:
        """See `FileSystem.copy`."""
        self.check_failure("copy", target)
        end = None if size is None else position + size
        file = self.open(target, create=True)
        file.truncate(position)
        data = self.read(source)[position:end]
        return file.pwrite([data], position)

    def remove(self, path: Path) -> None:
        """See `FileSystem.remove`."""
        if path in self.files:
            self.run("remove", path, lambda: self.files.__delitem__(path))

    def remove_tree(self, directory: Path) -> None:
        """See `FileSystem.remove_tree`. One operation per file: a folder can be found half removed."""
        for path in sorted(path for path in self.files if directory in path.parents):
            self.remove(path)
        if directory in self.dirs:
            self.run("rmdir", directory, lambda: self.dirs.discard(directory))

    def fsync(self, path: Path) -> None:
        """See `FileSystem.fsync`."""
        if path in self.files:
            self.run("fsync", path, self.files[path].sync)

    def fsync_dir(self, directory: Path) -> None:
        """See `FileSystem.fsync_dir`."""
        self.run("fsync_dir", directory, lambda: self._sync_names(directory))

    def _sync_names(self, directory: Path) -> None:
        folder = str(directory)
        elsewhere = {path: i for path, i in self._durable_names.items() if _folder_of(path) != folder}
        here = {path: i for path, i in self.files.items() if _folder_of(path) == folder}
        self._durable_names = elsewhere | here
        self._folders_moved = [move for move in self._folders_moved if move[1].parent != directory]
        below = {path for path in self.dirs | self._durable_dirs if path.parent == directory}
        self._durable_dirs = (self._durable_dirs - below) | (below & self.dirs)

    def space(self, path: Path) -> tuple[int, int]:
        """See `FileSystem.space`: as much as there is, where no `capacity` says less."""
        self.check_failure("space", path)
        total = 2**40 if self.capacity is None else self.capacity
        return total, max(0, total - sum(len(inode.data.rstrip(b"\0")) for inode in self.files.values()))

    def lock(self, path: Path) -> MemoryLock:
        """See `FileSystem.lock`."""
        if path in self.locked:
            raise LockHeldError(path, None)
        self.locked.add(path)
        self.files.setdefault(path, Inode())
        return MemoryLock(self, path)
