"""The log on the disk, in Kafka's own format file by file (docs/log_format.md).

Rooms, each of which knows only those below it:

- `cleaner`: compaction, in a process of its own;
- `folders`: the data folders of a broker and all logs in them (`LogManager`), moves between folders, removal;
- `startup`: from what a stop or a crash has left to logs that can be used. `recovery` looks at a folder and
  makes a plan without changing anything, `loading` carries it out;
- `partition`: the log of one partition (`PartitionLog`, and `ReadableLog`, the half of it that reads);
- `producers`: sequences and transactions that a log remembers (`ProducerState`);
- `segments`: one file of a log with the indexes beside it (`Segment`);
- `storage`: files behind an interface (`FileSystem`): the operating system's, and one for tests, which tears
  writes and loses power.

Knows records and errors; knows no sockets, no clock (times are handed in), no asyncio.
"""

from odradek.log.config import LogConfig
from odradek.log.errors import (
    DataDirectoryError,
    DataDirectoryInUseError,
    InconsistentIdentityError,
    LogDamagedError,
)
from odradek.log.folders.log_manager import LogManager
from odradek.log.partition.appending import AppendInfo
from odradek.log.partition.partition_log import PartitionLog
from odradek.log.partition.readable_log import ReadResult
from odradek.log.producers.producer_state import Origin
from odradek.log.segments.timestamp_search import OffsetForTimestamp
from odradek.log.segments.txn_index import AbortedTxn
from odradek.log.storage.checkpoint_file import EpochEntry
from odradek.log.storage.files import FileSystem
from odradek.log.storage.real_files import RealFileSystem

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
