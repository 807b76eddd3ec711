"""How far a micro-batch goes."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.types import TopicPartition
from odradek.spark.reading.admission import Admission, prorate

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_the_limit_is_shared_out_in_proportion() -> None:
    start, end = {A: 100, B: 0}, {A: 400, B: 100}
    assert prorate(40, start, end) == {A: 130, B: 10}


def test_a_small_partition_is_not_starved() -> None:
    start, end = {A: 0, B: 0}, {A: 1_000_000, B: 1}
    assert prorate(10, start, end)[B] == 1


def test_less_than_the_limit_is_taken_whole() -> None:
    assert prorate(10, {A: 5}, {A: 9}) == {A: 9}


def test_an_end_before_its_start_is_left_for_others_to_report() -> None:
    assert prorate(1, {A: 50, B: 0}, {A: 10, B: 100}) == {A: 10, B: 1}


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.just("t"), st.integers(0, 9)),
        st.tuples(st.integers(0, 2**62), st.integers(0, 2**61)),
    ),
    st.integers(1, 2**40),
)
def test_the_limit_moves_on_and_does_not_overshoot(
    partitions: dict[TopicPartition, tuple[int, int]], limit: int
) -> None:
    start = {tp: begin for tp, (begin, _) in partitions.items()}
    end = {tp: begin + size for tp, (begin, size) in partitions.items()}
    got = prorate(limit, start, end)
    assert got.keys() == end.keys()
    assert all(start[tp] <= got[tp] <= end[tp] for tp in end)
    taken = sum(got[tp] - start[tp] for tp in end)
    assert taken <= limit + len(end) + limit / 2**40
    waiting = sum(end[tp] - start[tp] for tp in end)
    assert taken > 0 or waiting == 0


def test_a_batch_waits_for_enough_data_but_not_for_ever() -> None:
    admission = Admission(min_offsets=100, max_delay_ms=1000)
    assert admission.admit({A: 0}, {A: 5}, now_ms=0) == {A: 5}  # the first does not wait
    assert admission.admit({A: 5}, {A: 50}, now_ms=999) is None
    assert admission.admit({A: 5}, {A: 105}, now_ms=999) == {A: 105}
    assert admission.admit({A: 105}, {A: 106}, now_ms=1998) is None
    assert admission.admit({A: 105}, {A: 106}, now_ms=1999) == {A: 106}


def test_at_least_and_at_most_together() -> None:
    admission = Admission(min_offsets=10, max_offsets=20)
    assert admission.admit({A: 0}, {A: 100}, now_ms=0) == {A: 20}
    assert admission.admit({A: 20}, {A: 25}, now_ms=1) is None
    assert admission.admit({A: 20}, {A: 30}, now_ms=2) == {A: 30}
