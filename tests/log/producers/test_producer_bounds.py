"""How many producer ids are remembered, and which of them make room."""

from __future__ import annotations

import sys
import tracemalloc

from odradek.log.producers.producer_bounds import ProducerBounds
from odradek.log.producers.producer_snapshots import decode_snapshot, encode_snapshot
from odradek.log.producers.producer_state import BATCHES_KEPT, ProducerState
from odradek.records.batch import BatchHeader, iter_batches
from odradek.records.builder import BatchBuilder
from odradek.records.control import ControlType, EndTransactionMarker


def header(
    producer_id: int, offset: int, *, transactional: bool = False, timestamp: int = 1_000
) -> BatchHeader:
    """The header of a batch of one record."""
    builder = BatchBuilder(
        producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=transactional
    )
    builder.append(timestamp, None, b"v", ())
    ((made, _),) = iter_batches(bytes(builder.build()))
    return made._replace(base_offset=offset)


def bounded(per_partition: int, in_all: int, states: int = 1) -> tuple[ProducerBounds, list[ProducerState]]:
    made = [ProducerState() for _ in range(states)]
    bounds = ProducerBounds(lambda: made, per_partition, in_all)
    for state in made:
        state.bounds = bounds
    return bounds, made


def test_the_oldest_idle_producers_of_a_partition_make_room() -> None:
    bounds, (state,) = bounded(20, 1_000)
    for n in range(20):
        # What clients say of the time does not count.
        state.append(header(n, n, timestamp=10**12 - n), None)
    state.append(header(0, 20), None)  # it goes on: not idle
    state.append(header(100, 21), None)
    assert 100 in state.entries
    assert 0 in state.entries
    assert not {1, 2, 3} & state.entries.keys()
    assert set(range(4, 20)) <= state.entries.keys()
    assert bounds.evicted == 3
    for n in range(1_000):
        state.append(header(1_000 + n, 100 + n), None)
        assert len(state.entries) <= 20


def test_none_with_an_open_transaction_is_forgotten() -> None:
    bounds, (state,) = bounded(10, 1_000)
    for n in range(15):
        state.append(header(n, n, transactional=True), None)
    assert len(state.entries) == 15
    for n in range(100, 200):
        state.append(header(n, n), None)
    assert set(range(15)) <= state.entries.keys()
    assert 199 in state.entries
    marker = EndTransactionMarker(ControlType.COMMIT, 0)
    end = header(3, 300, transactional=True)
    control = end._replace(attributes=end.attributes | 0x20)
    completed = state.append(control, marker)
    assert completed is not None
    state.complete(completed)
    # The others alone are more than the bound: whoever is idle goes.
    state.append(header(501, 502), None)
    state.append(header(502, 503), None)
    assert state.entries.keys() == set(range(15)) - {3} | {502}
    assert bounds.evicted


def test_none_of_which_a_coordinator_is_asked_is_forgotten() -> None:
    _, (state,) = bounded(5, 1_000)
    state.append(header(7, 0), None)
    state.verifications.begin(7, 0, 0, 1_000)
    for n in range(100, 200):
        state.append(header(n, n), None)
    assert 7 in state.entries
    state.verifications.give_up(7, 0)
    state.append(header(300, 300), None)
    assert 7 not in state.entries


def test_all_partitions_together_are_bounded_and_the_fullest_gives_way() -> None:
    bounds, states = bounded(10_000, 2_000, states=10)
    small, large = states[0], states[1]
    for n in range(5):
        small.append(header(n, n), None)
    for n in range(5_000):
        large.append(header(10_000 + n, n), None)
    assert bounds.count <= 2_000 + 2_000 // 1_000 + 1
    assert set(range(5)) <= small.entries.keys()
    for n in range(5_000):
        states[2 + n % 8].append(header(50_000 + n, n), None)
    assert bounds.count <= 2_000 + 2_000 // 1_000 + 1
    # Partitions that are gone count no more.
    del states[2:]
    assert bounds.count == len(small.entries) + len(large.entries)


def test_a_snapshot_is_what_it_was() -> None:
    _, (state,) = bounded(100, 1_000)
    for n in range(50):
        state.append(header(n, n), None)
    read = {entry.producer_id: entry for entry in decode_snapshot(encode_snapshot(state))}
    assert read.keys() == state.entries.keys()
    again = ProducerState()
    for entry in read.values():
        again.load(entry)
    assert again.evict(10, but=-1) == 10
    assert sorted(again.entries) == list(range(10, 50))


def test_a_producer_that_wrote_once_takes_few_bytes() -> None:
    """It took 1,090; most of these were an empty place for batches to come."""
    state = ProducerState()
    headers = [header(n, n, timestamp=1_700_000_000_000 + n) for n in range(10_000, 12_000)]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for one in headers:
        state.append(one, None)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / len(headers) < 500
    assert sys.getsizeof(state.entries[10_000].batches) < 60


def test_no_more_than_five_batches_are_kept() -> None:
    state = ProducerState()
    for n in range(9):
        state.append(header(1, n), None)
    batches = state.entries[1].batches
    assert len(batches) == BATCHES_KEPT
    assert [batch.last_offset for batch in batches] == [4, 5, 6, 7, 8]
