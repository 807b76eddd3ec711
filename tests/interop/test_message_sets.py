"""Message sets of magic 0 and 1 beside Kafka 3.9's own classes: read, written, converted, validated."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.errors import KafkaError
from odradek.records.batch import (
    BatchHeader,
    Record,
    TimestampType,
    records_section,
)
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec
from odradek.records.conversion.convert import target_codec
from odradek.records.conversion.down_conversion import convert
from odradek.records.conversion.up_conversion import batch_to_messages, messages_to_batch, place_messages
from odradek.records.message_sets.message_set import (
    MessageHeader,
    inner_messages,
    iter_all_records,
    iter_entries,
)
from odradek.records.message_sets.message_validation import validate_message_set
from odradek.records.patch import assign_offsets
from records.message_set_builder import MessageSetBuilder
from records.validating import validate_batches

from . import kafka_peer

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]

VERSION = "3.9.1"
"""The last release that still converts."""
SEED = 20260405
NOW = 1_700_000_000_000
HOUR = 3600 * 1000
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
KINDS = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}


class KafkaRecords:
    """Kafka's record classes in a JVM, asked line by line."""

    def __init__(self) -> None:
        wanted = [("org.apache.kafka", name, VERSION) for name in ("kafka-clients", "kafka-storage")]
        library = kafka_peer.resolve(f"kafka-records-{VERSION}", wanted)
        program = Path(__file__).with_name("MessageSets.java")
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{library}/*", str(program)]
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, *words: object) -> list[str]:
        """The words of the answer, the first of them `ok` or `error`."""
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.write(" ".join(map(str, words)) + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline().split()

    def close(self) -> None:
        """End the JVM."""
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait(10)


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaRecords]:
    peer = KafkaRecords()
    yield peer
    peer.close()


def text(data: bytes | None) -> str:
    return "null" if data is None else data.hex() or "-"


def described(records: list[Record]) -> list[str]:
    return [
        f"{r.offset},{r.timestamp},{int(r.timestamp_type)},{text(r.key)},{text(r.value)}" for r in records
    ]


def unpacked(data: bytes) -> list[object]:
    """A set in a form that does not depend on how well it was compressed."""
    parts: list[object] = []
    for header, entry in iter_entries(data):
        if isinstance(header, BatchHeader):
            parts.append((header._replace(length=0, crc=0), bytes(records_section(header, entry))))
        elif header.is_wrapper:
            parts.append((header._replace(length=0, crc=0), bytes(inner_messages(header, entry))))
        else:
            parts.append(bytes(entry))
    return parts


Row = tuple[int, bytes | None, bytes | None]


def rows(rng: random.Random, count: int) -> list[Row]:
    def field() -> bytes | None:
        kind = rng.randrange(6)
        return (
            None
            if kind == 0
            else b""
            if kind == 1
            else rng.randbytes(rng.randrange(1, 40)) * rng.randrange(1, 9)
        )

    return [(rng.choice([-1, NOW + rng.randrange(-HOUR, HOUR)]), field(), field()) for _ in range(count)]


def batch(rng: random.Random, base: int) -> bytes:
    """A record batch as a log may hold it: gaps, headers, markers, transactions, append times."""
    control = rng.random() < 0.1
    transactional = control or rng.random() < 0.2
    builder = BatchBuilder(
        codec=Codec.NONE if control else rng.choice(CODECS),
        timestamp_type=rng.choice(list(KINDS)),
        producer_id=7 if transactional else -1,
        producer_epoch=0 if transactional else -1,
        base_sequence=0 if transactional else -1,
        transactional=transactional,
        control=control,
        partition_leader_epoch=3,
        base_offset=base,
        append_time=NOW,
    )
    delta = 0
    for timestamp, key, value in rows(rng, 1 if control else rng.randrange(1, 12)):
        delta += rng.choice([0, 0, 0, 1, 5])
        headers = [("h", b"x")] * rng.choice([0, 0, 1, 3])
        if control:
            key, value = b"\0\0\0\1", bytes(6)
        builder.append(timestamp, key, value, headers, offset_delta=delta)
        delta += 1
    return builder.build(last_offset_delta=delta + rng.choice([0, 2]))


def message_set(rng: random.Random, magic: int, base: int = 0) -> bytes:
    builder = MessageSetBuilder(magic, rng.choice(CODECS), base_offset=base)
    for timestamp, key, value in rows(rng, rng.randrange(1, 12)):
        builder.append(timestamp, key, value)
    return builder.build()


def test_sets_are_written_as_kafka_writes_them(kafka: KafkaRecords) -> None:
    print("seed", SEED)
    rng = random.Random(SEED)
    for _ in range(400):
        magic, codec, kind = rng.choice([0, 1]), rng.choice(CODECS), rng.choice(list(KINDS))
        base = rng.choice([0, 5, 1 << 40])
        builder = MessageSetBuilder(magic, codec, kind, base, append_time=NOW)
        words: list[object] = []
        offset = base
        for timestamp, key, value in rows(rng, rng.randrange(0, 12)):
            offset += rng.choice([0, 0, 3])
            builder.append(timestamp, key, value, offset=offset)
            words += [offset, timestamp, text(key), text(value)]
            offset += 1
        answer = kafka.ask("build", magic, codec.name.lower(), KINDS[kind], base, NOW, *words)
        assert answer[0] == "ok"
        theirs = b"" if answer[1] == "-" else bytes.fromhex(answer[1])
        assert unpacked(theirs) == unpacked(builder.build())
        if codec is Codec.NONE:
            assert theirs == builder.build()
        for mine in (theirs, builder.build()):
            if mine:
                read = kafka.ask("read", mine.hex())
                assert read[2:] == described(list(iter_all_records(mine)))


def test_batches_become_messages_as_kafka_converts_them(kafka: KafkaRecords) -> None:
    print("seed", SEED)
    rng = random.Random(SEED + 1)
    for _ in range(1000):
        base = rng.choice([0, 1000, 1 << 33])
        log = b""
        for _ in range(rng.randrange(1, 5)):
            magic = rng.choice([0, 1, 2, 2, 2])
            log += batch(rng, base) if magic == 2 else message_set(rng, magic, base)
            base += 100
        first = base - rng.choice([0, 95, 200, 500])
        log = log[: rng.choice([len(log), len(log), len(log) - 3])]
        for magic in (0, 1):
            answer = kafka.ask("down", magic, first, log.hex())
            assert answer[0] == "ok", answer
            theirs = b"" if answer[1] == "-" else bytes.fromhex(answer[1])
            ours = convert(log, magic, first_offset=first)
            assert unpacked(ours) == unpacked(theirs)
            if not any(isinstance(h, MessageHeader) and h.is_wrapper for h, _ in iter_entries(ours)):
                assert ours == theirs
            if ours:
                assert kafka.ask("read", ours.hex())[2:] == described(list(iter_all_records(theirs)))


def test_zstd_is_refused_as_kafka_refuses_it(kafka: KafkaRecords) -> None:
    builder = BatchBuilder(codec=Codec.ZSTD)
    builder.append(NOW, b"k", b"v")
    assert kafka.ask("down", 1, 0, builder.build().hex()) == ["error", "UnsupportedCompressionTypeException"]
    with pytest.raises(KafkaError) as caught:
        convert(builder.build(), 1)
    assert caught.value.code.name == "UNSUPPORTED_COMPRESSION_TYPE"


ERRORS = {
    "CorruptRecordException": "CORRUPT_MESSAGE",
    "InvalidRecordException": "INVALID_RECORD",
    "InvalidTimestampException": "INVALID_TIMESTAMP",
    "UnsupportedForMessageFormatException": "UNSUPPORTED_FOR_MESSAGE_FORMAT",
}


def ours_appended(
    data: bytes, magic: int, base: int, codec: Codec | None, kind: TimestampType, compacted: bool
) -> tuple[bytes, int, bool]:
    """What we would write, the largest timestamp, and whether it was converted."""
    limits = {
        "max_message_bytes": 1 << 20,
        "now_ms": NOW,
        "timestamp_type": kind,
        "timestamp_before_max_ms": HOUR,
        "timestamp_after_max_ms": HOUR,
        "compacted": compacted,
    }
    if data[16] == 2:
        headers = validate_batches(data, **limits)  # type: ignore[arg-type]
        placed = batch_to_messages(
            data, headers, magic, base_offset=base, codec=codec, timestamp_type=kind, now_ms=NOW
        )
        return bytes(placed.records), placed.max_timestamp, True
    messages = validate_message_set(data, **limits)  # type: ignore[arg-type]
    if magic == 2:
        buffer, headers = messages_to_batch(messages, codec=codec)
        headers = assign_offsets(
            buffer, base, leader_epoch=0, timestamp_type=kind, now_ms=NOW, headers=headers
        )
        return bytes(buffer), headers[0].max_timestamp, True
    placed = place_messages(messages, magic, base_offset=base, codec=codec, timestamp_type=kind, now_ms=NOW)
    return bytes(placed.records), placed.max_timestamp, placed.converted


def produced(rng: random.Random) -> bytes:
    """What clients send, faults included: wrong offsets, times out of range, a flag that is the broker's."""
    magic = rng.choice([0, 1])
    codec = rng.choice(CODECS)
    builder = MessageSetBuilder(magic, codec, base_offset=rng.choice([0, 0, 0, 50]))
    for timestamp, key, value in rows(rng, rng.randrange(1, 9)):
        if rng.random() < 0.02:
            timestamp = NOW + rng.choice([-HOUR - 1, HOUR + 1])
        builder.append(timestamp, key, value, offset=builder.last_offset + rng.choice([1, 1, 1, 1, 2]))
    data = bytearray(builder.build())
    if rng.random() < 0.1:
        data[rng.randrange(12, len(data))] ^= 1 << rng.randrange(8)
    if codec is not Codec.NONE and rng.random() < 0.1:
        data += bytes(data)
    return bytes(data)


def test_what_is_produced_is_appended_as_kafka_appends_it(kafka: KafkaRecords) -> None:
    print("seed", SEED)
    rng = random.Random(SEED + 2)
    taken = refused = 0
    for _ in range(2500):
        magic, base = rng.choice([0, 1, 2]), rng.choice([0, 77, 1 << 35])
        if magic < 2 and rng.random() < 0.3:
            builder = BatchBuilder(codec=rng.choice(CODECS), producer_id=rng.choice([-1] * 9 + [5]))
            if builder.producer_id == 5:
                builder.producer_epoch = builder.base_sequence = 0
            for timestamp, key, value in rows(rng, rng.randrange(1, 9)):
                builder.append(timestamp, key, value)
            data = builder.build()
        else:
            data = produced(rng)
        compression = rng.choice(["producer", "producer", "producer", "none", "gzip", "snappy", "lz4"])
        kind, compacted = rng.choice(list(KINDS)), rng.random() < 0.2
        # Of two faults at once we may name the other one: a batch's records are looked at first here.
        compacted = compacted and data[16] < 2 and rng.random() < 0.3
        answer = kafka.ask("append", magic, base, compression, KINDS[kind], NOW, int(compacted), data.hex())
        codec = target_codec("uncompressed" if compression == "none" else compression)
        try:
            ours = ours_appended(data, magic, base, codec, kind, compacted)
        except KafkaError as error:
            if answer[0] == "ok":
                # Kafka drops a message that is cut off and says that all is well.
                assert "cut off" in str(error), (answer, error, data.hex())
                continue
            assert ERRORS.get(answer[1], error.code.name) == error.code.name, (answer, error, data.hex())
            refused += 1
            continue
        assert answer[0] == "ok", (answer, data.hex())
        records, max_timestamp, converted = ours
        theirs = bytes.fromhex(answer[1])
        assert unpacked(theirs) == unpacked(records), data.hex()
        if not converted:
            assert theirs == records
        assert (answer[3] == "true") == converted
        if magic or kind is TimestampType.CREATE_TIME:
            assert int(answer[2]) == max_timestamp
        taken += 1
    assert taken > 1000 and refused > 100
