"""The short cut for usual fetches answers as the ordinary way does, to the byte."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker
from odradek.broker.fast import fetch as fast_fetch
from odradek.broker.handlers import fetch
from odradek.broker.network import connection as connection_module
from odradek.broker.network.answer import Answer
from odradek.broker.network.connection import Connection
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.network.peer import Peer
from odradek.errors.codes import ErrorCode
from odradek.util.clock import ManualClock, SystemClock
from odradek.util.timers import ManualTimers
from odradek.wire.headers import encode_request
from odradek.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

from .fetch_frames import Shape, abort_transaction, fill, metrics_of, two_ways
from .live import batch, create_topic, produce, running
from .net import receive, run, settle
from .two_ways import PEER, Later, dispatch, plain


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_answer_the_same(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_fetch, "RANGE_FROM_BYTES", 65_536)
    monkeypatch.setattr(fetch, "RANGE_FROM_BYTES", 65_536)

    async def main() -> None:
        chance = random.Random(seed)
        clock = ManualClock(SystemClock().now_ms())
        async with running(tmp_path, clock=clock, timers=ManualTimers(clock)) as broker:
            ids = await fill(broker, chance)
            if seed % 2:
                abort_transaction(broker, "a", 0)
            fast, ordinary = two_ways(broker)
            bounds = {
                one.key: (one.log.log_start_offset, one.log.log_end_offset)
                for one in broker.replicas
                if one.topic in ids
            }
            shape = Shape(seed, ids, bounds)
            counts = {"fast": 0, "waiting": 0}
            for _ in range(400):
                frame = shape.frame(chance.randrange(4, 19))
                if chance.random() < 0.05:
                    frame = shape.mutated(frame)
                before = metrics_of(broker)
                direct = fast._fast[1](PEER, memoryview(frame), Later())
                counts["fast"] += direct is not NotImplemented
                for waiting in list(broker.purgatory._waiting):
                    waiting.cancel()
                middle = metrics_of(broker)
                first, second = Later(), Later()
                expected = dispatch(ordinary, frame, first)
                after = metrics_of(broker)
                got = dispatch(fast, frame, second)
                assert (got if isinstance(got, str) else plain(got)) == (
                    expected if isinstance(expected, str) else plain(expected)
                )
                if direct is not NotImplemented and expected is not None:
                    changed = {key: middle[key] - before.get(key, 0) for key in middle}
                    assert changed == {key: after[key] - middle.get(key, 0) for key in after}
                if expected is None:
                    counts["waiting"] += 1
                    assert len(broker.purgatory) == 2
                    broker.timers.advance(100)  # type: ignore[attr-defined]
                    await asyncio.sleep(0)
                    assert plain(first.answer) == plain(second.answer) is not None
                assert len(broker.purgatory) == 0
                assert broker.timers.pending == 0  # type: ignore[attr-defined]
            assert counts["fast"] > 60, counts
            assert counts["waiting"] > 5, counts

    run(main)


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_wake_at_the_same_moments(seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        clock = ManualClock(SystemClock().now_ms())
        async with running(tmp_path, clock=clock, timers=ManualTimers(clock)) as broker:
            ids = await fill(broker, chance)
            fast, ordinary = two_ways(broker)
            partitions = [one for one in broker.replicas if one.topic in ids]
            woken = 0
            for step in range(120):
                version = chance.randrange(4, 19)
                topics = chance.sample(list(ids), chance.randint(1, 3))
                message = FetchRequest(
                    max_wait_ms=1000,
                    min_bytes=chance.choice((1, 300, 3000)),
                    max_bytes=2**20,
                    isolation_level=chance.choice((0, 1)),
                    topics=[
                        FetchTopic(
                            topic=name if version < 13 else "",
                            topic_id=ids[name] if version >= 13 else bytes(16),
                            partitions=[
                                FetchPartition(
                                    partition=one.index,
                                    fetch_offset=one.log.log_end_offset,
                                    partition_max_bytes=chance.choice((100, 2**20)),
                                )
                                for one in partitions
                                if one.topic == name
                            ],
                        )
                        for name in topics
                    ],
                )
                frame = b"".join(encode_request(1, version, step, "x", message))[4:]
                first, second = Later(), Later()
                assert dispatch(ordinary, frame, first) is None
                assert dispatch(fast, frame, second) is None
                for _ in range(20):
                    if first.answer is not None:
                        break
                    one = chance.choice(partitions)
                    what = chance.random()
                    now_ms = broker.clock.now_ms()
                    if what < 0.9:
                        one.append(batch([chance.randbytes(50)]), required_acks=1, now_ms=now_ms)
                    elif what < 0.95:
                        abort_transaction(broker, one.topic, one.index)
                    else:
                        one.delete_records_before(-1)
                    await asyncio.sleep(0)
                    assert (first.answer is None) == (second.answer is None)
                else:
                    broker.timers.advance(1000)  # type: ignore[attr-defined]
                    await asyncio.sleep(0)
                woken += 1
                assert plain(first.answer) == plain(second.answer) is not None
                assert len(broker.purgatory) == 0
                assert broker.timers.pending == 0  # type: ignore[attr-defined]
            assert woken == 120

    run(main)


class SessionClient:
    """A consumer with a session, through one of the dispatchers."""

    def __init__(self, dispatcher: Dispatcher, version: int) -> None:
        self.dispatcher = dispatcher
        self.version = version
        self.session_id = 0
        self.later = Later()
        self.at = 14 if version < 12 else 15

    def send(self, message: FetchRequest, number: int) -> Any:
        """The answer with the session's id blotted out; None: it comes later."""
        message.session_id = self.session_id
        frame = b"".join(encode_request(1, self.version, number, "x", message))[4:]
        self.later = Later()
        return self.blotted(dispatch(self.dispatcher, frame, self.later))

    def blotted(self, answer: Any) -> Any:
        data = plain(answer)
        if data is None:
            return None
        session_id = int.from_bytes(data[self.at : self.at + 4], "big")
        if not self.session_id:
            self.session_id = session_id
        assert session_id in (0, self.session_id)
        return data[: self.at] + (b"same" if session_id else b"none") + data[self.at + 4 :]


