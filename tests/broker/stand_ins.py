"""What fails, waits or looks in the place of a part of the broker, without reaching into its classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from odradek.broker.app import Broker
from odradek.log.storage.real_files import RealFileSystem
from odradek.replication.partition import Partition

OTHER = 99
"""A broker that follows."""


def follow(broker: Broker, partition: Partition) -> None:
    """Have a partition that this broker leads followed by another, which has nothing yet."""
    both = (broker.broker_id, OTHER)
    partition.make_leader(
        partition.leader_epoch + 1,
        replicas=both,
        isr=both,
        partition_epoch=1,
        now_ms=broker.clock.now_ms(),
    )


def caught_up(broker: Broker, partition: Partition) -> None:
    """The follower has all."""
    end = partition.log.log_end_offset
    partition.record_follower_fetch(OTHER, fetch_offset=end, log_start_offset=0, now_ms=broker.clock.now_ms())


class WatchedFile:
    """A file of a segment, some of whose methods are others'."""

    def __init__(self, file: Any, **methods: Any) -> None:
        self._file = file
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class WatchedFiles(RealFileSystem):
    """The operating system's files, of which a test may take over methods while they are open.

    Attributes:
        instead: by path and by name, what is called in the place of a method: with it and its arguments.
    """

    def __init__(self) -> None:
        super().__init__()
        self.instead: dict[Path, dict[str, Callable[..., Any]]] = {}

    def open(self, path: Path, *, create: bool = False) -> Any:
        return _FileOf(self, super().open(path, create=create))


class _FileOf:
    def __init__(self, files: WatchedFiles, file: Any) -> None:
        self._files = files
        self._file = file

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._file, name)
        instead = self._files.instead.get(self._file.path, {}).get(name)
        return method if instead is None else partial(instead, method)
