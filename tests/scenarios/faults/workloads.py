"""What producers do while a cluster fails, and what they were told."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from cluster_processes import LIMIT_S, ClusterProcesses
from odradek import Consumer, Producer
from odradek.client.errors import ClientTimeoutError
from odradek.client.types import TopicPartition
from odradek.errors import OdradekError
from odradek.testing.checker import Poll, Record, Recorder, Send

TOPIC = "events"
#: What a producer without idempotence may do when it sends again.
RESENT = frozenset({"duplicate", "nonmonotonic-send", "int-nonmonotonic-send"})
_PATIENCE = 10  # calls that timed out, in a row


@dataclass(frozen=True)
class Workload:
    """A kind of producers.

    Attributes:
        compression: a codec's name.
        idempotent: each record is written once.
        transactional: each operation is a transaction, and readers see what is committed.
        writers: how many producers.
        batch: records of an operation.
        request_timeout_ms: how long a broker that does not answer is waited for; default: as long as a
            producer does by itself.
    """

    compression: str = "none"
    idempotent: bool = True
    transactional: bool = False
    writers: int = 2
    batch: int = 10
    request_timeout_ms: int = 30_000

    def __str__(self) -> str:
        kind = "transactional" if self.transactional else "idempotent" if self.idempotent else "plain"
        return kind if self.compression == "none" else f"{kind}, {self.compression}"

    @property
    def isolation(self) -> str:
        """The isolation level of its readers."""
        return "read_committed" if self.transactional else "read_uncommitted"

    @property
    def allowed(self) -> frozenset[str]:
        """Anomalies that it may show."""
        return frozenset() if self.idempotent else RESENT


def name(partition: int) -> str:
    """A partition's name in histories."""
    return f"{TOPIC}-{partition}"


