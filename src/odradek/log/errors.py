"""The errors of a data folder: refusals at start."""

from __future__ import annotations

from pathlib import Path

from odradek.errors import OdradekError


class DataDirectoryError(OdradekError):
    """A data folder cannot be used; the message names the file and the remedy."""


class DataDirectoryInUseError(DataDirectoryError):
    """Another broker holds the folder's lock.

    Attributes: `lock_file`; `holder_pid`, or None where the holder did not leave one.
    """

    def __init__(self, lock_file: Path, holder_pid: int | None) -> None:
        holder = f"process {holder_pid}" if holder_pid else "another process"
        super().__init__(
            f"{lock_file} is held by {holder}: another broker uses this data folder. "
            f"Stop that broker, or give this one another folder (log.dirs)."
        )
        self.lock_file = lock_file
        self.holder_pid = holder_pid


class InconsistentIdentityError(DataDirectoryError):
    """`meta.properties` says that the folder belongs to another broker or cluster."""


class LogDamagedError(DataDirectoryError):
    """A log is damaged beyond its tail: valid records follow the damage, and cutting would lose them.

    Attributes: `file`; `position`, bytes from its start; `reason`.
    """

    def __init__(self, file: Path, position: int, reason: str, remedy: str) -> None:
        super().__init__(f"{file} is damaged at position {position}: {reason}. {remedy}")
        self.file = file
        self.position = position
        self.reason = reason
