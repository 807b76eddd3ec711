"""Each anomaly, planted in the smallest history that shows it, is found; its clean twin shows nothing."""

from __future__ import annotations

import pytest

from odradek.testing.checker import ANOMALIES, Event, check

from .histories import control, poll, send, work

Steps = list[list[Event]]

A = work("p", "send", send("a", 0))
B = work("p", "send", send("b", 1))
C = work("p", "send", send("c", 2))

PLANTED: dict[str, tuple[Steps, Steps]] = {
    "lost-write": (
        [A, B, C, work("c", "poll", poll((0, "a"))), work("d", "poll", poll((2, "c")))],
        [A, B, C, work("c", "poll", poll((0, "a"), (1, "b"))), work("d", "poll", poll((2, "c")))],
    ),
    "unseen": (
        [A, B, work("c", "poll", poll((0, "a")))],
        [A, B, work("c", "poll", poll((0, "a"), (1, "b")))],
    ),
    "duplicate": (
        [A, work("c", "poll", poll((0, "a"), (1, "a")))],
        [
            work("p", "send", send("a"), type="info"),
            work("p", "send", send("a", 1)),
            work("c", "poll", poll((0, "a"), (1, "a"))),
        ],
    ),
    "inconsistent-offsets": (
        [
            A,
            work("q", "send", send("b"), type="info"),
            work("c", "poll", poll((0, "a"))),
            work("d", "poll", poll((0, "b"))),
        ],
        [A, work("q", "send", send("b"), type="info"), work("c", "poll", poll((0, "a"), (1, "b")))],
    ),
    "unwritten-read": (
        [A, work("c", "poll", poll((0, "a"), (1, "?")))],
        [A, work("c", "poll", poll((0, "a")))],
    ),
    "G1a": (
        [work("x", "txn", send("a", 0), type="fail"), work("c", "poll", poll((0, "a")))],
        [work("x", "txn", send("a", 0), type="info"), work("c", "poll", poll((0, "a")))],
    ),
    "precommitted-read": (
        [work("x", "txn", send("a", 0), poll((0, "a")))],
        [work("x", "txn", send("a", 0)), work("x", "txn", poll((0, "a")))],
    ),
    "intermediate-read": (
        [
            work("x", "txn", send("a", 0), send("b", 1), send("c", 2)),
            work("c", "poll", poll((0, "a"))),
            work("c", "poll", poll((2, "c"))),
            work("d", "poll", poll((1, "b"))),
        ],
        [
            work("x", "txn", send("a", 0), send("b", 1), send("c", 2)),
            work("c", "poll", poll((0, "a"))),
            work("c", "poll", poll((1, "b"), (2, "c"))),
        ],
    ),
    "int-nonmonotonic-send": (
        [work("p", "send", send("a", 1), send("b", 0)), work("c", "poll", poll((0, "b"), (1, "a")))],
        [work("p", "send", send("a", 0), send("b", 1)), work("c", "poll", poll((0, "a"), (1, "b")))],
    ),
    "nonmonotonic-send": (
        [
            work("p", "send", send("a", 1)),
            work("p", "send", send("b", 0)),
            work("c", "poll", poll((0, "b"), (1, "a"))),
        ],
        [A, B, work("c", "poll", poll((0, "a"), (1, "b")))],
    ),
    "int-nonmonotonic-poll": (
        [A, B, work("c", "poll", poll((1, "b"), (0, "a")))],
        [A, B, work("c", "poll", poll((0, "a"), (1, "b")))],
    ),
    "nonmonotonic-poll": (
        [A, B, work("c", "poll", poll((0, "a"), (1, "b"))), work("c", "poll", poll((1, "b")))],
        [
            A,
            B,
            work("c", "poll", poll((0, "a"), (1, "b"))),
            control("c", "seek", "t-0"),
            work("c", "poll", poll((1, "b"))),
        ],
    ),
    "int-poll-skip": (
        [A, B, C, work("d", "poll", poll((1, "b"))), work("c", "poll", poll((0, "a"), (2, "c")))],
        [A, C, work("c", "poll", poll((0, "a"), (2, "c")))],
    ),
    "poll-skip": (
        [
            *(A, B, C, work("d", "poll", poll((1, "b")))),
            *(work("c", "poll", poll((0, "a"))), work("c", "poll", poll((2, "c")))),
        ],
        [
            *(A, B, C, work("d", "poll", poll((1, "b"))), work("c", "poll", poll((0, "a")))),
            *(control("c", "rebalance", "t-0"), work("c", "poll", poll((2, "c")))),
        ],
    ),
    "G0": (
        [
            work("x", "txn", send("a", 0), send("b", 3)),
            work("y", "txn", send("c", 2)),
            work("c", "poll", poll((0, "a"), (2, "c"), (3, "b"))),
        ],
        [
            work("x", "txn", send("a", 0), send("b", 1)),
            work("y", "txn", send("c", 3)),
            work("c", "poll", poll((0, "a"), (1, "b"), (3, "c"))),
        ],
    ),
    "G1c": (
        [
            work("x", "txn", send("a", 0), poll((0, "b"), partition="u-0")),
            work("y", "txn", send("b", 0, "u-0"), poll((0, "a"))),
        ],
        [
            work("x", "txn", send("a", 0)),
            work("y", "txn", send("b", 0, "u-0"), poll((0, "a"))),
            work("c", "poll", poll((0, "b"), partition="u-0")),
        ],
    ),
}
COMES_WITH = {"intermediate-read": {"poll-skip"}}


