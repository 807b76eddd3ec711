"""Iterating over a consumer: it stands after the record that was handed out last, and nowhere else."""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import islice
from typing import Any

import pytest

from odradek.client import (
    Admin,
    AsyncConsumer,
    Consumer,
    ConsumerRebalanceListener,
    Producer,
    TopicPartition,
)
from odradek.client.sync.consumer_thread import ConsumerThread
from waiting import joined, until

from .conftest import new_topic
from .consuming import fill, metric
from .engines import consumer_engines


def settings(servers: str, group: str, **more: Any) -> dict[str, Any]:
    return {"bootstrap_servers": servers, "group_id": group, "auto_offset_reset": "earliest", **more}


@pytest.fixture
def numbers(servers: str, admin: Admin) -> str:
    """A topic of one partition with the records 0 … 39."""
    topic = new_topic(admin, 1)
    fill(servers, topic, 40)
    return topic


def committed(servers: str, group: str, topic: str) -> int | None:
    with Consumer(bootstrap_servers=servers, group_id=group) as consumer:
        tp = TopicPartition(topic, 0)
        found = consumer.committed([tp])[tp]
        return None if found is None else found.offset


def test_after_a_break(servers: str, numbers: str, group: str) -> None:
    tp = TopicPartition(numbers, 0)
    with Consumer(numbers, **settings(servers, group)) as consumer:
        for record in consumer:
            if record.offset == 2:
                break
        assert consumer.position(tp) == 3
        assert consumer.lag(tp) == 37
        assert metric(consumer.metrics(), "records-consumed-total") == 3.0
        assert next(iter(consumer)).offset == 3
        with pytest.raises(ValueError, match="one at least"):
            consumer.poll(0, 0)
        assert [r.offset for r in consumer.poll(10_000, 2)] == [4, 5]
        assert next(iter(consumer)).offset == 6
        assert consumer.poll_arrow(10_000, 1).column("offset").to_pylist() == [7]
        assert next(iter(consumer)).offset == 8
    assert committed(servers, group, numbers) == 9


def test_a_commit_amid_an_iteration(servers: str, numbers: str, group: str) -> None:
    tp = TopicPartition(numbers, 0)
    with Consumer(numbers, **settings(servers, group, enable_auto_commit=False)) as consumer:
        for record in consumer:
            consumer.commit()
            assert consumer.committed([tp])[tp].offset == record.offset + 1
            if record.offset == 4:
                break
        done: list[Any] = []
        next(iter(consumer))
        consumer.commit_async(callback=lambda offsets, error: done.append((offsets[tp].offset, error)))
        until(lambda: done)
        assert done == [(6, None)]
    assert committed(servers, group, numbers) == 6


@pytest.mark.parametrize("by_hand", ["", "close", "unsubscribe"])
def test_a_record_whose_processing_failed_comes_again(
    servers: str, numbers: str, group: str, by_hand: str
) -> None:
    def work(consumer: Consumer) -> None:
        for record in consumer:
            if record.offset == 5:
                raise LookupError("processing failed")

    def work_and_close(unsubscribe: bool) -> None:
        consumer = Consumer(numbers, **settings(servers, group))
        try:
            work(consumer)
        finally:
            if unsubscribe:
                consumer.unsubscribe()
            consumer.close()

    with pytest.raises(LookupError):
        if by_hand:
            work_and_close(by_hand == "unsubscribe")
        else:
            with Consumer(numbers, **settings(servers, group)) as consumer:
                work(consumer)
    assert committed(servers, group, numbers) == 5


def test_so_do_those_of_a_poll(servers: str, numbers: str, group: str) -> None:
    with (
        pytest.raises(LookupError),
        Consumer(numbers, **settings(servers, group, max_poll_records=10)) as consumer,
    ):
        at_most(consumer, 10)
        last = until(lambda: consumer.poll(1_000), "the records behind them")
        raise LookupError("processing failed")
    assert committed(servers, group, numbers) == last[0].offset == 10


