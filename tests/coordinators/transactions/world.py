"""A transaction coordinator over a log in memory, with time that stands still until the test moves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.coordinators.reply import Reply
from odradek.coordinators.transactions.commands import Expected, ProducerResult
from odradek.coordinators.transactions.config import TransactionConfig
from odradek.coordinators.transactions.coordinator import TransactionCoordinator
from odradek.coordinators.transactions.markers import TransactionMarkers
from odradek.coordinators.transactions.shard import TransactionShard
from odradek.coordinators.transactions.transaction import Transaction
from odradek.errors import CoordinatorLoadInProgressError, ErrorCode
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from odradek.util.topic_partition import TopicPartition
from odradek.wire.internal_topics import TRANSACTION_STATE_TOPIC

from ..memory_log import START_MS, MemoryRecordLog

ID = "txn"
A: TopicPartition = ("a", 0)
B: TopicPartition = ("b", 3)


class Result(NamedTuple):
    """What every answer to InitProducerId and EndTxn has."""

    error: ErrorCode
    producer_id: int
    epoch: int


class World:
    """A coordinator that can be restarted over the same log; markers wait in `sent`."""

    def __init__(self, **config: int) -> None:
        self.clock = ManualClock(START_MS)
        self.timers = ManualTimers(self.clock)
        self.log = MemoryRecordLog(topic=TRANSACTION_STATE_TOPIC)
        self.config = TransactionConfig(**config)
        self.epoch = -1
        self.last_id = 999
        self.ids_are_there = True
        self.sent: list[TransactionMarkers] = []
        self.restart()

    def _new_id(self) -> int:
        if not self.ids_are_there:
            raise CoordinatorLoadInProgressError
        self.last_id += 1
        return self.last_id

    def restart(self) -> None:
        """Forget the coordinator, as a crash does, and load another one."""
        self.timers = ManualTimers(self.clock)
        self.sent = []
        self.log.hold_commits = False
        self.epoch += 1
        self.coordinator = TransactionCoordinator(
            config=self.config,
            log=self.log,
            clock=self.clock,
            timers=self.timers,
            stopwatch=self.clock,
            pauses=self.timers,
            new_producer_id=self._new_id,
            send=self.sent.append,
            partition_count=1,
        )
        self.coordinator.load(0, self.epoch)
        self.timers.advance(0)

    @property
    def shard(self) -> TransactionShard:
        return self.coordinator.runtime.shard(0)

    def now(self, transactional_id: str = ID) -> Transaction:
        return self.coordinator.describe(transactional_id)

    def init(
        self, expected: tuple[int, int] | None = None, timeout_ms: int = 60_000, who: str | None = ID
    ) -> Any:
        answer = self.init_in_full(expected, timeout_ms, who)
        return None if answer is None else Result(*answer[:3])

    def init_in_full(
        self,
        expected: tuple[int, int] | None = None,
        timeout_ms: int = 60_000,
        who: str | None = ID,
        **flags: bool,
    ) -> Any:
        return self._ask(
            lambda reply: self.coordinator.init_producer_id(
                who, timeout_ms, None if expected is None else Expected(*expected), reply, **flags
            ),
            ProducerResult,
        )

    def add(
        self, producer_id: int, epoch: int, *partitions: TopicPartition, who: str = ID, verify: bool = False
    ) -> Any:
        return self._ask(
            lambda reply: self.coordinator.add_partitions(
                who, producer_id, epoch, partitions, reply, verify_only=verify
            ),
            lambda error: dict.fromkeys(partitions, error),
        )

    def end(self, producer_id: int, epoch: int, commit: bool = True, version: int = 0, who: str = ID) -> Any:
        answer = self._ask(
            lambda reply: self.coordinator.end(
                who, producer_id, epoch, commit=commit, client_version=version, reply=reply
            ),
            ProducerResult,
        )
        return None if answer is None else Result(*answer[:3])

    def _ask(self, ask: Callable[[Any], None], on_error: Callable[[ErrorCode], Any]) -> Any:
        answers: list[Any] = []
        ask(Reply(answers.append, on_error))
        self.timers.advance(0)
        return answers[0] if answers else None

    def mark(self, error: ErrorCode = ErrorCode.NONE) -> list[TransactionMarkers]:
        """Answer all markers that were given out."""
        sent, self.sent[:] = list(self.sent), []
        for markers in sent:
            self.coordinator.markers_answered(markers, dict.fromkeys(markers.partitions, error))
        self.timers.advance(0)
        return sent
