"""The pages of groups, on a broker: lag and its history, members, resets with a preview, deletion."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from urllib.parse import urlencode

import pytest

from odradek import Admin, Consumer, Producer
from odradek.client.aio.admin import AsyncAdmin
from odradek.client.errors import ClientTimeoutError
from odradek.client.types import GroupDescription, MemberDescription, TopicDescription, TopicPartition
from odradek.console.group_asking import ask_ends, ask_group_offsets
from odradek.console.views.command_lines import CommandLines
from odradek.console.views.groups import GroupOffsets, lag_rows
from odradek.console.views.history import History, Point, rates
from odradek.console.views.plots import plot
from odradek.console.views.resets import Bounds, Reset, parse_plan, plan_text, reset_rows
from odradek.console.watch import MOST_GROUPS, TOTAL, Watch
from odradek.testing import Broker
from odradek.util.clock import ManualClock
from waiting import WITHIN_S, until

from .conftest import Visitor
from .test_topics import row

HOSTILE = "<script>alert('g')</script>/\"&?x=é"
BEGIN_MS = 1_700_000_000_000
A, B, C = (TopicPartition("t", n) for n in range(3))


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[Admin]:
    """Ten records in partition 0 of `read-by-groups`, a second apart, and none in partition 1."""
    broker.create_topic("read-by-groups", 2)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for n in range(10):
            producer.send("read-by-groups", b"x", partition=0, timestamp_ms=BEGIN_MS + n * 1000).result(
                WITHIN_S
            )
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


def one(group: str, page: str = "one", **query: str) -> str:
    return f"/groups/{page}?{urlencode({'id': group, **query})}"


def test_lag_and_a_real_zero(admin: Admin, visitor: Visitor) -> None:
    admin.alter_group_offsets("behind", {("read-by-groups", 0): 3, ("read-by-groups", 1): 0})
    assert row(visitor.get("/groups?filter=BEHIND"), "behind")[1:5] == ["Empty", "classic", "0", "7"]
    assert "No group is so" in visitor.get("/groups?filter=behind&state=Stable")
    page = visitor.get(one("behind"))
    rows = [line for line in page.split("<tr") if "read-by-groups" in line]
    cells = [re.findall(r'<td class="number">(.*?)</td>', line) for line in rows]
    assert cells[:2] == [["0", "3", "10", "7"], ["1", "0", "0", "0"]]
    assert "odradek consumer-groups --bootstrap-server" in page
    assert "There is no group" in visitor.get(one("nobody's"), 404)


def test_hostile_ids_are_shown_as_they_are(admin: Admin, visitor: Visitor) -> None:
    admin.alter_group_offsets(HOSTILE, {("read-by-groups", 0): 10})
    for page in (visitor.get("/groups"), visitor.get(one(HOSTILE))):
        assert HOSTILE in html.unescape(page)
        assert "<script>alert" not in page
    page = visitor.post(one(HOSTILE), "/groups/delete", id=HOSTILE, typed=HOSTILE)
    assert f"The group {HOSTILE} has been deleted." in html.unescape(page)


def test_members_and_the_refusal_to_touch_a_group_in_use(
    admin: Admin, broker: Broker, visitor: Visitor
) -> None:
    with Consumer(
        "read-by-groups",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="in-use",
        client_id="who-reads",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        until(lambda: consumer.poll(100), "records")
        page = visitor.get(one("in-use"))
        assert row(page, "who-reads")[1:] == [
            "127.0.0.1",
            admin.describe_groups(["in-use"])["in-use"].members[0].member_id,
            "",
            "2",
        ]
        # What was never committed is no lag of 0.
        assert "nothing committed" in row(page, "read-by-groups")[4]
        assert "has members (Stable)" in visitor.get(
            one("in-use", "reset", target="earliest", topic="read-by-groups")
        )
        plan = json.dumps([["read-by-groups", 0, None, 5]])
        visitor.post(one("in-use"), "/groups/reset", 400, id="in-use", plan=plan)
        refused = visitor.post(one("in-use"), "/groups/delete", 400, id="in-use", typed="in-use")
        assert "cluster has refused" in refused
    assert TopicPartition("read-by-groups", 0) not in admin.list_group_offsets("in-use")


@pytest.mark.parametrize(
    ("query", "offset"),
    [
        ({"target": "earliest"}, 0),
        ({"target": "latest"}, 10),
        ({"target": "time", "time": "2023-11-14 22:13:25"}, 5),
        ({"target": "time", "time": "2030-01-01"}, 10),
        ({"target": "shift", "number": "-2"}, 2),
        ({"target": "shift", "number": "-9"}, 0),
        ({"target": "offset", "number": "6"}, 6),
        ({"target": "offset", "number": "99", "topic": "read-by-groups", "partitions": "0"}, 10),
    ],
)
def test_a_reset_does_what_its_preview_shows(
    admin: Admin, visitor: Visitor, query: dict[str, str], offset: int
) -> None:
    tp = TopicPartition("read-by-groups", 0)
    admin.alter_group_offsets("reset", {tp: 4})
    path = one("reset", "reset", **query)
    page = visitor.get(path)
    assert row(page, "read-by-groups")[1:4] == ["0", "4", str(offset)]
    assert admin.list_group_offsets("reset")[tp].offset == 4
    plan = re.search(r'name="plan" value="([^"]+)"', page)
    assert plan is not None
    done = visitor.post(path, "/groups/reset", id="reset", plan=html.unescape(plan[1]))
    assert "1 offsets of the group reset have been set" in done
    assert admin.list_group_offsets("reset")[tp].offset == offset
    if offset != 4:
        # The same preview again: the offsets are no longer those that it has shown.
        again = visitor.post(path, "/groups/reset", 409, id="reset", plan=html.unescape(plan[1]))
        assert "has committed since the preview" in again


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({}, "is none of earliest"),
        ({"target": "time", "time": "noon"}, "is not like 2026"),
        ({"target": "offset", "number": "-1"}, "is not between 0"),
        ({"target": "latest", "partitions": "1"}, "none is named"),
        ({"target": "latest", "topic": "read-by-groups", "partitions": "x"}, "are not numbers"),
        ({"target": "latest", "topic": "read-by-groups", "partitions": "7"}, "has no 7"),
        ({"target": "shift", "number": "1", "topic": "read-by-groups"}, "the group has none"),
    ],
)
def test_resets_that_cannot_be(admin: Admin, visitor: Visitor, query: dict[str, str], told: str) -> None:
    admin.alter_group_offsets("reset-in-vain", {("read-by-groups", 0): 4})
    assert told in html.unescape(visitor.get(one("reset-in-vain", "reset", **query), 400))


def test_a_reset_is_refused_where_the_offsets_cannot_be_asked_for(
    admin: Admin, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be known may have been committed since the preview."""
    admin.alter_group_offsets("not-told", {("read-by-groups", 1): 0})
    plan = json.dumps([["read-by-groups", 0, None, 5]])
    with monkeypatch.context() as patched:

        async def fail(*_: object) -> None:
            raise ClientTimeoutError("the coordinator does not answer")

        patched.setattr(AsyncAdmin, "list_group_offsets", fail)
        page = visitor.post("/topics", "/groups/reset", 502, id="not-told", plan=plan)
        assert "does not answer" in page
    assert TopicPartition("read-by-groups", 0) not in admin.list_group_offsets("not-told")


