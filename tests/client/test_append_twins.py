"""The compiled appender and its Python twin are equal: what they take, what they leave, byte by byte."""

from __future__ import annotations

import gc
import importlib
import threading
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.core import _pyappend as twin
from odradek.client.core import delivery
from odradek.client.core.delivery import BatchOutcome
from odradek.client.errors import IllegalStateError
from odradek.client.types import RecordMetadata, TopicPartition
from waiting import joined

try:
    native: Any = importlib.import_module("odradek.client.core._client")
    native.give_methods(delivery.DeliveryMethods)
except ImportError:
    native = None

both = pytest.mark.skipif(native is None, reason="the compiled kernel is not installed")

texts = st.text(max_size=12) | st.sampled_from(["é", "日本", "\ud800", "x" * 200])
payloads = st.none() | st.binary(max_size=60) | texts | st.just(bytearray(b"buffer")) | st.just(5)
timestamps = st.none() | st.integers(-2, 2**64) | st.integers(0, 10_000) | st.just(1.5)
partitions = st.none() | st.integers(-1, 3) | st.just(2**70) | st.just("1")
sends = st.tuples(
    st.sampled_from(["t", "u", 7]),
    payloads,
    payloads,
    partitions,
    timestamps.filter(lambda t: t is not None),  # a clock would tell the two apart
    st.sampled_from([(), (("h", b"v"),), [], {}]),
    st.sampled_from([None, print]),
)
steps = st.lists(
    sends
    | st.sampled_from(["close", "sticky 0", "sticky 1", "disable", "enable", "free", "forget", "first"]),
    max_size=40,
)


def future_class(module: Any) -> Any:
    return module.DeliveryFuture if module is native else delivery._Plain


def outcome(number: int) -> BatchOutcome:
    """Of a batch that begins at offset 0: each record's future tells its place in the batch."""
    made = BatchOutcome("t", number)
    made.base_offset = 0
    return made


class Side:
    """An appender of one of the two modules, with two partitions of one topic."""

    def __init__(self, module: Any, batch_size: int, memory: int, ignore_keys: bool) -> None:
        self.module = module
        self.gate = module.Gate(threading.RLock())
        self.appender = module.Appender(self.gate, batch_size, memory)
        self.appender.enabled = True
        self.appender.ignore_keys = ignore_keys
        self.appender.largest = 150
        self.sticky = module.Sticky()
        # Brokers may take less of a topic.
        self.topic_batch_size = batch_size - batch_size // 4
        self.batches: list[Any] = []
        self.remember()

    def remember(self) -> None:
        lanes = self.module.TopicLanes(2, self.sticky, self.topic_batch_size)
        for number in range(2):
            batch = self.module.OpenBatch(outcome(number), future_class(self.module))
            self.batches.append(batch)
            lanes.lanes[number] = batch
        self.appender.topics["t"] = lanes

    def step(self, step: Any) -> Any:
        if isinstance(step, tuple):
            future = self.appender.try_send(*step)
            if future is None:
                return None
            return future.metadata()
        if step == "close":
            self.batches[-1].append_closed = True
        elif step == "first":
            for batch in self.batches[-2:]:
                batch.append(17, b"k", None, [("h", b"v")], None)
        elif step.startswith("sticky"):
            self.sticky.partition, self.sticky.bytes = int(step[-1]), 0
        elif step in ("disable", "enable"):
            self.appender.enabled = step == "enable"
        elif step == "free":
            self.appender.memory_used = 0
        elif step == "forget":
            self.appender.topics.clear()
            self.remember()
        return None

    def state(self) -> Any:
        batches = [
            (
                bytes(b.records),
                b.count,
                b.memory,
                b.base_timestamp,
                b.max_timestamp,
                b.records_size,
                [f.metadata() for f in b.callbacks],
            )
            for b in self.batches
        ]
        return self.appender.memory_used, self.sticky.partition, self.sticky.bytes, batches


@both
@settings(max_examples=300, deadline=None)
@given(steps, st.integers(80, 700), st.integers(100, 2_000), st.booleans())
def test_both_append_alike(steps: list[Any], batch_size: int, memory: int, ignore_keys: bool) -> None:
    sides = [Side(module, batch_size, memory, ignore_keys) for module in (native, twin)]
    for step in ["first", "sticky 0", *steps]:
        first, second = (side.step(step) for side in sides)
        assert first == second, step
    assert sides[0].state() == sides[1].state()


