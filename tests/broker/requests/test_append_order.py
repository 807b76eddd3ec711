"""What one connection produces is appended in the order in which it came, whatever each request waits for.

A model of one connection to a whole broker, without sockets: requests come, each of which may have to wait
before it is appended (for the coordinator of its transaction, for a conversion in a thread, for its slices),
and what they wait for comes in any order, with any number of the loop's turns in between. What was left out
on purpose (`MUTANTS`) the model has to find.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.stand_ins import caught_up, follow
from odradek.broker.app import Broker
from odradek.broker.network.connection import Connection
from odradek.broker.requests.append_turn import AppendTurn
from odradek.broker.requests.peer import Peer
from odradek.errors.codes import ErrorCode
from odradek.log.producers.producer_state import Origin
from odradek.records.batch import batch_records, iter_batches
from odradek.records.compression import Codec
from odradek.records.control import ControlType, end_marker_batch
from odradek.util.promise import Promise
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse
from seeds import seed
from waiting import until_async

from ..conversion.test_old_produce import message_set
from ..live import batch, create_topic, produce, running
from ..net import receive, run

PRODUCER = 7
PARTITIONS = 2
LARGE = 90_000
"""So many bytes are converted in a thread."""
MANY = 70
"""So many partitions are worked on in slices; most of them are not there."""
ABSENT = 10_000

KINDS = ("transactional", "verified", "plain", "converted", "sliced")


class Transport:
    """Takes the answers of a connection, which ends when the broker closes it."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.connection: Connection | None = None

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, buffers: list[Any]) -> None:
        for one in buffers:
            self.written += one

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str) -> None: ...

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            asyncio.get_running_loop().call_soon(connection.connection_lost, None)

    abort = close


