"""The client libraries side by side on one broker: records per second, and the client's CPU per million.

    python benchmarks/client_throughput.py [--only produce|consume] [--clients odradek,confluent-kafka]
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
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PARTITIONS = 4
SIZE = 100
VALUE = b"v" * SIZE
FILLED = "client-filled"
SINK = "client-sink"
ARROW_ROWS = 100_000

SAME_LINGER_MS = 5
SAME_BATCH_BYTES = 65_536
SAME_FETCH_BYTES = 1_048_576

SLOW = ("kafka-python", "aiokafka")
"""These get fewer records: an eighth, so that a round does not wait for them alone."""


class Clock:
    """Wall clock and CPU seconds of this process since it was made."""

    def __init__(self) -> None:
        self._cpu = self._used()
        self._started = time.perf_counter()

    @staticmethod
    def _used() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    def read(self) -> tuple[float, float]:
        """(seconds, CPU seconds)"""
        return time.perf_counter() - self._started, self._used() - self._cpu


Measured = tuple[float, float]


def keys(count: int, keyed: bool) -> list[bytes | None]:
    """Keys made beforehand, so that making them is nobody's time."""
    return [b"%08d" % number if keyed else None for number in range(count)]


# --- producers ------------------------------------------------------------------------------------------


class Seen:
    """What delivery callbacks count."""

    def __init__(self) -> None:
        self.good = 0

    def told(self, metadata: Any, error: Any) -> None:
        """odradek's signature."""
        if error is None:
            self.good += 1

    def told_confluent(self, error: Any, message: Any) -> None:
        """confluent-kafka's."""
        if error is None:
            self.good += 1


