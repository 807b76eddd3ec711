"""How offsets become tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.types import TopicPartition
from odradek.spark.ranges import MOST_TASKS, OffsetRange, split

A, B, C = (TopicPartition("t", number) for number in range(3))

ranges_of_topics = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 5)),
    st.tuples(st.integers(0, 1000), st.integers(-5, 10_000)),
    max_size=8,
).map(lambda sizes: [OffsetRange(tp, start, start + size) for tp, (start, size) in sizes.items()])


def test_each_partition_with_data_is_a_task() -> None:
    ranges = [OffsetRange(A, 0, 10), OffsetRange(B, 5, 5), OffsetRange(C, 7, 3)]
    assert split(ranges) == [OffsetRange(A, 0, 10)]


def test_more_tasks_are_taken_from_the_larger_partitions() -> None:
    ranges = [OffsetRange(A, 0, 10_000), OffsetRange(B, 0, 100)]
    assert split(ranges, min_partitions=3) == [
        OffsetRange(A, 0, 5_000),
        OffsetRange(A, 5_000, 10_000),
        OffsetRange(B, 0, 100),
    ]


def test_enough_partitions_are_left_whole() -> None:
    ranges = [OffsetRange(A, 0, 10_000), OffsetRange(B, 0, 100)]
    assert split(ranges, min_partitions=2) == ranges


def test_one_partition_is_cut_evenly() -> None:
    assert [r.size for r in split([OffsetRange(A, 0, 10)], min_partitions=4)] == [2, 2, 3, 3]


def test_a_task_can_be_bounded() -> None:
    assert [(r.start, r.end) for r in split([OffsetRange(A, 0, 25)], max_records=10)] == [
        (0, 8),
        (8, 16),
        (16, 25),
    ]


def test_both_bounds_hold() -> None:
    tasks = split([OffsetRange(A, 0, 100), OffsetRange(B, 0, 10)], min_partitions=12, max_records=20)
    assert [task.size for task in tasks] == [10] * 11  # "about" twelve
    tasks = split([OffsetRange(A, 0, 100), OffsetRange(B, 0, 10)], min_partitions=2, max_records=20)
    assert [task.size for task in tasks] == [20] * 5 + [10]


@given(ranges_of_topics, st.none() | st.integers(1, 50), st.none() | st.integers(1, 500))
def test_every_offset_is_in_exactly_one_task(
    ranges: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> None:
    tasks = split(ranges, min_partitions, max_records)
    assert all(task.size > 0 for task in tasks)
    assert max_records is None or all(task.size <= max_records for task in tasks)
    for r in ranges:
        at = r.start
        for task in tasks:
            if task.tp == r.tp:
                assert task.start == at
                at = task.end
        assert at == max(r.start, r.end)


def test_however_many_tasks_are_asked_for_there_are_as_many_as_spark_gets_through() -> None:
    five = [OffsetRange(TopicPartition("t", 0), 0, 5)]
    assert [r.size for r in split(five, 99_999_999_999)] == [1] * 5
    many = [OffsetRange(TopicPartition("t", n), 0, 1 << 40) for n in range(3)]
    assert MOST_TASKS - 3 <= len(split(many, 99_999_999_999)) <= MOST_TASKS + 3
    assert len(split(many, max_records=1 << 30)) == 3 << 10
    with pytest.raises(
        ValueError, match=r"maxRecordsPerPartition 1 would cut 3,\S+ offsets into 3,\S+ tasks"
    ):
        split(many, max_records=1)