class Model:
    """One connection, its producer, and what its requests wait for.

    Attributes:
        asked: the questions to the coordinator that are not answered: what says yes.
        converting: the conversions that are not done: what does each.
    """

    def __init__(self, broker: Broker, first: int = 0) -> None:
        """
        Args:
            broker: with a topic `t`.
            first: the first partition of `PARTITIONS` that this model has for itself.
        """
        self.broker = broker
        self.partitions = range(first, first + PARTITIONS)
        self.peer = Peer("127.0.0.1", 1, f"c-{first}", "PLAINTEXT")
        self.transport = Transport()
        self.connection = Connection(broker.listeners[0], self.peer)
        self.transport.connection = self.connection
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self.asked: list[Callable[[ErrorCode], None]] = []
        self.converting: list[Callable[[], None]] = []
        self.epoch = 0
        self._sequences: Counter[int] = Counter()
        self._sent: list[tuple[int, list[tuple[int, bytes]]]] = []
        self.trace: list[str] = []
        broker.transactions.add = broker.transactions.verify = self._ask  # type: ignore[method-assign, assignment]
        broker.unpacking.run = self._convert  # type: ignore[method-assign, assignment]

    def _ask(self, name: str, producer: int, epoch: int, partitions: list[tuple[str, int]]) -> Any:
        answer: Promise[Any] = Promise(self.broker.loop)
        self.asked.append(lambda error: answer.set_result(dict.fromkeys(partitions, error)))
        return answer

    def _convert(self, work: Callable[[], Any], cost: Any, peer: Peer) -> Any:
        done: asyncio.Future[Any] = self.broker.loop.create_future()
        self.converting.append(lambda: done.set_result(work()))
        return done

    # ------------------------------------------------------------------ events

    def send(self, kind: str, index: int) -> None:
        """Have a request come, whose values say the how many-th it is."""
        number = len(self._sent)
        self.trace.append(f"{number}:{kind}-{index}")
        value = b"%d" % number
        indexes = [self.partitions[index]]
        if kind == "sliced":
            indexes = [*self.partitions, *range(ABSENT, ABSENT + MANY)]
        version, parts = 9, []
        for one in indexes:
            if kind == "converted":
                version, records = 2, message_set(2, Codec.NONE, [value.ljust(LARGE)])
            elif kind == "plain":
                records = batch([value])
            else:
                records = batch(
                    [value],
                    producer_id=PRODUCER,
                    producer_epoch=self.epoch,
                    base_sequence=self._sequences[one],
                    transactional=True,
                )
                self._sequences[one] += 1
            parts.append((one, records))
        request: ProduceRequest = produce("t", b"", topic_id=self.broker.image.topic_id("t"))
        request.topic_data[0].partition_data = [
            PartitionProduceData(index=one, records=records) for one, records in parts
        ]
        if kind in ("transactional", "sliced"):
            version = 13
        if kind in ("transactional", "sliced", "verified"):
            request.transactional_id = "id"
        self._sent.append((version, [(one, value) for one, _ in parts]))
        receive(self.connection, b"".join(encode_request(request.API_KEY, version, number, "m", request)))

    def answers(self) -> list[ProduceResponse]:
        """Return what has been answered so far, in order."""
        found, at, data = [], 0, bytes(self.transport.written)
        while at < len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            version, _ = self._sent[len(found)]
            number, message = decode_response(data[at + 4 : end], ProduceRequest.API_KEY, version)
            assert number == len(found)
            found.append(message)
            at = end
        return found

    @property
    def in_flight(self) -> int:
        return len(self._sent) - len(self.answers())

    async def end_transaction(self) -> None:
        """A marker comes into each partition, and the producer goes on under another epoch."""
        self.trace.append("end")
        for index in self.partitions:
            partition = self.broker.replicas.get("t", index)
            if partition.log.producers.in_transaction(PRODUCER, self.epoch):
                marker = end_marker_batch(
                    ControlType.COMMIT,
                    producer_id=PRODUCER,
                    producer_epoch=self.epoch,
                    coordinator_epoch=0,
                    timestamp=self.broker.clock.now_ms(),
                )
                partition.append(
                    marker, required_acks=1, now_ms=self.broker.clock.now_ms(), origin=Origin.COORDINATOR
                )
        self.epoch += 1
        self._sequences.clear()

    async def settle(self) -> None:
        """Have all that is waited for come, and see that everything is answered."""
        for _ in range(1000):
            if not self.in_flight:
                return
            while self.asked:
                self.asked.pop(0)(ErrorCode.NONE)
            while self.converting:
                self.converting.pop(0)()
            await asyncio.sleep(0)
        raise AssertionError(f"{self.in_flight} requests are never answered: {self.trace}")

    # ------------------------------------------------------------------ what must hold

    def check(self) -> None:
        """Check that all is there, per partition in the order in which it came."""
        for answer in self.answers():
            for one in answer.responses[0].partition_responses:
                assert not one.error_code or one.index >= ABSENT, (one, self.trace)
        wanted: dict[int, list[bytes]] = {}
        for _, parts in self._sent:
            for index, value in parts:
                wanted.setdefault(index, []).append(value)
        for index in self.partitions:
            expected = wanted.get(index, [])
            log = self.broker.replicas.get("t", index).log
            found: list[bytes] = []
            at = 0
            while at < log.log_end_offset:
                read = log.read(at, 1 << 20, upper_bound=log.log_end_offset, min_one_batch=True)
                for header, raw in iter_batches(read.records):
                    at = header.last_offset + 1
                    if not header.is_control:
                        found += [(one.value or b"").strip() for one in batch_records(header, raw)]
            assert found == expected, (index, self.trace)
        assert self.peer.unappended is None, self.trace


async def play(model: Model, chance: random.Random) -> None:
    """Some requests, and what they wait for, in an order of chance; several transactions."""
    for _ in range(chance.randint(1, 2)):
        left = chance.randint(2, 5)
        while left or model.asked or model.converting:
            events = ["turn"] + ["send"] * bool(left) * 2
            events += ["answer"] * bool(model.asked) + ["convert"] * bool(model.converting)
            event = chance.choice(events)
            if event == "send":
                left -= 1
                kind = chance.choice(KINDS if chance.random() < 0.1 else KINDS[:4])
                model.send(kind, chance.randrange(PARTITIONS))
            elif event == "turn":
                await asyncio.sleep(0)
            else:
                waiting: list[Any] = model.asked if event == "answer" else model.converting
                chosen = chance.randrange(len(waiting))
                model.trace.append(f"{event} {chosen}")
                waiting.pop(chosen)(*([ErrorCode.NONE] if event == "answer" else []))
        await model.settle()
        await model.end_transaction()
    model.check()


