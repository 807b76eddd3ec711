"""The operating system's files, as `odradek.log.storage.files` has them: a thin shell."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
import sys
from collections import OrderedDict
from pathlib import Path

from odradek.log.storage.files import LockHeldError
from odradek.log.storage.real_file import RealFile

COPY_BYTES = 1 << 20
"""How much is copied at once."""

_NOT_BY_THE_KERNEL = frozenset((errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM))
"""The errors of `copy_file_range` where it cannot be used: across file systems, on old kernels."""

_NO_DESCRIPTORS = frozenset((errno.EMFILE, errno.ENFILE))
_RESERVED = 8
"""Descriptors that files of logs leave to others."""


class RealDirectoryLock:
    """See `DirectoryLock`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._boot = _boot_id()
        _, noted = _read_lock(fd)
        # An empty id is no boot: a system that does not tell may have lost what was not synced.
        self.same_boot = bool(noted) and noted == self._boot
        # The boot that was noted stays until `note_boot`: this start may still find that something was lost.
        self._write(noted)

    def note_boot(self) -> None:
        """See `DirectoryLock.note_boot`."""
        self._write(self._boot)

    def forget_boot(self) -> None:
        """See `DirectoryLock.forget_boot`."""
        self._write("")

    def _write(self, boot: str) -> None:
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n{boot}\n".encode(), 0)
        except OSError:
            # The lock is what counts; on a full disk nobody learns our process id.
            pass

    def release(self) -> None:
        """See `DirectoryLock.release`."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class RealFileSystem:
    """The operating system's files.

    `max_open` is how many descriptors are kept for `File`s at most, those of the longest-open files being
    closed first; None takes half of the process's limit.
    """

    def __init__(self, max_open: int | None = None) -> None:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        # The other half is for connections, of which a client can open any number.
        self._max_open = max(64, limit // 2) if max_open is None else max_open
        self._first_reserved = limit - _RESERVED if limit > 0 else sys.maxsize
        self._opened: OrderedDict[int, RealFile] = OrderedDict()
        """The files that hold a descriptor, the longest-open first; a closed file opens itself again."""

    def remember(self, file: RealFile) -> None:
        """Count an opened file, closing the file that has been open for longest if they are too many."""
        self._opened[id(file)] = file
        if len(self._opened) > self._max_open:
            _, oldest = self._opened.popitem(last=False)
            oldest.close()

    def forget(self, file: RealFile) -> None:
        """Count a file that was closed no more."""
        self._opened.pop(id(file), None)

    def descriptor(self, path: Path, flags: int) -> int:
        """Open a file. When descriptors run out, those of other files are given up for it.

        The system gives the lowest number that is free, so that a high one means that few are left; the last
        are for what cannot be closed meanwhile: checkpoints, folders, the metadata store, modules.
        """
        while True:
            try:
                fd = os.open(path, flags, 0o644)
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS or not self._opened:
                    raise
                self._give_some_up()
                continue
            if fd >= self._first_reserved:
                self._give_some_up()
            return fd

    def _give_some_up(self) -> None:
        # A quarter at a time: single files would have the system asked in vain for each.
        for _ in range((len(self._opened) + 3) // 4):
            self._opened.popitem(last=False)[1].close()

    def open(self, path: Path, *, create: bool = False) -> RealFile:
        """See `FileSystem.open`."""
        # Not inherited by the cleaner's process, which would keep the room of deleted segments.
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        file = RealFile(self, path, self.descriptor(path, flags))
        self.remember(file)
        return file

    def read(self, path: Path) -> bytes:
        """See `FileSystem.read`."""
        return path.read_bytes()

    def write_atomically(self, path: Path, content: bytes, *, sync: bool = True) -> None:
        """See `FileSystem.write_atomically`."""
        temporary = path.with_name(path.name + ".tmp")
        try:
            with temporary.open("wb") as out:
                out.write(content)
                if sync:
                    out.flush()
                    os.fsync(out.fileno())
            temporary.replace(path)
        except OSError:
            # What was there stays; a half-written file beside it would only take up room.
            temporary.unlink(missing_ok=True)
            raise
        if sync:
            # The new name, too: without it the old content would be back after a power failure.
            self.fsync_dir(path.parent)

    def exists(self, path: Path) -> bool:
        """See `FileSystem.exists`."""
        return path.exists()

    def is_dir(self, path: Path) -> bool:
        """See `FileSystem.is_dir`."""
        return path.is_dir()

    def size(self, path: Path) -> int:
        """See `FileSystem.size`."""
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        """See `FileSystem.modified_ms`."""
        return path.stat().st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        """See `FileSystem.set_modified_ms`."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def list(self, directory: Path) -> list[str]:
        """See `FileSystem.list`."""
        return sorted(os.listdir(directory))  # noqa: PTH208 - names are wanted, not paths

    def entries(self, directory: Path, sized: tuple[str, ...] = ("",)) -> dict[str, int]:
        """See `FileSystem.entries`."""
        with os.scandir(directory) as listing:
            sizes = {
                entry.name: -1
                if entry.is_dir()
                else entry.stat().st_size
                if entry.name.endswith(sized)
                else 0
                for entry in listing
            }
        return {name: sizes[name] for name in sorted(sizes)}

    def make_dirs(self, directory: Path) -> None:
        """See `FileSystem.make_dirs`."""
        directory.mkdir(parents=True, exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        """See `FileSystem.rename`."""
        source.replace(target)

    def copy(self, source: Path, target: Path, position: int = 0, size: int | None = None) -> int:
        """See `FileSystem.copy`. The kernel does it, where it can."""
        into = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            out = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
            try:
                # What an earlier copy has left behind the position is not of this one.
                os.ftruncate(into, position)
                return _copy(out, into, position, sys.maxsize if size is None else size)
            finally:
                os.close(out)
        finally:
            os.close(into)

    def remove(self, path: Path) -> None:
        """See `FileSystem.remove`."""
        path.unlink(missing_ok=True)

    def remove_tree(self, directory: Path) -> None:
        """See `FileSystem.remove_tree`."""
        try:
            with os.scandir(directory) as listing:
                names = [entry.path for entry in listing if not entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return
        # A partition's folder has no folders in it: this holds the interpreter for much less time.
        for name in names:
            os.unlink(name)  # noqa: PTH108 - names are at hand, not paths
        try:
            directory.rmdir()
        except OSError:
            # Somebody has put a folder into it, or removes it at the same time.
            if directory.exists():
                shutil.rmtree(directory)

    def fsync(self, path: Path) -> None:
        """See `FileSystem.fsync`."""
        # By a descriptor of its own, so that another thread may sync while the log is used: `fsync` is of the
        # file, whoever has written to it.
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def fsync_dir(self, directory: Path) -> None:
        """See `FileSystem.fsync_dir`."""
        fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def space(self, path: Path) -> tuple[int, int]:
        """See `FileSystem.space`."""
        stats = os.statvfs(path)
        return stats.f_frsize * stats.f_blocks, stats.f_frsize * stats.f_bavail

    def lock(self, path: Path) -> RealDirectoryLock:
        """See `FileSystem.lock`.

        Two locks are taken: `flock`, which also tells two brokers in one process apart, and the POSIX record
        lock, which is what Java's `FileChannel.tryLock`, and so Kafka's broker, uses.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _holder_pid(fd)
            os.close(fd)
            # EACCES is what some systems say of a record lock that is taken (fcntl(2)).
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise LockHeldError(path, holder) from None
            raise
        return RealDirectoryLock(fd)


def _copy(source: int, target: int, position: int, size: int) -> int:
    """As `FileSystem.copy`, between two descriptors."""
    copied, in_kernel = 0, hasattr(os, "copy_file_range")
    while copied < size:
        at, count = position + copied, min(size - copied, COPY_BYTES)
        if in_kernel:
            try:
                done = os.copy_file_range(source, target, count, at, at)
            except OSError as error:
                if error.errno not in _NOT_BY_THE_KERNEL:
                    raise
                in_kernel = False
                continue
        else:
            data = os.pread(source, count, at)
            done = os.pwrite(target, data, at) if data else 0
        if not done:
            break
        copied += done
    return copied


def _read_lock(fd: int) -> tuple[str, str]:
    """The process id and the boot id that were left in a lock's file; empty where there is none."""
    pid, _, boot = os.pread(fd, 128, 0).decode("ascii", "replace").partition("\n")
    return pid.strip(), boot.strip()


def _boot_id() -> str:
    """Return the id of the machine's boot; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _holder_pid(fd: int) -> int | None:
    """Return who holds the lock: the id left in the file, else what the kernel knows of its POSIX lock."""
    text, _ = _read_lock(fd)
    if text.isdigit():
        return int(text)
    if sys.platform != "linux":
        return None
    layout = struct.Struct("hhqqi4x")
    probe = layout.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        lock_type, _, _, _, pid = layout.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, probe))
    except (OSError, struct.error):
        return None
    return pid if lock_type != fcntl.F_UNLCK and pid > 0 else None
