"""The section of the client libraries: ours beside other Python clients, on one broker of ours."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from benchmarks import client_libraries, client_throughput
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context

PEERS = ["confluent-kafka", "kafka-python", "aiokafka"]
RECORD_BARS = {"confluent-kafka": 1.0, "kafka-python": 5.0}
ARROW_BARS = {"confluent-kafka": 5.0}

CASES = [
    ("produce", "odradek", "Producer.send, callbacks", RECORD_BARS),
    ("produce", "odradek asyncio", "AsyncProducer.send, callbacks", {}),
    ("produce", "odradek arrow", "send_arrow", ARROW_BARS),
    ("consume", "odradek", "Consumer, record by record", RECORD_BARS),
    ("consume", "odradek asyncio", "AsyncConsumer, record by record", {}),
    ("consume", "odradek arrow", "poll_arrow", ARROW_BARS),
]


def run(name: str, context: Context) -> Outcome:
    """Each round has every client once, in a process of its own."""
    versions, skipped = {"odradek": version("odradek")}, {}
    for peer in PEERS:
        try:
            versions[peer] = version(peer)
        except PackageNotFoundError:
            skipped[peer] = "not installed"
    clients = [*dict.fromkeys(client for _, client, _, _ in CASES), *(p for p in PEERS if p in versions)]
    records = 100_000 if context.quick else 1_000_000
    with client_throughput.broker(None) as servers:
        client_throughput.prepare(servers, records)
        found = client_throughput.samples(
            servers, ["produce", "consume"], clients, records, context.rounds, keyed=True, same=False
        )
    measures = []
    for side, ours, case, bars in CASES:
        columns = {"odradek": ours, **{peer: peer for peer in PEERS if peer in versions}}
        rates = {who: [rate for rate, _ in found[side, client]] for who, client in columns.items()}
        cpu = {who: [used for _, used in found[side, client]] for who, client in columns.items()}
        measures += [
            Measure(case, "records/s", rates, bars=dict(bars)),
            Measure(case, "client CPU s per 1,000,000", cpu, less_is_better=True),
        ]
        context.say(f"{case}: {max(rates['odradek']):,.0f} records/s")
    settings = {
        "value bytes": client_libraries.SIZE,
        "partitions": client_libraries.PARTITIONS,
        "records": records,
        "rounds": context.rounds,
    }
    notes = [
        "Each client with its defaults, acks=all; kafka-python and aiokafka get an eighth of the records."
    ]
    return Outcome(name, "Python clients", ["odradek", *PEERS], versions, measures, settings, notes, skipped)
