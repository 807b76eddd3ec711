"""The idempotent producer's sequences, against a small model of what a broker accepts."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.core.backoff import Backoff
from odradek.client.core.batches import ProducerBatch
from odradek.client.core.produce import Verdict, judge
from odradek.client.core.record_accumulator import RecordAccumulator
from odradek.client.core.sequences import IdState, Sequences
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode as E
from odradek.records.batch import BatchHeader, iter_records
from odradek.records.compression import Codec

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def batch(count: int = 1, tp: TopicPartition = TP) -> ProducerBatch:
    made = ProducerBatch(tp, Codec.NONE, None, 0.0)
    for i in range(count):
        made.append(0, None, str(i).encode(), (), None)
    return made


def ready() -> Sequences:
    sequences = Sequences()
    sequences.id_requested()
    sequences.id_received(9, 0)
    return sequences


def sent(sequences: Sequences, *counts: int) -> list[ProducerBatch]:
    batches = []
    for count in counts:
        b = batch(count)
        assert sequences.may_send(b)
        sequences.assign(b)
        b.drained(0.0)
        batches.append(b)
    return batches


def test_nothing_leaves_without_an_id() -> None:
    sequences = Sequences()
    assert not sequences.may_send(batch())
    sequences.id_requested()
    assert not sequences.may_send(batch())
    sequences.id_received(9, 3)
    b = batch()
    assert sequences.may_send(b)
    sequences.assign(b)
    assert (b.producer_id, b.producer_epoch, b.base_sequence) == (9, 3, 0)


def test_sequences_count_records_and_stay_on_a_retry() -> None:
    sequences = ready()
    a, b, c = sent(sequences, 3, 2, 1)
    assert [x.base_sequence for x in (a, b, c)] == [0, 3, 5]
    assert a.last_sequence == 2
    sequences.assign(b)
    assert b.base_sequence == 3
    header = BatchHeader.parse(b.encode())
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 0, 3)


def test_a_retry_waits_until_it_is_the_oldest() -> None:
    sequences = ready()
    a, b, _ = sent(sequences, 1, 1, 1)
    assert not sequences.may_send(b)
    assert sequences.may_send(a)
    sequences.acknowledged(a, 10)
    assert sequences.may_send(b)


def test_sequences_wrap() -> None:
    sequences = ready()
    sequences._entry(TP).next = 2**31 - 2
    a, b = sent(sequences, 4, 1)
    assert (a.base_sequence, a.last_sequence, b.base_sequence) == (2**31 - 2, 1, 2)


# (error, log start offset, in which of three in flight, may be retried, epoch bumped)
ERRORS = [
    (E.NOT_LEADER_OR_FOLLOWER, -1, 0, True, False),
    (E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, 1, True, False),  # the one before it has not been acknowledged yet
    (E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, 0, True, True),  # it is the next one: there is a gap
    (E.UNKNOWN_PRODUCER_ID, -1, 0, True, False),  # the broker was losing the partition
    (E.UNKNOWN_PRODUCER_ID, 0, 0, True, True),
    (E.INVALID_RECORD, -1, 0, False, False),
    (E.TOPIC_AUTHORIZATION_FAILED, -1, 0, False, False),
]


@pytest.mark.parametrize(("code", "log_start", "which", "again", "bump"), ERRORS)
def test_what_an_error_means(code: E, log_start: int, which: int, again: bool, bump: bool) -> None:
    sequences = ready()
    batches = sent(sequences, 1, 1, 1)
    assert sequences.can_retry(batches[which], code, log_start) is again
    assert sequences.bump_wanted is bump
    sequences.apply_bump()
    if bump:
        assert sequences.producer_epoch == 1
        assert [(b.producer_epoch, b.base_sequence) for b in batches] == [(1, 0), (1, 1), (1, 2)]


def test_answers_to_what_was_rewritten_are_no_news() -> None:
    sequences = ready()
    a, b = sent(sequences, 1, 1)
    sequences.can_retry(a, E.UNKNOWN_PRODUCER_ID, 0)
    sequences.apply_bump()
    assert sequences.can_retry(b, E.UNKNOWN_PRODUCER_ID, 0)
    assert not sequences.bump_wanted, "one bump is enough"
    b.drained(0.0)
    assert sequences.can_retry(b, E.UNKNOWN_PRODUCER_ID, 0)
    assert sequences.bump_wanted, "sent in its new form, it counts again"


def test_a_refused_batch_closes_the_gap_with_a_new_epoch() -> None:
    sequences = ready()
    a, b = sent(sequences, 1, 1)
    sequences.failed(a, E.INVALID_RECORD, retries_left=True)
    assert not sequences.may_send(batch())
    sequences.apply_bump()
    assert (b.producer_epoch, b.base_sequence) == (1, 0)
    assert sequences.in_flight(TP) == [b]


def test_an_expired_batch_stops_the_partition_until_the_others_are_settled() -> None:
    sequences = ready()
    a, b = sent(sequences, 1, 1)
    sequences.expired(a)
    assert not sequences.may_send(batch())
    sequences.resolve()
    assert not sequences.may_send(batch()), "b is still in flight"
    sequences.acknowledged(b, 5)  # so a was written after all
    sequences.resolve()
    assert not sequences.bump_wanted
    assert sequences.may_send(batch())
    (c,) = sent(sequences, 1)
    assert (c.producer_epoch, c.base_sequence) == (0, 2)


def test_if_all_expired_the_epoch_is_raised() -> None:
    sequences = ready()
    (a,) = sent(sequences, 1)
    sequences.expired(a)
    sequences.resolve()
    sequences.apply_bump()
    (c,) = sent(sequences, 1)
    assert (c.producer_epoch, c.base_sequence) == (1, 0)


def test_a_partition_takes_the_new_epoch_when_nothing_of_the_old_is_in_flight() -> None:
    sequences = ready()
    (a,) = sent(sequences, 2)
    other = batch(1, OTHER)
    sequences.assign(other)
    sequences.can_retry(a, E.UNKNOWN_PRODUCER_ID, 0)
    sequences.apply_bump()
    fresh = batch(1, OTHER)
    assert not sequences.may_send(fresh), "the other partition has a batch of the old epoch on its way"
    sequences.acknowledged(other, 0)
    assert sequences.may_send(fresh)
    sequences.assign(fresh)
    assert (fresh.producer_epoch, fresh.base_sequence) == (1, 0)


def test_after_the_last_epoch_comes_a_new_id() -> None:
    sequences = ready()
    sequences.producer_epoch = 32_767
    (a,) = sent(sequences, 1)
    sequences.can_retry(a, E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    sequences.apply_bump()
    assert sequences.state is IdState.NEEDED
    sequences.id_received(10, 0)
    assert (a.producer_id, a.producer_epoch, a.base_sequence) == (10, 0, 0)


class BrokerModel:
    """Accepts what follows, knows repeats of the last five, refuses the rest."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self._id = (-1, -1)
        self._next = 0
        self._recent: list[tuple[int, int, int]] = []

    def append(self, data: bytes) -> tuple[E, int]:
        header = BatchHeader.parse(data)
        if (header.producer_id, header.producer_epoch) != self._id:
            if header.base_sequence != 0:
                return E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self._id, self._next, self._recent = (header.producer_id, header.producer_epoch), 0, []
        for first, last, offset in self._recent:
            if (first, last) == (header.base_sequence, header.last_sequence):
                return E.NONE, offset
        if header.base_sequence != self._next:
            return E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        offset = len(self.log)
        self.log += [r.value or b"" for r in iter_records(data)]
        self._next = (header.last_sequence + 1) & 0x7FFF_FFFF
        self._recent = [*self._recent[-4:], (header.base_sequence, header.last_sequence, offset)]
        return E.NONE, offset


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whatever_gets_lost_every_record_is_in_the_log_once_and_in_order(seed: int) -> None:
    """Requests and answers are lost at random, with up to five in flight; splits happen, too."""
    rng = random.Random(seed)
    sequences = ready()
    accumulator = RecordAccumulator(
        batch_size=300,
        linger_ms=0,
        buffer_memory=10**9,
        delivery_timeout_ms=10**9,
        backoff=Backoff(0, 0),
        sequences=sequences,
    )
    broker = BrokerModel()
    now, produced = 0.0, 0
    flying: list[tuple[ProducerBatch, bytes]] = []
    answers: list[tuple[ProducerBatch, E, int]] = []
    futures = []
    for step in range(5_000):
        now += 1
        calm = step > 300
        if not calm and rng.random() < 0.7:
            value = str(produced).encode()
            futures.append(accumulator.append(TP, 0, None, value, (), None, 30 + len(value), now)[0])
            produced += 1
        sequences.resolve()
        sequences.apply_bump()
        while len(flying) + len(answers) < 5 and (taken := accumulator.drain(0, [TP], 10**6, now)):
            flying.extend((b, b.encode()) for b in taken)
        if flying:
            b, data = flying.pop(0)
            fate = 1.0 if calm else rng.random()
            if fate < 0.1:
                answers.append((b, E.NETWORK_EXCEPTION, -1))
            elif b.count > 7:
                answers.append((b, E.MESSAGE_TOO_LARGE, -1))
            else:
                code, offset = broker.append(data)
                answers.append((b, E.NETWORK_EXCEPTION if fate < 0.3 else code, offset))
        if answers and (calm or rng.random() < 0.6 or len(answers) == 5):
            b, code, offset = answers.pop(0)
            verdict = judge(b, code, log_start_offset=-1, sequences=sequences, retries=10**6, expired=False)
            if verdict is Verdict.WRITTEN:
                known = offset if code == E.NONE else -1
                sequences.acknowledged(b, known)
                accumulator.release(b)
                b.outcome.succeed(known, -1)
            elif verdict is Verdict.SPLIT:
                accumulator.split(b)
            else:
                assert verdict is Verdict.RETRY, (verdict, code)
                accumulator.requeue(b, now)
        if calm and not accumulator.incomplete():
            break
    assert not accumulator.incomplete(), f"seed {seed}: it does not come to an end"
    assert broker.log == [str(i).encode() for i in range(produced)]
    for number, future in enumerate(futures):
        assert future.result(0).offset in (number, -1)
    assert accumulator.memory_used == 0


