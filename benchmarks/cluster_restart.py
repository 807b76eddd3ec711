"""All brokers restarted one after the other while clients write and read: what do the clients notice?

A producer (acks=all, idempotent) writes a record to each of twelve partitions every twenty milliseconds, a
consumer of a group reads all of them. Counted are exceptions at either, records that were acknowledged and
not read, and the longest time between two acknowledgements of one partition.
"""

from __future__ import annotations

import threading
import time
from itertools import count

from benchmarks.clusters import CLUSTERS, OURS, Cluster, in_turns
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context
from odradek.client import Consumer, Producer

PARTITIONS = 12
EVERY_S = 0.02
SETTLE_S = 2.0
READ_WITHIN_S = 60
CASE = "all brokers restarted in turn, under load"
_topics = count()


class Writing:
    """A thread that writes until it is told to end.

    Attributes:
        acknowledged: records by partition; `last_at` when its last one was, `longest_s` the longest pause
            between two.
        errors: what records ended with instead.
    """

    def __init__(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        self.acknowledged = [0] * PARTITIONS
        self.longest_s = 0.0
        self.errors: list[BaseException] = []
        self._last_at = [0.0] * PARTITIONS
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        """Write no more, and wait for what was sent."""
        self._ended.set()
        self._thread.join()

    def begin_to_measure(self) -> None:
        """Forget the pauses so far."""
        self.longest_s = 0.0

    def _run(self) -> None:
        try:
            with Producer(
                bootstrap_servers=self._servers, acks="all", enable_idempotence=True, linger_ms=0
            ) as producer:
                due = time.monotonic()
                while not self._ended.is_set():
                    for partition in range(PARTITIONS):
                        sent = producer.send(self._topic, value=b"x" * 100, partition=partition)
                        sent.add_done_callback(lambda done, at=partition: self._note(done, at))
                    due += EVERY_S
                    time.sleep(max(0.0, due - time.monotonic()))
        except BaseException as error:
            self.errors.append(error)

    def _note(self, done: object, partition: int) -> None:
        error = done.exception()  # type: ignore[attr-defined]
        if error is not None:
            self.errors.append(error)
            return
        now = time.monotonic()
        if self.acknowledged[partition]:
            self.longest_s = max(self.longest_s, now - self._last_at[partition])
        self._last_at[partition] = now
        self.acknowledged[partition] += 1


class Reading:
    """A thread with a consumer of a group, which counts what it reads."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        self.errors: list[BaseException] = []
        self.offsets: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self, until: list[int]) -> int:
        """Read on until so much of each partition is there; returns how many records are not."""
        deadline = time.monotonic() + READ_WITHIN_S
        while time.monotonic() < deadline and not self.errors:
            if all(len(read) >= wanted for read, wanted in zip(self.offsets, until, strict=True)):
                break
            time.sleep(0.05)
        self._ended.set()
        self._thread.join()
        return sum(max(0, wanted - len(read)) for read, wanted in zip(self.offsets, until, strict=True))

    def _run(self) -> None:
        try:
            with Consumer(
                self._topic,
                bootstrap_servers=self._servers,
                group_id=self._topic,
                auto_offset_reset="earliest",
            ) as consumer:
                while not self._ended.is_set():
                    for one in consumer.poll(200):
                        self.offsets[one.partition].add(one.offset)
        except BaseException as error:
            self.errors.append(error)


def run(name: str, context: Context) -> Outcome:
    """Each cluster in turns, round by round."""
    errors = Measure(CASE, "errors at the clients", {}, True, limit=0.0)
    lost = Measure(CASE, "acknowledged and not read", {}, True, limit=0.0)
    gap = Measure(CASE, "ms, longest gap of a partition", {}, True, limit=1_000.0)
    took = Measure(CASE, "s for all three", {}, True)

    def measure(number: int, cluster: Cluster) -> None:
        figures = _restart_all(cluster)
        for one, value in zip((errors, lost, gap, took), figures, strict=True):
            one.values.setdefault(cluster.name, []).append(value)
        words = ", ".join(f"{value:,.0f}" for value in figures)
        context.say(f"round {number}: {cluster.name}: errors, lost, gap, seconds: {words}")

    versions, skipped = in_turns(dict.fromkeys(CLUSTERS, 1) | {OURS: context.rounds}, measure)
    settings = {
        "rounds": context.rounds,
        "of the others": 1,
        "records/s": round(PARTITIONS / EVERY_S),
        "partitions": PARTITIONS,
    }
    title = "A rolling restart: three brokers, three replicas, acks=all, min.insync.replicas=2"
    return Outcome(
        name, title, list(CLUSTERS), versions, [errors, lost, gap, took], settings, skipped=skipped
    )


def _restart_all(cluster: Cluster) -> tuple[float, float, float, float]:
    topic = f"restarts-{next(_topics)}"
    cluster.create_topic(topic, PARTITIONS)
    cluster.await_whole(topic)
    writing, reading = Writing(cluster.servers, topic), Reading(cluster.servers, topic)
    time.sleep(SETTLE_S)
    writing.begin_to_measure()
    began = time.monotonic()
    for broker_id in cluster.ports:
        cluster.terminate(broker_id)
        cluster.start_again(broker_id)
        cluster.await_whole(topic)
    took_s = time.monotonic() - began
    time.sleep(SETTLE_S)
    writing.end()
    lost = reading.end(writing.acknowledged)
    return len(writing.errors) + len(reading.errors), lost, 1000 * writing.longest_s, took_s
