"""Nothing lost, nothing read twice: a query's offsets through crashes, new partitions and lost data."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.types import TopicPartition
from odradek.spark.errors import DataLossError
from odradek.spark.offsets import SourceOffset

from ..simulated_spark import SimulatedQuery, SimulatedTopic, options, topic_id

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
    assert query.planner.initial().offsets == {T0: 5}
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
    assert [end.offsets for end in query.logged_ends] == [{T0: 5, T1: 5}]
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


OLD, NEW = topic_id(), topic_id(topic_id())


def _read_and_made_again(fail_on_data_loss: str, *, crash: bool, **more: str) -> SimulatedQuery:
    topic = SimulatedTopic(2, OLD)
    topic.append(0, 5)
    topic.append(1, 2)
    query = SimulatedQuery(
        topic, options(startingOffsets="earliest", failOnDataLoss=fail_on_data_loss, **more)
    )
    while query.step():
        pass
    topic.make_again(1)
    topic.append(0, 7)
    if crash:
        query.crash()
    return query


@pytest.mark.parametrize("crash", [True, False])
def test_a_topic_made_again_fails_the_query_with_both_ids_and_the_remedy(crash: bool) -> None:
    query = _read_and_made_again("true", crash=crash)
    with pytest.raises(DataLossError, match=f"(?s)id {OLD}.* id {NEW} now.*failOnDataLoss=false"):
        query.step()


@pytest.mark.parametrize("crash", [True, False])
@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "3"}, {"minOffsetsPerTrigger": "7"}])
def test_a_topic_made_again_is_read_from_its_beginning(crash: bool, limit: dict[str, str]) -> None:
    query = _read_and_made_again("false", crash=crash, **limit)
    while query.step():
        pass
    assert (query.offsets_read(T0, OLD), query.offsets_read(T1, OLD)) == (list(range(5)), [0, 1])
    assert (query.offsets_read(T0, NEW), query.offsets_read(T1, NEW)) == (list(range(7)), [])


def test_a_topic_made_again_between_a_batch_s_plan_and_its_tasks() -> None:
    topic = SimulatedTopic(1, OLD)
    topic.append(0, 5)
    query = SimulatedQuery(topic, options(startingOffsets="earliest", failOnDataLoss="false"))
    query.log_next_batch()
    topic.make_again()
    topic.append(0, 9)
    query.crash()
    while query.step():
        pass
    assert (query.offsets_read(T0, OLD), query.offsets_read(T0, NEW)) == ([], list(range(9)))


def test_available_now_aims_at_the_topic_that_was_there() -> None:
    topic = SimulatedTopic(1, OLD)
    topic.append(0, 4)
    source = options(startingOffsets="earliest", maxOffsetsPerTrigger=3, failOnDataLoss="false")
    query = SimulatedQuery(topic, source)
    query.planner.aim_at_what_is_there()
    query.step()
    topic.make_again()
    topic.append(0, 6)
    while query.step():
        pass
    assert (query.offsets_read(T0, OLD), query.offsets_read(T0, NEW)) == ([0, 1, 2], [])
    query.crash()
    query.planner.aim_at_what_is_there()
    while query.step():
        pass
    assert query.offsets_read(T0, NEW) == list(range(6))


@pytest.mark.parametrize("behind", ["older ends", "a partition less"])
def test_available_now_does_not_take_a_broker_that_is_behind_for_lost_data(behind: str) -> None:
    topic = SimulatedTopic(2)
    topic.append(0, 5)
    topic.append(1, 5)
    query = SimulatedQuery(topic, options(startingOffsets="earliest"))
    while query.step():
        pass
    query.crash()
    topic.append(0, 1)
    now = dict(topic.bounds)
    if behind == "older ends":
        topic.bounds[T0] = (0, 3)  # it has just become leader
    else:
        del topic.bounds[T1]
    query.planner.aim_at_what_is_there()
    topic.bounds = now
    while query.step():
        topic.append(0, 1)
        query.planner.initial()
    assert query.offsets_read(T0) == list(range(6))
    assert query.offsets_read(T1) == list(range(5))


def test_a_checkpoint_without_ids_learns_them() -> None:
    topic = SimulatedTopic()
    topic.append(0, 5)
    query = SimulatedQuery(topic, options(startingOffsets="earliest"))
    query.step()
    query.crash()
    topic.topic_id = OLD
    assert query.step()
    assert not query.step()
    assert query.logged_ends[-1] == SourceOffset({T0: 5}, {"t": OLD})
    topic.topic_id = ""  # an older broker answers
    assert not query.step()
    topic.topic_id = NEW
    with pytest.raises(DataLossError, match=OLD):
        query.step()


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


@pytest.mark.parametrize("start", ["earliest", '{"t":{"0":0}}', '{"t":{"0":-2}}'])
@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_what_is_deleted_before_the_first_batch_runs_again_is_lost(
    start: str, fail_on_data_loss: str
) -> None:
    topic = SimulatedTopic()
    topic.append(0, 20)
    source = options(startingOffsets=start, failOnDataLoss=fail_on_data_loss)
    query = SimulatedQuery(topic, source)
    query.log_next_batch()
    topic.delete_before(0, 8)
    query.crash()
    if fail_on_data_loss == "true":
        with pytest.raises(DataLossError):
            query.step()
    else:
        query.step()
        assert query.offsets_read(T0) == list(range(8, 20))
        assert not query.step()


def test_a_first_batch_that_was_planned_by_an_older_release_begins_where_spark_says() -> None:
    topic = SimulatedTopic(2)
    topic.append(0, 5)
    query = SimulatedQuery(topic, options(startingOffsets='{"t":{"0":2,"1":-1}}'))
    query.log_next_batch()
    query.forget_where_it_began()
    topic.append(1, 3)
    query.crash()
    while query.step():
        pass
    assert (query.offsets_read(T0), query.offsets_read(T1)) == ([2, 3, 4], [0, 1, 2])


@pytest.mark.parametrize("crash", [True, False])
@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "3"}, {"minOffsetsPerTrigger": "7"}])
def test_a_topic_that_is_hidden_for_a_while_keeps_its_place(crash: bool, limit: dict[str, str]) -> None:
    topic = SimulatedTopic(2, OLD)
    topic.append(0, 6)
    topic.append(1, 4)
    query = SimulatedQuery(topic, options(startingOffsets="earliest", failOnDataLoss="false", **limit))
    while query.step():
        pass
    topic.hidden = True
    for _ in range(3):
        assert not query.step()
    assert topic.waited_for == 1
    if crash:
        query.crash()
        assert not query.step()
    topic.hidden = False
    topic.append(0, 7)
    while query.step():
        pass
    assert (query.offsets_read(T0), query.offsets_read(T1)) == (list(range(13)), list(range(4)))


def test_a_hidden_topic_that_comes_back_as_another_one_is_read_from_its_beginning() -> None:
    topic = SimulatedTopic(2, OLD)
    topic.append(0, 6)
    query = SimulatedQuery(topic, options(startingOffsets="earliest", failOnDataLoss="false"))
    query.step()
    topic.hidden = True
    query.step()
    topic.hidden = False
    topic.make_again()
    topic.append(0, 9)
    while query.step():
        pass
    assert (query.offsets_read(T0, OLD), query.offsets_read(T0, NEW)) == (list(range(6)), list(range(9)))


def test_a_hidden_topic_fails_the_query_before_anything_is_written_down() -> None:
    topic = SimulatedTopic(1, OLD)
    topic.append(0, 6)
    query = SimulatedQuery(topic, options(startingOffsets="earliest"))
    query.step()
    before = list(query.logged_ends)
    topic.hidden = True
    for _ in range(2):
        with pytest.raises(DataLossError, match=r"\[t-0\] have been deleted, or may not be described"):
            query.step()
        query.crash()
    assert query.logged_ends == before
    topic.hidden = False
    topic.append(0, 2)
    query.step()
    assert query.offsets_read(T0) == list(range(8))


def test_available_now_ends_while_a_topic_is_hidden() -> None:
    topic = SimulatedTopic(1, OLD)
    topic.append(0, 6)
    query = SimulatedQuery(topic, options(startingOffsets="earliest", failOnDataLoss="false"))
    query.step()
    query.crash()
    topic.hidden = True
    query.planner.aim_at_what_is_there()
    assert not query.step()
    assert not query.step()


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize(
    ("comes_back_with", "read"),
    [
        (6, [*range(6)]),
        (9, [*range(9)]),
        (5, [*range(6), *range(5)]),
        (0, [*range(6)]),
    ],
)
def test_without_an_id_a_topic_that_reaches_its_place_is_the_same(
    comes_back_with: int, read: list[int], crash: bool
) -> None:
    topic = SimulatedTopic()
    topic.append(0, 6)
    query = SimulatedQuery(topic, options(startingOffsets="earliest", failOnDataLoss="false"))
    query.step()
    topic.hidden = True
    if crash:
        query.crash()
    for _ in range(3):
        assert not query.step()
    topic.hidden = False
    topic.bounds[T0] = (0, comes_back_with)
    query.log_next_batch()
    if crash:
        query.crash()
    for _ in range(3):
        query.step()
    topic.append(0, 1)
    while query.step():
        pass
    assert query.offsets_read(T0) == [*read, comes_back_with]


def test_without_an_id_a_topic_that_comes_back_shorter_waits_for_enough_data() -> None:
    topic = SimulatedTopic(2)
    topic.append(0, 6)
    given = {"minOffsetsPerTrigger": "4", "maxTriggerDelay": "10s"}
    query = SimulatedQuery(topic, options(startingOffsets="earliest", failOnDataLoss="false", **given))
    query.step()
    topic.hidden = True
    query.step()
    topic.hidden = False
    topic.bounds[T0] = (0, 3)
    topic.append(1, 2)
    for _ in range(3):
        while query.step():
            pass
        query.now_ms += 10_000
    assert (query.offsets_read(T0), query.offsets_read(T1)) == ([*range(6), *range(3)], [0, 1])


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
    end = query.planner.end_without_start()
    assert end.offsets == {T0: 5}
    topic.append(0, 3)
    assert query.planner.initial().offsets == {T0: 5}
    assert query.planner.ranges(query.planner.initial(), end) == []


def test_an_older_spark_s_first_batch_that_runs_again_begins_where_it_did() -> None:
    topic = SimulatedTopic()
    topic.append(0, 20)
    query = SimulatedQuery(topic, options(startingOffsets="earliest"))
    end = query.planner.end_without_start()
    topic.delete_before(0, 8)
    query.crash()
    [r] = query.planner.ranges(query.planner.initial(), end)
    assert (r.start, r.end) == (0, 20)
    # What is not new is not another offset for Spark, and what is says nothing of beginnings.
    query.crash()
    first = query.planner.end_without_start()
    assert query.planner.end_without_start() == first
    topic.append(0, 1)
    later = query.planner.end_without_start()
    assert (dict(later.offsets), later.began) == ({T0: 21}, {})
    # A query that goes on is not asked where it began.
    [r] = query.planner.ranges(SourceOffset({T0: 15}), first)
    assert (r.start, r.end) == (15, 20)


def test_an_older_spark_whose_topic_is_hidden_keeps_its_place() -> None:
    topic = SimulatedTopic(1, OLD)
    topic.append(0, 20)
    query = SimulatedQuery(topic, options(startingOffsets="earliest", failOnDataLoss="false"))
    end = query.planner.end_without_start()
    topic.hidden = True
    assert query.planner.end_without_start() == end


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


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["log", "crash", "append", "step", "delete", "hide"]),
            st.integers(0, 5),
        ),
        max_size=40,
    ),
    st.none() | st.integers(1, 4),
    st.sampled_from([OLD, ""]),
)
def test_with_retention_and_hidden_topics_nothing_is_read_twice_and_what_is_there_once(
    script: list[tuple[str, int]], limit: int | None, topic_id: str
) -> None:
    topic = SimulatedTopic(1, topic_id)
    limits = {"maxOffsetsPerTrigger": limit} if limit else {}
    query = SimulatedQuery(topic, options(startingOffsets="earliest", failOnDataLoss="false", **limits))
    deleted = 0
    for name, number in script:
        if name == "append":
            topic.append(0, number)
        elif name == "delete":
            deleted = min(topic.bounds[T0][1], topic.bounds[T0][0] + number)
            topic.delete_before(0, deleted)
        elif name == "hide":
            topic.hidden = not topic.hidden
        elif name == "crash":
            query.crash()
        elif name == "log":
            query.log_next_batch()
        else:
            query.step()
    topic.hidden = False
    while query.step():
        pass
    read = query.offsets_read(T0)
    assert read == sorted(set(read))
    assert set(range(deleted, topic.bounds[T0][1])) <= set(read)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["log", "crash", "append", "run", "commit", "step", "make_again"]),
            st.integers(0, 3),
        ),
        max_size=40,
    ),
    st.none() | st.integers(1, 4),
)
def test_of_topics_made_again_each_offset_is_read_once_and_all_of_the_last(
    script: list[tuple[str, int]], limit: int | None
) -> None:
    topic = SimulatedTopic(2, OLD)
    limits = {"maxOffsetsPerTrigger": limit} if limit else {}
    query = SimulatedQuery(topic, options(startingOffsets="earliest", failOnDataLoss="false", **limits))
    written: dict[tuple[str, TopicPartition], int] = {}
    for name, number in script:
        if name == "append":
            topic.append(number % len(topic.bounds))
        elif name == "make_again":
            written |= {(topic.topic_id, tp): end for tp, (_, end) in topic.bounds.items()}
            topic.make_again(1 + number % 3)
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
    for (one, tp), end in written.items():
        assert query.offsets_read(tp, one) == sorted({*query.offsets_read(tp, one)} & {*range(end)})
    for tp, (_, end) in topic.bounds.items():
        assert query.offsets_read(tp, topic.topic_id) == list(range(end))
