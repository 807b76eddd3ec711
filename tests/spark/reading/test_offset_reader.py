"""The driver's questions, against brokers that learn of things one after the other."""

from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("pyspark")

from odradek.client.raw_partitions import FoundTopic
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, LeaderNotAvailableError
from odradek.spark.errors import UnknownTopicError
from odradek.spark.offsets import AtOffsets, Earliest, Latest, SourceOffset, to_spark
from odradek.spark.options import parse_source
from odradek.spark.reading import offset_reader
from odradek.spark.reading.offset_reader import OffsetReader
from odradek.spark.reading.stream_planner import StreamPlanner
from odradek.wire.primitives import uuid_to_text

OLD, NEW = bytes(15) + b"\x01", bytes(15) + b"\x02"
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Answers:
    """A reader whose brokers describe the topics otherwise each time; the last answer stays."""

    def __init__(self, *topics: dict[str, FoundTopic], end: int = 5) -> None:
        self.topics = list(topics)
        self.end = end

    def look_up_topics(self, names: Iterable[str] | None = None) -> dict[str, FoundTopic]:
        return dict(self.topics.pop(0) if len(self.topics) > 1 else self.topics[0])

    def beginning_offsets(self, partitions: Iterable[Any]) -> dict[Any, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: Iterable[Any]) -> dict[Any, int]:
        return dict.fromkeys(partitions, self.end)

    def close(self) -> None:
        pass


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes an `OffsetReader` that gets these answers, and a list of its pauses."""

    def make(*topics: dict[str, FoundTopic], **options: str) -> tuple[OffsetReader, list[float]]:
        answers, pauses = Answers(*topics), []
        monkeypatch.setattr(offset_reader, "open_reader", lambda *_: answers)
        chosen = {} if options.keys() & {"subscribePattern", "assign"} else {"subscribe": "t"}
        source = {"kafka.bootstrap.servers": "x:1", **chosen, **options}
        return OffsetReader(parse_source(source, streaming=True), pauses.append), pauses

    return make


def topic(topic_id: bytes, partitions: int) -> dict[str, FoundTopic]:
    return {"t": FoundTopic(topic_id, tuple(range(partitions)))}


def place(topic_id: bytes, *offsets: int) -> SourceOffset:
    numbered = {TopicPartition("t", number): offset for number, offset in enumerate(offsets)}
    return SourceOffset(numbered, {"t": uuid_to_text(topic_id)})


def test_a_partition_is_not_gone_by_the_word_of_one_broker(asked: Any) -> None:
    reader, pauses = asked(topic(OLD, 1), topic(OLD, 2))
    assert reader.latest(place(OLD, 1, 1)) == place(OLD, 5, 5)
    assert pauses == [1.0]


def test_a_topic_is_not_another_by_the_word_of_one_broker(asked: Any) -> None:
    reader, pauses = asked(topic(OLD, 1), topic(NEW, 1))
    assert reader.latest(place(NEW, 3)) == place(NEW, 5)
    assert pauses == [1.0]


def test_what_all_answers_say_is_believed(asked: Any) -> None:
    reader, pauses = asked(topic(NEW, 1))
    assert reader.latest(place(OLD, 9, 9)) == place(NEW, 5)
    assert pauses == [1.0, 1.0]


def test_an_end_before_what_was_read_is_asked_for_again(asked: Any) -> None:
    reader, pauses = asked(topic(OLD, 1))
    assert reader.latest(place(OLD, 9)) == place(OLD, 5)
    assert len(pauses) == 2
    assert reader.latest(place(OLD, 5)) == place(OLD, 5)
    assert len(pauses) == 2


def test_a_topic_that_is_being_elected_for_is_waited_for(asked: Any) -> None:
    electing = {"t": FoundTopic(error=ErrorCode.LEADER_NOT_AVAILABLE)}
    for options in ({}, {"subscribePattern": "^t$"}):
        reader, pauses = asked(electing, topic(OLD, 1), **options)
        assert reader.latest() == place(OLD, 5)
        assert len(pauses) == 1
        reader, _ = asked(electing, **options)
        with pytest.raises(LeaderNotAvailableError, match="topic 't'"):
            reader.latest()


def test_a_topic_that_is_gone(asked: Any) -> None:
    gone = {"t": FoundTopic(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    reader, _ = asked(gone)
    with pytest.raises(UnknownTopicError, match="'t' does not exist"):
        reader.latest()
    reader, _ = asked(gone, subscribePattern="t")
    assert reader.latest() == SourceOffset({})


def test_assigned_partitions_that_do_not_exist(asked: Any) -> None:
    assigned = {"assign": '{"t":[0,5]}'}
    reader, _ = asked(topic(OLD, 1), **assigned)
    with pytest.raises(UnknownTopicError, match=r"do not exist: \[t-5\]. With failOnDataLoss=false they are"):
        reader.latest()
    reader, _ = asked(topic(OLD, 1), topic(OLD, 1), topic(OLD, 6), **assigned, failOnDataLoss="false")
    assert reader.latest() == place(OLD, 5)
    at = AtOffsets({T0: 2, TopicPartition("t", 5): 3})
    assert reader.resolve(at, starting=True) == place(OLD, 2)
    assert reader.latest().offsets == {T0: 5, TopicPartition("t", 5): 5}


def test_both_ends_of_a_batch_are_of_the_same_partitions(asked: Any) -> None:
    reader, _ = asked(topic(OLD, 1), topic(NEW, 2))
    assert reader.bounds(Earliest(), Latest()) == (place(OLD, 0), place(OLD, 5))


def test_without_ids_there_are_none(asked: Any) -> None:
    reader, pauses = asked(topic(bytes(16), 2))
    assert reader.latest(place(OLD, 1, 1)) == SourceOffset({T0: 5, T1: 5})
    assert pauses == []


@pytest.mark.parametrize("answers_without_it", [2, 3, 7])
def test_a_topic_that_may_not_be_described_for_a_while_goes_on_where_it_was(
    asked: Any, answers_without_it: int
) -> None:
    """Brokers leave it out of a list of all topics, as they would one that does not exist."""
    there = topic(OLD, 1)
    reader, pauses = asked(
        there, *[{}] * answers_without_it, there, subscribePattern="t", failOnDataLoss="false"
    )
    planner = StreamPlanner(
        parse_source(
            {"kafka.bootstrap.servers": "x:1", "subscribePattern": "t", "failOnDataLoss": "false"},
            streaming=True,
        ),
        reader,
    )
    reached = SourceOffset(reader.latest().offsets, {"t": uuid_to_text(OLD)})
    for trigger in range(8):
        end = planner.next_end(reached, unlimited=True, now_ms=trigger)
        assert to_spark(end) == to_spark(reached)
    # It is waited for once, and not at each trigger.
    assert len(pauses) == min(answers_without_it, 2)
    assert planner.present(reached.offsets) == reached.offsets
