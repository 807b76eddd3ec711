"""Compaction, by its rules one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.errors import KafkaError
from odradek.log.cleaner import clean_range, make_job, run, swap_in
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.records.compression import Codec
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, records_of
from ..cleaning import (
    CONFIG,
    DAY_MS,
    clean,
    end_transaction,
    headers_of,
    keyed,
    open_log,
    plain,
    put,
)


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


def test_a_compacted_log_rolls_in_time_to_be_compacted(files: MemoryFileSystem, clock: ManualClock) -> None:
    log = open_log(files, clock, replace(CONFIG, max_compaction_lag_ms=5_000))
    put(log, keyed([(b"a", b"1")]))
    put(log, keyed([(b"a", b"2")], timestamp=NOW_MS + 5_000))
    assert len(log.segments) == 1
    put(log, keyed([(b"a", b"3")], timestamp=NOW_MS + 5_001))
    assert len(log.segments) == 2