@both
@given(st.lists(st.tuples(st.integers(-3, 2**63), st.none() | st.binary(max_size=5)), max_size=6))
def test_both_refuse_the_same_timestamps(records: list[tuple[int, bytes | None]]) -> None:
    batches = [m.OpenBatch(outcome(0), future_class(m)) for m in (native, twin)]
    for timestamp, value in records:
        results = []
        for batch in batches:
            try:
                results.append(batch.append(timestamp, value, value, (), None).metadata())
            except ValueError as problem:
                results.append(str(problem))
        assert results[0] == results[1]
    assert batches[0].records == batches[1].records


@pytest.mark.parametrize("module", [pytest.param(native, marks=both, id="native"), twin])
def test_reports_say_where_records_lie_and_why_they_do_not(module: Any) -> None:
    told: list[Any] = []
    problems: list[Exception] = []
    batch = module.OpenBatch(BatchOutcome("t", 3), future_class(module))
    for number in range(3):
        batch.append(100 + number, b"k" * number, None, (), lambda m, e: told.append((m, e)))
    with pytest.raises(RuntimeError, match="settled"):
        module.report(batch.callbacks[:1], RecordMetadata, problems.append)
    batch.outcome.succeed(40, -1)
    module.report(batch.callbacks[1:], RecordMetadata, problems.append)
    assert told == [
        (RecordMetadata("t", 3, 41, 101, 1, -1), None),
        (RecordMetadata("t", 3, 42, 102, 2, -1), None),
    ]
    assert type(told[0][0]) is RecordMetadata
    module.report(batch.callbacks, RecordMetadata, problems.append)
    assert len(told) == 2, "each is told once"

    def refuses(metadata: Any, error: Any) -> None:
        raise LookupError(str(error))

    failed = module.OpenBatch(BatchOutcome("t", 3), future_class(module))
    for _ in range(2):
        failed.append(5, None, None, (), refuses)
    failed.outcome.fail(ValueError("all"), {1: ValueError("one")})
    module.report(failed.callbacks, RecordMetadata, problems.append)
    assert [str(problem) for problem in problems] == ["all", "one"]


@both
def test_nothing_is_appended_while_somebody_is_inside_the_gate() -> None:
    side = Side(native, 10_000, 10_000, False)
    side.step("first")
    record = ("t", b"v", None, 0, 1, (), None)
    with side.gate:
        assert side.step(record) is None
    assert side.step(record) is not None


@both
def test_compiled_futures_are_no_burden_to_the_garbage_collector() -> None:
    future = native.DeliveryFuture(BatchOutcome("t", 0), 1, 2, 3, 4)
    assert not gc.is_tracked(future)


def test_many_threads_lose_no_record_beside_a_sender_that_takes_batches() -> None:
    from odradek.client.core.kernel import producer_kernel as module

    gate = module.Gate(threading.RLock())
    appender = module.Appender(gate, 2_000, 1 << 30)
    appender.enabled = True
    lanes = appender.topics["t"] = module.TopicLanes(1, module.Sticky(), 2_000)
    taken: list[Any] = []
    per_thread, threads = 3_000, 3

    def new_batch() -> Any:
        batch = module.OpenBatch(BatchOutcome("t", 0), future_class(module))
        batch.append(0, b"", None, (), None)
        lanes.lanes[0] = batch
        return batch

    def send(number: int) -> None:
        for i in range(per_thread):
            value = b"%d-%d" % (number, i)
            while appender.try_send("t", value, None, 0, 1, (), None) is None:
                with gate:
                    batch = lanes.lanes[0]
                    if batch.append_closed or batch.records_size > 1_900:
                        batch.append_closed = True
                        taken.append(batch)
                        new_batch()

    def close() -> None:
        while any(worker.is_alive() for worker in workers):
            with gate:
                batch = lanes.lanes[0]
                batch.append_closed = True
                count, size = batch.count, batch.records_size
                assert (batch.count, batch.records_size) == (count, size)

    new_batch()
    workers = [threading.Thread(target=send, args=(n,)) for n in range(threads)]
    closer = threading.Thread(target=close)
    for worker in [*workers, closer]:
        worker.start()
    for worker in [*workers, closer]:
        joined(worker)
    taken.append(lanes.lanes[0])
    assert sum(batch.count - 1 for batch in taken) == per_thread * threads
    assert appender.memory_used == sum(batch.memory for batch in taken)


