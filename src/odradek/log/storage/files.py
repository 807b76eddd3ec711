"""The few file operations that the log uses: the seam between it and the disk.

`odradek.log.storage.real_files.RealFileSystem` is a thin shell over the operating system.
`odradek.log.storage.memory_files.MemoryFileSystem`, for tests, has the same operations and tears
writes, runs out of space, fails, and loses what was not synced.

A `File` is a handle by path that may lose its descriptor behind the caller's back: the real file system
keeps at most `max_open` descriptors and opens again on use, so that thousands of partitions fit under a
usual `ulimit -n`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class Descriptor:
    """A file descriptor that stays open as long as somebody holds this."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class FileRange:
    """Bytes of a file that have not been read: for the kernel to send, or to be read after all.

    It keeps its descriptor: the file may be closed, renamed or deleted meanwhile. Nobody writes to these
    bytes any more. `len` is their number.
    """

    __slots__ = ("_descriptor", "position", "size")

    def __init__(self, descriptor: Descriptor, position: int, size: int) -> None:
        self._descriptor = descriptor
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int:
        """The descriptor; valid as long as this object is."""
        return self._descriptor.fd

    def read(self) -> bytes:
        """The bytes.

        Raises:
            OSError: they cannot be read, also where the file has become too short.
        """
        return self.pread(self.size, 0)

    def pread(self, size: int, position: int) -> bytes:
        """`size` of the bytes, from a position within them on.

        Raises:
            OSError: as `read`.
        """
        pieces = []
        position += self.position
        end = position + size
        while position < end:
            piece = os.pread(self.fileno(), end - position, position)
            if not piece:
                raise OSError(errno.EIO, f"the file ends at {position}, before {end}")
            pieces.append(piece)
            position += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class File(Protocol):
    """One open file. Positions and sizes in bytes.

    Raises:
        OSError: by every operation that the disk refuses.
    """

    path: Path

    def pread(self, size: int, position: int) -> bytes:
        """At most `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        """Write the parts one after the other at `position`, all of them; returns their size.

        On `OSError` a prefix may have been written.
        """
        ...

    def pwrite_batch(self, batch: Buffer, position: int, base_offset: int, leader_epoch: int) -> int:
        """As `pwrite` of a record batch, giving it its place in the log: its base offset and leader epoch."""
        ...

    def range(self, size: int, position: int) -> FileRange | None:
        """`size` bytes from `position` as something to be sent without reading it, where that is possible."""
        ...

    def truncate(self, size: int) -> None:
        """Set the file's size; growing leaves zeros."""
        ...

    def size(self) -> int:
        """The file's size."""
        ...

    def fsync(self) -> None:
        """Return when the content is on the disk."""
        ...

    def close(self) -> None:
        """Let go of the descriptor; further use opens it again."""
        ...


class DirectoryLock(Protocol):
    """A lock held on a data folder.

    Attributes: `same_boot`: whether `note_boot` was called, by whoever held it before, since the machine has
    booted: all that was written then is there, synced or not.
    """

    same_boot: bool

    def note_boot(self) -> None:
        """Note the machine's boot: whoever holds the lock next has `same_boot`, unless it boots before."""
        ...

    def forget_boot(self) -> None:
        """Take `note_boot` back: what could not be written may be lost without a boot as well."""
        ...

    def release(self) -> None:
        """Let go of the lock."""
        ...


class FileSystem(Protocol):
    """The operations on paths.

    Raises:
        OSError: by every operation that the disk refuses.
    """

    def open(self, path: Path, *, create: bool = False) -> File:
        """A handle for reading and writing.

        Raises:
            FileNotFoundError: the file does not exist, without `create`.
        """
        ...

    def read(self, path: Path) -> bytes:
        """The whole content of a small file."""
        ...

    def write_atomically(self, path: Path, content: bytes, *, sync: bool = True) -> None:
        """Replace the file by way of `.tmp` beside it: old or new content, never between.

        Without `sync` a power failure may leave a part of the new content, or none.
        """
        ...

    def exists(self, path: Path) -> bool:
        """Return whether there is a file or folder."""
        ...

    def is_dir(self, path: Path) -> bool:
        """Return whether there is a folder."""
        ...

    def size(self, path: Path) -> int:
        """The file's size in bytes."""
        ...

    def modified_ms(self, path: Path) -> int:
        """Return when the file was last written, milliseconds since the epoch."""
        ...

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        """Set when the file was last written."""
        ...

    def list(self, directory: Path) -> list[str]:
        """The names in a folder, sorted."""
        ...

    def entries(self, directory: Path, sized: tuple[str, ...] = ("",)) -> dict[str, int]:
        """The names in a folder, sorted, with the sizes of files in bytes; -1 for folders.

        0 for files whose names end with none of `sized`: asking for a size takes its time.
        """
        ...

    def make_dirs(self, directory: Path) -> None:
        """Create a folder and those above it; nothing happens where it exists."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Move a file or folder, replacing a file of that name."""
        ...

    def copy(self, source: Path, target: Path, position: int = 0, size: int | None = None) -> int:
        """Copy `size` bytes of a file from `position` on, None for all, to the same place of another.

        What the target had from there on goes; it is made if need be. Returns how many bytes were copied,
        fewer only at the end of the source. May be called in another thread.
        """
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; nothing happens where there is none."""
        ...

    def remove_tree(self, directory: Path) -> None:
        """Remove a folder with all in it; nothing happens where there is none."""
        ...

    def fsync(self, path: Path) -> None:
        """Return when a file's content is on the disk; nothing happens where there is none."""
        ...

    def fsync_dir(self, directory: Path) -> None:
        """Return when the folder's names are on the disk."""
        ...

    def space(self, path: Path) -> tuple[int, int]:
        """Bytes of the file system that a folder is on: of all of it, and of what is free for us."""
        ...

    def lock(self, path: Path) -> DirectoryLock:
        """Hold an exclusive lock on the file, created if need be, with our process id in it.

        Raises:
            LockHeldError: another process holds it.
        """
        ...


class LockHeldError(OSError):
    """Somebody else holds the lock. `holder_pid` is None where it cannot be told."""

    def __init__(self, path: Path, holder_pid: int | None) -> None:
        super().__init__(errno.EWOULDBLOCK, "locked", str(path))
        self.holder_pid = holder_pid
