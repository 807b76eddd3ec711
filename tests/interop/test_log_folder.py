"""A data folder goes from Kafka to us and back: each finds what the other wrote, stopped or killed."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient

from odradek import Consumer, Producer
from odradek.cli.dump_log import command as dump_log
from odradek.log import LogConfig, LogManager, PartitionLog, RealFileSystem
from odradek.log.startup.loading import open_partition_log
from odradek.records.batch import iter_batches, iter_records
from odradek.records.builder import BatchBuilder
from odradek.util.clock import SystemClock
from waiting import WITHIN_S, gathered

from .kafka_peer import NEWEST, RealKafka, run_tool

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]

TOPIC = "handed-over"
CONFIGS = {"segment.bytes": "20000", "index.interval.bytes": "500", "segment.index.bytes": "1000"}


def produce(bootstrap: str, first: int, count: int) -> None:
    with Producer(bootstrap_servers=bootstrap, acks="all", linger_ms=2) as producer:
        futures = [
            producer.send(
                TOPIC, b"%d " % number + b"." * (number % 200), key=b"k%d" % (number % 7), partition=0
            )
            for number in range(first, first + count)
        ]
        assert [future.result(timeout=120).offset for future in futures] == list(range(first, first + count))


def consume(bootstrap: str, count: int) -> list[int]:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(TOPIC, 0)])
        consumer.seek_to_beginning()
        records = gathered(lambda: consumer.poll(1_000), count, f"{count} records")
    assert [record.offset for record in records] == list(range(len(records)))
    return [int(record.value.split()[0]) for record in records]


def records_of(log: PartitionLog) -> list[int]:
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, upper_bound=log.log_end_offset, min_one_batch=True).records
        found += [int(record.value.split()[0]) for record in iter_records(piece)]
        offset = max(header.next_offset for header, _ in iter_batches(piece))
    return found


def append(log: PartitionLog, first: int, count: int) -> None:
    """As an idempotent producer of five records a batch."""
    now_ms = SystemClock().now_ms()
    for number in range(first, first + count, 5):
        builder = BatchBuilder(producer_id=4711, producer_epoch=0, base_sequence=number - first)
        for n in range(number, number + 5):
            builder.append(now_ms, b"k%d" % (n % 7), b"%d " % n + b"." * (n % 200), [])
        log.append(builder.build(), leader_epoch=log.epochs.latest, now_ms=now_ms)


def open_folder(data: Path) -> tuple[LogManager, PartitionLog]:
    manager = LogManager([data], RealFileSystem(), SystemClock(), LogConfig())
    manager.identity.check(1, None)
    manager.load({TOPIC: CONFIGS})
    log = manager.get(TOPIC, 0)
    assert log is not None
    return manager, log


def kill(kafka: RealKafka) -> None:
    """Kill the broker, and let its ZooKeeper forget it: a session outlives the process for a while."""
    broker = kafka.children[-1]
    broker.send_signal(signal.SIGKILL)
    broker.wait(WITHIN_S)
    config = (kafka.directory / "zoo.cfg").read_text(encoding="utf-8")
    [port] = [line.partition("=")[2] for line in config.splitlines() if line.startswith("clientPort=")]
    client = KazooClient(f"127.0.0.1:{port}")
    client.start(timeout=120)
    try:
        gone = threading.Event()
        if client.exists("/brokers/ids/1", watch=lambda event: gone.set()):
            assert gone.wait(120)
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_folder_is_taken_over_and_given_back(tmp_path, how):
    kafka = RealKafka("2.2.2", tmp_path)

    def end_kafka() -> None:
        if how == "killed":
            kill(kafka)
        kafka.stop()

    settings = [word for name, value in CONFIGS.items() for word in ("--config", f"{name}={value}")]
    kafka.start()
    try:
        run_tool(
            "2.2.2", "topics", "--bootstrap-server", kafka.bootstrap_servers, "--create", "--topic", TOPIC,
            "--partitions", "1", "--replication-factor", "1", *settings,
        )  # fmt: skip
        produce(kafka.bootstrap_servers, 0, 500)
        end_kafka()

        manager, log = open_folder(kafka.directory / "data")
        assert records_of(log) == list(range(500))
        append(log, 500, 300)
        assert len(log.segments) > 3
        if how == "killed":
            manager.unlock()
        else:
            assert manager.close()

        kafka.start()
        assert consume(kafka.bootstrap_servers, 800) == list(range(800))
        produce(kafka.bootstrap_servers, 800, 100)
        end_kafka()

        manager, log = open_folder(kafka.directory / "data")
        assert records_of(log) == list(range(900))
        assert log.producers.entries[4711].last_sequence == 299
        manager.close()
    finally:
        kafka.stop()


def test_kafka_prints_our_files_as_we_do(tmp_path):
    log = open_partition_log(
        tmp_path / "t-0", "t", 0, LogConfig.from_topic(CONFIGS), RealFileSystem(), SystemClock(),
        topic_id=bytes(range(16)),
    )  # fmt: skip
    log.epochs.assign(3, 0)
    append(log, 0, 400)
    log.close()
    kinds = (".log", ".index", ".timeindex", ".snapshot")
    files = sorted(str(path) for path in log.directory.iterdir() if path.suffix in kinds)
    assert len(files) > 10
    arguments = ("--deep-iteration", "--files", ",".join(files))
    theirs = run_tool(NEWEST, "dump-log", *arguments)
    ours = CliRunner().invoke(dump_log, arguments)
    assert ours.exit_code == 0
    assert ours.stdout.splitlines() == theirs.splitlines()
    assert ours.stderr == ""
