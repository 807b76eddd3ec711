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
from odradek.client.core.sequences import FORGOTTEN_AFTER_MS, IdState, Sequences
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode as E
from odradek.errors import error_for
from odradek.records.batch import BatchHeader, iter_records
from odradek.records.compression import Codec

from .sending import produce_response, sender_state

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


def introduced(tp: TopicPartition = TP) -> Sequences:
    """Sequences of which a broker has acknowledged one, so that the next is 1."""
    sequences = ready()
    first = batch(1, tp)
    sequences.assign(first)
    sequences.acknowledged(first, 0)
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


def back(*batches: ProducerBatch) -> None:
    """Their answers have come; they will be sent again."""
    for b in batches:
        b.returned(0.0)


def numbers(*batches: ProducerBatch) -> list[tuple[int, int]]:
    return [(b.producer_epoch, b.base_sequence) for b in batches]


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


def test_the_first_batch_of_an_epoch_goes_alone_and_costs_one_round_trip() -> None:
    sequences = ready()
    (first,) = sent(sequences, 1)
    assert not sequences.may_send(batch()), "an unknown producer's second batch might be taken for its first"
    assert sequences.may_send(batch(1, OTHER)), "another partition is another matter"
    sequences.acknowledged(first, 0)
    sent(sequences, 1, 1, 1, 1, 1)
    assert not sequences.may_send(batch()), "brokers remember five"


def test_five_are_counted_from_the_oldest() -> None:
    sequences = introduced()
    a, b, *_ = sent(sequences, 1, 1, 1, 1, 1)
    sequences.acknowledged(b, 5)
    assert not sequences.may_send(batch()), "a sixth might have the broker forget the first"
    sequences.acknowledged(a, 4)
    sent(sequences, 1, 1)


def test_after_a_long_pause_the_first_batch_goes_alone_again() -> None:
    sequences = introduced()
    b = batch()
    sequences.assign(b, FORGOTTEN_AFTER_MS + 1)
    assert not sequences.may_send(batch())
    sequences.acknowledged(b, 1)
    assert sequences.may_send(batch())


def test_in_a_topic_made_anew_the_first_batch_goes_alone() -> None:
    sequences = introduced()
    old, new = bytes(15) + b"\1", bytes(15) + b"\2"
    a = batch()
    sequences.assign(a, 0, old)
    assert sequences.may_send(batch(), old)
    assert not sequences.may_send(batch(), new), "a may be written to either of the two"
    sequences.acknowledged(a, 1)
    b = batch()
    assert sequences.may_send(b, new)
    sequences.assign(b, 0, new)
    assert not sequences.may_send(batch(), new)
    sequences.acknowledged(b, 0)
    assert sequences.may_send(batch(), new)


def test_sequences_count_records_and_stay_on_a_retry() -> None:
    sequences = introduced()
    a, b, c = sent(sequences, 3, 2, 1)
    assert [x.base_sequence for x in (a, b, c)] == [1, 4, 6]
    assert a.last_sequence == 3
    sequences.assign(b)
    assert b.base_sequence == 4
    header = BatchHeader.parse(b.encode())
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 0, 4)


def test_a_retry_waits_until_it_is_the_oldest() -> None:
    sequences = introduced()
    a, b, _ = sent(sequences, 1, 1, 1)
    assert not sequences.may_send(b)
    assert sequences.may_send(a)
    sequences.acknowledged(a, 10)
    assert sequences.may_send(b)


def test_sequences_wrap() -> None:
    sequences = introduced()
    large = batch()
    large.adopt(large.encode(), 2**31 - 3)
    sequences.assign(large)
    sequences.acknowledged(large, 10)
    a, b = sent(sequences, 4, 1)
    assert (a.base_sequence, a.last_sequence, b.base_sequence) == (2**31 - 2, 1, 2)


# (error, log start offset, in which of three in flight, may be retried, numbered anew)
ERRORS = [
    (E.NOT_LEADER_OR_FOLLOWER, -1, 0, True, False),
    (E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, 1, True, False),  # the one before it has not been acknowledged yet
    (E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, 0, True, True),  # it is the next one: there is a gap
    (E.UNKNOWN_PRODUCER_ID, -1, 0, True, False),  # the broker was losing the partition
    (E.UNKNOWN_PRODUCER_ID, 0, 0, True, True),
    (E.INVALID_RECORD, -1, 0, False, False),
    (E.TOPIC_AUTHORIZATION_FAILED, -1, 0, False, False),
]


@pytest.mark.parametrize(("code", "log_start", "which", "again", "anew"), ERRORS)
def test_what_an_error_means(code: E, log_start: int, which: int, again: bool, anew: bool) -> None:
    sequences = introduced()
    batches = sent(sequences, 1, 1, 1)
    assert sequences.can_retry(batches[which], code, log_start) is again
    back(*batches)
    sequences.settle()
    assert numbers(*batches) == ([(1, 0), (1, 1), (1, 2)] if anew else [(0, 1), (0, 2), (0, 3)])


