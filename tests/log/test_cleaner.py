"""Compaction: against a model, by its rules one by one, and killed between any two file operations."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.errors import KafkaError
from odradek.log import LogConfig, PartitionLog
from odradek.log.cleaner import CleanJob, CleanResult, clean_range, make_job, run, swap_in
from odradek.log.memory_files import Killed, MemoryFileSystem
from odradek.records.batch import BatchHeader, Record, iter_batches
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec
from odradek.util.clock import ManualClock

from .batches import NOW_MS, marker, records_of

DIRECTORY = Path("/data/t-0")
CONFIG = LogConfig(
    segment_bytes=700,
    segment_index_bytes=240,
    index_interval_bytes=150,
    file_delete_delay_ms=0,
    cleanup_policy=("compact",),
    delete_retention_ms=1_000,
)
DAY_MS = 24 * 3_600_000


def open_log(
    files: MemoryFileSystem, clock: ManualClock, config: LogConfig = CONFIG, *, clean: bool = False
) -> PartitionLog:
    log = PartitionLog.open(DIRECTORY, "t", 0, config, files, clock, clean_shutdown=clean)
    log.update_high_watermark(log.log_end_offset)
    return log


def keyed(
    items: list[tuple[bytes | None, bytes | None]],
    *,
    codec: Codec = Codec.NONE,
    timestamp: int = NOW_MS,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    builder = BatchBuilder(
        codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    for number, (key, value) in enumerate(items):
        builder.append(timestamp + number, key, value, [("h", b"v")])
    return builder.build()


def put(log: PartitionLog, data: bytes, **how: object) -> None:
    log.append(data, leader_epoch=0, now_ms=NOW_MS, **how)  # type: ignore[arg-type]
    log.update_high_watermark(log.log_end_offset)


def end_transaction(log: PartitionLog, producer_id: int, *, commit: bool) -> None:
    from odradek.log.producer_state import Origin

    put(log, marker(producer_id, 0, commit=commit), origin=Origin.COORDINATOR)


def clean(
    log: PartitionLog, files: MemoryFileSystem, *, now_ms: int = NOW_MS, dirty_from: int | None = None, **job
) -> CleanResult:
    """One whole pass, the job going through JSON as it does on its way to another process."""
    extent = clean_range(log, dirty_from, now_ms)
    planned = replace(make_job(log, extent, now_ms), **job)
    planned = CleanJob.from_json(planned.to_json())
    result = CleanResult.from_json(run(files, planned).to_json())
    assert swap_in(log, planned, result, now_ms)
    return result


def headers_of(log: PartitionLog) -> list[BatchHeader]:
    found = []
    for segment in log.segments:
        found += [header for header, _ in iter_batches(segment.pread(segment.size, 0))]
    return found


def plain(records: list[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]


@pytest.fixture
def files() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


def test_of_each_key_the_newest_stays(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock)
    for number in range(60):
        put(log, keyed([(b"k%d" % (number % 7), b"v%d" % number)]))
    before = records_of(log)
    active = log.segments.active.base_offset
    result = clean(log, files)
    assert result.end_offset == active
    newest = {record.key: record.offset for record in before if record.offset < active}
    expected = [r for r in before if r.offset >= active or newest[r.key] == r.offset]
    assert records_of(log) == expected
    assert len(log.segments) < 10
    assert (log.log_start_offset, log.log_end_offset) == (0, 60)
    assert records_of(open_log(files, clock)) == expected


def test_a_second_pass_begins_where_the_first_ended(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock)
    for number in range(40):
        put(log, keyed([(b"k%d" % (number % 7), b"v%d" % number)]))
    first = clean(log, files)
    for number in range(40, 80):
        put(log, keyed([(b"k%d" % (number % 5), b"v%d" % number)]))
    extent = clean_range(log, first.end_offset, NOW_MS)
    assert extent.first_dirty == first.end_offset
    assert 0 < extent.dirty_ratio < 1
    second = clean(log, files, dirty_from=first.end_offset)
    assert second.end_offset == log.segments.active.base_offset
    cleaned = [r for r in records_of(log) if r.offset < second.end_offset]
    assert len(cleaned) == len({record.key for record in cleaned}) == 7


def test_a_map_that_is_too_small_ends_the_pass_early_and_loses_nothing(
    files: MemoryFileSystem, clock: ManualClock
) -> None:
    log = open_log(files, clock)
    for number in range(120):
        put(log, keyed([(b"k%d" % (number % 30), b"v%d" % number)]))
    before = {record.key: record for record in records_of(log)}
    dirty, passes = 0, 0
    while dirty < log.segments.active.base_offset:
        result = clean(log, files, dirty_from=dirty, dedupe_bytes=400)
        assert result.map_utilization <= 1
        assert result.end_offset > dirty
        dirty, passes = result.end_offset, passes + 1
    assert passes > 3
    assert {record.key: record for record in records_of(log)} == before


def test_a_batch_with_more_keys_than_the_map_takes_stays(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock, replace(CONFIG, segment_bytes=5_000))
    put(log, keyed([(b"a", b"1")]))
    put(log, keyed([(b"a", b"2"), *((b"k%d" % number, b"") for number in range(40))]))
    log.roll(NOW_MS)
    before = records_of(log)
    assert clean(log, files, dedupe_bytes=400).end_offset == 1
    assert clean(log, files, dedupe_bytes=400, dirty_from=1).end_offset == 1
    # Of the first batch's record a newer one may have been seen before the map was full.
    assert records_of(log)[-41:] == before[1:]


def test_tombstones_stay_until_their_horizon(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock)
    put(log, keyed([(b"a", b"1"), (b"b", b"1")]))
    put(log, keyed([(b"a", None), (b"c", b"1")]))
    log.roll(NOW_MS)
    put(log, keyed([(b"z", b"z")]))
    clean(log, files)
    assert plain(records_of(log)) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1"), (4, b"z", b"z")]
    assert [header.delete_horizon_ms for header in headers_of(log)] == [None, NOW_MS + 1_000, None]
    assert [record.timestamp for record in records_of(log)][:3] == [NOW_MS + 1, NOW_MS, NOW_MS + 1]
    clean(log, files, now_ms=NOW_MS + 999)
    assert len(records_of(log)) == 4
    clean(log, files, now_ms=NOW_MS + 1_000)
    assert plain(records_of(log)) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"z", b"z")]


def test_records_without_a_key_go(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock, replace(CONFIG, cleanup_policy=("delete",)))
    put(log, keyed([(None, b"1"), (b"b", b"1")]))
    log.config = CONFIG
    log.roll(NOW_MS)
    assert clean(log, files).keyless == 1
    assert plain(records_of(log)) == [(1, b"b", b"1")]


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_keep_their_codec_offsets_and_headers(
    codec: Codec, files: MemoryFileSystem, clock: ManualClock
) -> None:
    log = open_log(files, clock)
    put(log, keyed([(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", b"4")], codec=codec))
    put(log, keyed([(b"b", b"5" * 50)] * 3, codec=codec))
    log.roll(NOW_MS)
    clean(log, files)
    assert plain(records_of(log)) == [(2, b"a", b"3"), (6, b"b", b"5" * 50)]
    assert all(record.headers == (("h", b"v"),) for record in records_of(log))
    assert [(h.codec, h.base_offset, h.last_offset) for h in headers_of(log)] == [
        (codec, 0, 3),
        (codec, 4, 6),
    ]


def test_the_newest_batch_of_a_producer_stays_for_its_sequence(
    files: MemoryFileSystem, clock: ManualClock
) -> None:
    log = open_log(files, clock)
    put(log, keyed([(b"a", b"1"), (b"b", b"1")], producer_id=5, epoch=3, sequence=0))
    put(log, keyed([(b"a", b"2"), (b"b", b"2")], producer_id=5, epoch=3, sequence=2))
    put(log, keyed([(b"a", b"3"), (b"b", b"3")]))
    log.roll(NOW_MS)
    clean(log, files)
    assert [(h.producer_id, h.base_sequence, h.record_count) for h in headers_of(log)] == [
        (5, 2, 0),
        (-1, -1, 2),
    ]
    # Its sequence is still known when nothing else is: no snapshot, only the records.
    for path in [path for path in files.files if path.suffix == ".snapshot"]:
        files.remove(path)
    again = open_log(files, clock)
    with pytest.raises(KafkaError, match="expected was 4"):
        put(again, keyed([(b"a", b"4")], producer_id=5, epoch=3, sequence=3))
    put(again, keyed([(b"a", b"4")], producer_id=5, epoch=3, sequence=4))


def test_the_end_of_the_pass_stays_though_empty(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock)
    put(log, keyed([(b"a", b"1")]))
    put(log, keyed([(b"a", None)]))
    log.roll(NOW_MS)
    clean(log, files)
    clean(log, files, now_ms=NOW_MS + DAY_MS)
    assert records_of(log) == []
    assert [(h.last_offset, h.record_count) for h in headers_of(log)] == [(1, 0)]
    assert open_log(files, clock).log_end_offset == 2


def test_aborted_records_go_and_their_marker_after_its_horizon(
    files: MemoryFileSystem, clock: ManualClock
) -> None:
    log = open_log(files, clock)
    put(log, keyed([(b"a", b"kept")]))
    put(log, keyed([(b"a", b"aborted")], producer_id=5, epoch=0, sequence=0, transactional=True))
    end_transaction(log, 5, commit=False)
    put(log, keyed([(b"b", b"committed")], producer_id=6, epoch=0, sequence=0, transactional=True))
    end_transaction(log, 6, commit=True)
    put(log, keyed([(b"c", b"1")], producer_id=5, epoch=0, sequence=1))
    put(log, keyed([(b"d", b"1")], producer_id=6, epoch=0, sequence=1))
    log.roll(NOW_MS)
    clean(log, files)
    visible = [(0, b"a", b"kept"), (3, b"b", b"committed"), (5, b"c", b"1"), (6, b"d", b"1")]
    assert plain(records_of(log)) == visible
    controls = [(h.base_offset, h.record_count) for h in headers_of(log) if h.is_control]
    assert controls == [(2, 1), (4, 1)]
    # The marker met the aborted batch in this pass; in the next one it is alone and gets its horizon.
    clean(log, files)
    horizons = {h.base_offset: h.delete_horizon_ms for h in headers_of(log) if h.is_control}
    assert horizons == {2: NOW_MS + 1_000, 4: None}
    clean(log, files, now_ms=NOW_MS + 2_000)
    assert [h.base_offset for h in headers_of(log) if h.is_control] == [4]
    assert plain(records_of(log)) == visible
    open_log(files, clock)


def test_the_transaction_index_names_what_is_still_there(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock)
    put(log, keyed([(b"a", b"aborted")], producer_id=5, epoch=0, sequence=0, transactional=True))
    end_transaction(log, 5, commit=False)
    log.roll(NOW_MS)
    clean(log, files)
    # The aborted batch is its producer's newest: empty now, but there, so the index still speaks of it.
    assert [(h.base_offset, h.record_count) for h in headers_of(log)] == [(0, 0), (1, 1)]
    assert [(txn.first_offset, txn.last_offset) for txn in log.segments[0].txn_index.entries] == [(0, 1)]
    assert [(txn.first_offset) for txn in open_log(files, clock).segments[0].txn_index.entries] == [0]


def test_open_transactions_and_the_lag_bound_a_pass(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock)
    for number in range(30):
        put(log, keyed([(b"a", b"%d" % number)], timestamp=NOW_MS + number))
    put(log, keyed([(b"a", b"open")], producer_id=5, epoch=0, sequence=0, transactional=True))
    unstable = log.last_stable_offset
    assert unstable == 30
    for number in range(30):
        put(log, keyed([(b"a", b"%d" % number)], timestamp=NOW_MS + 100 + number))
    bound = clean_range(log, None, NOW_MS).first_uncleanable
    holder = max(s.base_offset for s in log.segments if s.base_offset <= unstable)
    assert bound == holder < log.segments.active.base_offset
    log.config = replace(CONFIG, min_compaction_lag_ms=1_000)
    lagging = clean_range(log, None, NOW_MS + 1_010).first_uncleanable
    assert 0 < lagging < bound
    assert not clean_range(log, None, NOW_MS).dirty_bytes


def test_records_that_waited_too_long_are_cleaned_whatever_the_ratio(
    files: MemoryFileSystem, clock: ManualClock
) -> None:
    config = replace(CONFIG, max_compaction_lag_ms=5_000, min_cleanable_dirty_ratio=0.99)
    log = open_log(files, clock, config)
    for number in range(40):
        put(log, keyed([(b"a%d" % number, b"x")]))
    first = clean(log, files)
    for number in range(10):
        put(log, keyed([(b"b%d" % number, b"x")]))
    assert not clean_range(log, first.end_offset, NOW_MS + 5_000).is_worth_it(0.99)
    assert clean_range(log, first.end_offset, NOW_MS + 5_001).is_worth_it(0.99)


def test_a_checkpoint_out_of_the_log_is_not_believed(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock)
    put(log, keyed([(b"a", b"x")]))
    assert clean_range(log, 99, NOW_MS).first_dirty == 0
    log.delete_records_before(1)
    assert clean_range(log, 0, NOW_MS).first_dirty == 1


def test_a_log_that_has_changed_meanwhile_is_left_alone(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock)
    for number in range(40):
        put(log, keyed([(b"a", b"%d" % number)]))
    job = make_job(log, clean_range(log, None, NOW_MS), NOW_MS)
    result = run(files, job)
    log.truncate_to(3)
    assert not swap_in(log, job, result, NOW_MS)
    assert [path for path in files.files if path.name.endswith((".cleaned", ".swap"))] == []
    assert len(records_of(log)) == 3


def test_damage_is_not_copied_on(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock)
    for number in range(40):
        put(log, keyed([(b"a", b"%d" % number)]))
    job = make_job(log, clean_range(log, None, NOW_MS), NOW_MS)
    files.files[log.segments[1].path].data[70] ^= 1
    with pytest.raises(KafkaError, match="corrupt"):
        run(files, job)
    assert [path for path in files.files if path.name.endswith(".cleaned")] == []


def test_a_batch_larger_than_the_buffer_is_read_whole(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock, replace(CONFIG, segment_bytes=20_000))
    put(log, keyed([(b"a", b"1" * 5_000), (b"b", b"2" * 5_000)]))
    put(log, keyed([(b"a", b"3")]))
    log.roll(NOW_MS)
    clean(log, files, io_bytes=100)
    assert [record.offset for record in records_of(log)] == [1, 2]


class Model:
    """Writes of every kind, and what a compacted log must still hold of them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.visible: list[tuple[int, bytes, bytes | None]] = []
        self.sequences = {1: 0, 2: 0, 3: 0}

    def write(self, log: PartitionLog) -> None:
        """One batch, or a transaction of several with its marker."""
        kind = self.rng.choice(("plain", "idempotent", "transaction"))
        if kind == "transaction":
            producer, commit = self.rng.choice((2, 3)), self.rng.random() < 0.5
            for _ in range(self.rng.randint(1, 3)):
                self._append(log, producer, transactional=True, visible=commit)
            end_transaction(log, producer, commit=commit)
        else:
            self._append(log, 1 if kind == "idempotent" else None, transactional=False, visible=True)

    def _append(self, log: PartitionLog, producer: int | None, *, transactional: bool, visible: bool) -> None:
        items = [self._item() for _ in range(self.rng.randint(1, 5))]
        base = log.log_end_offset
        fields = {}
        if producer is not None:
            fields = {"producer_id": producer, "epoch": 0, "sequence": self.sequences[producer]}
            self.sequences[producer] += len(items)
        put(log, keyed(items, codec=self.rng.choice(list(Codec)), transactional=transactional, **fields))
        if visible:
            self.visible += [(base + n, key, value) for n, (key, value) in enumerate(items)]

    def _item(self) -> tuple[bytes, bytes | None]:
        value = None if self.rng.random() < 0.2 else self.rng.randbytes(self.rng.randint(0, 40))
        return b"key-%d" % self.rng.randint(0, 6), value

    def must_have(self) -> dict[bytes, tuple[int, bytes | None]]:
        """The newest record of each key: what a reader from the beginning ends up with."""
        return {key: (offset, value) for offset, key, value in self.visible}

    def check(self, log: PartitionLog, cleaned_to: int) -> None:
        """A reader of committed records comes to the same; nothing that is not ours is there."""
        aborted = committed_filter(log)
        found = [record for record in plain(records_of(log)) if record[0] not in aborted]
        assert set(found) <= set(self.visible)
        assert [record[0] for record in found] == sorted({record[0] for record in found})
        state: dict[bytes | None, tuple[int, bytes | None]] = {}
        for offset, key, value in found:
            state[key] = (offset, value)
        expected = self.must_have()
        for key, (offset, value) in expected.items():
            # A tombstone may be gone, and then everything before it is.
            assert state.get(key, (offset, None)) == (offset, value)
        below = [key for offset, key, _ in found if offset < cleaned_to]
        assert len(below) == len(set(below))


