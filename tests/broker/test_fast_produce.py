"""The short cut for usual Produce requests answers and writes as the ordinary way does; its codecs agree."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from fastcrc.crc32 import iscsi

from odradek.broker.app import Broker
from odradek.broker.fast import _pyproduce
from odradek.broker.fast.produce import FastProduce
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.slices import Slicer
from odradek.errors.codes import ErrorCode
from odradek.log.producers.producer_state import Origin
from odradek.log.storage.real_files import RealFileSystem
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec
from odradek.records.control import ControlType, end_marker_batch
from odradek.util.clock import ManualClock
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response, encode_request, encode_response
from odradek.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

from .live import batch, create_topic, running
from .net import run
from .test_produce import REFUSED
from .twins import ABSENT, twins
from .two_ways import Later, dispatch, plain

CODECS = twins(_pyproduce, "odradek._produce")
NOW_MS = 1_700_000_000_000
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "small": {"max.message.bytes": "300", "segment.bytes": "2000", "index.interval.bytes": "100"},
    "recent": {"message.timestamp.after.max.ms": "50", "message.timestamp.before.max.ms": "50"},
    "packed": {"compression.type": "gzip"},
    "unpacked": {"compression.type": "uncompressed"},
}
PARTITIONS = 3


class Shape:
    """Draws requests, the unusual among them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.sequences: dict[tuple[int, str, int], int] = {}
        self.transactional = False
        """Whether the request in work has a transactional id."""

    def odd(self, share: float = 0.04) -> bool:
        return self.chance.random() < share

    def batch(self, topic: str, index: int) -> bytes | None:
        chance = self.chance
        if self.odd(0.01):
            return None
        fields: dict[str, Any] = {}
        count = chance.choice((1, 1, 2, 5, 60))
        if chance.random() < 0.4:
            producer = chance.choice((1, 2))
            first = self.sequences.get((producer, topic, index), 0)
            self.sequences[producer, topic, index] = first + count
            if self.odd(0.1):
                first = max(0, first + chance.choice((-count, 1, -1)))
            epoch = 0 if not self.odd() else chance.choice((-1, 1))
            fields = {"producer_id": producer, "producer_epoch": max(epoch, 0), "base_sequence": first}
        if self.odd():
            fields["partition_leader_epoch"] = 7
        if self.odd():
            fields["base_offset"] = 5
        if chance.random() < (0.8 if self.transactional else 0.02):
            producer = 3 if not self.odd() else 4
            first = self.sequences.get((producer, topic, index), 0)
            self.sequences[producer, topic, index] = first + count
            fields |= {
                "transactional": True,
                "producer_id": producer,
                "producer_epoch": int(self.odd(0.02)),
                "base_sequence": first if not self.odd() else max(0, first - count),
            }
        codec = chance.choice(list(Codec)) if self.odd(0.15) else Codec.NONE
        builder = BatchBuilder(codec, **fields)
        for number in range(count):
            key = None if topic != "compacted" or self.odd() else b"k%d" % number
            timestamp = NOW_MS + number if not self.odd(0.02) else chance.choice((-1, 0, NOW_MS + 10_000))
            builder.append(timestamp, key, chance.choice((None, b"", b"v" * 30)), [("h", b"x")][: number % 2])
        data = bytearray(builder.build())
        if self.odd(0.1):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        if self.odd(0.02):
            del data[chance.randrange(len(data)) :]
        return bytes(data)

    def request(self, version: int, ids: dict[str, bytes]) -> ProduceRequest:
        chance = self.chance
        names = chance.sample(list(TOPICS), chance.choice((1, 1, 2, 4)))
        if self.odd():
            names.append(chance.choice(("unknown", "ümläut", "__consumer_offsets", names[0])))
        message = ProduceRequest(acks=chance.choice((-1, 1, 1, 0)), timeout_ms=1_000, topic_data=[])
        if self.odd():
            message.acks = 2
        self.transactional = chance.random() < 0.3
        if self.transactional:
            message.transactional_id = chance.choice(("t", "t" * 300, "", "ümläut"))
        for name in names:
            indexes = chance.sample(range(PARTITIONS), chance.randint(1, PARTITIONS))
            if self.odd():
                indexes.append(chance.choice((indexes[0], 9, -1)))
            if self.odd(0.02):
                indexes = []
            message.topic_data.append(
                TopicProduceData(
                    name="" if version >= 13 else name,
                    topic_id=ids.get(name, bytes(15) + b"x") if version >= 13 else bytes(16),
                    partition_data=[
                        PartitionProduceData(index=index, records=self.batch(name, index))
                        for index in indexes
                    ],
                )
            )
        return message

    def mutated(self, frame: bytes, *, bytes_too: bool = True) -> bytes:
        """Sometimes with another byte, shorter, or longer."""
        data = bytearray(frame)
        if self.odd(0.1) and bytes_too:
            data[self.chance.randrange(len(data))] = self.chance.randrange(256)
        if self.odd(0.03):
            del data[self.chance.randrange(len(data)) :]
        if self.odd(0.03):
            data += b"\0\0\0"
        return bytes(data)