@pytest.mark.parametrize("seed", range(8))
def test_sessions_go_the_same_way(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_fetch, "RANGE_FROM_BYTES", 65_536)
    monkeypatch.setattr(fetch, "RANGE_FROM_BYTES", 65_536)
    taken = 0
    real = fast_fetch.FastFetch._go_on_with_session

    def counting(self: Any, *args: Any) -> Any:
        nonlocal taken
        answer = real(self, *args)
        taken += answer is not NotImplemented
        return answer

    monkeypatch.setattr(fast_fetch.FastFetch, "_go_on_with_session", counting)

    async def main() -> None:
        chance = random.Random(seed)
        clock = ManualClock(SystemClock().now_ms())
        async with running(tmp_path, clock=clock, timers=ManualTimers(clock)) as broker:
            ids = await fill(broker, chance)
            fast, ordinary = two_ways(broker)
            version = chance.randrange(7, 19)
            by_id = version >= 13

            def topics(ones: list[Any]) -> list[FetchTopic]:
                made = []
                for name in ids:
                    parts = [one for one in ones if one.topic == name]
                    if parts:
                        made.append(
                            FetchTopic(
                                topic="" if by_id else name,
                                topic_id=ids[name] if by_id else bytes(16),
                                partitions=[
                                    FetchPartition(
                                        partition=one.index,
                                        fetch_offset=99
                                        if chance.random() < 0.01
                                        else chance.choice(
                                            (one.log.log_start_offset, one.log.log_end_offset)
                                        ),
                                        partition_max_bytes=chance.choice((0, 100, 2**20)),
                                    )
                                    for one in parts
                                ],
                            )
                        )
                return made

            async def same(message: FetchRequest, number: int) -> bool:
                first, second = [client.send(message, number) for client in clients]
                assert first == second
                while first is None and chance.random() < 0.9:
                    one = chance.choice([one for one in broker.replicas if one.topic in ids])
                    if chance.random() < 0.9:
                        now_ms = broker.clock.now_ms()
                        one.append(batch([chance.randbytes(50)]), required_acks=1, now_ms=now_ms)
                    else:
                        one.delete_records_before(-1)
                    await asyncio.sleep(0)
                    assert [client.later.answer is None for client in clients] in ([True] * 2, [False] * 2)
                    if clients[0].later.answer is not None:
                        break
                if first is None:
                    broker.timers.advance(1000)  # type: ignore[attr-defined]
                    await asyncio.sleep(0)
                    first, second = (client.blotted(client.later.answer) for client in clients)
                    assert first == second is not None
                assert len(broker.purgatory) == 0
                return bool(int.from_bytes(first[clients[0].at - 2 : clients[0].at], "big") == 0)

            number = 0
            for _ in range(6):
                clients = [SessionClient(fast, version), SessionClient(ordinary, version)]
                everything = [one for one in broker.replicas if one.topic in ids]
                message = FetchRequest(session_epoch=0, max_bytes=2**20, topics=topics(everything[:-1]))
                epoch = 1
                await same(message, number)
                for _ in range(25):
                    number += 1
                    message = FetchRequest(
                        session_epoch=epoch,
                        max_wait_ms=chance.choice((0, 1000)),
                        min_bytes=chance.choice((0, 1, 1, 500)),
                        max_bytes=chance.choice((0, 1000, 2**20)),
                        isolation_level=chance.choice((0, 1)),
                        topics=topics(chance.sample(everything, chance.choice((0, 0, 1, 3)))),
                    )
                    if chance.random() < 0.05:
                        message.session_epoch += 1
                    elif chance.random() < 0.05:
                        name = chance.choice(list(ids))
                        message.forgotten_topics_data = [
                            ForgottenTopic(
                                topic="" if by_id else name,
                                topic_id=ids[name] if by_id else bytes(16),
                                partitions=[0],
                            )
                        ]
                    if await same(message, number):
                        epoch += 1
                if chance.random() < 0.3:
                    name = chance.choice(list(ids))
                    broker.controller.delete_topics([name])
                    ids[name] = create_topic(broker, name, 2)
            assert taken > 10

    run(main)