def committed_filter(log: PartitionLog) -> set[int]:
    """The offsets of aborted records, as a reader of committed records leaves them out."""
    aborted = sorted(
        (txn.first_offset, txn.last_offset, txn.producer_id)
        for segment in log.segments
        for txn in segment.txn_index.entries
    )
    offsets: set[int] = set()
    for header in headers_of(log):
        for first, last, producer in aborted:
            if (
                header.producer_id == producer
                and header.is_transactional
                and first <= header.base_offset <= last
            ):
                offsets |= set(range(header.base_offset, header.next_offset))
    return offsets


@given(seed=st.integers(0, 2**32), small_map=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_reader_comes_to_the_same_after_any_passes(seed: int, small_map: bool) -> None:
    rng = random.Random(seed)
    files, clock = MemoryFileSystem(random.Random(seed)), ManualClock(NOW_MS)
    log, model = open_log(files, clock), Model(rng)
    dirty, now_ms = 0, NOW_MS
    for _ in range(4):
        for _ in range(rng.randint(3, 25)):
            model.write(log)
        now_ms += 10_000
        job = {"dedupe_bytes": 1_500} if small_map else {}
        dirty = clean(log, files, now_ms=now_ms, dirty_from=dirty, **job).end_offset
        model.check(log, dirty)
        if rng.random() < 0.5:
            log = open_log(files, clock)
            model.check(log, dirty)
    for producer, sequence in model.sequences.items():
        if sequence:
            put(log, keyed([(b"x", b"y")], producer_id=producer, epoch=0, sequence=sequence))


def life(files: MemoryFileSystem, clock: ManualClock, model: Model) -> PartitionLog:
    """Writes and passes, one after the other."""
    log = open_log(files, clock)
    dirty = 0
    for number in range(3):
        for _ in range(9):
            model.write(log)
        log.flush()
        dirty = clean(log, files, now_ms=NOW_MS + 10_000 * number, dirty_from=dirty).end_offset
        log.remove_deleted_files(NOW_MS)
    return log


def passes_of_life() -> list[int]:
    """The numbers of the file operations, from the first that a pass does on."""
    files = MemoryFileSystem()
    life(files, ManualClock(NOW_MS), Model(random.Random(5)))
    return [
        number
        for number, (_, path) in enumerate(files.history)
        if path.name.endswith((".cleaned", ".swap", ".deleted"))
    ]


OPERATIONS = passes_of_life()


def test_passes_do_many_operations() -> None:
    assert len(OPERATIONS) > 100


@pytest.mark.parametrize("power_fails", [False, True])
@pytest.mark.parametrize("block", range(6))
def test_stopped_between_any_two_operations(block: int, power_fails: bool) -> None:
    for stop_at in OPERATIONS[block::6]:
        files, clock = MemoryFileSystem(random.Random(stop_at)), ManualClock(NOW_MS)
        model = Model(random.Random(5))
        files.kill_at = stop_at
        with contextlib.suppress(Killed):
            life(files, clock, model)
        if power_fails:
            files.lose_power()
        else:
            files.restart()
        log = open_log(files, clock)
        assert [path for path in files.files if path.name.endswith((".cleaned", ".swap"))] == []
        model.check(log, 0)
        model.write(log)
        clean(log, files, now_ms=NOW_MS + 50_000)
        model.check(log, 0)
        assert records_of(open_log(files, clock)) == records_of(log)


@pytest.mark.parametrize("block", range(4))
def test_a_disk_that_fails_at_any_operation(block: int) -> None:
    for fail_at in OPERATIONS[block::4]:
        files, clock = MemoryFileSystem(random.Random(fail_at)), ManualClock(NOW_MS)
        model = Model(random.Random(5))
        files.fail_at = fail_at
        with contextlib.suppress(OSError, KafkaError):
            life(files, clock, model)
        files.restart()
        model.check(open_log(files, clock), 0)


def test_a_compacted_log_rolls_in_time_to_be_compacted(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock, replace(CONFIG, max_compaction_lag_ms=5_000))
    put(log, keyed([(b"a", b"1")]))
    put(log, keyed([(b"a", b"2")], timestamp=NOW_MS + 5_000))
    assert len(log.segments) == 1
    put(log, keyed([(b"a", b"3")], timestamp=NOW_MS + 5_001))
    assert len(log.segments) == 2
