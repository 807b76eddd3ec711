"""The client libraries side by side on one broker: records per second, and the client's CPU per million.

    python -m benchmarks.client_throughput [--only produce|consume] [--clients odradek,confluent-kafka]
        [--rounds 3] [--records 400000] [--servers HOST:PORT] [--no-keys] [--same] [--json FILE]

Each measurement is a process of its own: it connects, sends or reads a few records to warm up, and then
counts wall clock and its own CPU seconds (`getrusage`, all threads) over the rest. Rounds are interleaved,
the table has medians. The broker is one of ours in its own process, unless `--servers` names another.

A producer sends records of 100 bytes with keys of 8 to four partitions, acks=all, each with a delivery
callback where its interface has one; the measurement ends when all are acknowledged. A consumer reads four
partitions from the beginning and looks at each value.

Each client does what it does by default; `--same` gives all of them linger 5 ms, batches of 64 KiB and 1 MiB
per partition and fetch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.client_libraries import (
    CONSUMERS,
    FILLED,
    PARTITIONS,
    PRODUCERS,
    SIDES,
    SINK,
    VALUE,
    Measured,
)

ROOT = Path(__file__).parents[1]

SLOW = ("kafka-python", "aiokafka")
"""These get fewer records: an eighth, so that a round does not wait for them alone."""


# --- the broker and its topics --------------------------------------------------------------------------


@contextmanager
def broker(given: str | None) -> Iterator[str]:
    """`given`, or a broker of ours in a process and a folder of its own."""
    if given:
        yield given
        return
    shared_memory = Path("/dev/shm")
    parent = shared_memory if shared_memory.is_dir() else None
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        command = [sys.executable, "-m", "odradek", "server", "--data", folder, "--port", "0"]
        with (
            (Path(folder) / "log").open("wb") as log,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
        ):
            assert process.stdout is not None
            yield process.stdout.readline().split()[1]
            process.terminate()


def prepare(servers: str, records: int) -> None:
    """The two topics, one of them filled with twice `records` over the partitions in batches of 16 KiB."""
    from odradek.client import Admin, NewTopic, Producer

    with Admin(bootstrap_servers=servers) as admin:
        # Old segments go, so that a long measurement does not fill the memory.
        small = {"segment.bytes": str(64 << 20), "retention.bytes": str(64 << 20)}
        admin.create_topics([NewTopic(FILLED, PARTITIONS, 1), NewTopic(SINK, PARTITIONS, 1, configs=small)])
    with Producer(bootstrap_servers=servers, linger_ms=50, batch_size=16_384) as producer:
        for number in range(records + PARTITIONS * 1000):
            producer.send(FILLED, VALUE, b"%08d" % number, partition=number % PARTITIONS)


# --- measuring ------------------------------------------------------------------------------------------


def run_worker(client: str, side: str, servers: str, count: int, keyed: bool, same: bool) -> Measured:
    """One measurement in a process of its own."""
    request = json.dumps([client, side, servers, count, keyed, same])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.client_throughput", "--worker", request],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
        check=True,
    )
    seconds, cpu = json.loads(done.stdout)
    return seconds, cpu


def work(request: str) -> None:
    """The worker's side of `run_worker`."""
    client, side, servers, count, keyed, same = json.loads(request)
    print(json.dumps(SIDES[side][client](servers, count, keyed, same)))


Samples = dict[tuple[str, str], list[tuple[float, float]]]
"""By side and client: (records per second, CPU seconds per million) of each round."""


def samples(
    servers: str, sides: list[str], clients: list[str], records: int, rounds: int, keyed: bool, same: bool
) -> Samples:
    """Interleaved rounds."""
    found: Samples = {}
    for _ in range(rounds):
        for side in sides:
            for client in clients:
                if client not in SIDES[side]:
                    continue
                count = records // 8 if client in SLOW else records
                seconds, cpu = run_worker(client, side, servers, count, keyed, same)
                found.setdefault((side, client), []).append((count / seconds, cpu / count * 1e6))
    return found


def medians(found: Samples) -> list[dict[str, Any]]:
    """One row per side and client."""
    return [
        {
            "side": side,
            "client": client,
            "records_per_s": statistics.median(rate for rate, _ in rounds),
            "cpu_s_per_million": statistics.median(cpu for _, cpu in rounds),
            "spread": max(rate for rate, _ in rounds) / min(rate for rate, _ in rounds),
        }
        for (side, client), rounds in found.items()
    ]


def show(rows: list[dict[str, Any]], peers: tuple[str, ...] = ("confluent-kafka", "kafka-python")) -> str:
    """The table."""
    short = {"confluent-kafka": "confluent", "kafka-python": "kafka-py"}
    lines = [
        f"{'':8} {'client':16} {'records/s':>11} {'CPU s/1M':>9}"
        + "".join(f" {'× ' + short.get(p, p):>12} {'CPU ×':>6}" for p in peers)
    ]
    by_place = {(row["side"], row["client"]): row for row in rows}
    for row in rows:
        line = (
            f"{row['side']:8} {row['client']:16} {row['records_per_s']:>11,.0f} "
            f"{row['cpu_s_per_million']:>9.2f}"
        )
        for peer in peers:
            other = by_place.get((row["side"], peer))
            if other is None:
                line += f" {'':12} {'':6}"
                continue
            faster = row["records_per_s"] / other["records_per_s"]
            cheaper = other["cpu_s_per_million"] / row["cpu_s_per_million"]
            line += f" {faster:>12.2f} {cheaper:>6.2f}"
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=list(SIDES))
    parser.add_argument("--clients", default=",".join(dict.fromkeys([*PRODUCERS, *CONSUMERS])))
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--servers")
    parser.add_argument("--no-keys", action="store_true", help="records without keys")
    parser.add_argument("--same", action="store_true", help="the same linger and sizes for all")
    parser.add_argument("--json", type=Path, help="write the rows there, too")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker)
        return
    sides = [args.only] if args.only else list(SIDES)
    with broker(args.servers) as servers:
        prepare(servers, args.records if "consume" in sides else 0)
        rows = medians(
            samples(
                servers,
                sides,
                args.clients.split(","),
                args.records,
                args.rounds,
                not args.no_keys,
                args.same,
            )
        )
    print(show(rows))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
