"""How far a fetch may read, and what a read of a partition gives."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from odradek.log.segments.txn_index import AbortedTxn
    from odradek.log.storage.files import FileRange


class Isolation(IntEnum):
    """How far a fetch may read."""

    READ_UNCOMMITTED = 0
    """Up to the high watermark: a consumer."""

    READ_COMMITTED = 1
    """Up to the last stable offset: a consumer that sees committed transactions only."""

    LOG_END = 2
    """Everything: a follower."""


class FetchedRecords(NamedTuple):
    """What a read of a partition gave.

    Attributes:
        records: whole batches, as they lie in the file; empty when there is nothing to read yet.
        high_watermark, last_stable_offset, log_start_offset, log_end_offset: as they were before the read.
        diverging_epoch: `(epoch, end_offset)` when the fetcher's log has left the leader's (KIP-595); the
            fetcher truncates there.
        aborted_transactions: for READ_COMMITTED, those that the reader must leave out of the records.
    """

    records: bytes | FileRange
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int
    diverging_epoch: tuple[int, int] | None
    aborted_transactions: Sequence[AbortedTxn] = ()
