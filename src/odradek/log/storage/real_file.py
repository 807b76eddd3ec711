# compiled: mypyc
"""One of the operating system's files, as `odradek.log.storage.files` has them."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, final

from odradek.log.storage._pywriting import placed
from odradek.log.storage.files import Buffer, Descriptor, FileRange
from odradek.util.compiled import choose

write_batch: Final = choose("odradek.log.storage._writing", "odradek.log.storage._pywriting")[0].write_batch

IOV_MAX: Final = 1024
"""Buffers that one pwritev takes at most on Linux."""


class Descriptors(Protocol):
    """The file system, as far as it keeps the descriptors of its files: see `RealFileSystem`."""

    def descriptor(self, path: Path, flags: int) -> int:
        """Open a file."""
        ...

    def remember(self, file: RealFile) -> None:
        """Count an opened file."""
        ...

    def forget(self, file: RealFile) -> None:
        """A file was closed."""
        ...


@final
class RealFile:
    """See `File`. Not for several threads at once, `pread` and `fsync` aside."""

    __slots__ = ("_fd", "_files", "_shared", "path")

    def __init__(self, files: Descriptors, path: Path, fd: int) -> None:
        self._files = files
        self.path = path
        self._fd = fd
        self._shared: Descriptor | None = None
        """What closes the descriptor once ranges have been handed out."""

    def _reopen(self) -> int:
        self._fd = fd = self._files.descriptor(self.path, os.O_RDWR | os.O_CLOEXEC)
        self._files.remember(self)
        return fd

    def fileno(self) -> int:
        """The descriptor; valid until the next call on any file of this file system."""
        fd = self._fd
        return fd if fd >= 0 else self._reopen()

    def pread(self, size: int, position: int) -> bytes:
        """See `File.pread`."""
        fd = self._fd
        if fd < 0:
            fd = self._reopen()
        data = os.pread(fd, size, position)
        if len(data) == size or not data:
            return data
        # Linux reads at most 2 GiB - 4 KiB at a time; anything shorter is the end of the file.
        pieces = [data]
        got = len(data)
        while got < size:
            data = os.pread(fd, size - got, position + got)
            if not data:
                break
            pieces.append(data)
            got += len(data)
        return b"".join(pieces)

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        """See `File.pwrite`."""
        fd = self._fd
        if fd < 0:
            fd = self._reopen()
        total = 0
        for part in parts:
            total += len(part)
        written = os.pwritev(fd, parts, position) if len(parts) <= IOV_MAX else 0
        if written < total:
            self._write_rest(fd, parts, written, position)
        return total

    def pwrite_batch(self, batch: Buffer, position: int, base_offset: int, leader_epoch: int) -> int:
        """See `File.pwrite_batch`."""
        fd = self._fd
        if fd < 0:
            fd = self._reopen()
        written: int = write_batch(fd, batch, position, base_offset, leader_epoch)
        total = len(batch)
        if written < total:
            self._write_rest(fd, placed(batch, base_offset, leader_epoch), written, position)
        return total

    def _write_rest(self, fd: int, parts: Sequence[Buffer], written: int, position: int) -> None:
        rest = memoryview(b"".join(parts))
        while written < len(rest):
            count = os.pwrite(fd, rest[written:], position + written)
            if count == 0:
                raise OSError(errno.EIO, "the write made no progress", str(self.path))
            written += count

    def range(self, size: int, position: int) -> FileRange:
        """See `File.range`."""
        shared = self._shared
        if shared is None:
            self._shared = shared = Descriptor(self.fileno())
        return FileRange(shared, position, size)

    def truncate(self, size: int) -> None:
        """See `File.truncate`."""
        os.ftruncate(self.fileno(), size)

    def size(self) -> int:
        """See `File.size`."""
        return os.fstat(self.fileno()).st_size

    def fsync(self) -> None:
        """See `File.fsync`."""
        os.fsync(self.fileno())

    def close(self) -> None:
        """See `File.close`."""
        self._files.forget(self)
        fd, self._fd = self._fd, -1
        if self._shared is not None:
            self._shared = None
        elif fd >= 0:
            os.close(fd)