def test_what_was_committed_by_hand_is_not_taken_back(servers: str, numbers: str, group: str) -> None:
    with (
        pytest.raises(LookupError),
        Consumer(numbers, **settings(servers, group)) as consumer,
    ):
        seen = at_most(consumer, 10)
        consumer.commit({(numbers, 0): seen[-1].offset + 1})
        raise LookupError("processing failed")
    assert committed(servers, group, numbers) == 10


def test_a_break_is_no_failure_even_where_an_exception_is_handled(
    servers: str, numbers: str, group: str
) -> None:
    try:
        raise LookupError("something before")
    except LookupError:
        with Consumer(numbers, **settings(servers, group)) as consumer:
            for record in consumer:
                if record.offset == 5:
                    break
    assert committed(servers, group, numbers) == 6


def at_most(consumer: Consumer, count: int) -> list[Any]:
    """So many records by `poll`, and no more."""
    seen: list[Any] = []

    def look() -> bool:
        seen.extend(consumer.poll(1_000, count - len(seen)))
        return len(seen) == count

    until(look, f"{count} records", every_s=0, instead=lambda: seen)
    return seen


def six_of(consumer: Consumer, way: str) -> list[int]:
    if way == "iteration":
        return [record.offset for record in islice(consumer, 6)]
    return [record.offset for record in at_most(consumer, 6)]


