"""Offsets as JSON, in the connector's form and in Spark's checkpoint."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.types import TopicPartition
from odradek.spark.offsets import (
    SourceOffset,
    from_spark,
    offsets_from_json,
    partitions_from_json,
    show,
    timestamps_from_json,
    to_spark,
)
from odradek.wire.primitives import uuid_to_text

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


ids = st.dictionaries(st.sampled_from("abc"), st.binary(min_size=16, max_size=16).map(uuid_to_text))


def _with_offsets(
    offsets: dict[TopicPartition, int], topic_ids: dict[str, str], began: dict[TopicPartition, int]
) -> SourceOffset:
    topics = {tp.topic for tp in offsets}
    return SourceOffset(offsets, {topic: one for topic, one in topic_ids.items() if topic in topics}, began)


places = st.builds(_with_offsets, offset_maps, ids, st.just({}) | offset_maps)


@given(places)
def test_a_checkpoint_gives_back_what_it_was_given(place: SourceOffset) -> None:
    text = json.dumps(to_spark(place))
    assert from_spark(json.loads(text)) == place


@given(places)
def test_equal_offsets_have_equal_texts_whatever_their_order(place: SourceOffset) -> None:
    backwards = SourceOffset(
        dict(reversed(place.offsets.items())),
        dict(reversed(list(place.topic_ids.items()))),
        dict(reversed(list(place.began.items()))),
    )
    assert json.dumps(to_spark(place)) == json.dumps(to_spark(backwards))


@given(places)
def test_the_connector_reads_the_same_offsets_by_its_own_rule(place: SourceOffset) -> None:
    """Spark's KafkaSourceOffset takes the partitions of all topics in the JSON; ids have none."""
    text = json.dumps(to_spark(place))
    read = {(t, int(p)): o for t, parts in json.loads(text).items() for p, o in parts.items()}
    assert read == dict(place.offsets)
    assert offsets_from_json(text) == place.offsets


def test_a_checkpoint_shows_ids_as_topics_without_partitions() -> None:
    place = SourceOffset({TopicPartition("t", 0): 6}, {"t": "ipB6yNIkQdu9ZDXNDDHZXw"})
    assert to_spark(place) == {"t": {"0": 6}, "t#ipB6yNIkQdu9ZDXNDDHZXw": {}}
    assert from_spark({"t": {"0": 6}}) == SourceOffset({TopicPartition("t", 0): 6})
    first = SourceOffset(
        place.offsets, place.topic_ids, {TopicPartition("t", 1): 0, TopicPartition("t", 0): 2}
    )
    assert to_spark(first) == {
        "t": {"0": 6},
        "t#ipB6yNIkQdu9ZDXNDDHZXw": {},
        "t#began:0=2,1=0": {},
    }
    with pytest.raises(ValueError, match="not a uuid"):
        from_spark({"t": {"0": 6}, "t#x": {}})


def test_partitions_are_shown_as_kafka_names_them() -> None:
    assert show([TopicPartition("b", 1), TopicPartition("a", 0)]) == "[a-0, b-1]"
