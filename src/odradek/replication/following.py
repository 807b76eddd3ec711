# compiled: mypyc
"""A follower's changes to its log: it appends what the leader sent, and cuts what the leader never had.

Where to cut is said by leader epochs alone (KIP-101, KIP-279, KIP-595): the high watermark of a follower lags
behind, so that records above it may be committed. Only a log that knows no epochs, one of old messages, has
nothing but its high watermark to go by.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, final

from odradek.errors import CorruptRecordError, FencedLeaderEpochError
from odradek.records.batch import LOG_OVERHEAD, BatchHeader
from odradek.records.message_sets.message_set import Entry, check_entry, iter_entries
from odradek.replication.leadership import Leadership

if TYPE_CHECKING:
    from odradek.log.storage.files import Buffer

logger = logging.getLogger(__name__)

_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8


@final
class _Wanted:
    """Batches of a response that are to be appended, and each of them with its header."""

    __slots__ = ("entries", "records")

    def __init__(self, records: memoryview, entries: list[tuple[Entry, memoryview]]) -> None:
        self.records = records
        self.entries = entries


class Truncation(NamedTuple):
    """The cut that a follower is to make by what its leader said of an epoch.

    Attributes:
        offset: it drops its records from here on.
        is_final: its log is then a beginning of the leader's; otherwise it asks again, with the epoch that is
            its latest then.
    """

    offset: int
    is_final: bool


def truncation_for(
    leader_epoch: int,
    leader_end: int,
    own: tuple[int, int] | None,
    *,
    log_end_offset: int,
    high_watermark: int,
) -> Truncation:
    """Decide where a follower cuts its log (KIP-101, KIP-279).

    Args:
        leader_epoch, leader_end: the leader's largest epoch that is not above the one that the follower asked
            for, and where it ended there. An epoch of -1 comes from leaders that do not say it
            (OffsetForLeaderEpoch 0), an end of -1 from one that knows no epochs.
        own: the same of the follower's log, for `leader_epoch`; None if it knows nothing.
        log_end_offset, high_watermark: of the follower's log.
    """
    if leader_end < 0:
        # As all did before KIP-101: what is below the high watermark the leader has as well.
        return Truncation(min(high_watermark, log_end_offset), True)
    # With nothing of its own to compare, the log can only go by the leader's end (as before KIP-279).
    if leader_epoch < 0 or own is None:
        return Truncation(min(leader_end, log_end_offset), True)
    own_epoch, own_end = own
    if own_epoch != leader_epoch:
        # The leader's epoch is one that this log never saw: nothing above the older one can be shared.
        return Truncation(min(own_end, log_end_offset), False)
    return Truncation(min(own_end, leader_end, log_end_offset), True)


def pieces_of(records: Buffer, size: int) -> Iterator[memoryview]:
    """Whole batches in pieces of about `size` bytes, so that the work on them can pause in between.

    What is cut off at the end is left out. Where a length makes no sense all that is left is one piece, for
    `append_from_leader` to refuse.
    """
    view = memoryview(records)
    end = len(view)
    start = at = 0
    while end - at >= LOG_OVERHEAD:
        entry_end = at + LOG_OVERHEAD + _LENGTH.unpack_from(view, at + _LENGTH_AT)[0]
        if entry_end <= at + LOG_OVERHEAD:
            at = end
            break
        if entry_end > end:
            break
        if at > start and entry_end - start > size:
            yield view[start:at]
            start = at
        at = entry_end
    if at > start:
        yield view[start:at]


class Following(Leadership):
    """The half of a `Partition` that copies a leader's log. Attributes: see there."""

    __slots__ = ("appended_bytes",)

    appended_bytes: int
    """See `Partition`, which appends as the leader and sets it at first."""

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last record, as far as the log knows; -1 if it knows none."""
        return self.log.epochs.latest

    @property
    def log_end_offset(self) -> int:
        """Return where a follower fetches next."""
        return self.log.log_end_offset

    @property
    def log_start_offset(self) -> int:
        """The log's start."""
        return self.log.log_start_offset

    def append_from_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        leader_high_watermark: int,
        leader_log_start_offset: int,
        now_ms: int,
    ) -> int:
        """Append batches as they lie in the leader's log, and take over what it says is committed and gone.

        Args:
            records: what the leader sent; a batch that is cut off at the end is left out, and so are batches
                that are here already and batches of an epoch that is not yet known here.
            leader_epoch: the one in which it was fetched.
            leader_high_watermark: the leader's, taken as far as this log goes; never back.
            leader_log_start_offset: the leader's, -1 if it did not say.
            now_ms: wall clock.

        Returns:
            How many bytes were appended.

        Raises:
            FencedLeaderEpochError: this replica leads, or follows in another epoch, by now.
            CorruptRecordError: a CRC or a length is wrong; nothing was appended.
            OffsetOutOfRangeError: offsets that go back; nothing was appended.
            KafkaStorageError: the files could not be written; nothing was appended.
        """
        self._require_following(leader_epoch)
        log = self.log
        appendable = self._wanted(records, leader_epoch) if len(records) else None
        if appendable is not None:
            log.append_entries(appendable.records, appendable.entries, now_ms=now_ms)
            self.appended_bytes += len(appendable.records)
        # The leader's high watermark may be ahead: this answer need not bring all that is below it.
        committed = min(leader_high_watermark, log.log_end_offset)
        moved = committed > log.high_watermark
        if moved:
            log.update_high_watermark(committed)
        # The leader deletes below its high watermark alone, of which this log may not have heard yet.
        start = min(leader_log_start_offset, log.high_watermark)
        if start > log.log_start_offset:
            log.move_log_start(start)
            moved = True
        if moved or appendable is not None:
            self.progress()
        return 0 if appendable is None else len(appendable.records)

    def truncate_by_epoch(self, leader_epoch: int, leader_end: int) -> bool:
        """Cut the log by what the leader said of an epoch; see `truncation_for`.

        Returns:
            Whether the log is a beginning of the leader's now; otherwise ask again with `latest_epoch`.

        Raises:
            KafkaStorageError: the files could not be cut.
        """
        log = self.log
        own = log.end_offset_for_epoch(leader_epoch) if leader_epoch >= 0 else None
        decided = truncation_for(
            leader_epoch,
            leader_end,
            None if own is None else (own.epoch, own.start_offset),
            log_end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
        )
        self._cut(decided.offset, f"leader {self.leader_id} ended epoch {leader_epoch} at {leader_end}")
        return decided.is_final

    def truncate_without_epochs(self) -> None:
        """Cut a log that knows no epochs to its high watermark, as all did before KIP-101.

        Raises:
            KafkaStorageError: the files could not be cut.
        """
        self._cut(self.log.high_watermark, "no leader epochs to go by")

    def truncate_to_leader_end(self, leader_end: int) -> None:
        """Cut a log that goes on behind the leader's end.

        Raises:
            KafkaStorageError: the files could not be cut.
        """
        self._cut(leader_end, f"the log of leader {self.leader_id} ends at {leader_end}")

    def truncate_fully_and_start_at(self, leader_start: int) -> None:
        """Drop everything: the leader's log begins behind this one's end.

        Raises:
            KafkaStorageError: the files could not be written.
        """
        log = self.log
        logger.warning(
            "%s-%d ends at %d, the log of leader %d begins at %d: starting there",
            self.topic,
            self.index,
            log.log_end_offset,
            self.leader_id,
            leader_start,
        )
        log.truncate_fully_and_start_at(leader_start)
        self.progress()

    def _require_following(self, leader_epoch: int) -> None:
        if self.leader_id == self.broker_id or leader_epoch != self.leader_epoch:
            raise FencedLeaderEpochError(
                f"{self.topic}-{self.index} does not follow in leader epoch {leader_epoch} any more"
            )

    def _cut(self, offset: int, reason: str) -> None:
        log = self.log
        # As after an unclean election: the operator is told what it has cost.
        if offset < log.high_watermark:
            logger.warning(
                "%s-%d loses records below its high watermark %d, from %d on: %s",
                self.topic,
                self.index,
                log.high_watermark,
                offset,
                reason,
            )
        elif offset < log.log_end_offset:
            logger.info("%s-%d is cut at %d: %s", self.topic, self.index, offset, reason)
        # Below its start the log has nothing that could stay.
        if offset < log.log_start_offset:
            log.truncate_fully_and_start_at(offset)
        else:
            log.truncate_to(offset)
        self.progress()

    def _wanted(self, records: Buffer, leader_epoch: int) -> _Wanted | None:
        """The part of what was sent that is to be appended, None if there is none. Makes room where a batch
        begins below the end.

        Raises:
            CorruptRecordError: a batch ends before it begins.
        """
        log = self.log
        view = memoryview(records)
        entries: list[tuple[Entry, memoryview]] = []
        start = at = 0
        for header, entry in iter_entries(view):
            if isinstance(header, BatchHeader):
                # The metadata of that epoch is on its way: what follows is fetched again under it.
                if header.partition_leader_epoch > leader_epoch:
                    break
                if header.last_offset_delta < 0:
                    raise CorruptRecordError(
                        f"a batch of offsets {header.base_offset} to {header.last_offset}"
                    )
            if not entries:
                # A fetch begins with the whole batch that its offset is in.
                if header.last_offset < log.log_end_offset:
                    start = at = at + len(entry)
                    continue
                if isinstance(header, BatchHeader) and header.base_offset < log.log_end_offset:
                    # First: the log is not to be cut for the sake of a batch that turns out damaged.
                    check_entry(header, entry)
                    self._make_room(header.base_offset)
            entries.append((header, entry))
            at += len(entry)
        return _Wanted(view[start:at], entries) if entries else None

    def _make_room(self, base_offset: int) -> None:
        """The log ends inside of a batch of the leader, which comes whole: let it end before that batch."""
        log = self.log
        if base_offset <= log.log_start_offset:
            log.truncate_fully_and_start_at(base_offset)
        else:
            log.truncate_to(base_offset)
