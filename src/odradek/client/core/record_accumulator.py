"""The producer's batches that wait to be sent: one queue per partition, and the rules when a batch may leave.

Nothing here locks but `append`: the synchronous producer calls the rest under its lock, in its loop's thread;
the asyncio one from its loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from odradek.client.core.backoff import Backoff
from odradek.client.core.batch_bounds import BatchBounds
from odradek.client.core.batch_splitting import unpacked_size
from odradek.client.core.batches import Callback, ProducerBatch
from odradek.client.core.delivery import BatchOutcome, DeliveryFuture
from odradek.client.core.kernel import BUSY, NO_BATCH, Appender, TopicLanes
from odradek.client.core.sequences import Sequences
from odradek.client.types import TopicPartition
from odradek.records.compression import Codec
from odradek.wire.primitives import ZERO_UUID


@dataclass(slots=True)
class Readiness:
    """The result of `RecordAccumulator.ready`.

    Attributes:
        nodes: brokers for which something is ready to be sent.
        next_check_ms: when to look again, monotonic ms; None: when something happens.
        leaderless: partitions with batches that nobody is known to lead.
    """

    nodes: set[int] = field(default_factory=set)
    next_check_ms: float | None = None
    leaderless: set[TopicPartition] = field(default_factory=set)


class RecordAccumulator:
    """Batches by partition.

    Args:
        batch_size: bytes at which a batch is full (before compression).
        linger_ms: how long a batch that is not full waits for more records.
        buffer_memory: bytes of records that may wait or be in flight in all.
        delivery_timeout_ms: how long a batch may live, from its first record on.
        codec, level: compression.
        backoff: between tries of a batch.
        sequences: of the idempotent producer, or None.
        one_in_flight: at most one batch of a partition on its way: keeps the order without idempotence when
            `max.in.flight.requests.per.connection` is 1.
        gate: what is held while something here is called, if other threads append.
        in_transaction: of the transactional producer: whether a partition has joined, so that its batches may
            leave.
        leader_epoch: of a partition, as far as it is known now (-1: it is not).
        topic_id: of a topic, likewise (zeros: it is not).

    Attributes:
        appender: the short way for records whose batch is there already.
        bounds: what brokers have refused as too large.
        closed: the producer is closing; batches do not linger any more.
        flushing: how many calls wait for what is queued; above 0, batches do not linger.
        waiting_for_memory: how many calls wait for room; above 0, batches do not linger.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        linger_ms: float,
        buffer_memory: int,
        delivery_timeout_ms: float,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        backoff: Backoff,
        sequences: Sequences | None = None,
        one_in_flight: bool = False,
        gate: Any = None,
        in_transaction: Callable[[TopicPartition], bool] | None = None,
        leader_epoch: Callable[[TopicPartition], int] | None = None,
        topic_id: Callable[[str], bytes] | None = None,
    ) -> None:
        self.batch_size = max(1, batch_size)
        self.linger_ms = linger_ms
        self.buffer_memory = buffer_memory
        self.delivery_timeout_ms = delivery_timeout_ms
        self.codec = codec
        self.level = level
        self.sequences = sequences
        self.bounds = BatchBounds()
        self.appender = Appender(gate, self.batch_size, buffer_memory)
        self.flushing = 0
        self.closed = False
        self.waiting_for_memory = 0
        self._gate = gate
        self._backoff = backoff
        self._one_in_flight = one_in_flight
        self._in_transaction = in_transaction
        self._leader_epoch = leader_epoch or (lambda tp: -1)
        self._topic_id = topic_id or (lambda topic: ZERO_UUID)
        # What waits, by partition: those with a sequence first, in its order, then those without.
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        # By `id`, in order of creation: every batch that is not settled, queued or in flight. So the first
        # one expires first, and `memory_used` is what these have reserved.
        self._incomplete: dict[int, ProducerBatch] = {}
        # Partitions with a batch in flight, while `_one_in_flight` keeps the order (as in Kafka's
        # RecordAccumulator).
        self._muted: set[TopicPartition] = set()
        # Broker → the place among its partitions at which the next drain begins (Kafka's nodesDrainIndex).
        self._drain_from: dict[int, int] = {}

    # Appending

    @property
    def memory_used(self) -> int:
        """Bytes that wait or are in flight."""
        return self.appender.memory_used

    def has_room(self, size: int) -> bool:
        """Return whether a record of `size` bytes fits into the memory now."""
        return self.memory_used + size <= self.buffer_memory

    def append(
        self,
        tp: TopicPartition,
        timestamp: int,
        key: Any,
        value: Any,
        headers: Any,
        callback: Callback | None,
        size: int,
        now_ms: float,
        *,
        about: int | None = None,
        lanes: TopicLanes | None = None,
    ) -> tuple[DeliveryFuture, bool, bool] | None:
        """Add a record to the last batch of its partition, or to a new one. Not under the lock; any thread.

        Args:
            size: the record's size at most, as `record_size` gives it; counted against the memory.
            now_ms: monotonic.
            about: the appender's `round` to which the record belongs; None: the present one.
            lanes: see `Appender.append`.

        Returns: (future, the sender should look, the batch was closed); None if it does not fit into the
        memory, or another round has begun.
        """
        appender = self.appender
        if about is None:
            about = appender.round
        full = self.batch_size_of(tp.topic)
        spare = None
        while True:
            if tp not in self._queues:
                # setdefault, as two threads may come here at once and need the same queue.
                self._queues.setdefault(tp, deque())
            appended = appender.append(
                self._queues,
                self._incomplete,
                tp,
                spare,
                timestamp,
                key,
                value,
                headers,
                callback,
                size,
                full,
                about,
                lanes,
            )
            if appended == NO_BATCH:
                # Made here, not in `append`, which holds the interpreter lock throughout: an object that the
                # garbage collector knows could set off a finalizer there (docs/client_design.md).
                spare = ProducerBatch(tp, self.codec, self.level, now_ms, self._in_transaction is not None)
            elif appended == BUSY:
                self._gate.wait()
            elif isinstance(appended, int):
                return None
            else:
                future, look, closed = appended
                return future, look, closed

    def batch_size_of(self, topic: str) -> int:
        """Return the bytes at which a batch of the topic is full: `batch_size`, or less where brokers refuse
        that.
        """
        bound = self.bounds.unpacked_bound(topic) if self.bounds else None
        return self.batch_size if bound is None else min(self.batch_size, bound)

    def append_built(
        self, tp: TopicPartition, data: bytes | bytearray, count: int, now_ms: float
    ) -> BatchOutcome:
        """Queue a whole record batch that was built elsewhere (from columns)."""
        batch = ProducerBatch(tp, self.codec, self.level, now_ms, self._in_transaction is not None)
        batch.adopt(data, count)
        # The batch before this one must not get records that were sent after it.
        queue = self._queues.setdefault(tp, deque())
        if queue:
            queue[-1].append_closed = True
        queue.append(batch)
        self._incomplete[id(batch)] = batch
        self._reserve(batch, len(data))
        return batch.outcome

    def _reserve(self, batch: ProducerBatch, size: int) -> None:
        batch.memory += size
        self.appender.memory_used += size

    def last_batch(self, tp: TopicPartition) -> ProducerBatch | None:
        """Return the batch of a partition that was queued last, if it has not left."""
        queue = self._queues.get(tp)
        return queue[-1] if queue else None

    def queue_length(self, tp: TopicPartition) -> int:
        """Return how many batches wait for a partition."""
        queue = self._queues.get(tp)
        return len(queue) if queue else 0

    # Sending

    def ready(self, now_ms: float, leader_of: Callable[[TopicPartition], int | None]) -> Readiness:
        """Return which brokers have a batch that may leave now."""
        readiness = Readiness()
        # A caller that waits for memory or for a flush waits for these very batches: none lingers then, as
        # in Kafka's RecordAccumulator.batchReady.
        hurry = self.waiting_for_memory > 0 or self.closed or self.flushing > 0
        # A copy, as appending threads add queues meanwhile.
        for tp, queue in list(self._queues.items()):
            if not queue or tp in self._muted:
                continue
            first = queue[0]
            node = leader_of(tp)
            if node is None:
                readiness.leaderless.add(tp)
                continue
            if node in readiness.nodes:
                continue
            wait_ms = self._wait_ms(first, len(queue) > 1, hurry, now_ms)
            if wait_ms <= 0:
                readiness.nodes.add(node)
            elif readiness.next_check_ms is None or now_ms + wait_ms < readiness.next_check_ms:
                readiness.next_check_ms = now_ms + wait_ms
        return readiness

    def _wait_ms(self, batch: ProducerBatch, more_behind: bool, hurry: bool, now_ms: float) -> float:
        if batch.attempts > 0:
            if self._leader_epoch(batch.tp) > batch.leader_epoch:
                return 0.0  # what failed at the old leader need not wait for the new one (KIP-951)
            # Exponential (KIP-580); the exponent is bounded, as tries may be without number.
            backoff = min(self._backoff.max_ms, self._backoff.initial_ms * 2.0 ** min(batch.attempts - 1, 30))
            return batch.last_attempt_ms + backoff - now_ms
        if hurry or more_behind or batch.append_closed:
            return 0.0
        return batch.created_ms + self.linger_ms - now_ms

    def drain(
        self, node: int, partitions: Iterable[TopicPartition], max_bytes: int, now_ms: float
    ) -> list[ProducerBatch]:
        """Take at most one batch of each partition that `node` leads, up to `max_bytes` in all (or one
        batch).

        The partition to begin with goes round, so that none starves.
        """
        candidates = [tp for tp in partitions if self._queues.get(tp)]
        if not candidates:
            return []
        candidates.sort()
        start = self._drain_from.get(node, 0) % len(candidates)
        self._drain_from[node] = start + 1
        drained: list[ProducerBatch] = []
        size = 0
        hurry = self.waiting_for_memory > 0 or self.closed or self.flushing > 0
        for tp in candidates[start:] + candidates[:start]:
            if tp in self._muted:
                continue
            queue = self._queues[tp]
            if self.bounds:
                self._keep_within_bounds(queue[0], now_ms)
            # Only now: the batch at the front may have been replaced by its parts.
            batch = queue[0]
            if batch.attempts > 0 and self._wait_ms(batch, False, hurry, now_ms) > 0:
                continue
            # A batch that alone exceeds `max_bytes` goes alone: the broker decides whether it is too large.
            if drained and size + batch.size > max_bytes:
                break
            # Before the partition has joined, its records would be outside the transaction (Kafka's
            # TransactionManager.isSendToPartitionAllowed).
            if self._in_transaction is not None and not self._in_transaction(tp):
                continue
            if self.sequences is not None:
                topic_id = self._topic_id(tp.topic)
                if not self.sequences.may_send(batch, topic_id):
                    continue
                # A sequence counts records, so nothing may join the batch once it has one.
                batch.append_closed = True
                self.sequences.assign(batch, now_ms, topic_id)
            queue.popleft()
            batch.drained(now_ms, self._leader_epoch(tp))
            size += batch.size
            drained.append(batch)
            if self._one_in_flight:
                self._muted.add(tp)
        return drained

    def give_up_sequences(self) -> None:
        """Send without sequences, as the brokers know none: one batch of a partition at a time keeps the
        order from now on.
        """
        self.sequences = None
        self._one_in_flight = True

    # Coming back

    def unmute(self, tp: TopicPartition) -> None:
        """Let the next batch of a partition leave: the one on its way was answered."""
        self._muted.discard(tp)

    def requeue(self, batch: ProducerBatch, now_ms: float, wait_ms: float | None = None) -> None:
        """Put a batch of which a try failed back into its queue, where its sequence belongs.

        Args:
            wait_ms: the longest pause before the next try.
        """
        batch.returned(now_ms)
        # The pause is counted from the last attempt, which is dated back for a shorter pause.
        if wait_ms is not None and (longer := self._wait_ms(batch, False, False, now_ms) - wait_ms) > 0:
            batch.last_attempt_ms -= longer
        self._insert(batch)

    def _insert(self, batch: ProducerBatch) -> None:
        queue = self._queues.setdefault(batch.tp, deque())
        # In order of sequence, else the leader would refuse a batch that has overtaken another one (Kafka's
        # RecordAccumulator.insertInSequenceOrder).
        at = 0
        if batch.has_sequence:
            while at < len(queue) and queue[at].has_sequence and _before(queue[at], batch):
                at += 1
        queue.insert(at, batch)

    def _keep_within_bounds(self, batch: ProducerBatch, now_ms: float) -> None:
        """Split the first batch of a queue if it would be refused as too large."""
        bound = self.bounds.bound(batch.tp.topic, now_ms)
        if bound is None or batch.size <= bound or batch.count < 2 or batch.in_doubt:
            # A batch in doubt stays whole: only so does the broker recognise it if it is in the log.
            return
        # `size` is before compression; brokers measure the bytes that are sent.
        if (len(batch.encode()) if batch.has_sequence else batch.build()) <= bound:
            return
        self._queues[batch.tp].remove(batch)
        self._replace_by_parts(batch, bound)

    def too_large(self, batch: ProducerBatch, now_ms: float) -> None:
        """Replace a batch that the broker refused as too large by its parts. They take its place at the front
        of the queue and among the sequences, and expire when it would have.
        """
        self.refused_as_too_large(batch, now_ms)
        bound = self.bounds.bound(batch.tp.topic)
        assert bound is not None
        self._replace_by_parts(batch, bound)

    def refused_as_too_large(self, batch: ProducerBatch, now_ms: float) -> None:
        """Note the size that the broker refused: new batches of the topic are made smaller."""
        data = batch.encode()
        self.bounds.refused(batch.tp.topic, len(data), unpacked_size(data), batch.count, now_ms)
        # The lanes have the old batch size; the next record takes the long way, which makes new lanes.
        self.appender.topics.pop(batch.tp.topic, None)

    def _replace_by_parts(self, batch: ProducerBatch, max_bytes: int) -> None:
        parts = batch.split(max_bytes)
        if batch.has_sequence:
            assert self.sequences is not None
            self.sequences.split(batch, parts)
        self.appender.memory_used += sum(part.memory for part in parts) - batch.memory
        # The parts take the batch's place: the order of creation must stay, see `next_expiry_ms`.
        incomplete: dict[int, ProducerBatch] = {}
        for other in self._incomplete.values():
            incomplete.update({id(part): part for part in parts} if other is batch else {id(other): other})
        self._incomplete = incomplete
        if batch.has_sequence:
            for part in parts:
                self._insert(part)
        else:
            self._queues.setdefault(batch.tp, deque()).extendleft(reversed(parts))

    def expired(self, now_ms: float) -> list[ProducerBatch]:
        """Return the batches whose delivery time is over, those in flight included, and take them out of
        their queues.
        """
        first = self.next_expiry_ms()
        if first is None or first > now_ms:
            return []
        out = [b for b in self._incomplete.values() if now_ms - b.created_ms >= self.delivery_timeout_ms]
        for batch in out:
            batch.append_closed = True
            queue = self._queues.get(batch.tp)
            if queue and not batch.in_flight and batch in queue:
                queue.remove(batch)
        return out

    def next_expiry_ms(self) -> float | None:
        """Return when the oldest batch expires (monotonic ms)."""
        for batch in self._incomplete.values():  # in order of creation
            return batch.created_ms + self.delivery_timeout_ms
        return None

    def release(self, batch: ProducerBatch) -> None:
        """Free the memory of a batch that is settled."""
        self._forget(batch)

    def _forget(self, batch: ProducerBatch) -> None:
        if self._incomplete.pop(id(batch), None) is not None:
            self.appender.memory_used -= batch.memory

    def owes(self, outcome: BatchOutcome) -> bool:
        """Return whether an outcome is that of a batch here that is not settled."""
        return any(batch.outcome is outcome for batch in self.incomplete())

    @property
    def has_incomplete(self) -> bool:
        """Return whether any batch is not settled."""
        return bool(self._incomplete)

    def incomplete(self) -> list[ProducerBatch]:
        """Return all batches that are not settled, in order of creation."""
        return list(self._incomplete.values())

    def take_all_queued(self) -> list[ProducerBatch]:
        """Empty the queues (close without waiting)."""
        batches = [batch for queue in list(self._queues.values()) for batch in queue]
        for batch in batches:
            batch.append_closed = True
        self._queues.clear()
        return batches

    def take_queued(self, which: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Take some batches out of the queues."""
        batches = []
        for tp, queue in list(self._queues.items()):
            kept: deque[ProducerBatch] = deque()
            for batch in queue:
                # Closed, so that no thread whose lanes have the batch appends to what will not be sent.
                if which(batch):
                    batch.append_closed = True
                    batches.append(batch)
                else:
                    kept.append(batch)
            if len(kept) < len(queue):
                self._queues[tp] = kept
        return batches

    @property
    def has_queued(self) -> bool:
        """Return whether any batch waits to be sent."""
        return any(self._queues.values())

    @property
    def partitions_queued(self) -> list[TopicPartition]:
        """Partitions for which something waits."""
        return [tp for tp, queue in list(self._queues.items()) if queue]

    @property
    def topics_queued(self) -> set[str]:
        """Topics for which something waits."""
        return {tp.topic for tp in self.partitions_queued}


def _before(a: ProducerBatch, b: ProducerBatch) -> bool:
    if a.producer_epoch != b.producer_epoch:
        return a.producer_epoch < b.producer_epoch
    # Sequences wrap at 2^31: compare their distance.
    return ((b.base_sequence - a.base_sequence) & 0x7FFF_FFFF) < 0x4000_0000
