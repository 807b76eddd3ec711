"""Random lives of transactional ids beside a model, with crashes between any two steps.

The model knows what producers were promised: who owns an id, which outcome a transaction was given, which
partitions it owes. The core has to agree, and the log alone has to give its state again after every step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from odradek.coordinators.transactions.markers import TransactionMarkers
from odradek.coordinators.transactions.records import transaction_record
from odradek.coordinators.transactions.shard import TransactionShard
from odradek.coordinators.transactions.states import PREPARED, TransactionState
from odradek.errors import ErrorCode, NotEnoughReplicasError
from odradek.records.batch import iter_records

from .world import World

pytestmark = pytest.mark.model

S = TransactionState
E = ErrorCode
IDS = st.sampled_from(["t", "t", "u"])
PARTITIONS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=3, unique=True)
# Close to the end of the epochs too, where the id changes.
START_EPOCHS = st.sampled_from([0, 0, 32764, 32765, 32766])


class Transactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world: World = World()
        # What producers hold: id and epoch by transactional id, newest last.
        self.producers: dict[str, list[tuple[int, int]]] = {}
        # Outcomes that were promised and not yet seen in markers: by id.
        self.promised: dict[str, bool] = {}
        self.touched: dict[str, set[tuple[str, int]]] = {}
        self.version = 0

    @initialize(version=st.sampled_from([0, 1, 2]))
    def start(self, version: int) -> None:
        self.version = version
        self.world = World(transaction_version=version)

    def holder(self, who: str, pick: int) -> tuple[int, int]:
        held = self.producers.get(who) or [(1, 0)]
        return held[-1 - pick % len(held)] if pick < 3 else held[-1]

    def is_newest(self, who: str, producer: tuple[int, int]) -> bool:
        now = self.world.shard.transactions.get(who)
        return now is not None and producer == now.client

    @rule(who=IDS)
    def init(self, who: str) -> None:
        before = self.world.shard.transactions.get(who)
        result = self.world.init(who=who)
        if before is not None and before.state in PREPARED | {S.ONGOING}:
            assert result.error is E.CONCURRENT_TRANSACTIONS
            if before.state is S.ONGOING:
                self.promised[who] = False
            self.settle(who)
            return
        assert result.error is E.NONE
        producer = (result.producer_id, result.epoch)
        assert all(producer > old for old in self.producers.get(who, ())), "an epoch was given twice"
        self.producers.setdefault(who, []).append(producer)
        self.touched[who] = set()

    @rule(who=IDS, pick=st.integers(0, 9))
    def resume(self, who: str, pick: int) -> None:
        """Go on after an error, with the id and epoch that a producer holds."""
        producer = self.holder(who, pick)
        before = self.world.shard.transactions.get(who)
        newest = self.is_newest(who, producer)
        result = self.world.init(producer, who=who)
        if before is not None and before.state in PREPARED:
            assert result.error is E.CONCURRENT_TRANSACTIONS
        elif before is not None and before.state is S.ONGOING:
            assert result.error is (E.CONCURRENT_TRANSACTIONS if newest else E.PRODUCER_FENCED)
            if newest:
                self.promised[who] = False
                self.settle(who)
        elif result.error is E.NONE:
            given = result.producer_id, result.epoch
            told = before is not None and given == before.client
            # The same again where the last answer may have been lost, else more than anybody has.
            assert newest or before is None or (told and producer[1] == before.last_epoch)
            assert all(given > old or (told and given == old) for old in self.producers.get(who, ()))
            if given not in self.producers.setdefault(who, []):
                self.producers[who].append(given)
            self.touched[who] = set()
        else:
            assert result.error is E.PRODUCER_FENCED
            assert not newest
        if result.error is E.PRODUCER_FENCED:
            assert self.world.shard.transactions.get(who) == before

    @rule(who=IDS)
    def keep(self, who: str) -> None:
        """Come back for a prepared transaction."""
        before = self.world.shard.transactions.get(who)
        result = self.world.init_in_full(who=who, keep_prepared=True)
        if self.version < 2:
            assert result.error is E.UNSUPPORTED_VERSION
            return
        if before is not None and before.state in PREPARED:
            assert result.error is E.CONCURRENT_TRANSACTIONS
            return
        assert result.error is E.NONE
        producer = (result.producer_id, result.epoch)
        assert all(producer > old for old in self.producers.get(who, ())), "an epoch was given twice"
        self.producers.setdefault(who, []).append(producer)
        if before is not None and before.state is S.ONGOING:
            assert (result.ongoing_producer_id, result.ongoing_epoch) == (before.producer_id, before.epoch)
            assert self.world.now(who).partitions == before.partitions == self.touched[who]
        else:
            assert (result.ongoing_producer_id, result.ongoing_epoch) == (-1, -1)
            self.touched[who] = set()

    @rule(who=IDS, pick=st.integers(0, 9), partitions=PARTITIONS)
    def add(self, who: str, pick: int, partitions: list[tuple[str, int]]) -> None:
        producer = self.holder(who, pick)
        before = self.world.shard.transactions.get(who)
        newest = self.is_newest(who, producer)
        errors = self.world.add(*producer, *partitions, who=who)
        kept = before is not None and before.is_kept
        fine = newest and not kept and before is not None and before.state not in PREPARED
        assert all((error is E.NONE) == fine for error in errors.values())
        if fine:
            assert before is not None
            old = self.touched.get(who, set()) if before.state is S.ONGOING else set()
            self.touched[who] = old | set(partitions)
            assert self.world.now(who).state is S.ONGOING

    @rule(who=IDS, pick=st.integers(0, 9), commit=st.booleans(), v2=st.booleans())
    def end(self, who: str, pick: int, commit: bool, v2: bool) -> None:
        producer = self.holder(who, pick)
        before = self.world.shard.transactions.get(who)
        newest = self.is_newest(who, producer)
        result = self.world.end(*producer, commit=commit, version=2 if v2 else 0, who=who)
        ongoing = before is not None and before.state is S.ONGOING
        if ongoing:
            assert (result.error is E.NONE) == newest
        if result.error is not E.NONE:
            return
        assert before is not None
        if ongoing:
            self.promised[who] = commit
        elif self.world.now(who) != before:
            # Nothing was there to abort, but the producer gets its next epoch.
            assert newest
            assert not commit
            assert v2
            assert self.world.now(who).state is S.COMPLETE_ABORT
        else:
            # A repeated answer: never other than what was decided.
            assert before.state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
        held = (result.producer_id, result.epoch)
        if held not in self.producers[who]:
            self.producers[who].append(held)
        self.settle(who)

    def settle(self, who: str) -> None:
        """A transaction without partitions is complete without markers."""
        if self.world.now(who).state not in PREPARED:
            self.promised.pop(who, None)

    @rule(error=st.sampled_from([E.NONE, E.NONE, E.NONE, E.NOT_LEADER_OR_FOLLOWER]), data=st.data())
    def mark(self, error: ErrorCode, data: Any) -> None:
        if not self.world.sent:
            return
        at = data.draw(st.integers(0, len(self.world.sent) - 1))
        markers: TransactionMarkers = self.world.sent.pop(at)
        who = markers.transactional_id
        assert markers.commit == self.promised[who], "the outcome has changed"
        assert markers.partitions <= self.touched[who]
        answered = data.draw(st.sets(st.sampled_from(sorted(markers.partitions)), min_size=1))
        self.world.coordinator.markers_answered(markers, dict.fromkeys(answered, error))
        self.world.timers.advance(0)
        now = self.world.now(who)
        if now.state not in PREPARED:
            assert error is E.NONE
            assert now.state is (S.COMPLETE_COMMIT if self.promised.pop(who) else S.COMPLETE_ABORT)
            if now.epoch == 0:
                self.producers[who].append((now.producer_id, 0))

    @rule(ms=st.sampled_from([1, 100, 10_000, 70_000]))
    def wait(self, ms: int) -> None:
        ongoing = {who for who, t in self.world.shard.transactions.items() if t.state is S.ONGOING}
        self.world.timers.advance(ms)
        for who in ongoing:
            if self.world.now(who).state is not S.ONGOING:
                self.promised[who] = False
                self.settle(who)

    @rule(who=IDS)
    def fail_an_append(self, who: str) -> None:
        before = dict(self.world.shard.transactions)
        self.world.log.failure = NotEnoughReplicasError()
        assert self.world.init(who=who).error is not E.NONE
        self.world.log.failure = None
        assert self.world.shard.transactions == before

    @rule(who=IDS, epoch=START_EPOCHS)
    def age(self, who: str, epoch: int) -> None:
        """Epochs go by."""
        now = self.world.shard.transactions.get(who)
        if now is None or now.state is not S.EMPTY or now.epoch >= epoch:
            return
        aged = replace(now, epoch=epoch, last_epoch=-1)
        self.world.coordinator.runtime.run(0, "age", lambda shard: shard.write(aged))
        self.producers[who].append((aged.producer_id, epoch))

    @rule()
    def crash(self) -> None:
        owed = {who for who, t in self.world.shard.transactions.items() if t.state in PREPARED}
        self.world.restart()
        for who in owed:
            self.settle(who)
        assert {markers.transactional_id for markers in self.world.sent} == owed & set(self.promised)

    @invariant()
    def the_log_gives_the_same_state(self) -> None:
        shard = self.world.shard
        fresh = TransactionShard(shard.env)
        for batch in self.world.log.read_all("__transaction_state", 0):
            for record in iter_records(batch):
                fresh.replay_bytes(record.offset, -1, record.key, record.value)
        assert {
            who: transaction_record(t, self.version).encode() for who, t in fresh.transactions.items()
        } == {who: transaction_record(t, self.version).encode() for who, t in shard.transactions.items()}

    @invariant()
    def who_may_time_out_is_known(self) -> None:
        shard = self.world.shard
        assert shard.ongoing.keys() == {who for who, t in shard.transactions.items() if t.state is S.ONGOING}

    @invariant()
    def what_is_owed_is_what_was_decided(self) -> None:
        shard = self.world.shard
        assert set(shard.owed) == {who for who, t in shard.transactions.items() if t.state in PREPARED}
        for who, partitions in shard.owed.items():
            assert partitions <= shard.transactions[who].partitions


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