def test_deletion_is_confirmed(admin: Admin, visitor: Visitor) -> None:
    admin.alter_group_offsets("over", {("read-by-groups", 0): 1})
    assert "Nothing was deleted" in visitor.post(one("over"), "/groups/delete", 400, id="over", typed="ov")
    visitor.post(one("over"), "/groups/delete", id="over", typed="over")
    assert "over" not in {group.group_id for group in admin.list_groups()}


def test_a_console_that_only_reads(admin: Admin, broker: Broker, visit: Callable[..., Visitor]) -> None:
    admin.alter_group_offsets("kept", {("read-by-groups", 0): 1})
    visitor = visit(broker.bootstrap_servers, read_only=True)
    visitor.log_in()
    assert "/groups/reset" not in visitor.get(one("kept"))
    refused = visitor.post("/groups", "/groups/delete", 403, id="kept", typed="kept")
    assert "--read-only" in refused
    assert "kept" in {group.group_id for group in admin.list_groups()}


def test_history_is_kept_while_the_console_runs(admin: Admin, broker: Broker) -> None:
    """By the samples of the watch: no page is needed."""
    tp = TopicPartition("read-by-groups", 0)

    async def watch() -> tuple[list[Point], list[Point]]:
        clock = ManualClock(BEGIN_MS)
        async with AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as asking:
            watched = Watch(asking, clock)
            try:
                watched.groups_seen({"watched": GroupOffsets({tp: 4}, {tp: 10})})
                # Too soon after the last one to be kept.
                watched.groups_seen({"watched": GroupOffsets({tp: 5}, {tp: 10})})
                await asyncio.to_thread(admin.alter_group_offsets, "watched", {tp: 9})
                clock.advance(10_000)
                await watched.sample()
                clock.advance(10_000)
                watched.groups_seen({"watched": GroupOffsets({tp: 9}, {})})
                history = watched.group("watched")
                for n in range(MOST_GROUPS):
                    watched.groups_seen({f"another-{n}": GroupOffsets({}, {})})
                assert watched.group("watched").points(TOTAL) == []
                return history.points(TOTAL), history.points(tp)
            finally:
                await watched.close()

    total, partition = asyncio.run(watch())
    assert total == partition
    assert total == [Point(BEGIN_MS, 6), Point(BEGIN_MS + 10_000, 1), Point(BEGIN_MS + 20_000, None)]


