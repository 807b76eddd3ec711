"""The option `where`: its text, its conditions on rows and ranges."""

import datetime
from typing import Any

import pytest

from odradek.client.types import TopicPartition
from odradek.spark.options import parse_source
from odradek.spark.ranges import OffsetRange
from odradek.spark.where.conditions import Condition
from odradek.spark.where.parser import parse_where

NOW_US = 1_800_000_000_000_000
HOUR_US = 3_600_000_000
MOMENT_US = 1_767_225_600_000_000
"""2026-01-01 00:00 UTC."""


def conditions(text: str) -> list[tuple[str, str, tuple[Any, ...]]]:
    return [(c.column, c.operator, c.values) for c in parse_where(text, NOW_US).conditions]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (
            "timestamp >= now() - interval 1 hour and partition in (0, 1) and offset < 1000",
            [
                ("timestamp", ">=", (NOW_US - HOUR_US,)),
                ("partition", "in", (0, 1)),
                ("offset", "<", (1000,)),
            ],
        ),
        (
            "topic = 'a' AND (Offset BETWEEN 3 AND 9) and 5 < `offset`",
            [
                ("topic", "=", ("a",)),
                ("offset", ">=", (3,)),
                ("offset", "<=", (9,)),
                ("offset", ">", (5,)),
            ],
        ),
        ("timestamp '2026-01-01 00:00:00Z' <= timestamp", [("timestamp", ">=", (MOMENT_US,))]),
        ("timestamp == '2026-01-01T01:00:00+01:00'", [("timestamp", "=", (MOMENT_US,))]),
        (
            "now() - interval '1 hour 30 minutes' < timestamp",
            [("timestamp", ">", (NOW_US - HOUR_US * 3 // 2,))],
        ),
        (
            "timestamp < current_timestamp - interval 1 hour 30 minutes + INTERVAL '2' Weeks",
            [("timestamp", "<", (NOW_US - HOUR_US * 3 // 2 + 14 * 24 * HOUR_US,))],
        ),
        (
            "timestamp in (timestamp_millis(1), timestamp_seconds(-2))",
            [("timestamp", "in", (1000, -2_000_000))],
        ),
        ('partition not in (1) and topic <> "x"', [("partition", "not in", (1,)), ("topic", "!=", ("x",))]),
        ("'a' = topic", [("topic", "=", ("a",))]),
    ],
)
def test_what_is_meant(text: str, meant: list[Any]) -> None:
    assert conditions(text) == meant


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected a column: topic, partition, offset, timestamp (at the end, position 1)"),
        ("offset", "expected = != < <= > >= IN, NOT IN or BETWEEN (at the end, position 7)"),
        ("offset < 'a'", "expected a whole number (at ''a'', position 10)"),
        ("offset < 1.5", "expected a whole number (at '1.5', position 10)"),
        ("offset < 1 or offset > 5", "conditions can only be joined by AND. Write one column IN (...)"),
        ("(offset < 1 or offset > 5)", "conditions can only be joined by AND"),
        ("not offset = 1", "NOT goes with IN only. Write the opposite comparison (at 'not', position 1)"),
        ("value = 'x'", "Other conditions go into frame.where(...), which Spark evaluates (at 'value'"),
        ("5", "expected a column"),
        ("5 and offset < 3", "expected a column"),
        ("offset = partition", "expected a whole number (at 'partition', position 10)"),
        ("topic < 'a'", "topics have no order. Write topic IN ('a', 'b') (at '<', position 7)"),
        ("topic between 'a' and 'b'", "topics have no order"),
        ("topic like 'a%'", "expected = != < <= > >= IN, NOT IN or BETWEEN (at 'like', position 7)"),
        ("topic = abc", "expected the name of a topic in quotes: 'clicks'"),
        ("topic = 'abc", "the text has no closing quote (at ''', position 9)"),
        ("topic = 'a\\b'", "backslash"),
        ("offset < 1; drop", "what is this? (at ';', position 11)"),
        ("offset in ()", "expected a whole number (at ')', position 12)"),
        ("offset in (1,", "expected a whole number (at the end, position 14)"),
        ("(offset < 1", "expected ')' (at the end, position 12)"),
        ("offset < 1)", "expected AND and another condition, or the end (at ')', position 11)"),
        ("offset < 9223372036854775808", "the number is larger than 9223372036854775807"),
        ("timestamp > '2026-01-01'", "Write '2026-01-01 00:00:00Z' for UTC"),
        ("timestamp > '2026-01-01 10:00:00'", "Write '2026-01-01 10:00:00Z' for UTC, or +01:00 for Z"),
        ("timestamp > 'yesterday'", "expected a time like '2026-03-01 12:00:00Z'"),
        ("timestamp > now", "write now()"),
        ("timestamp > 5", "expected a time: now(), timestamp '2026-03-01 12:00:00Z' or timestamp_millis("),
        ("timestamp > now() - 5", "expected INTERVAL (at '5', position 21)"),
        ("timestamp > now() - interval 1 month", "a month has no fixed length. Write days"),
        ("timestamp > now() - interval 1 fortnight", "expected a unit of time: microsecond,"),
        ("timestamp > now() - interval '1 hour 30'", "expected numbers and units: '1 hour 30 minutes'"),
        ("timestamp > now() - interval 'a hour'", "expected whole numbers and units"),
        ("timestamp > now() + interval 100000000000 weeks", "the time is too far away"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_what_to_do(text: str, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_where(text, NOW_US)
    assert str(caught.value).startswith("where: ")
    assert complaint in str(caught.value)
    assert str(caught.value).endswith(f"Given was: {text}")


def test_now_has_no_meaning_in_a_stream() -> None:
    options = {"kafka.bootstrap.servers": "x:1", "subscribe": "t"}
    with pytest.raises(ValueError, match="now\\(\\) would stand still"):
        parse_source({**options, "where": "timestamp > now()"}, streaming=True)
    where = parse_source({**options, "where": "timestamp > now()"}, streaming=False).where
    assert where is not None
    assert where.times_us[0] is not None
    assert parse_source({**options, "where": "offset > 5"}, streaming=True).where is not None


def ranges(*sizes: tuple[str, int, int, int]) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition(topic, number), start, end) for topic, number, start, end in sizes]


ALL = ranges(("a", 0, 0, 10), ("a", 1, 5, 6), ("b", 0, 7, 20))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("topic = 'a'", ALL[:2]),
        ("topic != 'a'", ALL[2:]),
        ("topic in ('b', 'c') and partition > 0", []),
        ("partition = 0 and offset >= 8", ranges(("a", 0, 8, 10), ("b", 0, 8, 20))),
        ("offset < 6", ranges(("a", 0, 0, 6), ("a", 1, 5, 6))),
        ("offset between 5 and 7 and offset != 6", ranges(("a", 0, 5, 8), ("a", 1, 5, 6), ("b", 0, 7, 8))),
        ("offset in (9, 8, 30)", ranges(("a", 0, 8, 10), ("b", 0, 8, 20))),
        ("offset > 9 and offset < 9", []),
        ("offset <= -1", []),
        ("timestamp > timestamp_millis(5)", ALL),
    ],
)
def test_ranges_that_are_left(text: str, left: list[OffsetRange]) -> None:
    assert parse_where(text, NOW_US).narrowed(ALL) == left


@pytest.mark.parametrize(
    "text",
    [
        "timestamp > timestamp_millis(3)",
        "timestamp >= timestamp_micros(3001)",
        "timestamp <= timestamp_millis(3) and timestamp != timestamp_millis(2)",
        "timestamp = timestamp_millis(3)",
        "timestamp in (timestamp_millis(3), timestamp_millis(-1))",
        "timestamp not in (timestamp_millis(3), timestamp_millis(-1)) and offset != 4",
        "offset in (1, 4) and offset not in (4)",
        "timestamp < timestamp_millis(0)",
        "partition = 7",
    ],
)
def test_rows_are_those_for_which_all_conditions_hold(text: str) -> None:
    pa = pytest.importorskip("pyarrow")
    where = parse_where(text, NOW_US)
    times_us = [3000, 2000, -1000, 5000, 3000, 3001]
    rows = pa.record_batch(
        {
            "offset": pa.array(range(6), pa.int64()),
            "timestamp": pa.array(times_us, pa.timestamp("us", tz="UTC")),
            "value": pa.array([b"%d" % i for i in range(6)], pa.binary()),
        }
    )
    left = where.rows(rows)
    wanted = [
        offset
        for offset, time_us in enumerate(times_us)
        if all(
            c.holds({"offset": offset, "timestamp": time_us}[c.column])
            for c in where.conditions
            if c.column != "partition"
        )
    ]
    assert left.column("offset").to_pylist() == wanted
    assert left.column("value").to_pylist() == [b"%d" % i for i in wanted]


def test_bounds_agree_with_what_holds() -> None:
    for sign in ("=", "!=", "<", "<=", ">", ">="):
        condition = Condition("offset", sign, (3,))
        low, high = condition.bounds
        for value in range(7):
            inside = (low is None or low <= value) and (high is None or value < high)
            assert inside or not condition.holds(value)


def test_times_are_those_of_the_calendar() -> None:
    (low, high) = parse_where("timestamp between '2026-03-01 12:30:15.123Z' and now()", NOW_US).times_us
    moment = datetime.datetime(2026, 3, 1, 12, 30, 15, 123_000, tzinfo=datetime.UTC)
    assert (low, high) == (round(moment.timestamp() * 1000) * 1000, NOW_US + 1)