def history(steps: Steps) -> list[Event]:
    return [event for step in steps for event in step]


def test_every_anomaly_is_planted():
    assert PLANTED.keys() == ANOMALIES.keys()


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_anomaly_is_found_and_only_it(name):
    report = check(history(PLANTED[name][0]), allowed=())
    assert set(report.counts) == {name} | COMES_WITH.get(name, set())
    assert not report.valid
    found = next(anomaly for anomaly in report.anomalies if anomaly.name == name)
    assert all(0 <= number < len(report.history) for number in found.events)
    assert found.text in report.summary()


@pytest.mark.parametrize("name", PLANTED)
def test_its_clean_twin_is_sound(name):
    report = check(history(PLANTED[name][1]), allowed=())
    assert report.counts == {}
    assert report.valid


def test_records_of_a_transaction_of_unknown_end_must_all_exist_once_one_is_seen():
    transaction = work("x", "txn", send("a", 0), send("b", 1), type="info")
    later = work("p", "send", send("c", 3))
    assert check([*transaction, *later, *work("c", "poll", poll((3, "c")))]).valid
    report = check([*transaction, *later, *work("c", "poll", poll((0, "a"), (3, "c")))])
    assert report.counts == {"lost-write": 1, "int-poll-skip": 1, "intermediate-read": 1}


def test_an_offset_outside_of_a_transaction_is_an_acknowledgement_whatever_became_of_the_rest():
    events = work("p", "send", send("a", 0), send("b"), type="info")
    assert check([*events, *work("c", "poll", poll((0, "a")))]).valid
    assert check(events).counts == {"unseen": 1}


def test_what_a_crash_interrupts_has_an_unknown_end_and_the_next_life_may_poll_again():
    events = [
        Event("p", "invoke", "send", (send("a"),)),
        *control("p", "crash"),
        *work("p", "send", send("b", 1)),
        *work("c", "poll", poll((0, "a"), (1, "b"))),
        *control("c", "crash"),
        *work("c", "poll", poll((0, "a"))),
    ]
    assert check(events).counts == {}


def test_an_assignment_keeps_the_position_of_what_was_assigned_before():
    assigned = control("c", "assign", "t-0")
    first, again = work("c", "poll", poll((0, "a"))), work("c", "poll", poll((0, "a")))
    kept = [*A, *assigned, *first, *control("c", "assign", "t-0", "t-1"), *again]
    assert check(kept).counts == {"nonmonotonic-poll": 1}
    left = [*A, *assigned, *first, *control("c", "assign", "t-1"), *assigned, *again]
    assert check(left).counts == {}


def test_a_rebalance_during_a_poll_forgives_its_partitions_only():
    def polls(*names: str) -> list[Event]:
        records = poll((0, "a"))
        return [
            *A,
            *work("c", "poll", records),
            Event("c", "invoke", "poll", (poll(),)),
            *control("c", "rebalance", *names),
            Event("c", "ok", "poll", (records,)),
        ]

    assert check(polls("t-0")).counts == {}
    assert check(polls("t-1")).counts == {"nonmonotonic-poll": 1}


def test_the_input_of_an_aborted_transaction_may_be_polled_again():
    polled = poll((0, "a"))
    events = [*A, *work("x", "txn", polled, type="fail"), *work("x", "txn", polled)]
    assert check(events).counts == {}
    assert check([*events, *work("x", "txn", polled)]).counts == {"nonmonotonic-poll": 1}


def test_the_order_of_writes_takes_part_in_g1c_when_asked():
    events = [
        *work("x", "txn", send("a", 0), poll((0, "c"), partition="u-0")),
        *work("y", "txn", send("b", 2), send("c", 0, "u-0")),
        *work("c", "poll", poll((0, "a"), (2, "b"))),
    ]
    assert check(events).counts == {}
    assert check(events, write_order=True).counts == {"G1c": 1}


def test_a_long_chain_of_transactions_needs_no_recursion():
    events: list[Event] = []
    for number in range(5_000):
        before = [poll((number - 1, f"v{number - 1}"))] if number else []
        events += work(f"x{number}", "txn", *before, send(f"v{number}", number))
    last = work("x", "txn", poll((4_999, "v4999")), send("first", 9, "u-0"))
    events[1:2] = [Event("x0", "ok", "txn", (send("v0", 0), poll((9, "first"), partition="u-0")))]
    report = check([*events, *last])
    assert report.counts == {"G1c": 1}
    assert len(report.anomalies[0].events) == 5_001