def test_judging_without_sequences() -> None:
    def verdict(code: E, **more: Any) -> Verdict:
        b = batch(more.pop("count", 1))
        b.attempts = more.pop("attempts", 0)
        return judge(
            b, code, log_start_offset=-1, sequences=None, retries=2, expired=more.pop("expired", False)
        )

    assert verdict(E.NONE) is Verdict.WRITTEN
    assert verdict(E.LEADER_NOT_AVAILABLE) is Verdict.RETRY
    assert verdict(E.LEADER_NOT_AVAILABLE, attempts=2) is Verdict.FAIL
    assert verdict(E.LEADER_NOT_AVAILABLE, expired=True) is Verdict.FAIL
    assert verdict(E.MESSAGE_TOO_LARGE) is Verdict.FAIL
    assert verdict(E.MESSAGE_TOO_LARGE, count=2) is Verdict.SPLIT
    assert verdict(E.DUPLICATE_SEQUENCE_NUMBER) is Verdict.WRITTEN
    assert verdict(E.INVALID_RECORD) is Verdict.FAIL


# In transactions: epochs come from the coordinator alone.


def transactional() -> Sequences:
    """Sequences of a producer that has its id."""
    sequences = Sequences(transactional=True)
    sequences.id_received(7, 0)
    return sequences


