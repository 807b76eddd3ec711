"""Compaction against a model, and stopped or failing between any two file operations."""

from __future__ import annotations

import contextlib
import copy
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiled_walk import is_compiled
from odradek.errors import KafkaError
from odradek.log import PartitionLog
from odradek.log.storage.memory_files import Killed, MemoryFileSystem
from odradek.records.compression import Codec
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, records_of
from ..cleaning import (
    clean,
    end_transaction,
    headers_of,
    keyed,
    open_log,
    plain,
    put,
)
from ..following import remove_due_files

pytestmark = pytest.mark.model

if is_compiled():
    pytest.skip(
        "compiled objects cannot be copied; tests/test_interpreted.py runs the sources",
        allow_module_level=True,
    )


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


@dataclass
class Life:
    """Writes and passes, one after the other; it can be copied between two of them."""

    files: MemoryFileSystem = field(default_factory=MemoryFileSystem)
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW_MS))
    model: Model = field(default_factory=lambda: Model(random.Random(5)))
    done: int = 0
    dirty: int = 0

    def __post_init__(self) -> None:
        self.log = open_log(self.files, self.clock)

    def go_on(self) -> None:
        """Write, or clean what was written."""
        if self.done % 2:
            now_ms = NOW_MS + 10_000 * (self.done // 2)
            self.dirty = clean(self.log, self.files, now_ms=now_ms, dirty_from=self.dirty).end_offset
            remove_due_files(self.log, NOW_MS)
        else:
            for _ in range(9):
                self.model.write(self.log)
            self.log.flush()
        self.done += 1

    def end(self) -> None:
        """Live to the end."""
        while self.done < 6:
            self.go_on()


def stages_and_passes() -> tuple[list[Life], list[int]]:
    """The life before each of its steps; the numbers of the file operations that a pass does."""
    life, stages = Life(), []
    while life.done < 6:
        stages.append(copy.deepcopy(life))
        life.go_on()
    return stages, [
        number
        for number, (_, path) in enumerate(life.files.history)
        if path.name.endswith((".cleaned", ".swap", ".deleted"))
    ]


STAGES, OPERATIONS = stages_and_passes()


def before(operation: int) -> Life:
    """A life that comes to that operation in its next step, or soon after."""
    stage = max((one for one in STAGES if one.files.operations <= operation), key=lambda one: one.done)
    life = copy.deepcopy(stage)
    life.files.rng = random.Random(operation)
    return life


def test_passes_do_many_operations() -> None:
    assert len(OPERATIONS) > 100


@pytest.mark.parametrize("power_fails", [False, True])
@pytest.mark.parametrize("block", range(6))
def test_stopped_between_any_two_operations(block: int, power_fails: bool) -> None:
    for stop_at in OPERATIONS[block::6]:
        life = before(stop_at)
        files, clock, model = life.files, life.clock, life.model
        files.kill_at = stop_at
        with contextlib.suppress(Killed):
            life.end()
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
        life = before(fail_at)
        life.files.fail_at = fail_at
        with contextlib.suppress(OSError, KafkaError):
            life.end()
        life.files.restart()
        life.model.check(open_log(life.files, life.clock), 0)