class Writing:
    """Producers that write to the partitions of `TOPIC` until they are told to end.

    Attributes:
        partitions: how many there are; may grow.
        operations: those that have ended.
        acknowledged: those of which every record was acknowledged, and committed.
        longest_gap_s: the longest time between two of these.
    """

    def __init__(
        self, cluster: ClusterProcesses, recorder: Recorder, workload: Workload, partitions: int = 1
    ) -> None:
        self.partitions = partitions
        self.operations = 0
        self.acknowledged = 0
        self.longest_gap_s = 0.0
        self._last = 0.0
        self._cluster = cluster
        self._recorder = recorder
        self._workload = workload
        self._progress = threading.Condition()
        self._ended = False
        self._renewals = 0
        self._problems: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(f"p{n}",)) for n in range(workload.writers)]

    def __enter__(self) -> Writing:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended = True
        for thread in self._threads:
            thread.join(3 * LIMIT_S)
        assert not any(thread.is_alive() for thread in self._threads)
        if kind is None:
            assert not self._problems, self._problems

    def go_on(self, count: int = 10) -> None:
        """Wait until so many more operations were acknowledged."""
        with self._progress:
            until = self.acknowledged + count
            reached = self._progress.wait_for(lambda: self.acknowledged >= until or self._problems, LIMIT_S)
        assert reached, f"{self.acknowledged} of {until} operations were acknowledged"
        assert not self._problems, self._problems

    def go_on_for(self, seconds: float) -> None:
        """Have operations acknowledged again and again for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.go_on(1)

    def renew(self) -> None:
        """Have all producers end, and others begin with the configs that clients have now."""
        self._renewals += 1

    def forget_gaps(self) -> None:
        """Note the longest gap from now on."""
        with self._progress:
            self._last, self.longest_gap_s = 0.0, 0.0

    def _run(self, me: str) -> None:
        try:
            life = 0
            while not self._ended:
                self._live(me, f"{me}.{life}")
                life += 1
        except BaseException as error:
            self._problems.append(error)
            with self._progress:
                self._progress.notify_all()

    def _live(self, me: str, life: str) -> None:
        """Write until told to end, or until the producer is of no more use."""
        workload, renewals = self._workload, self._renewals
        more = {"transactional_id": me} if workload.transactional else {}
        with Producer(
            self._cluster.client_configs,
            bootstrap_servers=self._cluster.bootstrap_servers,
            acks="all",
            enable_idempotence=workload.idempotent,
            compression_type=workload.compression,
            linger_ms=1,
            request_timeout_ms=workload.request_timeout_ms,
            metadata_max_age_ms=10 * workload.request_timeout_ms,
            **more,
        ) as producer:
            if workload.transactional:
                _again(producer.init_transactions)
            number = 0
            while not self._ended and self._renewals == renewals:
                sends = self._sends(life, number)
                number += 1
                if workload.transactional:
                    if not self._transaction(life, producer, sends):
                        return
                else:
                    self._write(life, producer, sends)

    def _sends(self, life: str, number: int) -> list[Send]:
        partitions = self.partitions
        return [
            Send(name((number + n) % partitions), f"{life}:{number}:{n}") for n in range(self._workload.batch)
        ]

    def _send(self, producer: Producer, sends: list[Send]) -> list[Send]:
        """Send; with the offsets of what was acknowledged."""
        futures = [
            producer.send(TOPIC, str(send.value).encode(), partition=int(send.partition.rpartition("-")[2]))
            for send in sends
        ]
        known = []
        for send, future in zip(sends, futures, strict=True):
            try:
                known.append(Send(send.partition, send.value, future.result(2 * LIMIT_S).offset))
            except OdradekError:  # it may have reached the log, and the answer not us
                known.append(send)
        return known

    def _write(self, me: str, producer: Producer, sends: list[Send]) -> None:
        self._recorder.invoke(me, "send", sends)
        known = self._send(producer, sends)
        whole = all(send.offset is not None for send in known)
        self._recorder.complete(me, "ok" if whole else "info", "send", known)
        self._count(whole)

    def _transaction(self, me: str, producer: Producer, sends: list[Send]) -> bool:
        """One transaction; False if the producer is of no more use."""
        self._recorder.invoke(me, "txn", sends)
        known, ending, is_usable = sends, "info", False
        try:
            producer.begin_transaction()
            known = self._send(producer, sends)
            if all(send.offset is not None for send in known):
                _again(producer.commit_transaction)
                ending = "ok"
            else:
                _again(producer.abort_transaction)
                ending = "fail"
            is_usable = True
        except OdradekError:  # whether it was committed, nobody knows
            pass
        self._recorder.complete(me, ending, "txn", known)
        self._count(ending == "ok")
        if not is_usable:
            self._recorder.control(me, "crash")
        return is_usable

    def _count(self, whole: bool) -> None:
        now = time.monotonic()
        with self._progress:
            self.operations += 1
            self.acknowledged += whole
            if whole:
                if self._last:
                    self.longest_gap_s = max(self.longest_gap_s, now - self._last)
                self._last = now
            self._progress.notify_all()


def _again(call: object) -> None:
    """A call of a transactional producer that timed out goes on, and is waited for again."""
    for _ in range(_PATIENCE):
        try:
            call()  # type: ignore[operator]
        except ClientTimeoutError:
            continue
        return
    raise ClientTimeoutError("the transaction has no end")


class Reading:
    """A consumer with partitions of its own, which reads all the while, from the beginning to the end.

    Args:
        writing: of which it reads the partitions that there are at first.
        me: its name in the history.
        configs: of the consumer.
    """

    def __init__(
        self,
        cluster: ClusterProcesses,
        recorder: Recorder,
        workload: Workload,
        writing: Writing,
        me: str,
        **configs: Any,
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._workload = workload
        self._count = writing.partitions
        self._me = me
        self._configs = configs
        self._ends: list[int] | None = None
        self._renewals = 0
        self._at = dict.fromkeys((TopicPartition(TOPIC, n) for n in range(self._count)), 0)
        self._progress = threading.Condition()
        self._problem: BaseException | None = None
        self.polled = 0
        """Records."""
        self._thread = threading.Thread(target=self._run, name=me)

    def start(self) -> Reading:
        """Begin."""
        self._thread.start()
        return self

    def go_on(self, count: int) -> None:
        """Wait until so many more records were polled."""
        with self._progress:
            until = self.polled + count
            reached = self._progress.wait_for(lambda: self.polled >= until or self._problem, LIMIT_S)
        assert self._problem is None, self._problem
        assert reached, f"{self.polled} of {until} records were polled"

    def finish(self, since: int = 0) -> None:
        """Read to what was acknowledged until now, from an event on, and end."""
        self._ends = acknowledged_ends(self._recorder, self._count, since)
        self._thread.join(2 * LIMIT_S)
        assert not self._thread.is_alive(), f"{self._me} did not reach {self._ends}"
        if self._problem is not None:
            raise self._problem

    def leave(self) -> None:
        """End, wherever it is."""
        self._ends = [0] * self._count
        self._thread.join(2 * LIMIT_S)

    def _run(self) -> None:
        try:
            self._read()
        except BaseException as error:
            self._problem = error
            with self._progress:
                self._progress.notify_all()

    def renew(self) -> None:
        """Have another consumer go on where this one is, with the configs that clients have now."""
        self._renewals += 1

    def _read(self) -> None:
        self._recorder.control(self._me, "assign", [name(n) for n in range(self._count)])
        while not self._has_ended():
            self._live(self._renewals)

    def _live(self, renewals: int) -> None:
        at = self._at
        with Consumer(
            self._cluster.client_configs,
            bootstrap_servers=self._cluster.bootstrap_servers,
            isolation_level=self._workload.isolation,
            auto_offset_reset="earliest",
            **self._configs,
        ) as consumer:
            consumer.assign(list(at))
            for partition, offset in at.items():
                if offset:
                    consumer.seek(partition, offset)
            while not self._has_ended() and self._renewals == renewals:
                self._recorder.invoke(self._me, "poll", [Poll()])
                records = consumer.poll(100)
                polled = [Record(name(one.partition), one.offset, one.value.decode()) for one in records]
                self._recorder.complete(self._me, "ok", "poll", [Poll(tuple(polled))])
                for one in records:
                    at[TopicPartition(one.topic, one.partition)] = one.offset + 1
                with self._progress:
                    self.polled += len(polled)
                    self._progress.notify_all()

    def _has_ended(self) -> bool:
        ends = self._ends
        return ends is not None and all(
            self._at[TopicPartition(TOPIC, n)] >= end for n, end in enumerate(ends)
        )


def acknowledged_ends(recorder: Recorder, partitions: int, since: int) -> list[int]:
    """One past the highest offset of each partition that was acknowledged, from an event on.

    A leader that was paused may yet tell the end that it knew; so readers go by this.
    """
    ends = {name(n): 0 for n in range(partitions)}
    for event in recorder.events[since:]:
        if event.type != "ok":
            continue
        for one in event.micro:
            if isinstance(one, Send) and one.offset is not None and one.partition in ends:
                ends[one.partition] = max(ends[one.partition], one.offset + 1)
    return [ends[name(n)] for n in range(partitions)]
