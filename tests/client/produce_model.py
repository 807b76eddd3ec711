"""A producer's batches against a modelled partition: every answer that Produce can get, in every order.

The producer is the real core (`SenderState` and what is under it), driven as `aio.sender` does. The partition
follows the sequence rules of Kafka's ProducerStateManager: it takes any first sequence of a producer that it
does not know, then only the next one, and knows the last five batches again. docs/produce_answers.md tells of
it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from odradek.client.core.backoff import Backoff
from odradek.client.core.batches import ProducerBatch
from odradek.client.core.delivery import DeliveryFuture
from odradek.client.core.record_accumulator import RecordAccumulator
from odradek.client.core.sequences import Sequences
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode as E
from odradek.errors import error_for
from odradek.records.batch import BatchHeader, iter_records

from .sending import produce_response, sender_state, transaction_begun

TP = TopicPartition("t", 0)


class Fate(Enum):
    """What becomes of the oldest request on the connection."""

    WELL = "handled and answered"
    TOO_LARGE = "MESSAGE_TOO_LARGE"
    NOT_ENOUGH_REPLICAS = "NOT_ENOUGH_REPLICAS: not appended"
    AFTER_APPEND = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    NOT_LEADER = "NOT_LEADER_OR_FOLLOWER, not appended"
    NOT_LEADER_AFTER_APPEND = "NOT_LEADER_OR_FOLLOWER, appended"
    TIMED_OUT = "REQUEST_TIMED_OUT, appended"
    CORRUPT = "CORRUPT_MESSAGE: damaged on the way, tried again"
    INVALID = "INVALID_RECORD: refused for good"
    LOST_BEFORE = "the connection is lost before anything is handled"
    LOST_AFTER_ONE = "the connection is lost when one request is handled"
    LOST_AFTER_ALL = "the connection is lost when all requests are handled"
    LATE = "the connection is lost, and its requests are handled some answers later"
    MOVED_BEFORE = "another broker leads, and the old one answers some answers later: NOT_LEADER_OR_FOLLOWER"
    MOVED_AFTER_ALL = "as before, when the old leader has appended all"
    FORGOTTEN = "the leader forgets the producer (producer.id.expiration.ms), then handles the request"
    UNCLEAN = "another leader is elected uncleanly, and lacks the newest batch"
    EXPIRED = "delivery.timeout.ms of the oldest batch is over"


ORDINARY = tuple(fate for fate in Fate if fate not in (Fate.FORGOTTEN, Fate.UNCLEAN))
"""Against a leader that forgets, no producer can tell a repeat: only "acknowledged means written" holds. A
leader that lacks what was acknowledged has lost it; but nothing is there twice.
"""

LOSES_RECORDS = {Fate.INVALID, Fate.EXPIRED}
"""After these the application is told of records that failed."""


class ModelledPartition:
    """The log of a partition, and what its leader remembers of the producer.

    Args:
        remembered: batches; Kafka 0.11 knew the last one only, and called what is older
            DUPLICATE_SEQUENCE_NUMBER.
    """

    def __init__(self, remembered: int = 5) -> None:
        self.log: list[int] = []
        self._remembered = remembered
        self._producer = (-1, -1)
        self._last = -1
        self._recent: list[tuple[int, int, int]] = []

    def forget(self) -> None:
        """Know no producer."""
        self._producer = (-1, -1)

    def lose_newest(self) -> None:
        """Lack the newest batch, and what was remembered of it."""
        if self._recent:
            first, _, offset = self._recent.pop()
            del self.log[offset:]
            self._last = first - 1

    def append(self, data: bytes) -> tuple[E, int]:
        """Return (error code, base offset) of a Produce request's batch."""
        header = BatchHeader.parse(data)
        identity = (header.producer_id, header.producer_epoch)
        if self._producer[0] != identity[0]:
            self._producer, self._recent = identity, []  # any first sequence of an unknown producer
        elif identity[1] < self._producer[1]:
            return E.INVALID_PRODUCER_EPOCH, -1
        elif identity[1] > self._producer[1]:
            if header.base_sequence != 0:
                return E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self._producer, self._recent = identity, []
        else:
            for first, last, offset in self._recent:
                if (first, last) == (header.base_sequence, header.last_sequence):
                    return E.NONE, offset
            if self._remembered < 5 and header.last_sequence <= self._last:
                return E.DUPLICATE_SEQUENCE_NUMBER, -1
            if header.base_sequence != self._last + 1:
                return E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        offset = len(self.log)
        self.log += [int(record.value or b"") for record in iter_records(data)]
        self._last = header.last_sequence
        recent = (header.base_sequence, header.last_sequence, offset)
        self._recent = [*self._recent, recent][-self._remembered :]
        return E.NONE, offset


