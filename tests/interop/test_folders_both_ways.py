"""Folders at rest: what we wrote and compacted Kafka 3.9 serves, and both tools say the same of all files."""

from __future__ import annotations

import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from log.golden_folders import GoldenFolder
from odradek import Admin, Consumer, NewTopic, Producer
from odradek.cli.dump_log import command as dump_log
from odradek.log import LogConfig, LogManager, PartitionLog, RealFileSystem
from odradek.log.cleaner import clean_range, make_job, run, swap_in
from odradek.records.batch import Record
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec
from odradek.records.message_sets.message_set import iter_all_records, iter_entries
from odradek.testing import Broker
from odradek.util.clock import SystemClock
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from waiting import gathered

from . import topics_of_kafka
from .kafka_peer import NEWEST, RealKafka, run_tool
from .test_log_folder import kill

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]

KAFKA = "3.9.1"
CONFIGS = {
    "segment.bytes": "5000",
    "index.interval.bytes": "500",
    "segment.index.bytes": "1000",
    "retention.ms": "-1",
    "file.delete.delay.ms": "0",
}
COMPACTED = {**CONFIGS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
PLAIN, KEYED = "all-codecs", "latest-only"
PRODUCERS = (4711, 4712)


def everything(log: PartitionLog) -> list[Record]:
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, upper_bound=log.log_end_offset, min_one_batch=True).records
        found += [record for record in iter_all_records(piece) if record.offset >= offset]
        offset = max(header.next_offset for header, _ in iter_entries(piece))
    return found