def produce_odradek(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from odradek.client import Producer

    seen = Seen()
    told = seen.told
    with Producer(bootstrap_servers=servers, **_odradek_producer(same)) as producer:
        producer.send(SINK, VALUE).result(30)
        all_keys = keys(count, keyed)
        clock = Clock()
        send = producer.send
        for key in all_keys:
            send(SINK, VALUE, key, on_delivery=told)
        producer.flush()
        measured = clock.read()
    assert seen.good == count
    return measured


def produce_odradek_futures(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from odradek.client import Producer

    with Producer(bootstrap_servers=servers, **_odradek_producer(same)) as producer:
        producer.send(SINK, VALUE).result(30)
        all_keys = keys(count, keyed)
        clock = Clock()
        send = producer.send
        futures = [send(SINK, VALUE, key) for key in all_keys]
        producer.flush()
        assert all(future.done() for future in futures)
        return clock.read()


def produce_odradek_async(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from odradek.client import AsyncProducer

    async def run() -> Measured:
        seen = Seen()
        told = seen.told
        async with AsyncProducer(bootstrap_servers=servers, **_odradek_producer(same)) as producer:
            await producer.send_and_wait(SINK, VALUE)
            all_keys = keys(count, keyed)
            clock = Clock()
            send = producer.send
            for key in all_keys:
                await send(SINK, VALUE, key, on_delivery=told)
            await producer.flush()
            measured = clock.read()
        assert seen.good == count
        return measured

    return run_uvloop(run())


def produce_odradek_arrow(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    import pyarrow as pa

    from odradek.client import Producer

    rows = min(count, ARROW_ROWS)
    columns: dict[str, Any] = {"value": pa.array([VALUE] * rows, pa.binary())}
    if keyed:
        columns["key"] = pa.array(keys(rows, True), pa.binary())
    table = pa.table(columns)
    with Producer(bootstrap_servers=servers, **_odradek_producer(same)) as producer:
        producer.send_arrow(table.slice(0, 1000), SINK).result(30)
        clock = Clock()
        for _ in range(count // rows):
            producer.send_arrow(table, SINK)
        producer.flush()
        return clock.read()


def _odradek_producer(same: bool) -> dict[str, Any]:
    return {"linger_ms": SAME_LINGER_MS, "batch_size": SAME_BATCH_BYTES} if same else {}


def produce_confluent(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from confluent_kafka import Producer

    config: dict[str, Any] = {"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True}
    if same:
        config |= {"linger.ms": SAME_LINGER_MS, "batch.size": SAME_BATCH_BYTES}
    seen = Seen()
    told = seen.told_confluent
    producer = Producer(config)
    producer.produce(SINK, VALUE)
    producer.flush(30)
    all_keys = keys(count, keyed)
    clock = Clock()
    produce, poll = producer.produce, producer.poll
    for key in all_keys:
        while True:
            try:
                produce(SINK, VALUE, key, on_delivery=told)
                break
            except BufferError:
                poll(0.1)
        poll(0)
    producer.flush()
    measured = clock.read()
    assert seen.good == count
    return measured


def produce_kafka_python(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from kafka import KafkaProducer

    config: dict[str, Any] = {"bootstrap_servers": servers, "acks": "all"}
    if same:
        config |= {"linger_ms": SAME_LINGER_MS, "batch_size": SAME_BATCH_BYTES}
    producer = KafkaProducer(**config)
    producer.send(SINK, VALUE).get(30)
    all_keys = keys(count, keyed)
    clock = Clock()
    futures = [producer.send(SINK, VALUE, key) for key in all_keys]
    producer.flush()
    measured = clock.read()
    assert all(future.succeeded() for future in futures)
    producer.close()
    return measured


def produce_aiokafka(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from aiokafka import AIOKafkaProducer

    async def run() -> Measured:
        config: dict[str, Any] = {"bootstrap_servers": servers, "acks": "all", "enable_idempotence": True}
        if same:
            config |= {"linger_ms": SAME_LINGER_MS, "max_batch_size": SAME_BATCH_BYTES}
        producer = AIOKafkaProducer(**config)
        await producer.start()
        await producer.send_and_wait(SINK, VALUE)
        all_keys = keys(count, keyed)
        clock = Clock()
        futures = [await producer.send(SINK, VALUE, key) for key in all_keys]
        await producer.flush()
        measured = clock.read()
        assert all(future.done() and future.exception() is None for future in futures)
        await producer.stop()
        return measured

    return run_uvloop(run())


# --- consumers ------------------------------------------------------------------------------------------


def _warm(count: int) -> int:
    return min(1000, count // 10)


def consume_odradek(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from odradek.client import Consumer

    config: dict[str, Any] = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
    with Consumer(**config) as consumer:
        consumer.assign([(FILLED, p) for p in range(PARTITIONS)])
        size = 0
        warm = _warm(count)
        clock = None
        for seen, record in enumerate(consumer, 1):
            size += len(record.value)
            if seen == warm:
                clock = Clock()
            elif seen == count:
                break
        assert clock is not None
        return clock.read()


def consume_odradek_poll(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from odradek.client import Consumer

    config: dict[str, Any] = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
    with Consumer(**config) as consumer:
        consumer.assign([(FILLED, p) for p in range(PARTITIONS)])
        seen = size = 0
        while seen < _warm(count):
            seen += len(consumer.poll())
        clock = Clock()
        while seen < count:
            for record in consumer.poll():
                seen += 1
                size += len(record.value)
        return clock.read()


def consume_odradek_async(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from odradek.client import AsyncConsumer

    async def run() -> Measured:
        config: dict[str, Any] = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
        async with AsyncConsumer(**config) as consumer:
            await consumer.assign([(FILLED, p) for p in range(PARTITIONS)])
            seen = size = 0
            warm = _warm(count)
            clock = None
            async for record in consumer:
                seen += 1
                size += len(record.value)
                if seen == warm:
                    clock = Clock()
                elif seen == count:
                    break
            assert clock is not None
            return clock.read()

    return run_uvloop(run())


def consume_odradek_arrow(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    import pyarrow.compute as pc

    from odradek.client import Consumer

    config: dict[str, Any] = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
    with Consumer(**config) as consumer:
        consumer.assign([(FILLED, p) for p in range(PARTITIONS)])
        seen = 0
        while seen < 1:
            seen += consumer.poll_arrow(max_rows=_warm(count)).num_rows
        clock = Clock()
        size = 0
        while seen < count:
            table = consumer.poll_arrow()
            seen += table.num_rows
            size += pc.sum(pc.binary_length(table["value"])).as_py() or 0
        return clock.read()


def consume_confluent(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from confluent_kafka import Consumer, TopicPartition

    config: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": "client-benchmark",
        "enable.auto.commit": False,
    }
    if same:
        config["max.partition.fetch.bytes"] = SAME_FETCH_BYTES
    consumer = Consumer(config)
    consumer.assign([TopicPartition(FILLED, p, 0) for p in range(PARTITIONS)])
    seen = size = 0
    while seen < _warm(count):
        seen += len(consumer.consume(500, 1.0))
    clock = Clock()
    while seen < count:
        for message in consumer.consume(500, 1.0):
            seen += 1
            size += len(message.value())
    measured = clock.read()
    consumer.close()
    return measured


def consume_kafka_python(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None)
    consumer.assign([TopicPartition(FILLED, p) for p in range(PARTITIONS)])
    size = 0
    warm = _warm(count)
    clock = None
    for seen, record in enumerate(consumer, 1):
        size += len(record.value)
        if seen == warm:
            clock = Clock()
        elif seen == count:
            break
    assert clock is not None
    measured = clock.read()
    consumer.close()
    return measured


def consume_aiokafka(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def run() -> Measured:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition(FILLED, p) for p in range(PARTITIONS)])
        seen = size = 0
        warm = _warm(count)
        clock = None
        async for record in consumer:
            seen += 1
            size += len(record.value)
            if seen == warm:
                clock = Clock()
            elif seen == count:
                break
        assert clock is not None
        measured = clock.read()
        await consumer.stop()
        return measured

    return run_uvloop(run())


def run_uvloop(coroutine: Any) -> Any:
    """On the loop that the clients' users choose for speed."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


Measure = Callable[[str, int, bool, bool], Measured]

PRODUCERS: dict[str, Measure] = {
    "odradek": produce_odradek,
    "odradek futures": produce_odradek_futures,
    "odradek asyncio": produce_odradek_async,
    "odradek arrow": produce_odradek_arrow,
    "confluent-kafka": produce_confluent,
    "kafka-python": produce_kafka_python,
    "aiokafka": produce_aiokafka,
}
CONSUMERS: dict[str, Measure] = {
    "odradek": consume_odradek,
    "odradek poll": consume_odradek_poll,
    "odradek asyncio": consume_odradek_async,
    "odradek arrow": consume_odradek_arrow,
    "confluent-kafka": consume_confluent,
    "kafka-python": consume_kafka_python,
    "aiokafka": consume_aiokafka,
}
SIDES = {"produce": PRODUCERS, "consume": CONSUMERS}


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
        [sys.executable, __file__, "--worker", request], stdout=subprocess.PIPE, text=True, check=True
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
        args.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