def test_rates_of_topics_are_drawn(broker: Broker, visit: Callable[..., Visitor]) -> None:
    broker.create_topic("fast", 2)
    clock = ManualClock(BEGIN_MS)
    visitor = visit(broker.bootstrap_servers, clock=clock)
    visitor.log_in()
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for count in (0, 50, 100):
            for n in range(count):
                producer.send("fast", b"x", partition=n % 2)
            producer.flush()
            page = visitor.get("/topics/fast")
            clock.advance(10_000)
    assert "Records a second from" in page
    assert "at first 5, at last 10" in page


def test_ends_of_what_is_gone_are_told(broker: Broker, admin: Admin) -> None:
    async def ask() -> tuple[dict[TopicPartition, int], frozenset[TopicPartition], str]:
        async with AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as asking:
            there = TopicPartition("read-by-groups", 0)
            return await ask_ends(asking, {there, TopicPartition("read-by-groups", 9), A})

    ends, gone, problem = asyncio.run(ask())
    assert (ends, gone, problem) == (
        {TopicPartition("read-by-groups", 0): 10},
        {A, TopicPartition("read-by-groups", 9)},
        "",
    )


def test_a_part_of_a_topic_is_no_gap_in_its_history() -> None:
    """A page that shows a part of the partitions knows no count, and does not take the turn of the watch."""

    async def watch() -> list[Point]:
        clock = ManualClock(BEGIN_MS)
        async with AsyncAdmin(bootstrap_servers="127.0.0.1:1") as never_asked:
            watched = Watch(never_asked, clock)
            watched.topic_seen("t", [A, B], None)
            watched.topic_seen("t", [A, B], 7)
            await watched.close()
            return watched.topic("t").points("t")

    assert asyncio.run(watch()) == [Point(BEGIN_MS, 7)]