def test_nothing_is_numbered_anew_while_an_answer_is_due() -> None:
    sequences = introduced()
    a, b = sent(sequences, 1, 1)
    sequences.can_retry(a, E.UNKNOWN_PRODUCER_ID, 0)
    back(a)
    sequences.settle()
    assert numbers(a, b) == [(0, 1), (0, 2)]
    assert not sequences.may_send(a)
    assert sequences.can_retry(b, E.UNKNOWN_PRODUCER_ID, 0)
    back(b)
    sequences.settle()
    assert numbers(a, b) == [(1, 0), (1, 1)], "one epoch is enough"


def test_what_follows_a_refused_batch_is_numbered_anew() -> None:
    sequences = introduced()
    a, b = sent(sequences, 1, 1)
    sequences.given_up(a)
    assert not sequences.may_send(batch())
    # In doubt or not: it cannot have been appended behind the gap.
    b.in_doubt = True
    assert sequences.can_retry(b, E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    back(b)
    sequences.settle()
    assert numbers(b) == [(1, 0)]
    assert sequences.in_flight(TP) == [b]


def test_the_sequences_of_a_refused_batch_are_free_if_nothing_followed() -> None:
    sequences = introduced()
    (a,) = sent(sequences, 3)
    sequences.given_up(a)
    sequences.settle()
    (b,) = sent(sequences, 1)
    assert numbers(b) == [(0, 1)]


def test_what_precedes_a_refused_batch_keeps_its_number() -> None:
    sequences = introduced()
    a, b, c = sent(sequences, 1, 1, 1)
    sequences.given_up(b)
    back(a, c)
    a.in_doubt = True
    sequences.settle()
    assert numbers(a, c) == [(0, 1), (0, 3)]
    assert sequences.may_send(a)
    sequences.acknowledged(a, 1)
    assert not sequences.may_send(c)
    sequences.settle()
    assert numbers(c) == [(1, 0)]


def test_what_follows_a_doubt_tells_of_it() -> None:
    sequences = introduced()
    a, b = sent(sequences, 1, 1)
    a.in_doubt = True
    sequences.given_up(a)
    assert not sequences.may_send(batch())
    sequences.settle()
    assert not sequences.may_send(batch()), "b is still in flight"
    sequences.acknowledged(b, 5)  # so a was written after all
    sequences.settle()
    (c,) = sent(sequences, 1)
    assert numbers(c) == [(0, 3)]


@pytest.mark.parametrize("in_doubt", [False, True])
def test_what_follows_a_doubt_is_sent_anew_unless_it_is_in_doubt_as_well(in_doubt: bool) -> None:
    sequences = introduced()
    a, b = sent(sequences, 1, 1)
    a.in_doubt = True
    sequences.given_up(a)
    b.in_doubt = in_doubt
    assert sequences.can_retry(b, E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1) is not in_doubt
    if in_doubt:
        sequences.given_up(b)
    else:
        back(b)
    sequences.settle()
    (c,) = [b] if not in_doubt else sent(sequences, 1)
    assert numbers(c) == [(1, 0)]


def test_parts_of_a_doubt_are_never_sent_under_other_numbers() -> None:
    sequences = introduced()
    (whole,) = sent(sequences, 2)
    whole.in_doubt = True
    parts = whole.split(1)
    sequences.split(whole, parts)
    assert numbers(*parts) == [(0, 1), (0, 2)]
    assert not sequences.can_retry(parts[0], E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


def test_if_all_expired_the_epoch_is_raised() -> None:
    sequences = ready()
    (a,) = sent(sequences, 1)
    a.in_doubt = True
    sequences.given_up(a)
    sequences.settle()
    (c,) = sent(sequences, 1)
    assert numbers(c) == [(1, 0)]
    assert not sequences.may_send(batch()), "the first of its epoch"


def test_other_partitions_keep_their_epoch() -> None:
    sequences = introduced(OTHER)
    (a,) = sent(sequences, 2)
    other = batch(1, OTHER)
    sequences.assign(other)
    sequences.can_retry(a, E.UNKNOWN_PRODUCER_ID, 0)
    back(a)
    sequences.settle()
    fresh = batch(1, OTHER)
    assert sequences.may_send(fresh)
    sequences.assign(fresh)
    assert numbers(a, other, fresh) == [(1, 0), (0, 1), (0, 2)]


def test_after_the_last_epoch_comes_a_new_id() -> None:
    sequences = Sequences()
    sequences.id_received(9, 32_767)
    (a,) = sent(sequences, 1)
    other = batch(1, OTHER)
    sequences.assign(other)
    sequences.can_retry(a, E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    back(a)
    sequences.settle()
    assert sequences.state is IdState.NEEDED
    sequences.id_received(10, 0)
    sequences.settle()
    assert (a.producer_id, a.producer_epoch, a.base_sequence) == (10, 0, 0)
    assert not sequences.may_send(batch(1, OTHER)), "it has a batch of the old id on its way"
    sequences.acknowledged(other, 0)
    fresh = batch(1, OTHER)
    assert sequences.may_send(fresh)
    sequences.assign(fresh)
    assert (fresh.producer_id, fresh.base_sequence) == (10, 0)


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
    state = sender_state(accumulator, TP, delivery_timeout_ms=10**9)
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
        state.look(now)
        for taken in state.requests_for(0, now, lambda: len(flying) + len(answers) < 5):
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
            if code == E.NETWORK_EXCEPTION:
                state.unanswered([b], error_for(code), now)
            else:
                state.answered([b], produce_response(TP, code, offset), now)
            assert not state.records_failed, code
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
    """Sequences of a producer that has its id, and was acknowledged in a transaction before."""
    sequences = Sequences(transactional=True)
    sequences.id_received(7, 0)
    sequences.acknowledged(leave(sequences, 1), 0)
    sequences.id_received(7, 1)
    return sequences


def leave(sequences: Sequences, count: int) -> ProducerBatch:
    """A batch of `count` records that is on its way."""
    (gone,) = sent(sequences, count)
    return gone


def test_only_the_first_transaction_in_a_partition_waits_for_its_first_batch() -> None:
    sequences = Sequences(transactional=True)
    sequences.id_received(7, 0)
    first = leave(sequences, 1)
    assert not sequences.may_send(batch())
    sequences.acknowledged(first, 0)
    sequences.id_received(7, 1)
    assert numbers(leave(sequences, 1), leave(sequences, 1)) == [(1, 0), (1, 1)]


def test_a_refused_batch_of_a_transaction_is_closed_up() -> None:
    sequences = transactional()
    first, second, third = (leave(sequences, count) for count in (2, 3, 4))
    sequences.acknowledged(first, 0)
    sequences.given_up(second, E.MESSAGE_TOO_LARGE)
    # It was refused for the gap, and goes again.
    assert sequences.can_retry(third, E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    back(third)
    assert sequences.settle() == set()
    assert third.base_sequence == 2
    sequences.acknowledged(third, 2)
    assert sequences.settle() == set()
    assert leave(sequences, 1).base_sequence == 6


def test_what_was_refused_after_a_lost_answer_leaves_a_doubt() -> None:
    sequences = transactional()
    doubtful = leave(sequences, 2)
    doubtful.in_doubt = True
    sequences.given_up(doubtful, E.TOPIC_AUTHORIZATION_FAILED)
    assert not sequences.may_send(batch(1))
    assert sequences.settle() == {TP}
    # The coordinator raises the epoch: everything counts anew.
    sequences.id_received(7, 2)
    again = leave(sequences, 1)
    assert (again.producer_epoch, again.base_sequence) == (2, 0)


def test_an_expired_batch_whose_successor_is_in_the_log_is_no_loss() -> None:
    sequences = transactional()
    first, second = leave(sequences, 2), leave(sequences, 3)
    first.in_doubt = True
    sequences.given_up(first)
    assert sequences.settle() == set()
    sequences.acknowledged(second, 2)
    assert sequences.settle() == set()
    assert leave(sequences, 1).base_sequence == 5


def test_no_epoch_is_raised_by_the_producer_itself() -> None:
    sequences = transactional()
    gone = leave(sequences, 2)
    assert not sequences.can_retry(gone, E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    sequences.given_up(gone, E.OUT_OF_ORDER_SEQUENCE_NUMBER)
    sequences.settle()
    assert (sequences.producer_id, sequences.producer_epoch) == (7, 1)


def test_a_producer_that_retention_made_unknown_counts_anew_in_its_epoch() -> None:
    sequences = transactional()
    sequences.acknowledged(leave(sequences, 2), 10)
    gone, behind = leave(sequences, 3), leave(sequences, 1)
    # Offset 11 was the last acknowledged, the log begins at 12: nothing of this producer is left.
    assert sequences.can_retry(gone, E.UNKNOWN_PRODUCER_ID, 12)
    assert sequences.can_retry(behind, E.UNKNOWN_PRODUCER_ID, 12)
    back(gone, behind)
    assert sequences.settle() == set()
    assert numbers(gone, behind) == [(1, 0), (1, 3)]
    # Where it should be known, records are lost, and the transaction with them.
    sequences.acknowledged(gone, 12)
    sequences.acknowledged(behind, 15)
    gone = leave(sequences, 1)
    assert not sequences.can_retry(gone, E.UNKNOWN_PRODUCER_ID, 12)