def written(data: Path) -> dict[str, bytes]:
    """The logs and their indexes."""
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for path in sorted(data.rglob("*"))
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot")
    }


def one_way(broker: Broker, *, fast: bool) -> Dispatcher:
    """A dispatcher with the short cut, or without."""
    # Time stands still: whatever can be answered at once is, however slow the machine.
    broker.slicer = Slicer(lambda: 0.0)
    dispatcher = Dispatcher(broker, broker.handlers, broker.slicer)
    message = ProduceRequest(acks=1, timeout_ms=0, topic_data=[])
    dispatch(dispatcher, b"".join(encode_request(0, 7, 1, "x", message))[4:], Later())
    assert isinstance(dispatcher._fast[0], FastProduce)
    if not fast:
        dispatcher._fast.clear()
    return dispatcher


@pytest.mark.parametrize("seed", range(8))
def test_both_ways_answer_and_write_the_same(seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(NOW_MS)
        shape = Shape(seed)
        folders = tmp_path / "fast", tmp_path / "ordinary"
        # Nobody has to have added the partitions: the first batch of a transaction goes the ordinary way.
        settings = {"clock": clock, "transaction_partition_verification_enable": False}
        async with running(folders[0], **settings) as one, running(folders[1], **settings) as other:
            ids = [
                {name: create_topic(broker, name, PARTITIONS, configs) for name, configs in TOPICS.items()}
                for broker in (one, other)
            ]
            ways = one_way(one, fast=True), one_way(other, fast=False)
            taken = 0
            for number in range(150):
                version = shape.chance.randint(3, 13)
                state = shape.chance.getstate(), dict(shape.sequences)
                frames = []
                for own in ids:
                    shape.chance.setstate(state[0])
                    shape.sequences = dict(state[1])
                    message = shape.request(version, own)
                    parts = encode_request(ApiKey.PRODUCE, version, number, "client", message)
                    # The two brokers have other topic ids, and a broken one is told as it came.
                    frames.append(shape.mutated(b"".join(parts)[4:], bytes_too=version < 13))
                before = one.metrics.requests.of("Produce").requests
                answers = []
                for way, frame in zip(ways, frames, strict=True):
                    said = dispatch(way, frame, Later())
                    answers.append(said if isinstance(said, str) else plain(said))
                first = answers[0]
                if isinstance(first, bytes):
                    for name, topic_id in ids[0].items():
                        first = first.replace(topic_id, ids[1][name])
                assert first == answers[1], f"seed {seed}, request {number} of version {version}"
                taken += one.metrics.requests.of("Produce").requests > before
                clock.advance(7)
            assert taken > 100
            for name in (*TOPICS,):
                assert vars_of(one.metrics.topics.of(name)) == vars_of(other.metrics.topics.of(name))
            logs = [
                [(log.log_end_offset, log.high_watermark) for log in broker.logs.all()]
                for broker in (one, other)
            ]
            assert logs[0] == logs[1]
            assert written(folders[0]) == written(folders[1])

    run(main)


def vars_of(metrics: Any) -> dict[str, int]:
    return {name: getattr(metrics, name) for name in metrics.__slots__}


@pytest.mark.parametrize("name", REFUSED)
def test_the_short_cut_takes_nothing_that_is_refused(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            create_topic(broker, "t", 1)
            fast = FastProduce(broker)
            records, _ = REFUSED[name]
            data = [PartitionProduceData(index=0, records=records)]
            message = ProduceRequest(
                acks=1, timeout_ms=0, topic_data=[TopicProduceData(name="t", partition_data=data)]
            )
            frame = memoryview(b"".join(encode_request(0, 7, 1, "x", message))[4:])
            assert fast(None, frame, None) is NotImplemented  # type: ignore[arg-type]
            assert broker.logs.get("t", 0).log_end_offset == 0

    run(main)


def test_the_short_cut_goes_on_with_transactions_and_begins_none(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            create_topic(broker, "t", 2)
            fast = FastProduce(broker)
            partitions = [broker.replicas.get("t", index) for index in (0, 1)]

            def append(records: bytes, index: int = 0, origin: Origin = Origin.CLIENT) -> None:
                partitions[index].append(
                    records, required_acks=1, now_ms=broker.clock.now_ms(), origin=origin
                )

            def made(sequence: int, **fields: Any) -> bytes:
                return batch(
                    **{
                        "producer_id": 7,
                        "producer_epoch": 1,
                        "base_sequence": sequence,
                        "transactional": True,
                        **fields,
                    }
                )

            def takes(*records: bytes, transactional_id: str | None = "x") -> bool:
                data = [PartitionProduceData(index=at, records=one) for at, one in enumerate(records)]
                message = ProduceRequest(
                    acks=1,
                    transactional_id=transactional_id,
                    topic_data=[TopicProduceData(name="t", partition_data=data)],
                )
                ends = [one.log.log_end_offset for one in partitions]
                frame = memoryview(b"".join(encode_request(0, 9, 1, "x", message))[4:])
                taken = fast(None, frame, None) is not NotImplemented  # type: ignore[arg-type]
                assert taken == ([one.log.log_end_offset for one in partitions] != ends)
                return taken

            assert not takes(made(0))
            append(made(0))
            assert takes(made(1))
            assert not takes(made(2), transactional_id=None)
            assert not takes(made(3))
            assert not takes(made(1))
            assert not takes(made(0, producer_epoch=2))
            assert not takes(made(2, transactional=False))
            assert takes(made(2), batch())
            # Of two producers, whose transactions are both open.
            append(made(0, producer_id=8), 1)
            assert not takes(made(3), made(1, producer_id=8))
            append(made(0), 1)
            assert takes(made(3), made(1))
            assert not partitions[0].log.last_stable_offset
            marker = end_marker_batch(
                ControlType.COMMIT, producer_id=7, producer_epoch=1, coordinator_epoch=0, timestamp=1
            )
            append(marker, origin=Origin.COORDINATOR)
            assert not takes(made(4))
            assert takes(made(4, transactional=False))

    run(main)


def test_a_disk_that_fails_on_the_way_is_told_of_the_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path, files=RealFileSystem()) as broker:
            create_topic(broker, "t", 2)
            fast = FastProduce(broker)

            def request(acks: int) -> memoryview:
                data = [PartitionProduceData(index=index, records=batch([b"a"])) for index in range(2)]
                message = ProduceRequest(
                    acks=acks, timeout_ms=0, topic_data=[TopicProduceData(name="t", partition_data=data)]
                )
                return memoryview(b"".join(encode_request(0, 9, 5, "x", message))[4:])

            def full(*_: Any) -> None:
                raise OSError(28, "No space left on device")

            broken = broker.logs.get("t", 1)
            monkeypatch.setattr(
                type(broken.segments.active), "_write", _failing(broken.segments.active, full)
            )
            answer = fast(None, request(1), None)  # type: ignore[arg-type]
            _, response = decode_response(b"".join(answer.buffers)[4:], 0, 9)
            codes = [one.error_code for one in response.responses[0].partition_responses]
            assert codes == [0, ErrorCode.KAFKA_STORAGE_ERROR]
            assert broken.log_end_offset == 0
            assert broker.logs.get("t", 0).log_end_offset > 0
            assert fast(None, request(0), None).close  # type: ignore[arg-type]
            assert broker.metrics.topics.of("t").failed_produce_requests == 2

    run(main)


def _failing(only: Any, failure: Any) -> Any:
    original = type(only)._write

    def write(self: Any, parts: Any, position: int) -> None:
        if self is only:
            failure()
        original(self, parts, position)

    return write


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", range(3, 14))
def test_responses_are_those_of_the_messages(codec: Any, version: int) -> None:
    chance = random.Random(version)
    for _ in range(20):
        topics: list[Any] = []
        message = ProduceResponse(responses=[])
        for number in range(chance.choice((0, 1, 2, 200))):
            name = chance.randbytes(16) if version >= 13 else f"topic-{number}" * chance.choice((1, 20))
            parts = [
                (index, chance.choice((0, 5, 2**62)), chance.choice((0, 7)))
                for index in range(chance.choice((0, 1, 3, 130)))
            ]
            topics.append((name, parts))
            message.responses.append(
                TopicProduceResponse(
                    **({"topic_id": name} if version >= 13 else {"name": name}),
                    partition_responses=[
                        PartitionProduceResponse(
                            index=index, base_offset=base, log_append_time_ms=-1, log_start_offset=start
                        )
                        for index, base, start in parts
                    ],
                )
            )
        expected = b"".join(encode_response(ApiKey.PRODUCE, version, 77, message))
        assert codec.encode_produce(version, 77, topics) == expected


@pytest.mark.parametrize("codec", CODECS)
def test_a_transactional_batch_needs_a_producer(codec: Any) -> None:
    limits = 10**6, -(2**63), 2**63 - 1, False
    plain_batch = batch(timestamp=NOW_MS)
    assert codec.check_batch(plain_batch, 0, len(plain_batch), *limits) == (0, NOW_MS, -1)
    nobodys = bytearray(plain_batch)
    nobodys[22] |= 0x10
    nobodys[17:21] = iscsi(bytes(nobodys[21:])).to_bytes(4, "big")
    assert codec.check_batch(bytes(nobodys), 0, len(nobodys), *limits) is None
    somebodys = batch(timestamp=NOW_MS, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    assert codec.check_batch(somebodys, 0, len(somebodys), *limits) == (0, NOW_MS, 5)


@pytest.mark.parametrize("seed", range(6))
def test_both_codecs_read_and_check_the_same(seed: int) -> None:
    _produce: Any = pytest.importorskip("odradek._produce", reason=ABSENT)
    shape = Shape(seed)
    ids = {name: bytes([number]) * 16 for number, name in enumerate(TOPICS)}
    usual = good = 0
    for number in range(300):
        version = shape.chance.randint(3, 13)
        parts = encode_request(0, version, number, "cl" * (number % 3), shape.request(version, ids))
        frame = memoryview(shape.mutated(b"".join(parts)[4:]))
        said = _produce.parse_produce(frame)
        assert said == _pyproduce.parse_produce(frame), f"seed {seed}, frame {frame.hex()}"
        if said is None:
            continue
        usual += 1
        for _, found in said[4]:
            for _, start, end in found:
                limits = (
                    shape.chance.choice((300, 10**6)),
                    shape.chance.choice((-(2**63), NOW_MS)),
                    shape.chance.choice((2**63 - 1, NOW_MS + 20)),
                    shape.chance.random() < 0.2,
                )
                checked = _produce.check_batch(frame, start, end, *limits)
                assert checked == _pyproduce.check_batch(frame, start, end, *limits), (
                    f"seed {seed}, frame {frame.hex()}, {start} to {end}, {limits}"
                )
                good += checked is not None
    assert usual > 100
    assert good > 100