def test_a_partition_without_a_leader_is_a_problem_of_its_groups_alone(
    admin: Admin, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("led-by-nobody")
    admin.alter_group_offsets("with-leaders", {("read-by-groups", 0): 1})
    admin.alter_group_offsets("without-a-leader", {("read-by-groups", 0): 1, ("led-by-nobody", 0): 0})
    described = admin.describe_topics(["led-by-nobody", "read-by-groups"])
    (led,) = described["led-by-nobody"].partitions
    unled = replace(described["led-by-nobody"], partitions=(replace(led, leader=-1),))
    described["led-by-nobody"] = unled

    async def describe(_: AsyncAdmin, topics: Iterable[str]) -> dict[str, TopicDescription]:
        return {name: described[name] for name in topics}

    monkeypatch.setattr(AsyncAdmin, "describe_topics", describe)

    async def ask() -> dict[str, GroupOffsets]:
        async with AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as asking:
            return await ask_group_offsets(asking, ["with-leaders", "without-a-leader"])

    offsets = asyncio.run(ask())
    assert (offsets["with-leaders"].problem, offsets["with-leaders"].total) == ("", 9)
    assert offsets["without-a-leader"].problem == "partitions have no leader now"


def test_totals_and_notes() -> None:
    offsets = GroupOffsets({A: 3, B: 12}, {A: 10, C: 1}, frozenset())
    assert offsets.total is None
    assert GroupOffsets({A: 3, B: 12}, {A: 10}, frozenset({B})).total == 7
    assert GroupOffsets({}, {}).total is None
    assert GroupOffsets({A: 10}, {A: 10}).total == 0
    member = MemberDescription("m", None, "c", "h", b"", (C,))
    group = GroupDescription("g", "Stable", "consumer", "range", (member,), None)
    notes = [(line.tp, line.lag, line.note, line.member is member) for line in lag_rows(group, offsets)]
    assert notes == [
        (A, 7, "", False),
        (B, None, "its end is not known", False),
        (C, None, "nothing committed", True),
    ]
    (beyond,) = lag_rows(
        GroupDescription("g", "Empty", "consumer", "", (), None), GroupOffsets({A: 12}, {A: 10})
    )
    assert (beyond.lag, beyond.note) == (0, "committed beyond the end, by 2")


def test_plots_have_gaps_where_nothing_is_known() -> None:
    points = [Point(0, 4), Point(10, 0), Point(20, None), Point(30, 2), Point(40, None), Point(50, 1)]
    drawn = plot(points, "Lag", width=100, height=40)
    assert drawn is not None
    assert drawn.lines == ("0.0,0.0 20.0,40.0",)
    assert drawn.dots == ((60.0, 20.0), (100.0, 30.0))
    assert "at least 0, at most 4; 2 times not known" in drawn.told
    assert plot(points[1:3], "Lag") is None


def test_history_forgets_the_oldest() -> None:
    history: History[str] = History(most_points=3, most_keys=2)
    for time_ms in range(5):
        history.add(time_ms, {"a": time_ms, "b" if time_ms > 2 else "a": time_ms, "c": 1})
    assert history.points("a") == [Point(2, 2), Point(3, 3), Point(4, 4)]
    assert history.points("c") == [Point(2, 1), Point(3, 1), Point(4, 1)]
    assert history.points("b") == [Point(2, None), Point(3, None), Point(4, None)]
    grown = rates([Point(0, 10), Point(2000, 20), Point(3000, None), Point(4000, 5), Point(5000, 0)])
    assert [point.value for point in grown] == [5, None, None, None]


def test_plans() -> None:
    rows = reset_rows(Reset("latest"), {A: 3}, {A: Bounds(0, 9), B: Bounds(2, 2)})
    assert [(line.now, line.new, line.change, line.left) for line in rows] == [
        (3, 9, 6, 0),
        (None, 2, None, 0),
    ]
    assert parse_plan(plan_text(rows)) == {A: (3, 9), B: (None, 2)}
    for text in ("", "1", "[1]", '[["t", "0", 1, 1]]', '[["t", true, 1, 1]]', "[[1, 1, 1, 1]]"):
        with pytest.raises(ValueError, match="plan"):
            parse_plan(text)
    lines = CommandLines("h:1")
    line = lines.reset_offsets("g", Reset("time", 1000, "t", (0, 3)))
    assert line.endswith("--reset-offsets --topic t:0,3 --to-datetime 1970-01-01T00:00:01.000 --execute")
    assert lines.reset_offsets("g", Reset("latest")).endswith("--all-topics --to-latest --execute")
