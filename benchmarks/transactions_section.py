"""Records in transactions of 100 and of 10,000, and idempotent ones without, on each broker.

The client is odradek's producer in a process of its own: it sends 100 B records to four partitions by key,
and waits for each transaction's commit before it begins the next, as programs do.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from benchmarks.peers import KAFKA, OURS, Peer, running
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context

SIZE = 100
PARTITIONS = 4
KEYS = [b"%d" % number for number in range(64)]
CASES = {
    "idempotent, no transactions": 0,
    "100 records a transaction": 100,
    "10,000 records a transaction": 10_000,
}


def load(servers: str, topic: str, per_transaction: int, seconds: float) -> tuple[float, int]:
    """Send for so long; (seconds, records acknowledged and, in transactions, committed)."""
    from odradek.client import Producer

    value = b"v" * SIZE
    batch = per_transaction or 10_000
    options = {"transactional_id": topic} if per_transaction else {}
    with Producer(bootstrap_servers=servers, **options) as producer:
        if per_transaction:
            producer.init_transactions()

        def send() -> None:
            for number in range(batch):
                producer.send(topic, value, key=KEYS[number & 63])

        def one() -> None:
            if per_transaction:
                with producer.begin_transaction():
                    send()
            else:
                send()

        for _ in range(3):
            one()
        producer.flush()
        done, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            one()
            done += batch
        producer.flush()
        return time.perf_counter() - began, done


def _measure(peer: Peer, topic: str, per_transaction: int, seconds: float) -> dict[str, float]:
    cpu = peer.cpu_s()
    words = [sys.executable, "-m", "benchmarks.transactions_section", peer.servers, topic]
    done = subprocess.run(
        [*words, str(per_transaction), str(seconds)], capture_output=True, text=True, timeout=120
    )
    if done.returncode:
        raise RuntimeError(f"{peer.name}: {done.stderr[-2000:]}")
    spent, records = json.loads(done.stdout)
    used = peer.cpu_s() - cpu
    found = {"records/s": records / spent}
    if per_transaction:
        found["transactions/s"] = records / per_transaction / spent
        found["broker CPU ms per transaction"] = used / (records / per_transaction) * 1000
    else:
        found["broker CPU s per million records"] = used / records * 1e6
    return found


def run(name: str, context: Context) -> Outcome:
    """The brokers take turns, case by case."""
    from odradek.client import Admin, NewTopic

    skipped: dict[str, str] = {}
    figures: dict[tuple[str, str], dict[str, list[float]]] = {}
    with running([OURS, KAFKA], skipped) as peers:
        for case, per_transaction in CASES.items():
            for number in range(-1, context.rounds):
                for who, peer in peers.items():
                    topic = f"txn-{per_transaction}-{number + 1}"
                    with Admin(bootstrap_servers=peer.servers) as admin:
                        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
                    found = _measure(peer, topic, per_transaction, context.seconds)
                    with Admin(bootstrap_servers=peer.servers) as admin:
                        admin.delete_topics([topic])
                    if number < 0:
                        continue
                    for label, value in found.items():
                        figures.setdefault((case, label), {}).setdefault(who, []).append(value)
                    words = ", ".join(f"{value:.3g} {label}" for label, value in found.items())
                    context.say(f"{case}, round {number + 1}, {who}: {words}")
        versions = {who: peer.version for who, peer in peers.items()}
    measures = [
        Measure(case, label, values, "CPU" in label, {KAFKA: 1.0})
        for (case, label), values in figures.items()
    ]
    settings = {"rounds": context.rounds, "seconds": context.seconds, "partitions": PARTITIONS, "bytes": SIZE}
    notes = [
        "One client process, odradek's producer with its defaults, one transaction after the other.",
        "The client shares the machine with the broker; CPU is the broker’s alone.",
    ]
    title = "Transactions and idempotence"
    return Outcome(name, title, [OURS, KAFKA], versions, measures, settings, notes, skipped)


if __name__ == "__main__":
    print(json.dumps(load(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))))