class _Request(NamedTuple):
    batch: ProducerBatch
    data: bytes


@dataclass
class Run:
    """One run: what was sent, what happened, and what the application was told.

    Args:
        in_flight: `max.in.flight.requests.per.connection`.
        batches, count: how many batches are sent, of how many records each.
        choose: picks one of n, 0 being the ordinary.
        faults: at most so many fates other than WELL.
        fates: that may befall.
        later: how many answers "some answers later" is.
        retries: of a batch.
        remembered: batches that the leader knows again.
        transactional: a transaction. Where anything fails it cannot be committed, and nothing new is sent.
    """

    choose: Callable[[int], int]
    in_flight: int
    batches: int = 6
    count: int = 2
    faults: int = 2
    fates: tuple[Fate, ...] = ORDINARY
    later: int = 2
    retries: int = 10**6
    remembered: int = 5
    transactional: bool = False
    happened: list[Fate] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.partition = ModelledPartition(self.remembered)
        sequences = Sequences(transactional=self.transactional)
        sequences.id_received(9, 0)
        manager = transaction_begun(TP) if self.transactional else None
        size = 21 + 3
        self._accumulator = RecordAccumulator(
            batch_size=61 + self.count * size,
            linger_ms=0,
            buffer_memory=10**9,
            delivery_timeout_ms=10**6,
            backoff=Backoff(0, 0),
            sequences=sequences,
            in_transaction=None if manager is None else manager.may_send,
        )
        self._state = sender_state(
            self._accumulator, TP, manager=manager, retries=self.retries, delivery_timeout_ms=10**6
        )
        self.futures: list[DeliveryFuture] = []
        for number in range(self.batches * self.count):
            value = b"%03d" % number
            self.futures.append(self._accumulator.append(TP, 0, None, value, (), None, size, 0.0)[0])
            if number % self.count == self.count - 1:
                last = self._accumulator.last_batch(TP)
                assert last is not None
                last.append_closed = True
        self._connection: list[_Request] = []
        self._late: list[tuple[int, Callable[[], None]]] = []
        self._now = 0.0
        self._step = 0
        self.may_fail = self.retries < 100

    def go(self) -> None:
        """Run to the end. Raises `AssertionError` if it does not come."""
        for self._step in range(400):
            self._now += 1
            for due, action in [late for late in self._late if late[0] <= self._step]:
                self._late.remove((due, action))
                action()
            self._send()
            if not self._connection:
                if not self._late and not self._accumulator.incomplete():
                    return
                continue
            fate = Fate.WELL
            if len(self.happened) < self.faults:
                fate = self.fates[self.choose(len(self.fates))]
            if fate is not Fate.WELL:
                self.happened.append(fate)
            self._befall(fate)
        raise AssertionError("it does not come to an end")

    def _send(self) -> None:
        self._state.look(self._now)
        for batches in self._state.requests_for(0, self._now, lambda: len(self._connection) < self.in_flight):
            self._connection += [_Request(batch, bytes(batch.encode())) for batch in batches]

    def _befall(self, fate: Fate) -> None:
        head = self._connection[0]
        match fate:
            case Fate.LOST_BEFORE | Fate.LOST_AFTER_ONE | Fate.LOST_AFTER_ALL | Fate.LATE:
                self._lose(fate)
            case Fate.MOVED_BEFORE | Fate.MOVED_AFTER_ALL:
                self._move(fate)
            case Fate.EXPIRED:
                self._expire()
            case _:
                del self._connection[0]
                self._answer(head, *self._handle(fate, head.data))

    def _handle(self, fate: Fate, data: bytes) -> tuple[E, int]:
        refused = {
            Fate.TOO_LARGE: E.MESSAGE_TOO_LARGE,
            Fate.NOT_ENOUGH_REPLICAS: E.NOT_ENOUGH_REPLICAS,
            Fate.NOT_LEADER: E.NOT_LEADER_OR_FOLLOWER,
            Fate.CORRUPT: E.CORRUPT_MESSAGE,
            Fate.INVALID: E.INVALID_RECORD,
        }
        if fate in refused:
            return refused[fate], -1
        if fate is Fate.UNCLEAN:
            self.partition.lose_newest()
        if fate is Fate.FORGOTTEN:
            self.partition.forget()
        code, offset = self.partition.append(data)
        appended = {
            Fate.AFTER_APPEND: E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            Fate.NOT_LEADER_AFTER_APPEND: E.NOT_LEADER_OR_FOLLOWER,
            Fate.TIMED_OUT: E.REQUEST_TIMED_OUT,
        }
        if fate in appended and code == E.NONE:
            return appended[fate], -1
        return code, offset

    def _answer(self, request: _Request, code: E, offset: int) -> None:
        batch = request.batch
        if code == E.MESSAGE_TOO_LARGE and (batch.in_doubt or batch.count == 1):
            self.may_fail = True
        self._state.answered([batch], produce_response(TP, code, offset), self._now)
        self._note_failures()

    def _note_failures(self) -> None:
        if self.transactional and self._state.records_failed:
            self.may_fail = True  # what has not left is dropped

    def _unanswered(self, request: _Request) -> None:
        self._state.unanswered([request.batch], error_for(E.NETWORK_EXCEPTION), self._now)
        self._note_failures()

    def _lose(self, fate: Fate) -> None:
        requests, self._connection = self._connection, []
        handled = {Fate.LOST_AFTER_ONE: 1, Fate.LOST_AFTER_ALL: len(requests)}.get(fate, 0)
        for request in requests[:handled]:
            self.partition.append(request.data)
        for request in requests:
            self._unanswered(request)
        if fate is Fate.LATE:
            for request in requests:
                self._later(lambda data=request.data: self.partition.append(data))

    def _move(self, fate: Fate) -> None:
        requests, self._connection = self._connection, []
        if fate is Fate.MOVED_AFTER_ALL:
            for request in requests:
                self.partition.append(request.data)
        for request in requests:
            self._later(lambda request=request: self._answer(request, E.NOT_LEADER_OR_FOLLOWER, -1))

    def _later(self, action: Callable[[], object]) -> None:
        self._late.append((self._step + self.later, action))  # type: ignore[arg-type]

    def _expire(self) -> None:
        for oldest in self._accumulator.incomplete()[:1]:
            oldest.created_ms -= 10**7
        self._state.look(self._now)
        self._note_failures()

    def check(self) -> None:
        """Acknowledged means written, in order, once. Raises `AssertionError`."""
        log = self.partition.log
        forgotten = Fate.FORGOTTEN in self.happened
        lost = Fate.UNCLEAN in self.happened
        place = {number: offset for offset, number in enumerate(log)}
        assert forgotten or len(place) == len(log), f"twice in the log: {log}"
        acknowledged, failed = [], []
        for number, future in enumerate(self.futures):
            assert future.done(), f"record {number} was forgotten"
            if future.exception(0) is not None:
                failed.append(number)
                continue
            if lost and number not in place:
                continue
            assert number in place, f"record {number} is acknowledged and not in the log: {log}"
            offset = future.result(0).offset
            assert offset == -1 or lost or log[offset] == number, f"record {number} is elsewhere: {log}"
            acknowledged.append(place[number])
        assert forgotten or acknowledged == sorted(acknowledged), f"out of order: {log}"
        if not forgotten and Fate.LATE not in self.happened:
            assert log == sorted(log), f"out of order: {log}"
        if not (forgotten or self.may_fail or LOSES_RECORDS.intersection(self.happened)):
            assert not failed, f"failed without need: {failed}"
        assert self._accumulator.memory_used == 0


