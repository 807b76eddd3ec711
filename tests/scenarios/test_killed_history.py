"""Idempotent producers and members of a group, restarted at random, on a broker that is killed.

What each client does follows from the seed; how their requests meet on the broker does not, so each run
is another one. On failure the history is kept, and `python -m odradek.testing.checker` tells it again.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from crash.server import SETTINGS, Server
from odradek import Admin, Consumer, NewTopic, Producer
from odradek.client.types import ConsumerRebalanceListener, TopicPartition
from odradek.errors import OdradekError
from odradek.testing.checker import Poll, Record, Recorder, Send, check
from ports import free_port
from waiting import gathered, joined

TOPIC = "events"
PARTITIONS = 3
PRODUCERS = 3
OPERATIONS = 40  # of each producer
KILLS = 3


def name(partition: int) -> str:
    return f"{TOPIC}-{partition}"


class Run:
    def __init__(self, seed: int, port: int, recorder: Recorder) -> None:
        self.seed = seed
        self.at = f"127.0.0.1:{port}"
        self.recorder = recorder
        self.produced = 0  # operations, of all producers
        self.progress = threading.Condition()
        self.ended = threading.Event()
        self.problems: list[BaseException] = []

    def thread(self, work, me: str) -> threading.Thread:
        def run() -> None:
            try:
                work(me, random.Random(f"{self.seed} {me}"))
            except BaseException as error:
                self.problems.append(error)
                with self.progress:
                    self.progress.notify_all()

        thread = threading.Thread(target=run, name=me)
        thread.start()
        return thread

    def produce(self, me: str, chance: random.Random) -> None:
        producer = self.producer()
        for number in range(OPERATIONS):
            count = chance.randint(1, 30)
            sends = [Send(name(chance.randrange(PARTITIONS)), f"{me}:{number}:{n}") for n in range(count)]
            self.recorder.invoke(me, "send", sends)
            futures = [
                producer.send(
                    TOPIC, str(send.value).encode(), partition=int(send.partition[len(TOPIC) + 1 :])
                )
                for send in sends
            ]
            restart = chance.random() < 0.1
            if restart:
                producer.close(0)
            known = []
            for send, future in zip(sends, futures, strict=True):
                try:
                    known.append(Send(send.partition, send.value, future.result(60).offset))
                except OdradekError:  # it may have reached the log, and the answer not us
                    known.append(send)
            everything = all(send.offset is not None for send in known)
            self.recorder.complete(me, "ok" if everything else "info", "send", known)
            if restart:
                self.recorder.control(me, "crash")
                producer = self.producer()
            with self.progress:
                self.produced += 1
                self.progress.notify_all()
        producer.close(60)

    def producer(self) -> Producer:
        return Producer(
            bootstrap_servers=self.at, enable_idempotence=True, acks="all", linger_ms=1, batch_size=200
        )

    def consume(self, me: str, chance: random.Random) -> None:
        consumer = self.consumer(me)
        while not self.ended.is_set():
            self.poll(me, consumer)
            if chance.random() < 0.3:
                # The broker may be down, or the group rebalance: then these are polled again.
                with contextlib.suppress(OdradekError):
                    consumer.commit(timeout_ms=500)
            if chance.random() < 0.02:
                consumer.close(500)
                self.recorder.control(me, "crash")
                consumer = self.consumer(me)
        consumer.close(500)

    def consumer(self, me: str) -> Consumer:
        recorder = self.recorder

        class Listener(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
                recorder.control(me, "rebalance", [name(tp.partition) for tp in revoked])

            def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
                recorder.control(me, "rebalance", [name(tp.partition) for tp in assigned])

        consumer = Consumer(
            bootstrap_servers=self.at,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=40,
        )
        consumer.subscribe([TOPIC], listener=Listener())
        recorder.control(me, "subscribe", [TOPIC])
        return consumer

    def poll(self, me: str, consumer: Consumer) -> list[Record]:
        self.recorder.invoke(me, "poll", [Poll()])
        polled = consumer.poll(100)
        records = [Record(name(r.partition), r.offset, r.value.decode()) for r in polled]
        self.recorder.complete(me, "ok", "poll", [Poll(tuple(records))])
        return records

    def read_everything(self) -> None:
        partitions = [TopicPartition(TOPIC, n) for n in range(PARTITIONS)]
        with Consumer(bootstrap_servers=self.at) as consumer:
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            self.recorder.control("reader", "assign", [name(n) for n in range(PARTITIONS)])
            ends = consumer.end_offsets(partitions)
            gathered(
                lambda: self.poll("reader", consumer),
                lambda: all(consumer.position(tp) >= ends[tp] for tp in partitions),
                f"the records up to {ends}",
            )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20261121])
def test_a_killed_broker_leaves_a_sound_history(tmp_path: Path, seed: int) -> None:
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    port = free_port()
    settings = {**SETTINGS, "group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
    server = Server(tmp_path / "data", port, settings)
    history = tmp_path / "history.jsonl"
    with history.open("w", encoding="utf-8") as stream:
        try:
            server.wait_ready()
            run = Run(seed, port, Recorder(stream))
            with Admin(bootstrap_servers=run.at) as admin:
                admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
            members = [run.thread(run.consume, f"c{n}") for n in range(2)]
            producers = [run.thread(run.produce, f"p{n}") for n in range(PRODUCERS)]
            try:
                for when in sorted(chance.sample(range(5, PRODUCERS * OPERATIONS - 5), KILLS)):
                    with run.progress:
                        assert run.progress.wait_for(lambda at=when: run.produced >= at or run.problems, 60)
                    server.end(signal.SIGKILL)
                    server = Server(tmp_path / "data", port, settings)
                    server.wait_ready()
                for thread in producers:
                    joined(thread, 90)
            finally:
                run.ended.set()
                for thread in (*producers, *members):
                    joined(thread, 90)
            assert not run.problems, run.problems
            run.read_everything()
        finally:
            server.end(signal.SIGTERM)
    report = check(run.recorder.events)
    assert report.valid, f"seed {seed}, {history}\n{report.summary()}"
    assert report.acknowledged > 1_000
    assert report.polled > report.acknowledged
