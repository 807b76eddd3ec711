"""Fetch sessions, as a conversation with a broker that keeps the list."""

from __future__ import annotations

from odradek.client.core.fetch_requests import FetchAt, fetch_ceiling, fetch_request
from odradek.client.core.fetch_session_handler import FetchSessionHandler
from odradek.client.types import TopicPartition
from odradek.wire.messages.fetch import FetchRequest

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ID, OTHER = b"i" * 16, b"o" * 16


def at(tp: TopicPartition, offset: int) -> FetchAt:
    return FetchAt(tp, offset, 3, 1_000)


def ask(session: FetchSessionHandler, *wanted: FetchAt, topic_id: bytes = ID, with_ids: bool = True):  # type: ignore[no-untyped-def]
    plan = session.next_request(list(wanted), {"t": topic_id}, with_ids)
    return [f.tp for f in plan.named], [tp for tp, _ in plan.forgotten], plan.session


def test_only_what_changed_is_named() -> None:
    session = FetchSessionHandler()
    assert ask(session, at(A, 0), at(B, 0)) == ([A, B], [], (0, 0))
    session.answered(0, 77)
    assert ask(session, at(A, 5), at(B, 0)) == ([A], [], (77, 1))
    session.answered(0, 77)
    assert ask(session, at(A, 5), at(B, 0)) == ([], [], (77, 2))
    session.answered(0, 77)
    assert ask(session, at(B, 0)) == ([], [A], (77, 3))
    session.answered(0, 77)
    assert ask(session, at(A, 9), at(B, 2)) == ([A, B], [], (77, 4))


def test_a_session_that_is_gone_is_begun_anew() -> None:
    session = FetchSessionHandler()
    ask(session, at(A, 0))
    session.answered(0, 77)
    session.answered(70, 0)  # FETCH_SESSION_ID_NOT_FOUND
    assert ask(session, at(A, 0)) == ([A], [], (0, 0))
    session.answered(0, 78)
    assert ask(session, at(A, 0)) == ([], [], (78, 1))
    session.failed()
    assert ask(session, at(A, 0)) == ([A], [], (78, 0)), "the old session is replaced, not left behind"


def test_a_broker_without_sessions_gets_full_requests() -> None:
    session = FetchSessionHandler()
    for _ in range(3):
        assert ask(session, at(A, 0)) == ([A], [], (0, 0))
        session.answered(0, 0)


def test_a_topic_made_anew_is_forgotten_and_named_again() -> None:
    session = FetchSessionHandler()
    ask(session, at(A, 0))
    session.answered(0, 77)
    plan = session.next_request([at(A, 0)], {"t": OTHER}, True)
    assert plan.forgotten == [(A, ID)]
    assert [f.tp for f in plan.named] == [A]


def test_names_and_ids_do_not_mix_in_a_session() -> None:
    session = FetchSessionHandler()
    ask(session, at(A, 0), with_ids=False)
    session.answered(0, 77)
    assert ask(session, at(A, 0), with_ids=True) == ([A], [], (0, 0))


def test_the_epoch_wraps_to_one() -> None:
    session = FetchSessionHandler()
    ask(session, at(A, 0))
    session.answered(0, 7)
    session._epoch = 2**31 - 1
    session.answered(0, 7)
    assert ask(session, at(A, 0))[2] == (7, 1)


def test_requests_encode_in_every_version_spoken() -> None:
    for version in range(4, 18):
        request = fetch_request(
            [at(A, 1), at(B, 2)],
            {"t": ID},
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1_000,
            isolation=1,
            rack="r" if version >= 11 else "",
        )
        again = FetchRequest.decode(request.encode(version), version)
        assert [p.fetch_offset for p in again.topics[0].partitions] == [1, 2]
    assert fetch_ceiling([ID]) == 17
    assert fetch_ceiling([ID, bytes(16)]) == 12