appends = st.tuples(
    st.integers(0, 1),
    st.none() | st.binary(max_size=60),
    st.sampled_from([(), (("h", b"v"),)]),
    st.integers(0, 10_000),
    st.sampled_from([None, "lanes"]),
)
long_ways = st.lists(appends | st.sampled_from(["forget", "shut", "free", "close", "old round"]), max_size=30)


FULL = 150
"""A topic's batches are full earlier than `batch_size` says."""


class LongWay:
    """The last step of the long way, as the accumulator takes it."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.appender = module.Appender(module.Gate(threading.RLock()), 200, 900)
        self.appender.enabled = True
        self.queues: dict[Any, deque[Any]] = {}
        self.incomplete: dict[int, Any] = {}
        self.about = self.appender.round

    def step(self, step: Any) -> Any:
        if step == "free":
            self.appender.memory_used = 0
        elif step == "close":
            for queue in self.queues.values():
                if queue:
                    queue[-1].append_closed = True
        elif step == "old round":
            self.appender.forget()
            return None
        elif isinstance(step, str):
            getattr(self.appender, step)()
        else:
            return self.append(*step)
        self.about = self.appender.round
        return None

    def append(self, number: int, value: Any, headers: Any, timestamp: int, lanes: Any) -> Any:
        tp = TopicPartition("t", number)
        kept = None if lanes is None else self.module.TopicLanes(2, self.module.Sticky(), FULL)
        spare = None
        said = []
        while True:
            made = self.appender.append(
                *(self.queues, self.incomplete, tp, spare, timestamp, b"k", value, headers, None),
                *(40 + len(value or b""), FULL, self.about, kept),
            )
            if not isinstance(made, int):
                future, look, closed = made
                remembered = None if kept is None else kept.lanes[number] is self.queues[tp][-1]
                return said, future.metadata(), look, closed, remembered, sorted(self.appender.topics)
            said.append(made)
            if made != self.module.NO_BATCH:
                return said
            self.queues.setdefault(tp, deque())
            spare = self.module.OpenBatch(outcome(number), future_class(self.module))

    def state(self) -> Any:
        batches = [
            (tp, bytes(b.records), b.count, b.memory, b.append_closed, id(b) in self.incomplete)
            for tp, queue in sorted(self.queues.items())
            for b in queue
        ]
        return self.appender.memory_used, self.appender.round, batches


@both
@given(long_ways)
@settings(deadline=None)
def test_the_long_way_ends_alike(taken: list[Any]) -> None:
    sides = [LongWay(native), LongWay(twin)]
    for step in taken:
        first, second = [side.step(step) for side in sides]
        assert first == second
        assert sides[0].state() == sides[1].state()


@pytest.mark.parametrize("module", [pytest.param(native, marks=both), twin], ids=["native", "twin"])
def test_who_is_inside_the_gate_is_told(module: Any) -> None:
    """A finalizer, or a signal's handler, that comes while its own thread is inside."""
    gate = module.Gate(threading.RLock())
    gate.wait()
    with gate:
        assert gate.is_inside()
        for call in (gate.wait, gate.check_not_inside, gate.__enter__):
            with pytest.raises(IllegalStateError, match="amid its own bookkeeping"):
                call()
        elsewhere: list[bool] = []
        thread = threading.Thread(target=lambda: elsewhere.append(gate.is_inside()))
        thread.start()
        joined(thread)
        assert elsewhere == [False]
    assert not gate.is_inside()


@both
def test_an_appending_thread_gives_way_to_who_is_inside() -> None:
    gate = native.Gate(threading.RLock())
    appender = native.Appender(gate, 200, 900)
    with gate:
        made = appender.append(
            {}, {}, TopicPartition("t", 0), None, 1, None, None, (), None, 40, 200, 0, None
        )
    assert made == native.BUSY
