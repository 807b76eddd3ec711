"""A log against a list: any order of appends, rolls, reads, truncations, deletions, stops and kills."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.errors import OffsetOutOfRangeError
from odradek.log import LogConfig, PartitionLog
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import Killed, MemoryFileSystem
from odradek.records.batch import iter_batches, iter_records
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch, records_of
from ..following import append_follower

DIRECTORY = Path("/data/t-0")


class LogMachine(RuleBasedStateMachine):
    """`model` is the list of batches that a log must hold: (base offset, [(timestamp, value)], epoch)."""

    @initialize(
        segment_bytes=st.integers(600, 3000),
        interval=st.integers(0, 600),
        index_bytes=st.integers(24, 200),
        seed=st.integers(0, 2**32),
    )
    def begin(self, segment_bytes, interval, index_bytes, seed):
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_index_bytes=index_bytes,
            retention_ms=-1,
            file_delete_delay_ms=0,
        )
        self.files = MemoryFileSystem(random.Random(seed))
        self.clock = ManualClock(NOW_MS)
        self.model: list[tuple[int, list[tuple[int, bytes]], int]] = []
        self.start = self.end = 0
        self.epoch = 0
        self.counter = 0
        self.log = self.open(clean=False)

    def open(self, *, clean: bool) -> PartitionLog:
        return open_partition_log(
            DIRECTORY,
            "t",
            0,
            self.config,
            self.files,
            self.clock,
            clean_shutdown=clean,
            log_start_offset=self.start,
        )

    def data(self, count, size, jump):
        self.counter += 1
        values = [b"%d/%d" % (self.counter, n) + b"." * size for n in range(count)]
        timestamp = NOW_MS + jump
        return values, timestamp, batch(values, timestamp=timestamp)

    @rule(count=st.integers(1, 4), size=st.integers(0, 90), jump=st.integers(-1000, 1000))
    def append(self, count, size, jump):
        values, timestamp, data = self.data(count, size, jump)
        info = self.log.append(data, leader_epoch=self.epoch, now_ms=NOW_MS)
        assert info.first_offset == self.end
        self.note(values, timestamp)
        self.log.update_high_watermark(self.log.log_end_offset)

    def note(self, values, timestamp):
        self.model.append((self.end, [(timestamp + n, value) for n, value in enumerate(values)], self.epoch))
        self.end += len(values)

    @rule(gap=st.integers(0, 5), size=st.integers(0, 50))
    def append_follower(self, gap, size):
        values, timestamp, _ = self.data(2, size, 0)
        self.end += gap
        data = batch(values, timestamp=timestamp, base_offset=self.end, leader_epoch=self.epoch)
        append_follower(self.log, data)
        self.note(values, timestamp)
        self.log.update_high_watermark(self.log.log_end_offset)

    @rule()
    def next_epoch(self):
        self.epoch += 1

    @rule()
    def roll(self):
        self.log.roll(NOW_MS)

    @rule()
    def flush(self):
        self.log.flush()
        assert self.log.recovery_point == self.end

    @rule(share=st.floats(0, 1))
    def delete_before(self, share):
        offset = self.start + int((self.end - self.start) * share)
        self.start = self.log.delete_records_before(offset)
        assert self.start == offset
        self.log.apply_retention(NOW_MS)

    @rule(share=st.floats(0, 1))
    def truncate(self, share):
        offset = self.start + int((self.end - self.start) * share)
        self.log.truncate_to(offset)
        self.model = [entry for entry in self.model if entry[0] + len(entry[1]) <= offset]
        self.end = min(self.end, offset)

    @rule(size=st.integers(60, 2000))
    def retain(self, size):
        self.log.config = LogConfig.from_topic({"retention.bytes": str(size)}, self.config)
        self.log.apply_retention(NOW_MS)
        self.log.config = self.config
        assert self.start <= self.log.log_start_offset <= self.end
        self.start = self.log.log_start_offset

    @rule()
    def stop_and_start(self):
        self.log.close()
        self.log = self.open(clean=True)
        self.check_end()

    @rule()
    def kill_and_start(self):
        self.log.release()
        self.log = self.open(clean=False)
        self.check_end()

    def check_end(self):
        # After a truncation inside a batch the log ends after a gap, of which nothing is on the disk.
        kept = max((entry[0] + len(entry[1]) for entry in self.model), default=self.start)
        assert kept <= self.log.log_end_offset <= self.end or self.log.log_end_offset == self.start
        self.end = self.log.log_end_offset
        self.log.update_high_watermark(self.end)

    @precondition(lambda self: self.end > self.start)
    @rule(
        within=st.integers(0, 12),
        size=st.integers(0, 60),
        how=st.sampled_from(["append", "roll", "truncate"]),
    )
    def kill_in_the_middle(self, within, size, how):
        values, timestamp, data = self.data(2, size, 0)
        offset = self.start + (self.end - self.start) // 2
        self.files.kill_at = self.files.operations + within
        done = False
        try:
            if how == "append":
                self.log.append(data, leader_epoch=self.epoch, now_ms=NOW_MS)
            elif how == "roll":
                self.log.roll(NOW_MS)
            else:
                self.log.truncate_to(offset)
            done = True
        except Killed:
            pass
        self.files.restart()
        self.log = self.open(clean=False)
        if how == "append":
            if self.log.log_end_offset == self.end + len(values):
                self.note(values, timestamp)
            assert not done or self.model[-1][1][0][1] == values[0]
        elif how == "truncate":
            self.model = [
                entry for entry in self.model if entry[0] + len(entry[1]) <= self.log.log_end_offset
            ]
            self.end = min(self.end, max(self.log.log_end_offset, offset))
        self.check_end()

    @rule(share=st.floats(0, 1), max_bytes=st.integers(0, 1500), bound=st.floats(0, 1), one=st.booleans())
    def read(self, share, max_bytes, bound, one):
        offset = self.start + int((self.end - self.start) * share)
        upper = self.start + round((self.end - self.start) * bound)
        data = self.log.read(offset, max_bytes, upper_bound=upper, min_one_batch=one).records
        headers = [header for header, _ in iter_batches(data)]
        assert sum(header.size for header in headers) == len(data)
        readable = [e for e in self.model if e[0] + len(e[1]) > offset and e[0] + len(e[1]) <= upper]
        assert [header.base_offset for header in headers] == [e[0] for e in readable][: len(headers)]
        assert [record.value for record in iter_records(data)] == [
            value for entry in readable[: len(headers)] for _, value in entry[1]
        ]
        assert len(data) <= max_bytes or (one and len(headers) == 1)
        if one and readable:
            assert headers

    @rule(ask=st.integers(-1500, 1500))
    def find_by_time(self, ask):
        wanted = NOW_MS + ask
        records = self.records()
        expected = next(((o, t) for o, t, _ in records if t >= wanted), None)
        found = self.log.offset_for_timestamp(wanted)
        assert (found[:2] if found else None) == expected
        newest = self.log.max_timestamp()
        largest = max((t for _, t, _ in records), default=None)
        assert (newest.timestamp if newest else None) == largest
        if newest:
            assert newest.offset == next(o for o, t, _ in records if t == largest)

    @rule(epoch=st.integers(0, 8))
    def find_epoch(self, epoch):
        found = self.log.end_offset_for_epoch(epoch)
        known = sorted({entry[2] for entry in self.model if entry[0] + len(entry[1]) > self.start})
        if found is not None and found.epoch in known and epoch in known and epoch != known[-1]:
            assert found.epoch == epoch
            first_later = min(entry[0] for entry in self.model if entry[2] > epoch)
            assert found.start_offset == max(first_later, self.start)

    @rule()
    def read_outside(self):
        for offset in (self.start - 1, self.end + 1):
            try:
                self.log.read(offset, 100, upper_bound=self.end, min_one_batch=True)
            except OffsetOutOfRangeError:
                continue
            raise AssertionError(f"offset {offset} could be read")

    def records(self):
        return [
            (base + n, timestamp, value)
            for base, entries, _ in self.model
            for n, (timestamp, value) in enumerate(entries)
            if base + n >= self.start
        ]

    @invariant()
    def everything_is_there(self):
        if not hasattr(self, "log"):
            return
        assert self.log.log_start_offset == self.start
        assert self.log.log_end_offset == self.end
        found = [(record.offset, record.timestamp, record.value) for record in records_of(self.log)]
        assert found == self.records()

    def teardown(self):
        if hasattr(self, "log"):
            self.log.close()
            assert self.log.recovery_point == self.log.log_end_offset


TestLogAgainstAList = LogMachine.TestCase
TestLogAgainstAList.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    print_blob=True,
    phases=[__import__("hypothesis").Phase.reuse, __import__("hypothesis").Phase.generate],
)
