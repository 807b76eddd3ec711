"""Encoding and decoding beside kafka-python and aiokafka, in one run.

Every library decodes the same bytes and encodes what it decoded; the result is compared with those bytes
before anything is timed. Libraries take turns within each round, so that a busy machine disturbs all of
them alike; what is printed is the median over the rounds, in microseconds for one message.

    python benchmarks/wire_codec.py [--rounds N] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiokafka.protocol.fetch
import aiokafka.protocol.metadata
import aiokafka.protocol.produce
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer.produce

from odradek.wire.messages import fetch, metadata, produce

RECORDS = bytes(range(256)) * 4
NAMES = [f"topic-{number}" for number in range(20)]


@dataclass
class Case:
    """One message: our object and version, and the classes of the others (None: not supported there)."""

    name: str
    message: produce.ProduceRequest | fetch.FetchResponse | metadata.MetadataResponse
    version: int
    kafka_python: type
    aiokafka: type | None


def cases() -> list[Case]:
    """What is measured."""
    produce_request = produce.ProduceRequest(
        acks=-1,
        timeout_ms=30000,
        topic_data=[
            produce.TopicProduceData(
                name="orders", partition_data=[produce.PartitionProduceData(index=3, records=RECORDS)]
            )
        ],
    )
    partitions = [fetch.PartitionData(partition_index=index, records=RECORDS) for index in range(50)]
    fetch_response = fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic="orders", partitions=partitions)]
    )
    brokers = [
        metadata.MetadataResponseBroker(node_id=node, host=f"broker-{node}", port=9092) for node in range(3)
    ]
    topics = [
        metadata.MetadataResponseTopic(
            name=name,
            partitions=[
                metadata.MetadataResponsePartition(
                    partition_index=index, leader_id=index % 3, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2]
                )
                for index in range(6)
            ],
        )
        for name in NAMES
    ]
    metadata_response = metadata.MetadataResponse(
        brokers=brokers, cluster_id="cluster", controller_id=0, topics=topics
    )
    kafka_produce = kafka.protocol.producer.produce.ProduceRequest
    kafka_fetch = kafka.protocol.consumer.FetchResponse
    return [
        Case(
            "Produce 7 request, 1 KiB",
            produce_request,
            7,
            kafka_produce,
            aiokafka.protocol.produce.ProduceRequest_v7,
        ),
        Case("Produce 11 request, 1 KiB", produce_request, 11, kafka_produce, None),
        Case(
            "Fetch 11 response, 50 × 1 KiB",
            fetch_response,
            11,
            kafka_fetch,
            aiokafka.protocol.fetch.FetchResponse_v11,
        ),
        Case("Fetch 12 response, 50 × 1 KiB", fetch_response, 12, kafka_fetch, None),
        Case(
            "Metadata 5 response, 20 × 6",
            metadata_response,
            5,
            kafka.protocol.metadata.MetadataResponse,
            aiokafka.protocol.metadata.MetadataResponse_v5,
        ),
    ]


def contenders(case: Case) -> dict[str, tuple[Callable[[], object], Callable[[], bytes]]]:
    """For each library a function that decodes and one that encodes."""
    version, wanted = case.version, case.message.encode(case.version)
    ours = type(case.message)
    decoded = ours.decode(wanted, version)
    found: dict[str, tuple[Callable[[], object], Callable[[], bytes]]] = {
        "odradek": (lambda: ours.decode(wanted, version), lambda: decoded.encode(version))
    }
    theirs = case.kafka_python.decode(wanted, version=version)
    found["kafka-python"] = (
        lambda: case.kafka_python.decode(wanted, version=version),
        theirs.encode,
    )
    if case.aiokafka is not None:
        peer = case.aiokafka
        other = peer.decode(wanted)
        found["aiokafka"] = (lambda: peer.decode(wanted), other.encode)
    for library, (_, encode) in found.items():
        if bytes(encode()) != wanted:
            raise SystemExit(f"{library} encodes {case.name} to other bytes")
    return found


def measure(
    functions: dict[str, Callable[[], object]], rounds: int, turn_seconds: float = 0.01
) -> dict[str, float]:
    """Time functions in turns.

    Returns:
        For each the median over the rounds, in microseconds a call.
    """
    calls = {}
    for name, function in functions.items():
        started, done = time.perf_counter(), 0
        while time.perf_counter() - started < turn_seconds:
            function()
            done += 1
        calls[name] = max(1, done)
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            repeat = range(calls[name])
            started = time.perf_counter()
            for _ in repeat:
                function()
            times[name].append((time.perf_counter() - started) / calls[name] * 1e6)
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    results = []
    for case in cases():
        found = contenders(case)
        for what, place in (("decode", 0), ("encode", 1)):
            medians = measure({name: pair[place] for name, pair in found.items()}, options.rounds)
            results.append({"message": case.name, "what": what, "us": medians})
    if options.json:
        print(json.dumps(results, ensure_ascii=False, indent=2))
        return
    print(f"{'microseconds, median':32}{'':8}{'odradek':>10}{'kafka-python':>14}{'aiokafka':>10}")
    for row in results:
        cells = [row["us"].get(name) for name in ("odradek", "kafka-python", "aiokafka")]
        shown = [f"{cell:.2f}" if cell is not None else "–" for cell in cells]
        print(f"{row['message']:32}{row['what']:8}{shown[0]:>10}{shown[1]:>14}{shown[2]:>10}")


if __name__ == "__main__":
    main()
