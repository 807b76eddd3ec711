"""The side of `LogManager` that placement and moves look at."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from odradek.log.folders.checkpointing import CheckpointJob
from odradek.log.partition.partition_log import PartitionLog


class LogFolders(Protocol):
    """The data folders of a broker and the logs in them; see `LogManager`."""

    data_dirs: list[Path]

    @property
    def online_dirs(self) -> list[Path]:
        """The folders that can be used."""
        ...

    def failure_of(self, path: Path) -> str | None:
        """Return why a folder is offline; None while it is not."""
        ...

    def note_error(self, path: Path, error: OSError) -> None:
        """Something went wrong in a folder: give it up if that is what the error means."""
        ...

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """A partition's log, if there is one."""
        ...

    def all(self) -> list[PartitionLog]:
        """All logs."""
        ...

    def begin_checkpoint(self) -> CheckpointJob:
        """Note what the checkpoints of the folders are to say."""
        ...

    def remove_folder_later(self, directory: Path) -> None:
        """Remove a log's folder that is marked as deleted, after `file.delete.delay.ms`."""
        ...
