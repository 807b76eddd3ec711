"""The asking side of a fetch session, as a conversation with a broker that keeps the list."""

from __future__ import annotations

import pytest

from odradek.errors import ErrorCode
from odradek.wire.fetch_session_handler import FINAL_EPOCH, FetchSessionHandler
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

ID, OTHER = b"i" * 16, b"o" * 16
BY_NAME, BY_ID = 12, 13


def ask(
    session: FetchSessionHandler, offsets: dict[int, int], topic_id: bytes = ID, version: int = BY_ID
) -> FetchRequest:
    """The next request for these offsets, by partition of the topic `t`."""
    builder = session.new_builder(version)
    for partition, offset in offsets.items():
        builder.add(("t", partition), topic_id, offset, leader_epoch=3, max_bytes=1_000)
    request = FetchRequest()
    builder.build(request)
    return FetchRequest.decode(request.encode(version), version)


def parts(request: FetchRequest) -> tuple[list[int], list[int], tuple[int, int]]:
    """The partitions that it names, those to be forgotten, and the session with its epoch."""
    return (
        [asked.partition for topic in request.topics for asked in topic.partitions],
        [number for topic in request.forgotten_topics_data for number in topic.partitions],
        (request.session_id, request.session_epoch),
    )


def answer(
    *partitions: int, session: int = 0, code: int = 0, topic_id: bytes = ID, throttle_ms: int = 0
) -> FetchResponse:
    data = [PartitionData(partition_index=number) for number in partitions]
    topics = [FetchableTopicResponse(topic="t", topic_id=topic_id, partitions=data)] if data else []
    return FetchResponse(error_code=code, session_id=session, responses=topics, throttle_time_ms=throttle_ms)


def opened(version: int = BY_ID) -> FetchSessionHandler:
    """A handler in the session 77, of the partitions 0 and 1."""
    session = FetchSessionHandler(1)
    assert parts(ask(session, {0: 0, 1: 0}, version=version)) == ([0, 1], [], (0, 0))
    assert session.handle_response(answer(0, 1, session=77))
    return session


def test_only_what_changed_is_named() -> None:
    session = opened()
    assert parts(ask(session, {0: 5, 1: 0})) == ([0], [], (77, 1))
    assert session.handle_response(answer(1, session=77)) is not None
    assert parts(ask(session, {0: 5, 1: 0})) == ([], [], (77, 2))
    assert session.handle_response(answer(session=77)) == {}
    assert parts(ask(session, {1: 0})) == ([], [0], (77, 3))
    assert session.handle_response(answer(session=77)) == {}
    assert parts(ask(session, {0: 9, 1: 2})) == ([0, 1], [], (77, 4))


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_answers_are_by_partition(version: int) -> None:
    session = FetchSessionHandler(1)
    ask(session, {0: 0, 4: 0}, version=version)
    answers = session.handle_response(answer(4, 0))
    assert answers is not None
    assert {key: data.partition_index for key, data in answers.items()} == {("t", 4): 4, ("t", 0): 0}


def test_only_a_session_that_is_not_there_is_not_closed() -> None:
    """After any other error the next fetch names the session, which the broker would hold on to else."""
    for code in (code for code in ErrorCode if code):
        session = opened()
        ask(session, {0: 5, 1: 0})
        assert session.handle_response(answer(code=code)) is None
        told = 0 if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND else 77
        assert parts(ask(session, {0: 5, 1: 0})) == ([0, 1], [], (told, 0)), code


def test_without_an_answer_the_session_is_replaced() -> None:
    session = opened()
    ask(session, {0: 5, 1: 0})
    session.handle_error()
    assert parts(ask(session, {0: 5, 1: 0})) == ([0, 1], [], (77, 0))
    assert session.handle_response(answer(0, 1, session=78))
    assert parts(ask(session, {0: 5, 1: 0})) == ([], [], (78, 1))


def test_a_session_that_the_broker_ends_is_not_named_again() -> None:
    session = opened()
    ask(session, {0: 5, 1: 0})
    assert session.handle_response(answer(0)), "its answers count"
    assert parts(ask(session, {0: 6, 1: 0})) == ([0, 1], [], (0, 0))


def test_a_broker_without_sessions_gets_full_requests() -> None:
    for version in (6, BY_NAME, BY_ID):
        session = FetchSessionHandler(1)
        for _ in range(3):
            number = (0, -1) if version < 7 else (0, 0)
            assert parts(ask(session, {0: 0}, version=version)) == ([0], [], number)
            assert session.handle_response(answer(0))


def test_a_single_fetch_asks_for_no_session() -> None:
    session = FetchSessionHandler(1, FINAL_EPOCH)
    assert parts(ask(session, {0: 0, 1: 0})) == ([0, 1], [], (0, -1))
    assert session.handle_response(answer(0)) is None, "it is as full as one that asks for a session"


@pytest.mark.parametrize(
    "full",
    [
        answer(0, session=77),
        answer(0, 1, 2, session=77),
        answer(0, 1, session=77, topic_id=OTHER),
        answer(),
        answer(throttle_ms=100),
    ],
    ids=["one left out", "one too many", "another topic", "nothing", "throttled"],
)
def test_a_full_answer_has_what_was_asked_for_and_nothing_else(full: FetchResponse) -> None:
    session = FetchSessionHandler(1)
    ask(session, {0: 0, 1: 0})
    assert session.handle_response(full) is None
    assert parts(ask(session, {0: 0, 1: 0})) == ([0, 1], [], (0, 0))


@pytest.mark.parametrize("foreign", [answer(0, 2, session=77), answer(0, session=77, topic_id=OTHER)])
def test_an_answer_within_a_session_is_about_its_partitions(foreign: FetchResponse) -> None:
    session = opened()
    ask(session, {0: 0, 1: 0})
    assert session.handle_response(foreign) is None
    assert parts(ask(session, {0: 0, 1: 0})) == ([0, 1], [], (77, 0))


def test_a_topic_made_anew_is_forgotten_and_named_again() -> None:
    session = opened()
    request = ask(session, {0: 0, 1: 0}, OTHER)
    assert parts(request) == ([0, 1], [0, 1], (77, 1))
    assert request.topics[0].topic_id == OTHER
    assert request.forgotten_topics_data[0].topic_id == ID
    assert session.handle_response(answer(0, session=77, topic_id=OTHER))


def test_names_and_ids_do_not_mix_in_a_session() -> None:
    """The broker would refuse it, with FETCH_SESSION_TOPIC_ID_ERROR."""
    for before, after in ((BY_NAME, BY_ID), (BY_ID, BY_NAME)):
        session = opened(before)
        assert parts(ask(session, {0: 0, 1: 0}, version=after)) == ([0, 1], [], (77, 0))


def test_the_epoch_wraps_to_one() -> None:
    session = opened()
    ask(session, {0: 0, 1: 0})
    session.epoch = 2**31 - 1
    session.handle_response(answer(session=77))
    assert parts(ask(session, {0: 0, 1: 0})) == ([], [], (77, 1))


def test_neighbours_of_a_topic_share_an_element_and_the_order_stays() -> None:
    session = FetchSessionHandler(1)
    for version in (BY_NAME, BY_ID):
        builder = session.new_builder(version)
        for topic, partition in (("a", 1), ("a", 0), ("b", 0), ("a", 2)):
            builder.add((topic, partition), topic.encode() * 16, 0, leader_epoch=-1, max_bytes=1)
        request = FetchRequest()
        builder.build(request)
        asked = [[asked.partition for asked in topic.partitions] for topic in request.topics]
        assert asked == [[1, 0], [0], [2]]
