"""The short cut for usual fetches answers as the ordinary way does, to the byte; its two codecs agree."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker
from odradek.broker.fast import _pyfetch
from odradek.broker.fast import fetch as fast_fetch
from odradek.broker.handlers import fetch
from odradek.broker.network import connection as connection_module
from odradek.broker.network.connection import Connection, Peer
from odradek.broker.network.dispatch import Answer, Dispatcher
from odradek.errors.codes import ErrorCode
from odradek.log.producer_state import Origin
from odradek.records.compression import Codec
from odradek.records.control import ControlType, end_marker_batch
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_request_header, encode_request, encode_response
from odradek.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

from .live import append, batch, connect, create_topic, produce, running
from .net import receive, run, settle
from .two_ways import PEER, Later, dispatch, dispatchers, plain

CODECS = [pytest.param(_pyfetch, id="python")]
try:
    from odradek import _fetch

    CODECS.append(pytest.param(_fetch, id="native"))
except ImportError:
    pass

TOPICS = ("a", "topic-with-a-longer-name", "many")


class Shape:
    """Draws requests, the unusual among them."""

    def __init__(
        self, seed: int, ids: dict[str, bytes], bounds: dict[tuple[str, int], tuple[int, int]] | None = None
    ) -> None:
        self.chance = random.Random(seed)
        self.ids = ids
        self.bounds = bounds or {(name, index): (0, 9) for name in ids for index in range(3)}

    def partition(self, topic: str, version: int, *, odd: float) -> FetchPartition:
        chance = self.chance
        index = chance.choice([index for name, index in self.bounds if name == topic] or [0])
        one = FetchPartition(
            partition=index,
            fetch_offset=chance.randint(*self.bounds.get((topic, index), (0, 9))),
            partition_max_bytes=chance.choice((0, 1, 200, 1000, 70_000, 2**20, 2**31 - 1)),
        )
        if version >= 9:
            one.current_leader_epoch = chance.choice((-1, -1, 0))
        if version >= 5:
            one.log_start_offset = chance.choice((-1, 0, 3))
        if chance.random() < odd:
            one.fetch_offset = chance.choice((-1, 99, 2**62))
        if chance.random() < odd:
            one.partition = chance.choice((-1, 7, 2**31 - 1))
        if chance.random() < odd:
            one.partition_max_bytes = -5
        if version >= 9 and chance.random() < odd:
            one.current_leader_epoch = chance.choice((-2, 5))
        if version >= 12 and chance.random() < odd:
            one.last_fetched_epoch = chance.choice((-2, 0, 5))
        if version >= 17 and chance.random() < odd:
            one.replica_directory_id = bytes(range(16))
        if version >= 18 and chance.random() < odd:
            one.high_watermark = 3
        return one

    def request(self, version: int, odd: float = 0.03) -> FetchRequest:
        chance = self.chance
        names = list(self.ids)
        if chance.random() < odd:
            names.append("unknown")
        if chance.random() < odd:
            names.append("ümläut")
        wanted = chance.sample(names, chance.randint(1, len(names)))
        if chance.random() < odd:
            wanted.append(chance.choice(wanted))
        message = FetchRequest(
            max_wait_ms=chance.choice((0, 100)),
            min_bytes=chance.choice((-1, 0, 1, 1, 1000, 10**6)),
            max_bytes=chance.choice((0, 1, 500, 100_000, 2**31 - 1)),
            isolation_level=chance.choice((0, 1)),
            topics=[
                FetchTopic(
                    topic=name if version < 13 else "",
                    topic_id=self.ids.get(name, bytes(15) + b"x") if version >= 13 else bytes(16),
                    partitions=[
                        self.partition(name, version, odd=odd)
                        for _ in range(0 if chance.random() < odd else chance.randint(1, 3))
                    ],
                )
                for name in wanted
            ],
        )
        if chance.random() < odd:
            message.topics = []
        if chance.random() < odd:
            message.isolation_level = chance.choice((-1, 2))
        if chance.random() < odd:
            message.max_bytes = -1
        if version < 15 and chance.random() < odd:
            message.replica_id = chance.choice((-2, 0, 1))
        if version >= 15 and chance.random() < odd:
            message.replica_state = ReplicaState(replica_id=chance.choice((-2, 1)))
        if version >= 7 and chance.random() < odd:
            message.session_id = chance.choice((-1, 5))
        if version >= 7 and chance.random() < odd:
            message.session_epoch = chance.choice((1, 2))
        if version >= 7 and chance.random() < odd:
            message.forgotten_topics_data = [
                ForgottenTopic(topic="a" if version < 13 else "", partitions=[1, 2])
            ]
        if version >= 11 and chance.random() < odd:
            message.rack_id = chance.choice(("rack", "räck"))
        if version >= 12 and chance.random() < odd:
            message.cluster_id = "c"
        return message

    def frame(self, version: int, odd: float = 0.03) -> bytes:
        chance = self.chance
        client = chance.choice((None, "", "client", "clïent"))
        whole = b"".join(
            encode_request(1, version, chance.randrange(2**31), client, self.request(version, odd))
        )
        frame = whole[4:]
        return frame + b"\0\0\0" if chance.random() < odd else frame

    def mutated(self, frame: bytes) -> bytes:
        chance = self.chance
        data = bytearray(frame)
        for _ in range(chance.randint(1, 3)):
            kind, at = chance.randrange(4), chance.randrange(len(data) or 1)
            if kind == 0:
                del data[at:]
            elif data and kind == 1:
                data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            elif data and kind == 2:
                data[at] ^= 1 << chance.randrange(8)
            else:
                data[at:at] = bytes([chance.randrange(256)])
        return bytes(data)


IDS = {name: bytes([number]) * 16 for number, name in enumerate(TOPICS, 1)}


def as_declared(frame: bytes) -> Any:
    """What the declared codec reads, in the form of `parse_fetch`."""
    header, at = decode_request_header(frame)
    message, _ = FetchRequest.decode_from(frame, header.api_version, at)
    by_id = header.api_version >= 13
    return (
        header.api_version,
        header.correlation_id,
        message.max_wait_ms,
        message.min_bytes,
        message.max_bytes,
        message.isolation_level,
        message.session_id,
        message.session_epoch,
        [
            (
                topic.topic_id if by_id else topic.topic,
                [
                    (
                        one.partition,
                        one.fetch_offset,
                        one.partition_max_bytes,
                        one.current_leader_epoch,
                        one.log_start_offset,
                        one.last_fetched_epoch,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in message.topics
        ],
    )


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", range(4, 19))
def test_what_is_parsed_is_what_the_declared_codec_reads(codec: Any, version: int) -> None:
    shape = Shape(version, IDS)
    usual = 0
    for _ in range(300):
        frame = shape.frame(version, odd=0.02)
        parsed = codec.parse_fetch(memoryview(frame))
        if parsed is not None:
            usual += 1
            assert parsed == as_declared(frame)
    assert usual > 100


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_frame_is_parsed_rightly_or_not_at_all(codec: Any, seed: int) -> None:
    shape = Shape(seed, IDS)
    parsed_ones = 0
    for _ in range(3000):
        frame = shape.mutated(shape.frame(shape.chance.randrange(4, 19)))
        parsed = codec.parse_fetch(frame)
        assert parsed == _pyfetch.parse_fetch(frame)
        if parsed is not None:
            parsed_ones += 1
            assert parsed == as_declared(frame)
    assert parsed_ones > 100


def test_other_apis_and_versions_are_not_parsed() -> None:
    frame = Shape(1, IDS).frame(12, odd=0)
    for codec in CODECS:
        parse = codec.values[0].parse_fetch  # type: ignore[attr-defined]
        assert parse(frame) is not None
        assert parse(b"") is None
        assert parse(b"\0\0" + frame[2:]) is None
        assert parse(frame[:3] + b"\x03" + frame[4:]) is None
        assert parse(frame[:3] + b"\x13" + frame[4:]) is None


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", range(4, 19))
def test_what_is_written_is_what_the_declared_codec_writes(codec: Any, version: int) -> None:
    chance = random.Random(version)
    for _ in range(100):
        committed = chance.random() < 0.5
        session_id = chance.choice((0, 77)) if version >= 7 else 0
        answers: list[Any] = []
        response = FetchResponse(session_id=session_id)
        for number in range(chance.choice((0, 1, 1, 2, 5))):
            topic = chance.choice(("t", "name" * 60, "ümläut")) + str(number)
            topic_id = chance.randbytes(16)
            parts = []
            declared = FetchableTopicResponse(topic=topic, topic_id=topic_id)
            for index in range(chance.choice((1, 1, 2, 200))):
                size = chance.choice((0, 0, 1, 126, 127, 128, 8192, 8193, 20_000)) if index < 3 else 3
                records: Any = chance.randbytes(size)
                if size and chance.random() < 0.2:
                    records = memoryview(records)
                high, stable, start = (chance.choice((-1, 0, 7, 2**62)) for _ in range(3))
                parts.append((index, high, stable, start, records))
                declared.partitions.append(
                    PartitionData(
                        partition_index=index,
                        high_watermark=high,
                        last_stable_offset=stable,
                        log_start_offset=start,
                        aborted_transactions=[] if committed else None,
                        records=records,
                    )
                )
            answers.append((topic_id if version >= 13 else topic, parts))
            response.responses.append(declared)
        correlation_id = chance.choice((0, 1, -1, 2**31 - 1))
        buffers = codec.encode_fetch(version, correlation_id, session_id, committed, answers)
        assert b"".join(buffers) == b"".join(encode_response(ApiKey.FETCH, version, correlation_id, response))
        for buffer in buffers:
            assert len(buffer) > 0


# --- against a whole broker ------------------------------------------------------------------------------


def metrics_of(broker: Broker) -> dict[Any, float]:
    return {
        key: value
        for key, value in broker.metrics.snapshot().items()
        if "Fetch" in str(key) or "BytesOut" in str(key)
        if "Time" not in key[1]
    }


def abort_transaction(broker: Broker, topic: str, index: int) -> None:
    partition = broker.replicas.get(topic, index)
    now_ms = broker.clock.now_ms()
    records = batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    partition.append(records, required_acks=1, now_ms=now_ms, origin=Origin.COORDINATOR)
    marker = end_marker_batch(
        ControlType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=now_ms
    )
    partition.append(marker, required_acks=1, now_ms=now_ms, origin=Origin.COORDINATOR)


async def fill(broker: Broker, chance: random.Random) -> dict[str, bytes]:
    ids = {"a": create_topic(broker, "a", 3, {"segment.bytes": "250000", "file.delete.delay.ms": "0"})}
    ids[TOPICS[1]] = create_topic(broker, TOPICS[1], 2)
    ids["many"] = create_topic(broker, "many", 3, {"compression.type": "zstd"})
    client = await connect(broker)
    for topic in ids:
        for index in range(3 if topic != TOPICS[1] else 2):
            for _ in range(chance.randrange(9)):
                size = chance.choice((10, 1000, 70_000))
                records = batch([chance.randbytes(size)] * chance.randint(1, 3), codec=Codec.NONE)
                assert (await append(client, topic, records, acks=1, index=index)).error_code == 0
    broker.replicas.get("a", 1).delete_records_before(-1)
    client.close()
    return ids


def two_ways(broker: Broker) -> tuple[Dispatcher, Dispatcher]:
    return dispatchers(broker, encode_request(1, 4, 1, "x", FetchRequest()))


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_answer_the_same(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_fetch, "RANGE_FROM_BYTES", 65_536)
    monkeypatch.setattr(fetch, "RANGE_FROM_BYTES", 65_536)

    async def main() -> None:
        chance = random.Random(seed)
        clock = ManualClock()
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
        clock = ManualClock()
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
        clock = ManualClock()
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
