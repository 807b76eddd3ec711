"""The log on the disk, in Kafka's own format file by file (docs/log_format.md).

`log_manager.LogManager` has the data folders and all their logs, `partition_log.PartitionLog` is the log of
one partition (`readable` has the half of it that reads), `segment.Segment` one of its files with the indexes
beside it (`segment_files`). Starting is two steps: `recovery` looks at a folder and makes a plan without
changing anything, `loading` carries it out. Every file operation goes through `files.FileSystem`:
`real_files` has the operating system's, `memory_files` the one for tests, which tears writes and loses power.

Knows records and errors; knows no sockets, no clock (times are handed in), no asyncio.
"""

from odradek.log.appending import AppendInfo
from odradek.log.config import LogConfig
from odradek.log.errors import (
    DataDirectoryError,
    DataDirectoryInUseError,
    InconsistentIdentityError,
    LogDamagedError,
)
from odradek.log.files import FileSystem
from odradek.log.leader_epochs import EpochEntry
from odradek.log.log_manager import LogManager
from odradek.log.partition_log import PartitionLog
from odradek.log.producer_state import Origin
from odradek.log.readable import ReadResult
from odradek.log.real_files import RealFileSystem
from odradek.log.searching import OffsetForTimestamp
from odradek.log.txn_index import AbortedTxn

__all__ = [
    "AbortedTxn",
    "AppendInfo",
    "DataDirectoryError",
    "DataDirectoryInUseError",
    "EpochEntry",
    "FileSystem",
    "InconsistentIdentityError",
    "LogConfig",
    "LogDamagedError",
    "LogManager",
    "OffsetForTimestamp",
    "Origin",
    "PartitionLog",
    "ReadResult",
    "RealFileSystem",
]