async def play_all(tmp_path: Path, count: int) -> None:
    async with running(tmp_path) as broker:
        await create_topic(broker, "t", PARTITIONS * count)
        for number in range(count):
            await play(Model(broker, PARTITIONS * number), random.Random(seed(number)))


def test_every_order_of_waits_keeps_the_order_of_the_requests(tmp_path: Path) -> None:
    run(lambda: play_all(tmp_path, 100))


def _no_turn() -> Iterator[None]:
    """Each request is appended when what it waits for has come: nobody waits for those before it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AppendTurn, "has_to_wait", property(lambda self: False))
        yield


def _only_those_that_wait() -> Iterator[None]:
    """What has nothing to wait for is appended at once, as if nothing were before it."""

    def begin(self: Any, peer: Peer, loop: asyncio.AbstractEventLoop) -> None:
        begun(self, peer, loop)
        peer.unappended = None

    begun = AppendTurn.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AppendTurn, "__init__", begin)
        yield


def _no_end() -> Iterator[None]:
    """A turn does not end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AppendTurn, "end", lambda self: None)
        yield


MUTANTS = {"no turn": _no_turn, "only those that wait": _only_those_that_wait, "no end": _no_end}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_model_finds_what_is_left_out(tmp_path: Path, mutant: str) -> None:
    with contextmanager(MUTANTS[mutant])(), pytest.raises(AssertionError):
        run(lambda: play_all(tmp_path, 40))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("first", ["transactional", "verified", "converted"])
def test_three_requests_whose_waits_end_in_each_order(
    tmp_path: Path, first: str, order: tuple[int, ...]
) -> None:
    """The transaction's first produce, one that came before it was let in, and one behind it."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", PARTITIONS * 4)
            for early in range(4):
                model = Model(broker, PARTITIONS * early)
                for number in range(3):
                    if number == early and model.asked:
                        model.asked.pop(0)(ErrorCode.NONE)
                        await asyncio.sleep(0)
                        await asyncio.sleep(0)
                    model.send(first if number != 1 else "transactional", 0)
                waiting = [lambda do=do: do(ErrorCode.NONE) for do in model.asked] + model.converting
                model.asked, model.converting = [], []
                for one in sorted(order, key=lambda one: one % max(1, len(waiting))):
                    if one < len(waiting):
                        waiting[one]()
                        await asyncio.sleep(0)
                await model.settle()
                model.check()

    run(main)


def test_what_waits_for_replicas_holds_nothing_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", PARTITIONS)
            model = Model(broker)
            partition = broker.replicas.get("t", 0)
            follow(broker, partition)
            for _ in range(3):
                model.send("transactional", 0)

            async def answer() -> bool:
                model.asked.pop(0)(ErrorCode.NONE)
                for _ in range(30):
                    await asyncio.sleep(0)
                return not model.asked

            await until_async(answer, "the last question", every_s=0)
            assert model.answers() == []
            assert partition.log.log_end_offset == 3
            caught_up(broker, partition)
            await model.settle()
            model.check()

    run(main)


def test_one_question_is_enough_for_what_comes_behind_the_first_of_a_transaction(tmp_path: Path) -> None:
    """A request behind one that is about to open the transaction waits for that instead of asking itself."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", PARTITIONS)
            model = Model(broker)
            for _ in range(4):
                model.send("transactional", 0)
            model.send("transactional", 1)
            assert len(model.asked) == 2
            await model.settle()
            model.check()

    run(main)


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.INVALID_TXN_STATE])
def test_what_comes_behind_a_refused_request_is_looked_at_after_it(tmp_path: Path, error: ErrorCode) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", PARTITIONS)
            model = Model(broker)
            for _ in range(3):
                model.send("transactional", 0)
            model.asked.pop(0)(error)
            await model.settle()
            codes = [one.responses[0].partition_responses[0].error_code for one in model.answers()]
            assert codes[0] != 0
            assert all(codes), codes
            assert broker.replicas.get("t", 0).log.log_end_offset == 0
            assert model.peer.unappended is None

    run(main)
