"""A record batch given its place in a log while it is written. Compiled twin: `_writing`."""

from __future__ import annotations

import os
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from odradek.log.storage.files import Buffer

PREFIX = Struct(">qii")
"""Base offset, length, leader epoch: what stands in front of a batch's CRC."""

_LENGTH = Struct(">i")
_LENGTH_AT = 8


def placed(batch: Buffer, base_offset: int, leader_epoch: int) -> tuple[bytes, memoryview]:
    """A batch at its place: the prefix, and the rest of it as it was sent.

    Raises:
        ValueError: too few bytes for a prefix.
    """
    if len(batch) < PREFIX.size:
        raise ValueError(f"no record batch has {len(batch)} bytes")
    (length,) = _LENGTH.unpack_from(batch, _LENGTH_AT)
    return PREFIX.pack(base_offset, length, leader_epoch), memoryview(batch)[PREFIX.size :]


def write_batch(fd: int, batch: Buffer, position: int, base_offset: int, leader_epoch: int) -> int:
    """Write a record batch at its place in a log; its CRC covers neither base offset nor leader epoch.

    Args:
        fd: the file.
        batch: as it was sent.
        position: where in the file.
        base_offset, leader_epoch: the batch's own there.

    Returns:
        How many bytes were written, perhaps not all.

    Raises:
        OSError: none was.
        ValueError: no record batch is so short.
    """
    return os.pwritev(fd, placed(batch, base_offset, leader_epoch), position)