class Choices:
    """Goes through all sequences of choices, depth first."""

    def __init__(self) -> None:
        self._path: list[tuple[int, int]] = []
        self._at = 0

    def choose(self, n: int) -> int:
        if self._at == len(self._path):
            self._path.append((0, n))
        self._at += 1
        return self._path[self._at - 1][0]

    def advance(self) -> bool:
        """To the next sequence. Returns whether there is one."""
        self._at = 0
        while self._path:
            chosen, n = self._path.pop()
            if chosen + 1 < n:
                self._path.append((chosen + 1, n))
                return True
        return False


def every_run(in_flight: int, **more: Any) -> Iterator[Run]:
    """All runs with at most two faults (or `faults=`), whatever befalls whichever request."""
    choices = Choices()
    while True:
        yield Run(choices.choose, in_flight, **more)
        if not choices.advance():
            return


def random_runs(seed: int, runs: int) -> Iterator[Run]:
    """Runs with up to eight faults."""
    rng = random.Random(seed)

    def choose(n: int) -> int:
        return rng.randrange(n) if rng.random() < 0.5 else 0

    for _ in range(runs):
        yield Run(
            choose,
            in_flight=rng.randint(1, 5),
            batches=rng.choice((3, 6, 12)),
            count=rng.randint(1, 3),
            faults=8,
            later=rng.randint(1, 5),
            retries=rng.choice((1, 4, 10**6, 10**6)),
            remembered=rng.choice((1, 5, 5)),
        )


def broken(runs: Iterator[Run]) -> str | None:
    """Return what is wrong with the first run that breaks a promise."""
    for run in runs:
        try:
            run.go()
            run.check()
        except AssertionError as problem:
            happened = "; ".join(fate.value for fate in run.happened)
            return f"{run.in_flight} in flight, {happened}: {problem}"
    return None
