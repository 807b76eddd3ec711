"""Nothing lost, nothing read twice: a query's offsets through crashes, new partitions and lost data."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.types import TopicPartition
from odradek.spark.errors import DataLossError

from .simulated_spark import SimulatedQuery, SimulatedTopic, options

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def test_from_the_beginning_the_first_batch_takes_all() -> None:
    topic = SimulatedTopic()
    topic.append(0, 5)
    query = SimulatedQuery(topic, options(startingOffsets="earliest"))
    assert query.step()
    assert query.offsets_read(T0) == [0, 1, 2, 3, 4]
    assert not query.step()


def test_from_the_end_what_comes_between_the_two_questions_is_read() -> None:
    topic = SimulatedTopic()
    topic.append(0, 5)
    query = SimulatedQuery(topic, options(startingOffsets="latest"))
    query.planner.initial()
    topic.append(0, 3)
    assert query.planner.initial() == {T0: 5}
    query.step()
    query.step()
    assert query.offsets_read(T0) == [5, 6, 7]


def test_from_the_end_a_crash_in_the_first_batch_loses_nothing() -> None:
    topic = SimulatedTopic()
    topic.append(0, 5)
    query = SimulatedQuery(topic, options(startingOffsets="latest"), written_in_between=2)
    assert query.log_next_batch()
    query.crash()
    topic.append(0, 1)
    topic.add_partition()
    topic.append(1, 2)
    while query.step():
        pass
    assert query.offsets_read(T0) == [5, 6, 7]
    assert query.offsets_read(T1) == [0, 1]


def test_only_the_partitions_whose_start_moves_wait_for_the_second_batch() -> None:
    topic = SimulatedTopic(2)
    topic.append(0, 5)
    topic.append(1, 5)
    query = SimulatedQuery(topic, options(startingOffsets='{"t":{"0":2,"1":-1}}'))
    query.log_next_batch()
    assert query.logged_ends == [{T0: 5, T1: 5}]
    query.run_logged_batch()
    query.commit()
    topic.append(1)
    query.step()
    assert (query.offsets_read(T0), query.offsets_read(T1)) == ([2, 3, 4], [5])


def test_a_new_partition_is_read_from_its_beginning() -> None:
    topic = SimulatedTopic()
    query = SimulatedQuery(topic, options(startingOffsets="latest"))
    query.step()
    topic.add_partition()
    topic.append(1, 3)
    query.step()
    assert query.offsets_read(T1) == [0, 1, 2]


def test_available_now_ends_at_what_was_there_when_it_began() -> None:
    topic = SimulatedTopic(2)
    topic.append(0, 7)
    query = SimulatedQuery(topic, options(startingOffsets="earliest", maxOffsetsPerTrigger=3))
    query.planner.aim_at_what_is_there()
    topic.append(0, 100)
    topic.append(1, 100)
    steps = 0
    while query.step():
        steps += 1
    assert steps == 3
    assert query.offsets_read(T0) == list(range(7))
    assert query.offsets_read(T1) == []


def test_lost_offsets_fail_the_query() -> None:
    topic = SimulatedTopic()
    topic.append(0, 5)
    query = SimulatedQuery(topic, options(startingOffsets="earliest"))
    query.step()
    topic.bounds[T0] = (0, 2)  # deleted and created anew
    with pytest.raises(DataLossError, match="Partition t-0 offset was changed from 5 to 2"):
        query.step()


def test_lost_offsets_are_skipped_if_so_wished() -> None:
    topic = SimulatedTopic()
    topic.append(0, 5)
    query = SimulatedQuery(topic, options(startingOffsets="earliest", failOnDataLoss="false"))
    query.step()
    topic.bounds[T0] = (0, 2)
    query.step()
    topic.append(0, 1)
    query.step()
    assert query.offsets_read(T0) == [0, 1, 2, 3, 4, 2]


def test_a_new_partition_that_lost_its_beginning_fails_the_query() -> None:
    topic = SimulatedTopic()
    query = SimulatedQuery(topic, options(startingOffsets="earliest"))
    query.step()
    topic.add_partition()
    topic.append(1, 3)
    topic.delete_before(1, 1)
    with pytest.raises(DataLossError, match="Added partition t-1 starts from 1 instead of 0"):
        query.step()


def test_a_deleted_partition_fails_the_query() -> None:
    topic = SimulatedTopic(2)
    query = SimulatedQuery(topic, options(startingOffsets="earliest"))
    query.step()
    topic.append(0)
    del topic.bounds[T1]
    with pytest.raises(DataLossError, match=r"Partitions \[t-1\] have been deleted"):
        query.step()


def test_a_batch_waits_for_enough_data() -> None:
    topic = SimulatedTopic()
    query = SimulatedQuery(
        topic, options(startingOffsets="earliest", minOffsetsPerTrigger=10, maxTriggerDelay="1s")
    )
    query.step()
    topic.append(0, 9)
    assert not query.step()
    topic.append(0, 1)
    assert query.step()
    topic.append(0, 1)
    query.now_ms = 1000
    assert query.step()
    assert query.offsets_read(T0) == list(range(11))


def test_an_older_spark_that_asks_for_the_end_first_loses_nothing() -> None:
    topic = SimulatedTopic()
    topic.append(0, 5)
    query = SimulatedQuery(topic, options(startingOffsets="latest"))
    assert query.planner.end_without_start() == {T0: 5}
    topic.append(0, 3)
    assert query.planner.initial() == {T0: 5}


actions = st.lists(
    st.tuples(
        st.sampled_from(["log", "crash", "append", "run", "commit", "step", "add_partition"]),
        st.integers(0, 3),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(
    actions,
    st.sampled_from(["earliest", "latest"]),
    st.none() | st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 2),
)
def test_whatever_happens_each_offset_is_read_once(
    script: list[tuple[str, int]], start: str, limit: int | None, before: int, in_between: int
) -> None:
    topic = SimulatedTopic()
    topic.append(0, before)
    given_options = {"startingOffsets": start} | ({"maxOffsetsPerTrigger": limit} if limit else {})
    query = SimulatedQuery(topic, options(**given_options), in_between)
    for name, number in script:
        if name == "append":
            topic.append(number % len(topic.bounds))
        elif name == "add_partition":
            if len(topic.bounds) < 4:
                topic.add_partition()
        elif name == "log":
            query.log_next_batch()
        elif name == "run":
            query.run_logged_batch()
        elif name == "commit":
            query.commit()
        elif name == "step":
            query.step()
        else:
            query.crash()
    while query.step():
        pass
    for tp, (_, end) in topic.bounds.items():
        # What was there at the start, and partitions that came later from their beginning.
        begin = query.started_at.get(tp, 0) if start == "latest" else 0
        assert query.offsets_read(tp) == list(range(begin, end))