def leave(sequences: Sequences, count: int) -> ProducerBatch:
    """A batch of `count` records that is on its way."""
    (gone,) = sent(sequences, count)
    return gone


def test_a_refused_batch_of_a_transaction_is_closed_up() -> None:
    sequences = transactional()
    first, second, third = (leave(sequences, count) for count in (2, 3, 4))
    sequences.acknowledged(first, 0)
    sequences.failed(second, E.MESSAGE_TOO_LARGE, retries_left=True)
    assert third.base_sequence == 2
    assert third.sequence_was_reset
    # It was refused for the gap, and goes again.
    assert sequences.can_retry(third, E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    sequences.acknowledged(third, 2)
    assert sequences.resolve() == set()
    assert leave(sequences, 1).base_sequence == 6


def test_what_was_refused_after_a_lost_answer_leaves_a_doubt() -> None:
    sequences = transactional()
    doubtful = leave(sequences, 2)
    doubtful.returned(0)
    sequences.failed(doubtful, E.TOPIC_AUTHORIZATION_FAILED, retries_left=True)
    assert not sequences.may_send(batch(1))
    assert sequences.resolve() == {TP}
    # The coordinator raises the epoch: everything counts anew.
    sequences.id_received(7, 1)
    again = leave(sequences, 1)
    assert (again.producer_epoch, again.base_sequence) == (1, 0)


def test_an_expired_batch_whose_successor_is_in_the_log_is_no_loss() -> None:
    sequences = transactional()
    first, second = leave(sequences, 2), leave(sequences, 3)
    sequences.expired(first)
    assert sequences.resolve() == set()
    sequences.acknowledged(second, 2)
    assert sequences.resolve() == set()
    assert leave(sequences, 1).base_sequence == 5


def test_no_epoch_is_raised_by_the_producer_itself() -> None:
    sequences = transactional()
    gone = leave(sequences, 2)
    assert not sequences.can_retry(gone, E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    sequences.failed(gone, E.OUT_OF_ORDER_SEQUENCE_NUMBER, retries_left=True)
    assert not sequences.bump_wanted
    sequences.apply_bump()
    assert (sequences.producer_id, sequences.producer_epoch) == (7, 0)


def test_a_producer_that_retention_made_unknown_counts_anew_in_its_epoch() -> None:
    sequences = transactional()
    sequences.acknowledged(leave(sequences, 2), 10)
    gone = leave(sequences, 3)
    # Offset 11 was the last acknowledged, the log begins at 12: nothing of this producer is left.
    assert sequences.can_retry(gone, E.UNKNOWN_PRODUCER_ID, 12)
    assert (gone.producer_epoch, gone.base_sequence) == (0, 0)
    # Where it should be known, records are lost, and the transaction with them.
    sequences.acknowledged(gone, 12)
    gone = leave(sequences, 1)
    assert not sequences.can_retry(gone, E.UNKNOWN_PRODUCER_ID, 12)
