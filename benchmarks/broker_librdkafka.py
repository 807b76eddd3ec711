"""librdkafka, through confluent-kafka, as a user's client of each broker.

The client is one Python process, as most Python programs have it: this is what a user sees of a broker.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.peers import BROKERS, KAFKA, Peer, package_version, running
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context

SIZE = 1024
PARTITIONS = 4
RECORDS = 300_000
CASES = ("produce, 1 KiB records, acks=all", "consume, 1 KiB records")


def produce(
    servers: str, topic: str, count: int, configs: Mapping[str, Any] | None = None
) -> tuple[float, int]:
    """Send `count` records; (seconds, records acknowledged). `configs` are further ones of the client."""
    from confluent_kafka import Producer

    good = 0

    def told(error: object, message: object) -> None:
        nonlocal good
        good += error is None

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 5,
            "batch.size": 262_144,
            "queue.buffering.max.messages": 500_000,
            **(configs or {}),
        }
    )
    value = bytes(range(256)) * (SIZE // 256)
    producer.produce(topic, value, on_delivery=told)
    producer.flush(30)
    began = time.perf_counter()
    for number in range(count - 1):
        try:
            producer.produce(topic, value, on_delivery=told)
        except BufferError:
            producer.poll(0.01)
            producer.produce(topic, value, on_delivery=told)
        if not number % 1000:
            producer.poll(0)
    producer.flush(60)
    return time.perf_counter() - began, good


def consume(
    servers: str, topic: str, count: int, configs: Mapping[str, Any] | None = None
) -> tuple[float, int]:
    """Read `count` records from the beginning; (seconds, records read)."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 65_536,
            **(configs or {}),
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    seen = len(consumer.consume(1, 30))
    began = time.perf_counter()
    while seen < count:
        messages = consumer.consume(10_000, 5)
        if not messages:
            break
        for message in messages:
            if message.error():
                raise RuntimeError(message.error())
        seen += len(messages)
    spent = time.perf_counter() - began
    consumer.close()
    return spent, seen


def _measure(peer: Peer, what: str, topic: str, count: int) -> dict[str, float]:
    cpu = peer.cpu_s()
    words = [sys.executable, "-m", "benchmarks.broker_librdkafka", what, peer.servers, topic, str(count)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{peer.name}: {done.stderr[-2000:]}")
    seconds, records = json.loads(done.stdout)
    if records != count:
        raise RuntimeError(f"{peer.name}: {what} of {count} records ended with {records}")
    megabytes = count * SIZE / 1e6
    return {
        "MB/s": megabytes / seconds,
        "CPU s per GiB": (peer.cpu_s() - cpu) / (count * SIZE / 2**30),
    }


def run(name: str, context: Context) -> Outcome:
    """Produce a topic and consume it, in turns."""
    from odradek.client import Admin, NewTopic

    skipped: dict[str, str] = {}
    count = RECORDS // 4 if context.quick else RECORDS
    figures: dict[tuple[str, str], dict[str, list[float]]] = {}
    with running(list(BROKERS), skipped) as peers:
        for number in range(-1, context.rounds):
            for who, peer in peers.items():
                topic = f"user-{number + 1}"
                with Admin(bootstrap_servers=peer.servers) as admin:
                    admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1)])
                for what, case in zip(("produce", "consume"), CASES, strict=True):
                    found = _measure(peer, what, topic, count)
                    if number < 0:
                        continue
                    for label, value in found.items():
                        figures.setdefault((case, label), {}).setdefault(who, []).append(value)
                    words = ", ".join(f"{value:.3g} {label}" for label, value in found.items())
                    context.say(f"{case}, round {number + 1}, {who}: {words}")
                with Admin(bootstrap_servers=peer.servers) as admin:
                    admin.delete_topics([topic])
        versions = {who: peer.version for who, peer in peers.items()}
    versions["confluent-kafka"] = package_version("confluent-kafka") or "?"
    measures = [
        Measure(case, label, values, label.startswith("CPU"), {KAFKA: 1.0})
        for (case, label), values in sorted(figures.items(), key=lambda item: CASES.index(item[0][0]))
    ]
    settings = {"rounds": context.rounds, "records": f"{count:,}", "partitions": PARTITIONS}
    title = "librdkafka as a user's client (confluent-kafka)"
    notes = ["The client and its Python loop share the machine with the broker; CPU is the broker’s alone."]
    return Outcome(name, title, list(BROKERS), versions, measures, settings, notes, skipped)


if __name__ == "__main__":
    mode = {"produce": produce, "consume": consume}[sys.argv[1]]
    print(json.dumps(mode(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
