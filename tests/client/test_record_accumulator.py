"""When batches leave, what they hold, what the memory says; partitioners; futures."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from typing import Any

import pytest

from odradek.client.core.backoff import Backoff
from odradek.client.core.batches import ProducerBatch, stamp
from odradek.client.core.delivery import BatchOutcome, DeliveryFuture
from odradek.client.core.kernel import report
from odradek.client.core.partitioners import RoundRobinPartitioner, StickyPartitions, resolve_partitioner
from odradek.client.core.record_accumulator import RecordAccumulator
from odradek.client.errors import ClientTimeoutError, ConfigError
from odradek.client.types import RecordMetadata, TopicPartition
from odradek.records.batch import BatchHeader, check_crc, iter_records
from odradek.records.compression import Codec
from waiting import joined

A, B, C = (TopicPartition("t", n) for n in range(3))


def make(**more: Any) -> RecordAccumulator:
    settings: dict[str, Any] = {
        "batch_size": 500,
        "linger_ms": 10.0,
        "buffer_memory": 10_000,
        "delivery_timeout_ms": 1_000.0,
        "backoff": Backoff(100, 1_000),
    }
    return RecordAccumulator(**{**settings, **more})


def put(accumulator: RecordAccumulator, tp: TopicPartition, now: float, size: int = 50) -> DeliveryFuture:
    return accumulator.append(tp, 0, None, b"x" * size, (), None, size + 21, now)[0]


def one_node(tp: TopicPartition) -> int | None:
    return 1


def test_a_batch_waits_for_linger() -> None:
    accumulator = make()
    put(accumulator, A, 0.0)
    found = accumulator.ready(4.0, one_node)
    assert (found.nodes, found.next_check_ms) == (set(), 10.0)
    assert accumulator.ready(10.0, one_node).nodes == {1}


def test_a_full_batch_does_not_wait() -> None:
    accumulator = make()
    _, look, closed = accumulator.append(A, 0, None, b"x" * 100, (), None, 121, 0.0)
    assert (look, closed) == (True, False)
    _, look, _ = accumulator.append(A, 0, None, b"x" * 100, (), None, 121, 0.0)
    assert not look, "a record in the middle of a batch wakes nobody"
    for _ in range(4):
        put(accumulator, A, 0.0, 100)
    assert accumulator.ready(0.0, one_node).nodes == {1}


@pytest.mark.parametrize("why", ["flushing", "closed", "waiting_for_memory"])
def test_some_things_hurry(why: str) -> None:
    accumulator = make()
    put(accumulator, A, 0.0)
    setattr(accumulator, why, 1)
    assert accumulator.ready(0.0, one_node).nodes == {1}


def test_partitions_without_a_leader_are_named() -> None:
    accumulator = make(linger_ms=0.0)
    put(accumulator, A, 0.0)
    found = accumulator.ready(0.0, lambda tp: None)
    assert (found.nodes, {tp.topic for tp in found.leaderless}) == (set(), {"t"})


def test_draining_takes_a_batch_per_partition_up_to_the_request_size_and_goes_round() -> None:
    accumulator = make(linger_ms=0.0, batch_size=120)
    for _ in range(2):
        for tp in (A, B, C):
            put(accumulator, tp, 0.0, 100)
    first = accumulator.drain(1, [A, B, C], 400, 0.0)
    second = accumulator.drain(1, [A, B, C], 400, 0.0)
    assert [b.tp for b in first] == [A, B]
    assert [b.tp for b in second] == [B, C], "the next drain begins elsewhere"
    (big,) = accumulator.drain(1, [A, B, C], 1, 0.0)
    assert big.count == 1, "a batch larger than a request still goes, alone"


def test_one_in_flight_mutes_the_partition_until_it_is_answered() -> None:
    accumulator = make(linger_ms=0.0, one_in_flight=True, batch_size=60)
    put(accumulator, A, 0.0)
    put(accumulator, A, 0.0)
    assert len(accumulator.drain(1, [A], 10**6, 0.0)) == 1
    assert accumulator.ready(0.0, one_node).nodes == set()
    assert accumulator.drain(1, [A], 10**6, 0.0) == []
    accumulator.unmute(A)
    assert len(accumulator.drain(1, [A], 10**6, 0.0)) == 1


def test_a_failed_batch_waits_for_its_backoff_unless_the_leader_is_new() -> None:
    epochs = {A: 3}
    accumulator = make(linger_ms=0.0, leader_epoch=epochs.__getitem__)
    put(accumulator, A, 0.0)
    (batch,) = accumulator.drain(1, [A], 10**6, 0.0)
    accumulator.requeue(batch, 5.0)
    found = accumulator.ready(50.0, one_node)
    assert (found.nodes, found.next_check_ms) == (set(), 105.0)
    assert accumulator.drain(1, [A], 10**6, 50.0) == []
    epochs[A] = 4
    assert accumulator.ready(50.0, one_node).nodes == {1}
    # Once for each leader: where the new one fails as well, the pause is due again.
    assert accumulator.drain(1, [A], 10**6, 50.0) == [batch]
    accumulator.requeue(batch, 60.0)
    found = accumulator.ready(60.0, one_node)
    assert (found.nodes, found.next_check_ms) == (set(), 260.0)


def test_a_batch_that_failed_while_the_leader_changed_does_not_wait() -> None:
    epochs = {A: 3}
    accumulator = make(linger_ms=0.0, leader_epoch=epochs.__getitem__)
    put(accumulator, A, 0.0)
    (batch,) = accumulator.drain(1, [A], 10**6, 0.0)
    epochs[A] = 4
    accumulator.requeue(batch, 5.0)
    assert accumulator.drain(1, [A], 10**6, 5.0) == [batch]


def test_memory_is_counted_and_given_back() -> None:
    accumulator = make(buffer_memory=1_000)
    while accumulator.has_room(171):
        put(accumulator, A, 0.0, 150)
    used = accumulator.memory_used
    assert used + 171 > 1_000
    for batch in accumulator.drain(1, [A], 10**6, 1_000.0):
        accumulator.release(batch)
        accumulator.release(batch)  # a second time changes nothing
    for batch in accumulator.incomplete():
        accumulator.release(batch)
    assert accumulator.memory_used == 0


def test_batches_expire_in_the_queue_and_in_flight() -> None:
    accumulator = make(linger_ms=0.0)
    put(accumulator, A, 0.0)
    (flying,) = accumulator.drain(1, [A], 10**6, 0.0)
    put(accumulator, A, 500.0)
    assert accumulator.next_expiry_ms() == 1_000.0
    assert accumulator.expired(1_000.0) == [flying]
    accumulator.release(flying)
    (queued,) = accumulator.expired(1_500.0)
    assert not queued.in_flight
    assert accumulator.queue_length(A) == 0


def test_built_batches_stand_between_what_was_sent_before_and_after() -> None:
    accumulator = make(linger_ms=0.0)
    put(accumulator, A, 0.0)
    data = ProducerBatch(A, Codec.LZ4, None, 0.0)
    data.append(7, b"k", b"built", (), None)
    accumulator.append_built(A, data.encode(), 1, 0.0)
    put(accumulator, A, 0.0)
    sizes = [accumulator.drain(1, [A], 10**6, 0.0)[0].count for _ in range(3)]
    assert sizes == [1, 1, 1]


def test_a_stamped_batch_is_valid() -> None:
    batch = ProducerBatch(A, Codec.GZIP, None, 0.0)
    batch.append(7, b"k", b"v", [("h", b"1")], None)
    data = stamp(batch.encode(), 12, 3, 99)
    header = BatchHeader.parse(data)
    check_crc(header, data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (12, 3, 99)
    assert [r.value for r in iter_records(data)] == [b"v"]


def test_a_batch_built_elsewhere_is_stamped_and_what_was_handed_out_stays_as_it_is() -> None:
    source = ProducerBatch(A, Codec.NONE, None, 0.0)
    source.append(5, b"k", b"v", (), None)
    batch = ProducerBatch(A, Codec.NONE, None, 0.0)
    batch.adopt(bytearray(source.encode()), 1)
    batch.set_producer_state(7, 0, 3)
    first = batch.encode()
    sent = bytes(first)
    batch.drained(0.0)
    batch.returned(0.0)
    batch.set_producer_state(7, 1, 0)
    again = bytes(batch.encode())
    assert bytes(first) == sent
    for data, epoch, sequence in ((sent, 0, 3), (again, 1, 0)):
        header = BatchHeader.parse(data)
        check_crc(header, data)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, epoch, sequence)
        assert [r.value for r in iter_records(data)] == [b"v"]


def test_splitting_keeps_order_sizes_and_callbacks() -> None:
    told: list[int] = []
    problems: list[Exception] = []
    batch = ProducerBatch(A, Codec.NONE, None, 0.0)
    futures = [
        batch.append(0, None, str(i).encode() * 30, (), lambda m, e, i=i: told.append(i)) for i in range(10)
    ]
    parts = batch.split(200)
    assert [part.count for part in parts] == [3, 3, 3, 1]
    assert all(len(part.encode()) <= 200 for part in parts)
    smaller = parts[0].split(80)
    for offset, part in enumerate([*smaller, *parts[1:]]):
        part.outcome.succeed(offset * 100, -1)
        report(part.callbacks, RecordMetadata, problems.append)
    assert told == list(range(10))
    assert not problems
    offsets = [future.result(0).offset for future in futures]
    assert offsets == sorted(offsets)
    assert len(set(offsets)) == 10


# Futures


def test_a_future_waits_in_a_thread_and_in_a_coroutine_and_calls_back() -> None:
    outcome = BatchOutcome("t", 3)
    future = DeliveryFuture(outcome, 2, 17, -1, 5)
    with pytest.raises(ClientTimeoutError):
        future.result(0.01)
    called: list[Any] = []
    future.add_done_callback(lambda f: called.append(f.result(0).offset))
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(future.result(60)))
    thread.start()

    async def wait() -> Any:
        task = asyncio.ensure_future(asyncio.wait_for(_as_coroutine(future), 60))
        await asyncio.sleep(0)
        outcome.succeed(100, -1)
        return await task

    metadata = asyncio.run(wait())
    joined(thread)
    assert got == [metadata]
    assert called == [102]
    assert metadata == ("t", 3, 102, 17, -1, 5)
    future.add_done_callback(lambda f: called.append("at once"))
    assert called[-1] == "at once"


async def _as_coroutine(future: DeliveryFuture) -> Any:
    return await future


def test_errors_of_single_records() -> None:
    outcome = BatchOutcome("t", 0)
    futures = [DeliveryFuture(outcome, i, 0, -1, 0) for i in range(3)]
    outcome.fail(ValueError("batch"), {1: KeyError("one")})
    assert [type(f.exception(0)) for f in futures] == [ValueError, KeyError, ValueError]
    with pytest.raises(KeyError):
        futures[1].result(0)


# Partitioners


def test_the_sticky_partition_changes_after_a_batch() -> None:
    sticky = StickyPartitions(100, adaptive=False, rng=random.Random(7))
    seen = []
    for _ in range(400):
        partition = sticky.current("t", [0, 1, 2], lambda t, n: 0)
        seen.append(partition)
        sticky.appended("t", partition, 25, batch_closed=len(seen) % 4 == 0)
    runs = [len(list(g)) for _, g in __import__("itertools").groupby(seen)]
    assert min(runs) >= 4
    assert len(Counter(seen)) == 3
    assert sticky.current("t", [5], lambda t, n: 0) == 5, "a partition that went away is left"


def test_adaptive_draws_prefer_short_queues() -> None:
    sticky = StickyPartitions(1, adaptive=True, rng=random.Random(3))
    counts: Counter[int] = Counter()
    for _ in range(2_000):
        partition = sticky.current("t", [0, 1], lambda t, n: {0: 9, 1: 0}[n])
        counts[partition] += 1
        sticky.appended("t", partition, 10, batch_closed=True)
    assert counts[1] > 5 * counts[0]


def test_round_robin_and_names() -> None:
    partitioner = RoundRobinPartitioner()
    assert [partitioner("t", b"k", None, [0, 1, 2], [0, 2]) for _ in range(4)] == [0, 2, 0, 2]
    assert [partitioner("u", None, None, [0, 1], []) for _ in range(3)] == [0, 1, 0]
    assert resolve_partitioner(None) is None
    assert isinstance(resolve_partitioner("roundrobin"), RoundRobinPartitioner)
    assert resolve_partitioner(partitioner) is partitioner
    with pytest.raises(ConfigError, match="best"):
        resolve_partitioner("best")
