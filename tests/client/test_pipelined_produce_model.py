"""Batches of columns in a transaction, whatever answers they get: what `flush` says is written is written.

The same partition and the same answers as in `produce_model`; `PipelinedProduce` over the test's connections.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from odradek.client import blocking_produce
from odradek.client.blocking_produce import PipelinedProduce
from odradek.client.core.record_accumulator import RecordAccumulator
from odradek.client.errors import ConnectionFailedError
from odradek.errors import ErrorCode as E
from odradek.errors import KafkaError
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec

from .produce_model import TP, Choices, Fate, ModelledPartition
from .sending import led_by_broker_0, produce_response, producer_config, transaction_begun
from .sequence_mutants import first_not_alone
from .test_produce_model import MUTANTS, _parts_at_the_end, _without_limit

pytestmark = pytest.mark.model

_REFUSED = {
    Fate.TOO_LARGE: E.MESSAGE_TOO_LARGE,
    Fate.NOT_ENOUGH_REPLICAS: E.NOT_ENOUGH_REPLICAS,
    Fate.NOT_LEADER: E.NOT_LEADER_OR_FOLLOWER,
    Fate.CORRUPT: E.CORRUPT_MESSAGE,
    Fate.INVALID: E.INVALID_RECORD,
}
_APPENDED = {
    Fate.AFTER_APPEND: E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Fate.NOT_LEADER_AFTER_APPEND: E.NOT_LEADER_OR_FOLLOWER,
    Fate.TIMED_OUT: E.REQUEST_TIMED_OUT,
}
_LOST = {Fate.LOST_BEFORE: 0, Fate.LATE: 0, Fate.LOST_AFTER_ONE: 1, Fate.LOST_AFTER_ALL: 10}
_MOVED = {Fate.MOVED_BEFORE: 0, Fate.MOVED_AFTER_ALL: 10}
FATES = (Fate.WELL, *_REFUSED, *_APPENDED, *_LOST, *_MOVED, Fate.EXPIRED)
LAWFUL = {Fate.INVALID, Fate.TOO_LARGE, Fate.EXPIRED}
"""After these a transaction may fail."""


class _Connection:
    """A connection to a broker; what was asked on it is answered when it is read."""

    def __init__(self, world: _World, node: int) -> None:
        self.address, self.closed = f"broker {node}", False
        self.requests: list[bytes] = []
        self.deposed = False
        self.state = SimpleNamespace(next_deadline_ms=lambda: 0.0)
        self._world = world

    def close(self) -> None:
        self.closed = True

    def pick(self, *_: object, **__: object) -> int:
        return 9

    def send(self, message: Any, version: int) -> None:
        assert len(self.requests) < self._world.in_flight, "more in flight than the config allows"
        self.requests.append(bytes(message.topic_data[0].partition_data[0].records))

    def receive(self) -> tuple[None, Any]:
        return None, produce_response(TP, *self._world.answer(self))


class _World:
    """A partition, its leader and the connections: the cluster of `PipelinedProduce`."""

    def __init__(self, choose: Callable[[int], int], faults: int, in_flight: int = 5) -> None:
        self.partition = ModelledPartition()
        self.happened: list[Fate] = []
        self.in_flight = in_flight
        self.late: list[bytes] = []
        self.metadata = led_by_broker_0(TP)
        self.metadata.learn(1, "127.0.0.1", 2)
        self.now_ms = 0.0
        self._choose, self._faults = choose, faults
        self._connections: dict[int, _Connection] = {}

    # What `PipelinedProduce` asks of a cluster

    def check_usable(self) -> None: ...

    def refresh(self, topics: object) -> None: ...

    def connection(self, node: int) -> _Connection:
        if node not in self._connections or self._connections[node].closed:
            self._connections[node] = _Connection(self, node)
        return self._connections[node]

    def answering(self, cluster: object, asked: Mapping[int, _Connection], timeout_ms: float) -> list[int]:
        return [sorted(asked)[self._choose(len(asked))]]

    # What befalls its requests

    def answer(self, connection: _Connection) -> tuple[E, int]:
        if connection.deposed:
            del connection.requests[0]
            return E.NOT_LEADER_OR_FOLLOWER, -1
        fate = Fate.WELL
        if len(self.happened) < self._faults:
            fate = FATES[self._choose(len(FATES))]
        if fate is not Fate.WELL:
            self.happened.append(fate)
        if fate in _LOST:
            for data in connection.requests[: _LOST[fate]]:
                self.partition.append(data)
            if fate is Fate.LATE:
                self.late += connection.requests
            raise ConnectionFailedError("cut")
        if fate in _MOVED:
            for data in connection.requests[: _MOVED[fate]]:
                self.partition.append(data)
            self._move(connection)
            return self.answer(connection)
        if fate is Fate.EXPIRED:
            self.now_ms += 10**9
        return self._handle(fate, connection.requests.pop(0))

    def _move(self, connection: _Connection) -> None:
        """Another broker leads, of which the producer hears at once."""
        leader = self.metadata.leader(TP)
        assert leader is not None
        connection.deposed = True
        other = self._connections.get(1 - leader)
        if other is not None:
            other.deposed = False
        self.metadata.update_leader(TP, 1 - leader, self.metadata.leader_epoch(TP) + 1)

    def _handle(self, fate: Fate, data: bytes) -> tuple[E, int]:
        if fate in _REFUSED:
            return _REFUSED[fate], -1
        code, offset = self.partition.append(data)
        return (_APPENDED.get(fate, code), offset) if code == E.NONE else (code, offset)

    def handle_late(self) -> None:
        for data in self.late:
            self.partition.append(data)
        self.late.clear()


def _batch(first: int, count: int) -> bytearray:
    builder = BatchBuilder(Codec.NONE)
    for number in range(first, first + count):
        builder.append(0, None, b"%03d" % number, ())
    return bytearray(builder.build())


class _Time:
    """The module `time` as `blocking_produce` sees it; other threads of the process may well sleep."""

    @staticmethod
    def sleep(seconds: float) -> None:
        """Return at once."""
        assert seconds < 1, "it waits for nothing"


@contextmanager
def _writing(world: _World, *, v2: bool = True) -> Iterator[tuple[PipelinedProduce, Any]]:
    config = producer_config(
        transactional_id="t",
        retry_backoff_ms=0,
        retry_backoff_max_ms=0,
        max_in_flight_requests_per_connection=world.in_flight,
        max_request_size=1,  # a batch in each request
    )
    manager = transaction_begun(TP, v2=v2)
    with (
        mock.patch.object(blocking_produce, "answering", world.answering),
        mock.patch.object(blocking_produce, "time", _Time),
        mock.patch.object(blocking_produce, "now_ms", lambda: world.now_ms),
    ):
        produce = PipelinedProduce(config, world, manager, lambda done, what: None)  # type: ignore[arg-type]
        manager.on_producer_id()
        yield produce, manager


def _commits(world: _World, batches: int) -> None:
    with _writing(world) as (produce, _):
        try:
            with produce.whole_or_not():
                for number in range(batches):
                    produce.write(TP, _batch(3 * number, 3), 3)
                    world.handle_late()
                produce.leave()
            rows = produce.flush()
        except KafkaError as problem:
            # It has to be aborted, and was told why.
            assert LAWFUL & set(world.happened), f"failed without need: {problem!r}"
            return
        world.handle_late()
    assert rows == 3 * batches
    assert world.partition.log == list(range(rows)), f"{rows} rows were acknowledged: {world.partition.log}"


def _aborts(world: _World, batches: int, *, v2: bool = False) -> None:
    """What has left is answered for before the abort: a late copy is not written behind it."""
    with _writing(world, v2=v2) as (produce, manager):
        try:
            with produce.whole_or_not():
                for number in range(batches):
                    produce.write(TP, _batch(3 * number, 3), 3)
        except KafkaError as problem:
            assert LAWFUL & set(world.happened), f"failed without need: {problem!r}"
        manager.abort()
        while produce.has_left_overs:
            produce.go_on()
        ended = list(world.partition.log)
        world.handle_late()
    assert LAWFUL & set(world.happened) or world.partition.log == ended, "written behind the abort"


def broken(run: Callable[[_World, int], None], batches: int, faults: int, in_flight: int = 5) -> str | None:
    choices = Choices()
    while True:
        world = _World(choices.choose, faults, in_flight)
        try:
            run(world, batches)
        except AssertionError as problem:
            return f"{'; '.join(fate.value for fate in world.happened)}: {problem}"
        if not choices.advance():
            return None


@pytest.mark.parametrize(("batches", "faults"), [(1, 2), (3, 2), (7, 1)])
def test_any_answers(batches: int, faults: int) -> None:
    assert broken(_commits, batches, faults) is None


def random_runs(run: Callable[[_World, int], None], runs: int, seed: int = 27) -> str | None:
    """As `broken`, of runs with up to four faults."""
    rng = random.Random(seed)

    def choose(n: int) -> int:
        return rng.randrange(n) if rng.random() < 0.4 else 0

    for _ in range(runs):
        world = _World(choose, 4, rng.choice((2, 5, 5)))
        try:
            run(world, rng.choice((3, 9)))
        except AssertionError as problem:
            return f"{'; '.join(fate.value for fate in world.happened)}: {problem}"
    return None


def test_many_answers() -> None:
    assert random_runs(_commits, 800) is None
    assert random_runs(_aborts, 400) is None


def test_any_two_answers_with_one_in_flight() -> None:
    assert broken(_commits, 3, 1, in_flight=1) is None


@pytest.mark.parametrize(("batches", "faults"), [(1, 2), (4, 1)])
def test_any_answers_and_an_abort(batches: int, faults: int) -> None:
    assert broken(_aborts, batches, faults) is None


def _doubt_dropped_at_the_abort() -> Any:
    original = RecordAccumulator.take_queued
    return mock.patch.object(
        RecordAccumulator, "take_queued", lambda self, which: original(self, lambda batch: True)
    )


def test_the_model_finds_an_abort_that_does_not_wait() -> None:
    with _doubt_dropped_at_the_abort():
        assert broken(_aborts, 2, 1) is not None


FOUND_HERE = [first_not_alone, _without_limit, _parts_at_the_end]
"""Those of which a transaction can suffer: it fails rather than send anything anew."""


@pytest.mark.parametrize("mutant", FOUND_HERE, ids=lambda one: one.__name__.strip("_"))
def test_the_model_finds(mutant: Any) -> None:
    assert mutant in MUTANTS
    with mutant():
        assert random_runs(_commits, 4_000) is not None


def test_answers_are_not_waited_for_while_there_is_room() -> None:
    world = _World(lambda n: 0, 0)
    with _writing(world) as (produce, _):
        with produce.whole_or_not():
            for number in range(6):
                produce.write(TP, _batch(number, 1), 1)
        assert len(world.connection(0).requests) == 5, "the first one went alone"
        assert produce.flush() == 6
