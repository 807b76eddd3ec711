"""The cluster as it is told: what has changed is told some answers later, and never taken back."""

from __future__ import annotations

import pytest

from odradek.cluster.image import ClusterDelta, ClusterImage, PartitionImage, TopicImage
from odradek.testing.unready import unreadiness
from odradek.testing.unready.lagging_metadata import (
    COORDINATOR,
    END_OFFSET,
    LEADER,
    TOPIC,
    LaggingMetadata,
)
from odradek.testing.unready.unreadiness import Subject, Unreadiness

ME, OTHER = 0, 1


@pytest.fixture(autouse=True)
def two_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unreadiness, "_ANSWERS", (2,))


def topic(name: str, number: int, *leaders: int, isr: tuple[int, ...] = (ME, OTHER)) -> TopicImage:
    partitions = {
        index: PartitionImage((ME, OTHER), isr, leader, leader_epoch=0, partition_epoch=0)
        for index, leader in enumerate(leaders)
    }
    return TopicImage(name, bytes([number] * 16), partitions)


class World:
    """A cluster that changes, and what the broker `ME` tells of it."""

    def __init__(self, *topics: TopicImage) -> None:
        self.unreadiness = Unreadiness(0)
        self.metadata = LaggingMetadata(self.unreadiness)
        self.image = ClusterImage()
        self.change(*topics)

    def change(self, *topics: TopicImage, gone: str | None = None, at_once: str = "", **configs: str) -> None:
        self.image = self.image.apply(
            ClusterDelta(
                topics={topic.name: topic for topic in topics},
                topics_gone={} if gone is None else {gone: self.image.topics[gone]},
                configs={f"topics/{name}": {"retention.ms": value} for name, value in configs.items()},
            )
        )
        self.metadata.follow(self.image, ME, told_at_once=(at_once,))

    def told(self, name: str = "t", *, about: tuple[str, ...] | None = ("t",)) -> TopicImage | None:
        return self.metadata.answer(self.image, about).topic(name)

    def waits(self, *thing: str | int) -> bool:
        found: Subject = thing
        return not self.unreadiness.is_ready(found)


def test_the_first_image_is_told_as_it_is() -> None:
    world = World(topic("t", 1, ME), topic("__consumer_offsets", 2, ME, OTHER))
    assert world.told() is world.image.topic("t")
    assert not world.waits(LEADER, "t", 0)
    # But coordinators have to load.
    assert world.waits(COORDINATOR, "__consumer_offsets", 0)
    assert not world.waits(COORDINATOR, "__consumer_offsets", 1)


def test_a_topic_that_comes() -> None:
    world = World()
    made = topic("t", 1, ME, OTHER)
    world.change(made)
    assert [world.told() for _ in range(4)] == [None, None, made, made]
    assert world.waits(LEADER, "t", 0)
    assert not world.waits(LEADER, "t", 1)
    # Nobody has fetched from it before: its high watermark is where it begins.
    assert not world.waits(END_OFFSET, "t", 0)


def test_answers_about_other_topics_do_not_count() -> None:
    world = World()
    world.change(topic("t", 1, ME))
    assert [world.told(about=("u",)) for _ in range(4)] == [None] * 4
    assert [world.told(about=None) is None for _ in range(3)] == [True, True, False]


def test_a_topic_that_goes_is_told_with_its_id() -> None:
    old = topic("t", 1, ME)
    world = World(old)
    world.change(gone="t")
    image = world.metadata.answer(world.image, ["t"])
    assert (image.topic("t"), image.topic_by_id(old.topic_id)) == (old, old)
    assert world.metadata.topic_name(world.image, old.topic_id) == "t"
    assert [world.told() for _ in range(2)] == [old, None]


def test_a_topic_that_goes_before_it_was_told_was_never_there() -> None:
    world = World()
    world.change(topic("t", 1, ME))
    world.change(gone="t")
    assert world.told() is None
    assert not world.waits(TOPIC, "t")


def test_a_topic_that_is_made_anew_is_told_as_the_old_one_first() -> None:
    old, new = topic("t", 1, ME), topic("t", 2, ME)
    world = World(old)
    world.change(gone="t")
    world.change(new)
    assert [world.told() for _ in range(3)] == [old, old, new]
    assert world.metadata.answer(world.image, ()).topic_names == {new.topic_id: "t"}


def test_what_was_told_is_not_taken_back() -> None:
    old = topic("t", 1, ME)
    world = World(old)
    wider = topic("t", 1, ME, ME)
    world.change(wider)
    assert [world.told() for _ in range(3)] == [old, old, wider]
    world.change(topic("u", 2, ME))
    assert world.told() is wider


def test_an_election_is_told_late_and_the_isr_at_once() -> None:
    old = topic("t", 1, OTHER)
    world = World(old)
    shrunk = topic("t", 1, OTHER, isr=(OTHER,))
    world.change(shrunk)
    assert world.told() is shrunk
    moved = topic("t", 1, ME, isr=(ME,))
    world.change(moved)
    assert [world.told() for _ in range(3)] == [shrunk, shrunk, moved]
    assert world.waits(LEADER, "t", 0)
    assert world.waits(END_OFFSET, "t", 0)


def test_a_topic_that_is_told_at_once() -> None:
    world = World()
    made = topic("t", 1, ME)
    world.change(made, at_once="t")
    assert world.told() is made
    assert not world.waits(LEADER, "t", 0)


def test_configs_of_a_topic_that_is_there() -> None:
    world = World(topic("t", 1, ME))
    world.change(t="1")
    world.change(t="2")

    def told() -> str | None:
        return world.metadata.answer_configs(world.image, ["t"]).topic_config("t").get("retention.ms")

    assert [told() for _ in range(3)] == [None, None, "2"]
    # Those of a new topic come with it.
    world.change(topic("u", 2, ME), u="3")
    assert world.metadata.answer_configs(world.image, ["u"]).topic_config("u")["retention.ms"] == "3"
