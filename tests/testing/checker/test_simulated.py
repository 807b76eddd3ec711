"""Sound histories are found sound; a mutation that plants an anomaly is found in the midst of the rest."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.testing.checker import Event, Poll, Record, Send, check, dump, load

from .simulated import Simulation

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_a_correct_log_has_no_anomaly(seed):
    report = check(Simulation(seed).events)
    assert report.valid, report.summary()


@given(seeds)
def test_a_history_survives_its_lines_of_json(seed):
    events = Simulation(seed, steps=60).events
    stream = io.StringIO()
    dump(events, stream)
    stream.seek(0)
    assert list(load(stream)) == events


def drop_record(record: Record, records: list[Record]) -> list[Record]:
    return [r for r in records if (r.partition, r.value) != (record.partition, record.value)]


def in_every_poll(events: list[Event], change: Callable[[list[Record]], list[Record]]) -> list[Event]:
    return [
        replace(
            event,
            micro=tuple(
                Poll(tuple(change(list(m.records)))) if isinstance(m, Poll) else m for m in event.micro
            ),
        )
        for event in events
    ]


def acknowledged(events: list[Event]) -> list[Record]:
    return [
        Record(m.partition, m.offset, m.value)
        for event in events
        if event.type == "ok" and event.f in ("send", "txn")
        for m in event.micro
        if isinstance(m, Send) and m.offset is not None
    ]


def last_polled(events: list[Event]) -> dict[str, int]:
    return {
        r.partition: r.offset
        for event in events
        if event.process == "reader"
        for m in event.micro
        if isinstance(m, Poll)
        for r in m.records
    }


def lose(events: list[Event], chance: random.Random) -> list[Event] | None:
    last = last_polled(events)
    inner = [r for r in acknowledged(events) if r.offset < last.get(r.partition, -1)]
    if not inner:
        return None
    lost = chance.choice(inner)
    return in_every_poll(events, lambda records: drop_record(lost, records))


def lose_the_last(events: list[Event], chance: random.Random) -> list[Event] | None:
    last = last_polled(events)
    final = [r for r in acknowledged(events) if r.offset == last.get(r.partition)]
    if not final:
        return None
    lost = chance.choice(final)
    return in_every_poll(events, lambda records: drop_record(lost, records))


def at_the_end(events: list[Event], *records: Record) -> list[Event]:
    return [
        *events,
        Event("other", "invoke", "poll", (Poll(),)),
        Event("other", "ok", "poll", (Poll(records),)),
    ]


def twice(events: list[Event], chance: random.Random) -> list[Event] | None:
    known = acknowledged(events)
    return at_the_end(events, replace(chance.choice(known), offset=10_000)) if known else None


def other_value(events: list[Event], chance: random.Random) -> list[Event] | None:
    known = acknowledged(events)
    return at_the_end(events, replace(chance.choice(known), value="other")) if known else None


def aborted(events: list[Event], chance: random.Random) -> list[Event] | None:
    known = [
        Record(m.partition, m.offset, m.value)
        for event in events
        if event.type == "fail"
        for m in event.micro
        if isinstance(m, Send) and m.offset is not None
    ]
    return at_the_end(events, chance.choice(known)) if known else None


def own(events: list[Event], chance: random.Random) -> list[Event] | None:
    places = [n for n, e in enumerate(events) if e.f == "txn" and e.type == "ok"]
    if not places:
        return None
    place = chance.choice(places)
    sent = next(m for m in events[place].micro if isinstance(m, Send))
    assert sent.offset is not None
    polled = Poll((Record(sent.partition, sent.offset, sent.value),))
    changed = replace(events[place], micro=(*events[place].micro, polled))
    return [*events[:place], changed, *events[place + 1 :]]


def back(events: list[Event], chance: random.Random) -> list[Event] | None:
    places = [
        n
        for n, e in enumerate(events)
        if e.process == "reader" and e.type == "ok" and any(m.records for m in e.micro if isinstance(m, Poll))
    ]
    if not places:
        return None
    place = chance.choice(places)
    return [*events[: place + 1], events[place - 1], events[place], *events[place + 1 :]]


def swapped(events: list[Event], chance: random.Random) -> list[Event] | None:
    places = [
        n
        for n, e in enumerate(events)
        if e.process == "reader" and any(len(m.records) > 1 for m in e.micro if isinstance(m, Poll))
    ]
    if not places:
        return None
    place = chance.choice(places)
    polled = events[place].micro[0]
    assert isinstance(polled, Poll)
    changed = replace(events[place], micro=(Poll(polled.records[::-1]),))
    return [*events[:place], changed, *events[place + 1 :]]


def skipped(events: list[Event], chance: random.Random) -> list[Event] | None:
    known = {(r.partition, r.value) for r in acknowledged(events)}
    for place, event in enumerate(events):
        if event.process != "reader" or event.type != "ok":
            continue
        polled = event.micro[0]
        assert isinstance(polled, Poll)
        for n, r in enumerate(polled.records[1:-1], 1):
            if (r.partition, r.value) in known:
                changed = replace(event, micro=(Poll(polled.records[:n] + polled.records[n + 1 :]),))
                return [*events[:place], changed, *events[place + 1 :]]
    return None


def sent_back(events: list[Event], chance: random.Random) -> list[Event] | None:
    known = [
        (e.process, m)
        for e in events
        if e.f == "send" and e.type == "ok"
        for m in e.micro
        if isinstance(m, Send) and m.offset
    ]
    if not known:
        return None
    process, sent = chance.choice(known)
    return [
        *events,
        Event(process, "invoke", "send", (Send(sent.partition, "late"),)),
        Event(process, "ok", "send", (Send(sent.partition, "late", 0),)),
    ]


def operation(process: str, f: str, *micro: Send | Poll) -> list[Event]:
    return [Event(process, "invoke", f), Event(process, "ok", f, micro)]


def leap(events: list[Event], chance: random.Random) -> list[Event] | None:
    """A consumer polls a record, and next not the one after it but another."""
    known = sorted({(r.partition, r.offset, r.value) for r in acknowledged(events)})
    leaps = [n for n in range(len(known) - 2) if known[n][0] == known[n + 2][0]]
    if not leaps:
        return None
    place = chance.choice(leaps)
    first, last = Record(*known[place]), Record(*known[place + 2])
    return at_the_end(at_the_end(events, first), last)


def sent_crosswise(events: list[Event], chance: random.Random) -> list[Event]:
    return [*events, *operation("late", "send", Send("t-0", "l1", 10_001), Send("t-0", "l2", 10_000))]


def torn(events: list[Event], chance: random.Random) -> list[Event]:
    sends = [Send("t-0", f"l{n}", 10_000 + n) for n in range(3)]
    polled = [Record("t-0", 10_000, "l0"), Record("t-0", 10_002, "l2")]
    return at_the_end([*events, *operation("late", "txn", *sends)], *polled)


def mixed(events: list[Event], chance: random.Random) -> list[Event]:
    outer = operation("late", "txn", Send("t-0", "l0", 10_000), Send("t-0", "l2", 10_002))
    return [*events, *outer, *operation("later", "txn", Send("t-0", "l1", 10_001))]


def circular(events: list[Event], chance: random.Random) -> list[Event] | None:
    places = [n for n, e in enumerate(events) if e.f == "txn" and e.type == "ok"]
    if not places:
        return None
    place = chance.choice(places)
    sent = next(m for m in events[place].micro if isinstance(m, Send))
    assert sent.offset is not None
    read = Poll((Record("u-0", 0, "later"),))
    changed = replace(events[place], micro=(*events[place].micro, read))
    back = Poll((Record(sent.partition, sent.offset, sent.value),))
    later = operation("later", "txn", back, Send("u-0", "later", 0))
    return [*events[:place], changed, *events[place + 1 :], *later]


MUTATIONS = {
    "poll-skip": leap,
    "int-nonmonotonic-send": sent_crosswise,
    "intermediate-read": torn,
    "G0": mixed,
    "G1c": circular,
    "lost-write": lose,
    "unseen": lose_the_last,
    "duplicate": twice,
    "inconsistent-offsets": other_value,
    "unwritten-read": other_value,
    "G1a": aborted,
    "precommitted-read": own,
    "nonmonotonic-poll": back,
    "int-nonmonotonic-poll": swapped,
    "int-poll-skip": skipped,
    "nonmonotonic-send": sent_back,
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_found(name):
    planted = 0
    for seed in range(40):
        mutated = MUTATIONS[name](Simulation(seed).events, random.Random(seed))
        if mutated is None:
            continue
        planted += 1
        assert name in check(mutated).counts, f"seed {seed}"
    assert planted >= 15


def test_the_simulation_does_what_it_is_for():
    events = [event for seed in range(20) for event in Simulation(seed).events]
    seen = {(event.f, event.type) for event in events}
    assert seen >= {("txn", type_) for type_ in ("invoke", "ok", "fail", "info")}
    assert seen >= {
        ("send", "ok"),
        ("send", "info"),
        ("poll", "ok"),
        ("rebalance", "info"),
        ("crash", "info"),
    }
