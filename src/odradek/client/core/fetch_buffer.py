"""The fetched records that were not yet given out, in the order in which it came.

Records leave as a list (`take`), as columns (`take_columns`) or one by one (`hand_out`); the three may
alternate, as each goes on from the partitions' positions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from odradek.client.core.chunk import Chunk, offset_of
from odradek.client.core.subscription_state import Handed, Position
from odradek.client.errors import SerializationError
from odradek.client.serialization import LookupNeeded, Serialize
from odradek.client.types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from odradek.errors import KafkaError

if TYPE_CHECKING:
    import pyarrow as pa


def _progress(part: list[ConsumerRecord], handed: Handed) -> int:
    """Return how many of `part` were handed out."""
    last = handed.last
    return 0 if last is None else bisect_left(part, last.offset, key=offset_of) + 1


def _undeserialized(record: ConsumerRecord, part: str) -> str:
    return f"the {part} of {record.topic}-{record.partition} at offset {record.offset} cannot be deserialized"


class FetchBuffer:
    """The chunks that wait.

    Args:
        check_crcs: whether each batch's checksum is checked.
        key, value: deserializers, None for bytes.

    Chunks may be added by one thread while another takes: both ends of a deque are safe for that. `used`
    counts the chunks that are gone, so that the other thread can tell when to fetch more.
    """

    def __init__(self, check_crcs: bool, key: Serialize | None, value: Serialize | None) -> None:
        self._chunks: deque[Chunk] = deque()
        self._check_crcs = check_crcs
        self._key = key
        self._value = value
        # Grows with each call of the application and each `interrupt`: an iteration of an older round ends.
        self._round = 0
        # What `take` gave out last: the position, its turn then, and where it stood before.
        self._given: list[tuple[Position, int, OffsetAndMetadata]] = []
        # The position that an iteration moves at present; whoever comes back ends that.
        self._handed: tuple[Position, Handed] | None = None
        # The records being handed out; `_given_out` counts those before it.
        self._part: list[ConsumerRecord] | None = None
        self._given_out = 0
        self._seen_moving: ConsumerRecord | None = None
        # The record handed out last, if the application has committed an offset behind it.
        self._done_with: ConsumerRecord | None = None
        self.used = 0

    def counts(self) -> dict[int, int]:
        """id(position) → how many of its chunks wait. May be asked from another thread."""
        counts: dict[int, int] = {}
        for chunk in list(self._chunks):
            if not chunk.stale:
                counts[id(chunk.position)] = counts.get(id(chunk.position), 0) + 1
        return counts

    def add(self, chunk: Chunk) -> None:
        """Take a chunk."""
        self._chunks.append(chunk)

    @property
    def empty(self) -> bool:
        """Return whether nothing waits."""
        return not self._chunks

    @property
    def takeable(self) -> bool:
        """Return whether something waits that may be given to the application."""
        return next(self._takeable(), None) is not None

    def drop_except(self, keep: Callable[[Position], bool]) -> None:
        """Throw away chunks whose position is not to be kept."""
        for chunk in list(self._chunks):
            if not keep(chunk.position) or chunk.stale:
                self._remove(chunk)

    def _takeable(self) -> Iterator[Chunk]:
        """Return what may be given to the application, in order; throw away what nobody wants any more."""
        for chunk in list(self._chunks):
            if chunk.stale:
                self._remove(chunk)
            elif chunk.position.fetchable:
                yield chunk

    def take(self, limit: int) -> list[ConsumerRecord[Any, Any]]:
        """Up to `limit` records. Those of paused partitions wait on.

        Raises:
            KafkaError: the data is damaged.
            SerializationError: a deserializer refuses; the position then stands at that record, to be skipped
                with `seek`.
            LookupNeeded: a deserializer needs one for the next record.
        """
        self.come_back()
        out: list[ConsumerRecord[Any, Any]] = []
        for chunk in self._takeable():
            if len(out) >= limit:
                break
            self._note_given(chunk.position)
            try:
                records, done = chunk.take(limit - len(out), self._check_crcs)
            except KafkaError:
                if out:
                    break
                raise
            if self._key is not None or self._value is not None:
                good, problem = self._deserialized(records)
                out += good
                if problem is not None:
                    # What precedes the bad record is given out first; the error comes when it is at the
                    # front.
                    chunk.go_back_to(records[len(good)].offset)
                    if out:
                        break
                    raise problem
            else:
                if out:
                    out += records
                else:
                    out = records
            if not done:
                break  # the limit; or damage, which nothing behind it may pass
            self._remove(chunk)
        self._given_out += len(out)
        return out

    def _remove(self, chunk: Chunk) -> None:
        self._chunks.remove(chunk)
        self.used += 1

    def _deserialized(
        self, records: list[ConsumerRecord]
    ) -> tuple[list[ConsumerRecord[Any, Any]], SerializationError | LookupNeeded | None]:
        """The records up to the first that a deserializer refuses, or needs a lookup for, and that."""
        out: list[ConsumerRecord[Any, Any]] = []
        for record in records:
            try:
                out.append(self._deserialize(record))
            except (SerializationError, LookupNeeded) as problem:
                return out, problem
        return out, None

    def _deserialize(self, record: ConsumerRecord) -> ConsumerRecord[Any, Any]:
        """As in Kafka's client, deserializers are not asked about null."""
        topic = record.topic
        key: Any = record.key
        value: Any = record.value
        part = "key"
        try:
            if key is not None and self._key is not None:
                key = self._key(topic, key)
            part = "value"
            if value is not None and self._value is not None:
                value = self._value(topic, value)
        except LookupNeeded as needed:
            needed.about = _undeserialized(record, part)
            raise
        except Exception as cause:
            about = _undeserialized(record, part)
            raise SerializationError(f"{about}: {cause}; seek past it to go on") from cause
        return record._replace(key=key, value=value)

    def hand_out(
        self,
        limit: int,
        used: Callable[[], Any],
        current: int | None = None,
        guard: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> Iterator[ConsumerRecord[Any, Any]]:
        """Yield up to `limit` records one by one; the position of a partition moves with each.

        Ends early when something else takes records, or `interrupt` is called: the rest is still here then,
        for whoever comes next.

        Args:
            used: called when a chunk is gone, so that more is fetched.
            current: what `come_back` returned, if it was called before: an `interrupt` since then counts.
            guard: entered wherever records are opened; raises if somebody else does so.

        Raises:
            KafkaError, LookupNeeded: as `take`.
            Exception: what `guard` raises.
        """
        if current is None:
            current = self.come_back()
        plain = self._key is None and self._value is None
        left = limit
        for chunk in self._takeable():
            position = chunk.position
            while left > 0:
                with guard():
                    part = chunk.upcoming(left, self._check_crcs)
                if self._round != current:
                    return
                if not part:
                    self._remove(chunk)
                    used()
                    break
                left -= len(part)
                handed = position.hand_out()
                self._handed, self._part = (position, handed), part
                try:
                    # Between the look at the round and the next line CPython changes neither thread nor to a
                    # signal's handler: whoever has begun another round finds the position as this one left
                    # it.
                    if plain:
                        for record in part:
                            if self._round != current:
                                return
                            handed.last = record
                            yield record
                    else:
                        for record in part:
                            given = self._deserialize_at(position, record, current)
                            if self._round != current:
                                return
                            handed.last = record
                            yield given
                finally:
                    self._count(part, handed)
                self._handed = None

    def _deserialize_at(self, position: Position, record: ConsumerRecord, current: int) -> ConsumerRecord:
        if self._round != current:
            return record  # which will not be given out
        try:
            return self._deserialize(record)
        except (SerializationError, LookupNeeded):
            position.move_to(record.offset, position.offset_epoch)
            raise

    @property
    def records_given_out(self) -> int:
        """The number of records that the application was given in all, as a list, columns or one by one."""
        if self._part is None or self._handed is None:
            return self._given_out
        return self._given_out + _progress(self._part, self._handed[1])

    def _count(self, part: list[ConsumerRecord], handed: Handed) -> None:
        self._given_out += _progress(part, handed)
        if self._part is part:
            self._part = None

    def interrupt(self) -> None:
        """End the iteration under way after its present record: there is something to be done first.

        May be called from any thread.
        """
        self._round += 1

    def iteration_moved(self) -> bool:
        """Return whether an iteration has handed out a record since this was last asked."""
        handed = self._handed
        last = None if handed is None else handed[1].last
        moved = last is not None and last is not self._seen_moving
        self._seen_moving = last
        return moved

    # What the application may not have processed yet

    def come_back(self) -> int:
        """The application comes back for more: it is done with what it was given.

        An iteration under way ends. Returns the number of the round that begins.
        """
        self._round = current = self._round + 1
        self._given = []
        self._handed = None
        return current

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """The application commits these offsets itself: it is done with what is before them."""
        self._given = [
            (position, turn, max(before, offsets.get(position.tp, before), key=offset_of))
            for position, turn, before in self._given
        ]
        if self._handed is not None:
            position, handed = self._handed
            committed = offsets.get(position.tp)
            if handed.last is not None and committed is not None and committed.offset > handed.last.offset:
                self._done_with = handed.last

    def _note_given(self, position: Position) -> None:
        offset = position.offset
        assert offset is not None
        self._given.append((position, position.turn, OffsetAndMetadata(offset, "", position.offset_epoch)))

    def unprocessed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return where the records begin that were given out last: by `take`, or the one handed out.

        If the application fails now, it may not have processed them.
        """
        if self._handed is not None:
            position, handed = self._handed
            last = handed.last
            if last is None or last is self._done_with or not position.follows(handed):
                return {}
            return {position.tp: OffsetAndMetadata(last.offset)}
        begins: dict[TopicPartition, OffsetAndMetadata] = {}
        for position, turn, before in self._given:
            if position.turn == turn:
                begins.setdefault(position.tp, before)
        return begins

    def take_columns(
        self, limit: int, with_headers: bool, options: dict[str, Any]
    ) -> list[tuple[Position, pa.RecordBatch]]:
        """As `take`, as columns; deserializers are not asked."""
        self.come_back()
        out: list[tuple[Position, pa.RecordBatch]] = []
        rows = 0
        for chunk in self._takeable():
            if rows >= limit:
                break
            self._note_given(chunk.position)
            try:
                batches, done = chunk.take_columns(limit - rows, self._check_crcs, with_headers, options)
            except KafkaError:
                if out:
                    break
                raise
            for batch in batches:
                rows += batch.num_rows
                out.append((chunk.position, batch))
            if not done:
                break  # as in `take`
            self._remove(chunk)
        self._given_out += rows
        return out
