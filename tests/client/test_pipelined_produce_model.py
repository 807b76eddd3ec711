"""Batches of columns in a transaction, whatever answers they get: what `flush` says is written is written."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from odradek.client.blocking_produce import PipelinedProduce
from odradek.client.config import ProducerConfig, build
from odradek.client.errors import ConnectionFailedError
from odradek.errors import ErrorCode as E
from odradek.errors import KafkaError
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec

from .produce_model import TP, Choices, Fate, ModelledPartition

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
FATES = (Fate.WELL, *_REFUSED, *_APPENDED, *_LOST)


class _Leader:
    """The connection to the leader; a new one is made when it is lost. It is the cluster, too."""

    metadata = SimpleNamespace()

    def __init__(self, choose: Callable[[int], int], faults: int) -> None:
        self.partition = ModelledPartition()
        self.happened: list[Fate] = []
        self._choose, self._faults = choose, faults
        self._requests: list[bytes] = []
        self._late: list[bytes] = []

    def leader(self, tp: object) -> int:
        return 0

    def connection(self, node: int) -> Any:
        return self

    def refresh(self, topics: object) -> None: ...

    def close(self) -> None: ...

    def retrying(self, what: str) -> Any:
        return SimpleNamespace(
            progress=lambda: None, pause=lambda longest_ms: None, tell_if_it_lasts=lambda problem: None
        )

    def pick(self, *more: object) -> int:
        return 9

    def send(self, message: Any, version: int) -> None:
        self._requests.append(bytes(message.topic_data[0].partition_data[0].records))

    def receive(self) -> tuple[int, Any]:
        fate = Fate.WELL
        if len(self.happened) < self._faults:
            fate = FATES[self._choose(len(FATES))]
        if fate is not Fate.WELL:
            self.happened.append(fate)
        if fate in _LOST:
            for data in self._requests[: _LOST[fate]]:
                self.partition.append(data)
            if fate is Fate.LATE:
                self._late += self._requests
            self._requests.clear()
            raise ConnectionFailedError("cut")
        code = self._answer(fate, self._requests.pop(0))
        for data in self._late:
            self.partition.append(data)
        self._late.clear()
        answer = SimpleNamespace(index=TP.partition, error_code=int(code), error_message=None)
        return 0, SimpleNamespace(responses=[SimpleNamespace(name=TP.topic, partition_responses=[answer])])

    def _answer(self, fate: Fate, data: bytes) -> E:
        if fate in _REFUSED:
            return _REFUSED[fate]
        code, _ = self.partition.append(data)
        return _APPENDED.get(fate, code) if code == E.NONE else code


def _manager() -> Any:
    return SimpleNamespace(
        producer_id=9,
        producer_epoch=0,
        transactional_id="t",
        last_error=None,
        can_bump=True,
        v2=True,
        may_send=lambda tp: True,
        add_partition=lambda tp: None,
        batch_failed=lambda error: None,
        sequences_lost=lambda error: None,
        send_failed=lambda error: None,
    )


def _batch(first: int, count: int) -> bytearray:
    builder = BatchBuilder(Codec.NONE)
    for number in range(first, first + count):
        builder.append(0, None, b"%03d" % number, ())
    return bytearray(builder.build())


def _run(leader: _Leader, batches: int) -> None:
    config = build(ProducerConfig, {"bootstrap_servers": "x:1", "transactional_id": "t"})
    produce = PipelinedProduce(config, leader, _manager(), lambda done, what: None)  # type: ignore[arg-type]
    try:
        with produce.whole_or_not():
            for number in range(batches):
                produce.write(TP, _batch(3 * number, 3), 3)
        rows = produce.flush()
    except KafkaError as problem:
        # It has to be aborted, and was told why.
        lawful = {Fate.INVALID, Fate.TOO_LARGE} & set(leader.happened)
        assert lawful, f"failed without need: {problem!r}"
        return
    assert rows == 3 * batches
    assert leader.partition.log == list(range(rows)), f"{rows} rows were acknowledged: {leader.partition.log}"


def broken(batches: int, faults: int) -> str | None:
    choices = Choices()
    while True:
        leader = _Leader(choices.choose, faults)
        try:
            _run(leader, batches)
        except AssertionError as problem:
            return f"{'; '.join(fate.value for fate in leader.happened)}: {problem}"
        if not choices.advance():
            return None


@pytest.mark.parametrize("batches", [1, 2, 7])
def test_any_two_answers(batches: int) -> None:
    assert broken(batches, 2) is None


def test_the_model_finds_a_first_batch_that_is_not_alone() -> None:
    class Anything(set[Any]):
        def __contains__(self, one: object) -> bool:
            return True

    original = PipelinedProduce.__init__

    def init(self: PipelinedProduce, *more: Any) -> None:
        original(self, *more)
        self._introduced = Anything()

    with mock.patch.object(PipelinedProduce, "__init__", init):
        assert broken(3, 2) is not None
