"""How each client library sends records, and how it reads them: one function for each way.

Each connects, sends or reads a few records to warm up, and measures the rest.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncIterable, Callable, Iterable
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


def _iterate(records: Iterable[Any], count: int) -> Measured:
    """Read up to `count` records."""
    size = 0
    warm = _warm(count)
    clock = None
    for seen, record in enumerate(records, 1):
        size += len(record.value)
        if seen == warm:
            clock = Clock()
        elif seen == count:
            break
    assert clock is not None
    return clock.read()


async def _iterate_async(records: AsyncIterable[Any], count: int) -> Measured:
    """The same in a coroutine."""
    seen = size = 0
    warm = _warm(count)
    clock = None
    async for record in records:
        seen += 1
        size += len(record.value)
        if seen == warm:
            clock = Clock()
        elif seen == count:
            break
    assert clock is not None
    return clock.read()


def _odradek_consumer(servers: str) -> dict[str, Any]:
    return {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}


def _all_filled() -> list[tuple[str, int]]:
    return [(FILLED, p) for p in range(PARTITIONS)]


def consume_odradek(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from odradek.client import Consumer

    with Consumer(**_odradek_consumer(servers)) as consumer:
        consumer.assign(_all_filled())
        return _iterate(consumer, count)


def consume_odradek_poll(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from odradek.client import Consumer

    with Consumer(**_odradek_consumer(servers)) as consumer:
        consumer.assign(_all_filled())
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
        async with AsyncConsumer(**_odradek_consumer(servers)) as consumer:
            await consumer.assign(_all_filled())
            return await _iterate_async(consumer, count)

    return run_uvloop(run())


def consume_odradek_arrow(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    import pyarrow.compute as pc

    from odradek.client import Consumer

    with Consumer(**_odradek_consumer(servers)) as consumer:
        consumer.assign(_all_filled())
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
    measured = _iterate(consumer, count)
    consumer.close()
    return measured


def consume_aiokafka(servers: str, count: int, keyed: bool, same: bool) -> Measured:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def run() -> Measured:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition(FILLED, p) for p in range(PARTITIONS)])
        measured = await _iterate_async(consumer, count)
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
