"""Images are values: shared, never changed. Elections: who leads, in every situation."""

from __future__ import annotations

import pytest

from odradek.cluster.controller import elections
from odradek.cluster.image import ClusterDelta, ClusterImage, PartitionImage, TopicImage
from odradek.cluster.nodes import PartitionState
from odradek.wire.primitives import ZERO_UUID


def _topic(name: str, number: int = 1, leader: int = 0) -> TopicImage:
    partition = PartitionImage((0, 1), (0, 1), leader, 0, 0)
    return TopicImage(name, bytes([number]) * 16, {0: partition})


def test_lookups_by_name_and_id() -> None:
    image = ClusterImage("c").apply(ClusterDelta(topics={"a": _topic("a"), "b": _topic("b", 2)}))
    a = image.topic("a")
    assert a is not None
    assert image.topic_by_id(b"\x01" * 16) is a
    assert image.topic_name(b"\x02" * 16) == "b"
    assert image.topic_id("b") == b"\x02" * 16
    assert image.topic_id("absent") == ZERO_UUID
    assert image.topic_by_id(b"\x09" * 16) is None
    assert image.partition("a", 0) is a.partitions[0]
    assert image.partition("a", 1) is None
    assert image.partition("absent", 0) is None
    assert [(t.name, i) for t, i, _ in image.partitions_of(1)] == [("a", 0), ("b", 0)]
    assert list(image.partitions_of(5)) == []


def test_applying_a_delta_leaves_the_image_before_as_it_was() -> None:
    before = ClusterImage("c").apply(
        ClusterDelta(topics={"a": _topic("a")}, configs={"topics/a": {"retention.ms": "1"}})
    )
    after = before.apply(
        ClusterDelta(
            topics={"b": _topic("b", 2)}, topics_gone={"a": before.topics["a"]}, configs={"topics/a": {}}
        )
    )
    assert set(before.topics) == {"a"}
    assert before.topic_config("a") == {"retention.ms": "1"}
    assert set(after.topics) == {"b"}
    assert set(after.topic_names.values()) == {"b"}
    assert after.topic_config("a") == {}
    assert "topics/a" not in after.configs
    unchanged = before.apply(ClusterDelta(controller=(1, 2)))
    assert unchanged.topics is before.topics
    assert (unchanged.controller_id, unchanged.controller_epoch) == (1, 2)


def test_a_marked_topic_is_there_and_not_to_be_found() -> None:
    image = ClusterImage("c").apply(ClusterDelta(topics={"a": _topic("a")}, topics_marked=frozenset({"a"})))
    assert image.topic("a") is None
    assert image.topic_by_id(b"\x01" * 16) is None
    assert image.partition("a", 0) is None
    assert image.topic_name(b"\x01" * 16) == "a"
    assert image.apply(ClusterDelta(topics_gone={"a": image.topics["a"]})).marked == frozenset()


def test_a_topic_made_anew_under_its_name_in_one_delta() -> None:
    old, new = _topic("a"), _topic("a", 2)
    image = ClusterImage("c").apply(ClusterDelta(topics={"a": old}))
    after = image.apply(ClusterDelta(topics={"a": new}, topics_gone={"a": old}))
    assert after.topic_names == {b"\x02" * 16: "a"}


def test_a_delta_is_true_where_anything_is_different() -> None:
    assert not ClusterDelta()
    assert ClusterDelta(controller=(0, 0))


LED = PartitionImage((1, 2, 3), (2, 3), 2, 7, 4, 1)


def _state(leader: int, epoch: int, isr: tuple[int, ...], recovery: int = 0) -> PartitionState:
    return PartitionState(leader, epoch, isr, 9, recovery)


def test_the_first_leader_is_the_first_live_replica() -> None:
    new = PartitionImage((1, 2, 3), (), -1, -1, -1)
    assert elections.first_leader(new, {2, 3, 9}, 9) == _state(2, 0, (2, 3))
    assert elections.first_leader(new, {9}, 9) is None


@pytest.mark.parametrize(
    ("live", "unclean", "expected"),
    [
        ({1, 3}, False, _state(3, 8, (3,))),
        ({1, 2, 3}, False, _state(2, 8, (2, 3))),
        ({1}, False, None),
        ({1}, True, _state(1, 8, (1,), 1)),
        (set(), True, None),
        ({9}, True, None),
        ({1, 3}, True, _state(3, 8, (3,))),
    ],
)
def test_offline(live: set[int], unclean: bool, expected: PartitionState | None) -> None:
    assert elections.offline(LED, live, 9, unclean=unclean) == expected


def test_the_preferred_leader_must_be_in_sync() -> None:
    assert elections.preferred(LED, {1, 2, 3}, 9) is None
    synced = LED._replace(isr=(2, 3, 1))
    assert elections.preferred(synced, {1, 2, 3}, 9) == _state(1, 8, (2, 3, 1))
    assert elections.preferred(synced, {2, 3}, 9) is None
    assert elections.preferred(LED._replace(replicas=()), {1}, 9) is None


def test_controlled_shutdown() -> None:
    assert elections.controlled_shutdown(LED, {1, 2, 3}, {2}, 9) == _state(3, 8, (3,))
    assert elections.controlled_shutdown(LED, {1, 2, 3}, {2, 3}, 9) is None


LED_BY_NOBODY = LED._replace(leader=-1)
ALONE = LED._replace(isr=(2,))


@pytest.mark.parametrize(
    ("partition", "broker", "expected"),
    [
        (LED, 3, _state(2, 8, (2,))),
        (LED, 2, _state(-1, 8, (2, 3))),
        (LED, 1, None),
        (LED_BY_NOBODY, 2, None),
        (LED_BY_NOBODY, 3, None),
        (ALONE, 2, _state(-1, 8, (2,))),
    ],
)
def test_without_a_replica(partition: PartitionImage, broker: int, expected: PartitionState | None) -> None:
    assert elections.without_replica(partition, broker, 9) == expected


@pytest.mark.parametrize(
    ("partition", "broker", "expected"),
    [
        (LED, 3, _state(2, 8, (2,))),
        (LED, 2, _state(-1, 8, (3,))),
        (LED, 1, None),
        (LED_BY_NOBODY, 3, _state(-1, 8, (2,))),
        (ALONE, 2, _state(-1, 8, (2,))),
        (ALONE._replace(leader=-1), 2, None),
    ],
)
def test_without_a_log(partition: PartitionImage, broker: int, expected: PartitionState | None) -> None:
    assert elections.without_log(partition, broker, 9) == expected
