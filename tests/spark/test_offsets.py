"""Offsets as JSON, in the connector's form and in Spark's checkpoint."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.types import TopicPartition
from odradek.spark.offsets import (
    from_spark,
    offsets_from_json,
    partitions_from_json,
    show,
    timestamps_from_json,
    to_spark,
)

offset_maps = st.dictionaries(
    st.builds(TopicPartition, st.text("abc.-_", min_size=1, max_size=5), st.integers(0, 40)),
    st.integers(0, 2**63 - 1),
)


def test_offsets_are_read_by_topic_and_partition() -> None:
    assert offsets_from_json('{"a":{"0":23,"1":-1},"b":{"0":-2}}') == {
        TopicPartition("a", 0): 23,
        TopicPartition("a", 1): -1,
        TopicPartition("b", 0): -2,
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "earlyest",
        "[]",
        '{"a":1}',
        '{"a":{"x":1}}',
        '{"a":{"0":"1"}}',
        '{"a":{"0":true}}',
        '{"a":{"-1":1}}',
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r'Expected e\.g\. \{"topicA"'):
        offsets_from_json(text)
    with pytest.raises(ValueError, match=r'Expected e\.g\. \{"topicA"'):
        timestamps_from_json(text)


def test_partitions_are_read_and_sorted() -> None:
    assert partitions_from_json('{"b":[1],"a":[2,0,2]}') == [("a", 0), ("a", 2), ("b", 1)]


@pytest.mark.parametrize("text", ['{"a":0}', '{"a":["0"]}', '{"a":[-1]}', "x", '["a"]'])
def test_partitions_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Expected e"):
        partitions_from_json(text)


@given(offset_maps)
def test_a_checkpoint_gives_back_what_it_was_given(offsets: dict[TopicPartition, int]) -> None:
    text = json.dumps(to_spark(offsets))
    assert from_spark(json.loads(text)) == offsets


@given(offset_maps)
def test_equal_offsets_have_equal_texts_whatever_their_order(offsets: dict[TopicPartition, int]) -> None:
    backwards = dict(reversed(offsets.items()))
    assert json.dumps(to_spark(offsets)) == json.dumps(to_spark(backwards))


def test_partitions_are_shown_as_kafka_names_them() -> None:
    assert show([TopicPartition("b", 1), TopicPartition("a", 0)]) == "[a-0, b-1]"