@pytest.mark.parametrize("way", ["iteration", "poll"])
def test_closing_by_hand_is_no_failure_where_the_exception_was_there_before(
    servers: str, numbers: str, group: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        raise LookupError("something before")
    except LookupError:
        consumer = Consumer(numbers, **settings(servers, group))
        assert six_of(consumer, way) == [0, 1, 2, 3, 4, 5]
        consumer.close()
    assert committed(servers, group, numbers) == 6
    assert "are not committed" not in caplog.text


@pytest.mark.parametrize("way", ["another", "raised again"])
def test_a_failure_amid_the_handling_of_another_is_one(
    servers: str, numbers: str, group: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        try:
            raise LookupError("something before")
        except LookupError as before:
            consumer = Consumer(numbers, **settings(servers, group))
            try:
                six_of(consumer, "iteration")
                raise before if way == "raised again" else ValueError("processing failed")
            finally:
                consumer.close()

    with pytest.raises((LookupError, ValueError)):
        work()
    assert committed(servers, group, numbers) == 5
    assert f"are not committed: {numbers}-0 from 5 on" in caplog.text


def test_a_close_that_leaves_out_records_says_so(
    servers: str, numbers: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = Consumer(numbers, **settings(servers, group))
    six_of(consumer, "iteration")
    try:
        raise LookupError("something else, after all records were processed")
    except LookupError:
        consumer.close()
    assert committed(servers, group, numbers) == 5
    (line,) = [r for r in caplog.records if "are not committed" in r.getMessage()]
    assert line.levelname == "WARNING"


def test_the_asyncio_consumer_knows_what_was_handled_before(servers: str, numbers: str, group: str) -> None:
    async def work(fails: bool) -> None:
        try:
            raise LookupError("something before")
        except LookupError:
            consumer = AsyncConsumer(numbers, **settings(servers, group))
            try:
                async for record in consumer:
                    if record.offset % 6 == 5:
                        break
                if fails:
                    raise ValueError("processing failed")
            finally:
                await consumer.close()

    asyncio.run(work(False))
    assert committed(servers, group, numbers) == 6
    with pytest.raises(ValueError, match="processing failed"):
        asyncio.run(work(True))
    assert committed(servers, group, numbers) == 11


def test_automatic_commits_amid_an_iteration(
    servers: str, numbers: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tp = TopicPartition(numbers, 0)
    engines = consumer_engines(monkeypatch)
    with (
        Consumer(bootstrap_servers=servers, group_id=group) as watch,
        Consumer(numbers, **settings(servers, group, auto_commit_interval_ms=1)) as consumer,
    ):

        def now() -> int:
            found = watch.committed([tp])[tp]
            return 0 if found is None else found.offset

        going = iter(consumer)
        for offset in range(3):
            assert next(going).offset == offset
            until(lambda: not engines[-1].ready(time.monotonic() * 1000), what="time to commit")
            for _ in range(2):  # twice through the loop, which then is past the timer that says so
                consumer.pause()
            assert now() <= offset, "what is not processed was committed"
        assert next(going).offset == 3
        until(lambda: now() == 3)


def test_a_pause_and_a_seek_amid_an_iteration(servers: str, admin: Admin, group: str) -> None:
    topic = new_topic(admin, 2)
    fill(servers, topic, 40, 2)
    first, second = (TopicPartition(topic, n) for n in range(2))
    with Consumer(topic, **settings(servers, group)) as consumer:
        going = iter(consumer)
        seen = [next(going)]
        paused = TopicPartition(topic, seen[0].partition)
        other = second if paused == first else first
        consumer.pause(paused)
        while len(seen) < 21:
            seen.append(next(going))
        assert [(r.partition, r.offset) for r in seen[1:]] == [(other.partition, n) for n in range(20)]
        consumer.resume(paused)
        consumer.seek(other, 18)
        rest = [next(going) for _ in range(21)]
        assert [r.offset for r in rest if r.partition == paused.partition] == list(range(1, 20))
        assert [r.offset for r in rest if r.partition == other.partition] == [18, 19]
        assert (consumer.position(first), consumer.position(second)) == (20, 20)


class Revoked(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.gone: set[int] = set()

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.gone |= {tp.partition for tp in revoked}

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.gone -= {tp.partition for tp in assigned}


def test_a_rebalance_amid_an_iteration(
    servers: str, admin: Admin, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = consumer_engines(monkeypatch)
    topic = new_topic(admin, 2)
    fill(servers, topic, 2_000, 2)
    seen: list[tuple[int, int]] = []
    others: list[tuple[int, int]] = []
    stop = threading.Event()

    def other_member() -> None:
        with Consumer(topic, **settings(servers, group, heartbeat_interval_ms=100)) as consumer:
            while not stop.is_set():
                others.extend((r.partition, r.offset) for r in consumer.poll(100))

    thread = threading.Thread(target=other_member)
    listener = Revoked()
    with Consumer(**settings(servers, group, heartbeat_interval_ms=100)) as consumer:
        consumer.subscribe([topic], listener=listener)
        going = iter(consumer)
        seen.append(astuple(next(going)))
        thread.start()
        try:
            membership = engines[0].group
            assert membership is not None
            until(lambda: membership.needs_poll, what="a heartbeat that tells of the rebalance")
            seen.append(astuple(next(going)))
            while len(consumer.assignment()) == 2:
                seen.append(astuple(next(going)))
            for record in islice(going, 100):
                assert record.partition not in listener.gone
                seen.append(astuple(record))

            def are_all_read() -> bool:
                for record in consumer.poll(100):
                    assert record.partition not in listener.gone
                    seen.append(astuple(record))
                return len(seen) + len(others) >= 2_000

            until(are_all_read, "the records of both members", instead=lambda: (len(seen), len(others)))
        finally:
            stop.set()
            joined(thread)
    assert sorted(seen + others) == [(n, offset) for n in range(2) for offset in range(1_000)]


def astuple(record: Any) -> tuple[int, int]:
    return record.partition, record.offset


def test_a_rebalance_that_goes_on_holds_up_nothing_that_is_kept(
    servers: str, numbers: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a cooperative rebalance, where `poll` gives records of what stays, too."""
    engines = consumer_engines(monkeypatch)
    with Consumer(numbers, **settings(servers, group)) as consumer:
        monkeypatch.setattr(engines[0], "ready", lambda now_ms: False)
        assert [r.offset for r in islice(iter(consumer), 3)] == [0, 1, 2]
        assert [r.offset for r in islice(iter(consumer), 2)] == [3, 4]


def test_whoever_iterates_is_alive(
    servers: str, numbers: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record that is asked for counts as a poll, for `max_poll_interval_ms`."""
    engines = consumer_engines(monkeypatch)
    with Consumer(numbers, **settings(servers, group, heartbeat_interval_ms=100)) as consumer:
        going = iter(consumer)
        next(going)
        membership = engines[0].group
        assert membership is not None
        polls = 0

        def polled(tell: Any = membership.polled) -> None:
            nonlocal polls
            polls += 1
            tell()

        monkeypatch.setattr(membership, "polled", polled)
        next(going)
        until(lambda: polls, what="a heartbeat that saw the record taken")


def test_an_interceptor_sees_each_record_when_it_is_handed_out(
    servers: str, numbers: str, group: str
) -> None:
    class Odd:
        seen: list[int] = []

        def on_consume(self, records: list[Any]) -> list[Any]:
            self.seen += [r.offset for r in records]
            return [r for r in records if r.offset % 2]

    with Consumer(numbers, **settings(servers, group, interceptors=[Odd()])) as consumer:
        assert [r.offset for r in islice(iter(consumer), 3)] == [1, 3, 5]
        assert Odd.seen == [0, 1, 2, 3, 4, 5]
        assert consumer.position((numbers, 0)) == 6


@pytest.mark.parametrize("way", ["iteration", "poll"])
def test_an_interceptor_that_raises_costs_no_record(
    servers: str, numbers: str, group: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def on_consume(self, records: list[Any]) -> list[Any]:
            raise LookupError("on_consume is broken")

        def on_commit(self, offsets: Any) -> None:
            raise LookupError("on_commit is broken")

        def close(self) -> None:
            raise LookupError("close is broken")

    with Consumer(numbers, **settings(servers, group, interceptors=[Broken])) as consumer:
        assert six_of(consumer, way) == [0, 1, 2, 3, 4, 5]
        consumer.commit()
    assert {f"{what} is broken" for what in ("on_consume", "on_commit", "close")} <= {
        str(r.exc_info[1]) for r in caplog.records if r.exc_info
    }


def test_the_asyncio_consumer_stands_where_the_other_does(servers: str, numbers: str, group: str) -> None:
    tp = TopicPartition(numbers, 0)

    async def leave_early() -> None:
        async with AsyncConsumer(numbers, **settings(servers, group)) as consumer:
            async for record in consumer:
                if record.offset == 2:
                    break
            assert await consumer.position(tp) == 3
            async for record in consumer:
                await consumer.commit()
                assert (await consumer.committed([tp]))[tp].offset == record.offset + 1  # type: ignore[union-attr]
                if record.offset == 5:
                    break
            assert [r.offset for r in await consumer.poll(10_000, 2)] == [6, 7]
            async for record in consumer:
                if record.offset == 9:
                    await consumer.seek(tp, 30)
                if record.offset == 31:
                    break
            assert await consumer.position(tp) == 32
            async for _ in consumer:
                raise LookupError("processing failed")

    with pytest.raises(LookupError):
        asyncio.run(leave_early())
    assert committed(servers, group, numbers) == 32


def test_a_producer_and_a_consumer_pass_everything_on(servers: str, admin: Admin, group: str) -> None:
    """Over and over: read a few, fail, come back; nothing is skipped."""
    source = new_topic(admin, 3)
    fill(servers, source, 60, 3)
    processed: list[tuple[int, int]] = []
    for attempt in range(60):
        try:
            with Consumer(source, **settings(servers, group)) as consumer:
                for record in consumer:
                    if attempt < 20 and (record.offset + attempt) % 4 == 3:
                        raise LookupError("processing failed")
                    processed.append(astuple(record))
                    if len(set(processed)) == 60:
                        break
            break
        except LookupError:
            continue
    assert sorted(processed) == [(n, offset) for n in range(3) for offset in range(20)]


def test_an_interrupted_wait_loses_no_record(servers: str, admin: Admin, group: str) -> None:
    """Records are taken in the application's thread: whatever ends the wait, they are still there."""
    topic = new_topic(admin, 1)
    with (
        Producer(bootstrap_servers=servers) as producer,
        Consumer(topic, **settings(servers, group)) as consumer,
    ):
        until(lambda: consumer.poll(50) or consumer.assignment())

        def interrupted(
            thread: ConsumerThread, waiting: Any, run: Any = ConsumerThread.run, **more: Any
        ) -> Any:
            producer.send(topic, b"one").result(60)
            run(thread, waiting, **more)
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ConsumerThread, "run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(10_000)
        assert [r.value for r in consumer.poll(10_000)] == [b"one"]