def write(log: PartitionLog, *, keys: int, count: int) -> None:
    """Batches of every codec, with headers and nulls, from two idempotent producers and from none."""
    now_ms = SystemClock().now_ms()
    sequences = dict.fromkeys(PRODUCERS, 0)
    for number in range(0, count, 5):
        producer = (*PRODUCERS, -1)[number // 5 % 3]
        fields: dict[str, Any] = {}
        if producer >= 0:
            fields = {"producer_id": producer, "producer_epoch": 2, "base_sequence": sequences[producer]}
            sequences[producer] += 5
        builder = BatchBuilder(Codec(number // 5 % 5), **fields)
        for n in range(number, number + 5):
            value = None if n % 11 == 0 else b"%d " % n + b"." * (n % 200)
            builder.append(now_ms + n, b"k%d" % (n % keys), value, [("n", b"%d" % n), ("null", None)])
        log.append(builder.build(), leader_epoch=log.epochs.latest, now_ms=now_ms)
    log.commit_all()


def compact(log: PartitionLog) -> int:
    """One whole pass; how many records went."""
    before = len(everything(log))
    now_ms = SystemClock().now_ms()
    job = replace(make_job(log, clean_range(log, 0, now_ms), now_ms))
    assert swap_in(log, job, run(log.files, job), now_ms)
    return before - len(everything(log))


def fill(data: Path, *, clean: bool) -> dict[str, PartitionLog]:
    """What a broker of ours does to the folder."""
    manager = LogManager([data], RealFileSystem(), SystemClock(), LogConfig())
    manager.identity.check(1, None)
    manager.load({PLAIN: CONFIGS, KEYED: COMPACTED})
    logs = {topic: manager.get(topic, 0) for topic in (PLAIN, KEYED)}
    found = {topic: log for topic, log in logs.items() if log is not None}
    assert len(found) == 2
    write(found[PLAIN], keys=50, count=600)
    write(found[KEYED], keys=9, count=900)
    assert compact(found[KEYED]) > 500
    for log in found.values():
        assert len(log.segments) > 1
    manager.checkpoint()
    if clean:
        assert manager.close()
    else:
        manager.unlock()
    return found


def consume(bootstrap: str, topic: str) -> list[Record]:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        [end] = consumer.end_offsets([(topic, 0)]).values()
        consumer.seek_to_beginning()
        found = gathered(
            lambda: consumer.poll(1_000),
            lambda: consumer.position((topic, 0)) >= end,
            f"the records of {topic} up to {end}",
        )
    return [Record(r.offset, r.timestamp, r.timestamp_type, r.key, r.value, tuple(r.headers)) for r in found]


def producers_of(port: int, topic: str) -> dict[int, tuple[int, int]]:
    """Epoch and last sequence by producer id, as the broker says."""
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    with socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(b"".join(encode_request(61, 0, 1, "test", request)))
        file = client.makefile("rb")
        frame = file.read(int.from_bytes(file.read(4)))
    _, answer = decode_response(frame, 61, 0)
    partition = answer.topics[0].partitions[0]
    assert partition.error_code == 0
    return {one.producer_id: (one.producer_epoch, one.last_sequence) for one in partition.active_producers}


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_kafka_serves_what_we_wrote_and_compacted(tmp_path: Path, how: str) -> None:
    kafka = RealKafka(KAFKA, tmp_path, {"log.cleaner.enable": "false"})
    kafka.start()
    try:
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            plain, keyed = NewTopic(PLAIN, 1, 1, configs=CONFIGS), NewTopic(KEYED, 1, 1, configs=COMPACTED)
            topics_of_kafka.create(admin, plain, keyed)
        kill(kafka)
        kafka.stop()
        logs = fill(tmp_path / "data", clean=how == "stopped")
        expected = {topic: everything(log) for topic, log in logs.items()}
        sequences = {
            topic: {e.producer_id: (e.epoch, e.last_sequence) for e in log.producers.entries.values()}
            for topic, log in logs.items()
        }
        for log in logs.values():
            log.release()
        kafka.start()
        for topic in (PLAIN, KEYED):
            found = consume(kafka.bootstrap_servers, topic)
            assert [tuple(one) for one in found] == [tuple(one) for one in expected[topic]]
            assert producers_of(kafka.port, topic) == sequences[topic]
            with Consumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
                for record in expected[topic][:: len(expected[topic]) // 5]:
                    asked = consumer.offsets_for_times({(topic, 0): record.timestamp})
                    [answer] = asked.values()
                    assert answer is not None
                    newer = next(r for r in expected[topic] if r.timestamp >= record.timestamp)
                    assert (answer.offset, answer.timestamp) == (newer.offset, newer.timestamp)
    finally:
        kafka.stop()


def test_our_broker_serves_what_kafka_wrote_and_kafka_goes_on(tmp_path: Path) -> None:
    kafka = RealKafka(KAFKA, tmp_path)
    kafka.start()
    try:
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            topics_of_kafka.create(admin, NewTopic(PLAIN, 1, 1, configs={"segment.bytes": "20000"}))
        with Producer(bootstrap_servers=kafka.bootstrap_servers, acks="all", linger_ms=2) as producer:
            sent = [
                producer.send(PLAIN, b"%d " % n + b"." * (n % 100), key=b"k%d" % (n % 7), partition=0)
                for n in range(400)
            ]
            assert [one.result(timeout=120).offset for one in sent] == list(range(400))
        kafkas = consume(kafka.bootstrap_servers, PLAIN)
        assert len(kafkas) == 400
        kill(kafka)
        kafka.stop()
        with Broker(data=tmp_path / "data", broker_id=1) as broker:
            assert consume(broker.bootstrap_servers, PLAIN) == kafkas
        kafka.start()
        assert consume(kafka.bootstrap_servers, PLAIN) == kafkas
    finally:
        kafka.stop()


FLAGS = [
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--print-data-log", "--skip-record-metadata"),
    ("--index-sanity-check",),
    ("--verify-index-only",),
    ("--max-bytes", "3000"),
    ("--value-decoder-class", "org.apache.kafka.tools.api.LongDecoder"),
]


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_both_tools_say_the_same_of_kafkas_files(tmp_path: Path, flags: tuple[str, ...]) -> None:
    golden = GoldenFolder("kafka-3.9.1-clean", tmp_path)
    kinds = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
    files = [
        str(path)
        for path in sorted(golden.data.rglob("0*"))
        if path.suffix in kinds and not path.parent.name.startswith("__")
    ]
    if "LongDecoder" in flags[-1]:
        files = [file for file in files if Path(file).stat().st_size == 0][:3]
    if flags[0] == "--index-sanity-check":
        files = [file for file in files if file.endswith("index")]
    compare(files, *flags)


@pytest.mark.parametrize("decoder", ["offsets", "transaction-log"])
def test_both_tools_decode_the_same(tmp_path: Path, decoder: str) -> None:
    golden = GoldenFolder("kafka-3.9.1-clean", tmp_path)
    topic = {"offsets": "__consumer_offsets", "transaction-log": "__transaction_state"}[decoder]
    files = [str(path) for path in sorted(golden.data.glob(f"{topic}-*/*.log"))]
    assert files
    compare(files, f"--{decoder}-decoder")


def compare(files: list[str], *flags: str) -> None:
    arguments = (*flags, "--files", ",".join(files))
    theirs = run_tool(NEWEST, "dump-log", *arguments)
    ours = CliRunner().invoke(dump_log, arguments)
    assert ours.exit_code == 0, ours.output
    assert [_ordered(line) for line in ours.stdout.splitlines()] == [
        _ordered(line) for line in theirs.splitlines()
    ]


def _ordered(line: str) -> str:
    """Kafka prints the partitions of a transaction in no order."""
    return re.sub(r"partitions=\[(.*?)\]", lambda found: f"partitions={sorted(found[1].split(','))}", line)