@pytest.mark.parametrize("version", [4, 10, 12, 18])
def test_both_ways_tell_that_the_topic_has_gone(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            ids = await fill(broker, random.Random(1))
            fast, ordinary = two_ways(broker)
            end = broker.replicas.get("a", 0).log.log_end_offset
            message = FetchRequest(
                max_wait_ms=10_000,
                min_bytes=1,
                topics=[
                    FetchTopic(
                        topic="a" if version < 13 else "",
                        topic_id=ids["a"] if version >= 13 else bytes(16),
                        partitions=[FetchPartition(fetch_offset=end, partition_max_bytes=100)],
                    )
                ],
            )
            frame = b"".join(encode_request(1, version, 1, "x", message))[4:]
            first, second = Later(), Later()
            assert dispatch(ordinary, frame, first) is None
            assert dispatch(fast, frame, second) is None
            broker.controller.delete_topics(["a"])
            await asyncio.sleep(0)
            assert plain(first.answer) == plain(second.answer) is not None

    run(main)


def waiting(broker: Broker) -> Later:
    """A fetch of topic `a`, where nothing is, that has taken the short cut."""
    fast, _ = two_ways(broker)
    message = FetchRequest(
        max_wait_ms=10_000,
        min_bytes=1,
        topics=[FetchTopic(topic="a", partitions=[FetchPartition(partition_max_bytes=100)])],
    )
    later = Later()
    assert dispatch(fast, b"".join(encode_request(1, 10, 1, "x", message))[4:], later) is None
    return later


def test_what_waits_for_a_peer_that_has_gone_is_dropped(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            create_topic(broker, "a")
            later = waiting(broker)
            assert len(broker.purgatory) == 1
            later.context.on_disconnect()
            assert len(broker.purgatory) == 0
            assert later.answer is None

    run(main)


def test_a_failure_after_waiting_closes_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            create_topic(broker, "a")
            later = waiting(broker)

            def fail(*_: object) -> None:
                raise RuntimeError("broken")

            monkeypatch.setattr(fast_fetch, "encode_fetch", fail)
            broker.purgatory.expire_all()
            assert later.answer == Answer(None, close=True)

    run(main)
    assert "broken" in caplog.text


def test_a_damaged_segment_is_answered_by_both_ways(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            create_topic(broker, "a")
            partition = broker.replicas.get("a", 0)
            for _ in range(3):
                partition.append(batch(), required_acks=1, now_ms=broker.clock.now_ms())
            active = partition.log.segments.active
            active.forget_tail()
            active.path.write_bytes(bytes(active.size))
            fast, ordinary = two_ways(broker)
            message = FetchRequest(
                topics=[FetchTopic(topic="a", partitions=[FetchPartition(partition_max_bytes=100)])]
            )
            frame = b"".join(encode_request(1, 10, 1, "x", message))[4:]
            answer = plain(dispatch(fast, frame, Later()))
            assert answer == plain(dispatch(ordinary, frame, Later()))
            response, _ = FetchResponse.decode_from(answer, 10, 8)
            assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert broker.metrics.topics.all.failed_fetch_requests == 2

    run(main)
    assert "fetch failed topic=a" in caplog.text


class SilentTransport(asyncio.Transport):
    """Takes everything and sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        self.answers += 1

    def writelines(self, list_of_data: Any) -> None:
        self.answers += 1

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        raise AssertionError("closed")

    abort = close


def test_one_answer_that_leads_to_the_next_does_not_pile_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection has all its polls waiting, and behind them a request that wakes the next connection."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            count, polls = 200, 3
            monkeypatch.setattr(connection_module, "MAX_UNANSWERED", polls)
            create_topic(broker, "a", count)

            def poll(index: int) -> bytes:
                message = FetchRequest(
                    max_wait_ms=60_000,
                    min_bytes=1,
                    topics=[
                        FetchTopic(
                            topic="a", partitions=[FetchPartition(partition=index, partition_max_bytes=100)]
                        )
                    ],
                )
                return b"".join(encode_request(1, 10, 1, "x", message))

            connections = []
            for index in range(count):
                connection = Connection(
                    broker.listeners[0], Peer("127.0.0.1", index, str(index), "PLAINTEXT")
                )
                transport = SilentTransport()
                connection.connection_made(transport)
                request = produce("a", batch(), acks=1, index=(index + 1) % count)
                receive(connection, poll(index) * polls + b"".join(encode_request(0, 7, 1, "x", request)))
                connections.append((connection, transport))
            assert len(broker.purgatory) == count * polls
            broker.replicas.get("a", 0).append(batch(), required_acks=1, now_ms=broker.clock.now_ms())
            await settle(lambda: all(one.answers == polls + 1 for _, one in connections))
            assert len(broker.purgatory) == 0
            for connection, _ in connections:
                connection.connection_lost(None)

    run(main)


def test_the_aborted_are_named_by_both_ways(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            create_topic(broker, "a")
            abort_transaction(broker, "a", 0)
            fast, _ = two_ways(broker)
            message = FetchRequest(
                isolation_level=1,
                topics=[FetchTopic(topic="a", partitions=[FetchPartition(partition_max_bytes=10_000)])],
            )
            frame = b"".join(encode_request(1, 10, 1, "x", message))[4:]
            assert fast._fast[1](PEER, frame, Later()) is NotImplemented
            answer = plain(dispatch(fast, frame, Later()))
            response, _ = FetchResponse.decode_from(answer, 10, 8)
            (one,) = response.responses[0].partitions
            assert one.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=0)]

    run(main)
