"""The clients' work per record in pure Python: the twin of `_client`, class by class.

Used where no compiled kernel is installed. It says precisely what the compiled one must do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from odradek.client.errors import IllegalStateError
from odradek.records.batch import HEADER_BYTES
from odradek.records.builder import MAX_RECORD_OVERHEAD
from odradek.records.kernel import kernel
from odradek.records.partitioner import partition_for_key

__all__ = [
    "BUSY",
    "FULL",
    "MOVED",
    "NO_BATCH",
    "Appender",
    "DeliveryState",
    "Gate",
    "OpenBatch",
    "Sticky",
    "TopicLanes",
    "report",
    "unfilled",
]

INSIDE = (
    "the producer was called amid its own bookkeeping of this very thread (by a finalizer, or by a signal's "
    "handler): call it when that is over"
)

# Reasons why `Appender.append` did not append.
BUSY = 1
FULL = 2
MOVED = 3
NO_BATCH = 4

SHUT = -1
"""The `round` of an appender that was shut: no record is of it."""

# One below the largest int64: less a base timestamp of -1 it still is an int64.
_MAX_TIMESTAMP = 0x7FFF_FFFF_FFFF_FFFE


class DeliveryState:
    """The state behind a record's future: the batch's outcome, the record's index in the batch, and what its
    metadata will say. `_callback` is called once, by `report`.
    """

    __slots__ = ("_callback", "_index", "_key_size", "_outcome", "_timestamp", "_value_size")

    def __init__(self, outcome: Any, index: int, timestamp: int, key_size: int, value_size: int) -> None:
        self._outcome = outcome
        self._callback: Any = None
        self._index = index
        self._timestamp = timestamp
        self._key_size = key_size
        self._value_size = value_size

    def _final(self) -> Any:
        """Return the outcome if it is settled, where the batch was split that of the part; else None."""
        outcome = self._outcome
        while outcome.settled:
            if outcome.moved is None:
                return outcome
            # Several threads may ask at once, and outcome and index go together: nothing here is a call or a
            # jump back, where CPython changes threads.
            if outcome is self._outcome:
                self._outcome, self._index = outcome.moved[self._index]
            outcome = self._outcome
        return None


class Gate:
    """The lock around what the sender changes and appending threads must not see half done.

    The thread inside the gate runs Python code, and so perhaps a finalizer or, if it is the main thread, a
    signal's handler. Those must not come in again, and cannot wait. (With the compiled kernel appending
    threads are never inside.)

    Args:
        lock: an `RLock`, held inside.

    Raises:
        IllegalStateError: by `check_not_inside` and `wait`, in the thread that is inside.
    """

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self.check_not_inside()
        self._lock.acquire()

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self._lock.release()

    def is_inside(self) -> bool:
        """Return whether the calling thread is inside."""
        # RLock has no public way to ask; threading.Condition asks the same.
        return bool(self._lock._is_owned())

    def check_not_inside(self) -> None:
        """Check that this thread is not inside.

        Raises:
            IllegalStateError: it is.
        """
        if self.is_inside():
            raise IllegalStateError(INSIDE)

    def wait(self) -> None:
        """Wait until nobody is inside.

        Raises:
            IllegalStateError: this thread is inside.
        """
        with self:
            pass


class OpenBatch:
    """A batch while it grows.

    Args:
        outcome: the futures of its records look into this.
        future_class: the class of these futures, a `DeliveryState`.

    Attributes:
        records: room for the header, and the records behind it.
        count: of records.
        memory: bytes that are counted for the batch, in the appender's `memory_used` until it is settled.
        append_closed: nothing may be added any more; it is never opened again.
        callbacks: the futures that have a callback which is still to be called.
        base_timestamp, max_timestamp: of the records, milliseconds; -1 before the first.
    """

    def __init__(self, outcome: Any, future_class: type[Any]) -> None:
        if not issubclass(future_class, DeliveryState):
            raise TypeError("the futures are DeliveryFutures")
        self.outcome = outcome
        self.callbacks: list[Any] = []
        self.records = bytearray(HEADER_BYTES)
        self.count = 0
        self.memory = 0
        self.append_closed = False
        self.base_timestamp = -1
        self.max_timestamp = -1
        self._future_class = future_class

    def append(self, timestamp: int, key: Any, value: Any, headers: Any, callback: Any) -> Any:
        """Add a record and give its future.

        Raises:
            ValueError: a timestamp is negative, and not -1.
        """
        if not -1 <= timestamp <= _MAX_TIMESTAMP:
            raise ValueError(f"invalid timestamp {timestamp}")
        # The format has timestamps as deltas to the first record's, so these may be negative.
        base = self.base_timestamp if self.count else timestamp
        kernel.append_record(self.records, self.count, timestamp - base, key, value, headers)
        future = self._future_class(
            self.outcome,
            self.count,
            timestamp,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
        )
        self.base_timestamp = base
        self.count += 1
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        if callback is not None:
            future._callback = callback
            self.callbacks.append(future)
        return future

    @property
    def records_size(self) -> int:
        """Bytes so far, the header included, before compression."""
        return len(self.records)


class Sticky:
    """The partition to which a topic's records without a key go at present (-1: none is chosen), and how many
    bytes it has got since it was chosen.
    """

    def __init__(self) -> None:
        self.partition = -1
        self.bytes = 0


class TopicLanes:
    """The batch of each of a topic's partitions 0 … n-1 that was appended to last, or None.

    Attributes:
        batch_size: bytes at which a batch is full.
    """

    def __init__(self, partitions: int, sticky: Sticky, batch_size: int) -> None:
        self.lanes: list[Any] = [None] * partitions
        self.sticky = sticky
        self.batch_size = batch_size


class Appender:
    """The short way of a record into a batch that is there already.

    Args:
        gate: what others hold while they touch batches, or None if there are no other threads.
        batch_size: bytes at which a batch is full.
        buffer_memory: bytes that all batches may take.

    Attributes:
        topics: lanes by a topic's name; records of other topics take the long way.
        enabled: False: every record takes the long way.
        ignore_keys: whether records with a key go to the sticky partition, too.
        memory_used: bytes that all batches take that are not settled.
        round: grows with `forget`; a record that began the long way in an older round is not appended.
        largest: bytes of a record at most, by `max.request.size`.
    """

    def __init__(self, gate: AbstractContextManager[Any] | None, batch_size: int, buffer_memory: int) -> None:
        self._gate = nullcontext() if gate is None else gate
        self.topics: dict[str, TopicLanes] = {}
        self.enabled = False
        self.ignore_keys = False
        self.memory_used = 0
        self.round = 0
        self.batch_size = batch_size
        self.buffer_memory = buffer_memory
        self.largest = buffer_memory

    def try_send(
        self, topic: Any, value: Any, key: Any, partition: Any, timestamp_ms: Any, headers: Any, callback: Any
    ) -> Any:
        """Append the record if that needs nothing but its batch; else None, and nothing has happened.

        It needs more where the record is not plain (headers, buffers, a value out of range), where there is
        no batch with room or it would become full, and where memory is short. Those are for the long way to
        deal with, errors included.

        Returns: the record's future.
        """
        if not self.enabled or type(topic) is not str or headers:
            return None
        size = MAX_RECORD_OVERHEAD
        try:
            if value is not None:
                value = value.encode() if type(value) is str else value
                size += len(value)
            if key is not None:
                key = key.encode() if type(key) is str else key
                size += len(key)
        except (AttributeError, TypeError, UnicodeEncodeError):
            return None
        if not isinstance(value, bytes | None) or not isinstance(key, bytes | None):
            return None
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        if type(timestamp_ms) is not int or not 0 <= timestamp_ms <= _MAX_TIMESTAMP or size > self.largest:
            return None
        with self._gate:
            lanes = self.topics.get(topic)
            if lanes is None:
                return None
            sticky = False
            if partition is None:
                if key is not None and not self.ignore_keys:
                    partition = partition_for_key(key, len(lanes.lanes))
                else:
                    sticky = True
                    partition = lanes.sticky.partition
                    # After two batches the partition changes, full or not (KIP-794; Kafka's
                    # BuiltInPartitioner.updatePartitionInfo).
                    if lanes.sticky.bytes + size >= 2 * self.batch_size:
                        return None
            if type(partition) is not int or not 0 <= partition < len(lanes.lanes):
                return None
            batch = lanes.lanes[partition]
            if batch is None or batch.append_closed or not batch.count:
                return None
            # A record that fills the batch takes the long way, which wakes the sender.
            if batch.records_size + size >= lanes.batch_size or self.memory_used + size > self.buffer_memory:
                return None
            future = batch.append(timestamp_ms, key, value, (), callback)
            batch.memory += size
            self.memory_used += size
            if sticky:
                lanes.sticky.bytes += size
            return future

    def forget(self) -> None:
        """Make every record take the long way from its beginning, also those that are on it: partitions and
        transactions may have changed since they looked. Inside the gate.
        """
        self.topics.clear()
        if self.round != SHUT:
            self.round += 1

    def shut(self) -> None:
        """Append nothing any more. Inside the gate."""
        self.enabled = False
        self.topics.clear()
        self.round = SHUT

    def append(
        self,
        queues: dict[Any, Any],
        incomplete: dict[int, Any],
        tp: Any,
        spare: Any,
        timestamp: int,
        key: Any,
        value: Any,
        headers: Any,
        callback: Any,
        size: int,
        batch_size: int,
        about: int,
        lanes: TopicLanes | None,
    ) -> Any:
        """Append a record to the last batch of its partition, or to `spare`, which is queued then. This is
        the long way's last step, and one step for other threads.

        Args:
            queues: partition → deque of batches.
            incomplete: id → batch, of all that are not settled.
            spare: an empty batch, or None.
            key, value: bytes or None.
            size: the record's at most, counted against the memory.
            batch_size: bytes at which a batch of the topic is full.
            about: the `round` in which the record began the long way.
            lanes: the topic's, to be remembered for the short way; None: nothing is remembered.

        Returns: (future, the sender should look, the batch is full); or why nothing has happened: `BUSY`,
        another thread is inside the gate; `FULL`, no memory; `MOVED`, another round has begun, or the
        appender was shut; `NO_BATCH`, no batch has room and there is no `spare`, or there is no queue.
        """
        with self._gate:
            if about != self.round or about == SHUT:
                return MOVED
            if self.memory_used + size > self.buffer_memory:
                return FULL
            queue = queues.get(tp)
            if queue is None:
                return NO_BATCH
            batch: Any = queue[-1] if queue else None
            # Closed for good, also for a smaller record behind this one: a queue's order is that of `send`.
            if batch is not None and not batch.append_closed and batch.records_size + size > batch_size:
                batch.append_closed = True
            look = batch is None or batch.append_closed
            if look:
                if spare is None:
                    return NO_BATCH
                batch = spare
            future = batch.append(timestamp, key, value, headers, callback)
            if look:
                queue.append(batch)
                incomplete[id(batch)] = batch
                size += HEADER_BYTES
            batch.memory += size
            self.memory_used += size
            full = batch.records_size >= batch_size
            if full:
                batch.append_closed = True
            # Remembered only here, where the batch is surely the last of its queue.
            if lanes is not None and tp[1] < len(lanes.lanes):
                self.topics[tp[0]] = lanes
                lanes.lanes[tp[1]] = batch
            return future, look or full, full


def report(futures: list[Any], metadata_class: type[Any], on_problem: Callable[[Exception], None]) -> None:
    """Call the callback of each future, once: with (metadata, None), or (None, error).

    Args:
        futures: settled ones.
        metadata_class: a named tuple of (topic, partition, offset, timestamp, key size, value size).
        on_problem: gets what a callback raises.
    """
    for future in futures:
        # Taken first: it is called once, whatever it does.
        callback, future._callback = future._callback, None
        if callback is None:
            continue
        outcome = future._final()
        if outcome is None:
            raise RuntimeError("a delivery is reported before it is settled")
        try:
            if outcome.error is None:
                offset, append_time = outcome.base_offset, outcome.append_time_ms
                fields = (
                    outcome.topic,
                    outcome.partition,
                    offset + future._index if offset >= 0 else -1,
                    append_time if append_time >= 0 else future._timestamp,
                    future._key_size,
                    future._value_size,
                )
                callback(metadata_class(*fields), None)
            else:
                error = outcome.error
                if outcome.record_errors is not None:
                    error = outcome.record_errors.get(future._index, error)
                callback(None, error)
        except Exception as problem:
            on_problem(problem)


def unfilled(size: int) -> bytearray:
    """Return a bytearray whose content is not determined: it is to be written before it is read."""
    return bytearray(size)
