"""The memory of serializers: what it lacks, how long it holds, and how much."""

from __future__ import annotations

import pytest

from odradek.client.serialization import LookupNeeded, after_lookups
from odradek.serdes.lookups import Lookups
from odradek.serdes.recent import Recent


def test_what_is_not_known_needs_a_lookup() -> None:
    asked: list[str] = []
    lookups = Lookups(lambda key: asked.append(key), 10)
    with pytest.raises(LookupNeeded):
        lookups.get("a")
    assert asked == []
    for _ in range(3):
        assert after_lookups(lambda: lookups.get("a")) is None
    assert asked == ["a"]


def test_a_value_holds_for_a_while() -> None:
    now_s = [0.0]
    answers = iter([1, 2, 3])
    lookups = Lookups(lambda key: next(answers), 10, ttl_s=5, now_s=lambda: now_s[0])
    assert after_lookups(lambda: lookups.get("a")) == 1
    now_s[0] = 4.9
    assert lookups.get("a") == 1
    now_s[0] = 5.0
    assert after_lookups(lambda: lookups.get("a")) == 2


def test_a_value_that_holds_for_no_time_serves_once() -> None:
    answers = iter([1, 2])
    lookups = Lookups(lambda key: next(answers), 10, ttl_s=0, now_s=lambda: 0.0)
    assert after_lookups(lambda: lookups.get("a")) == 1
    assert after_lookups(lambda: lookups.get("a")) == 2


def test_those_go_first_that_came_first() -> None:
    recent: Recent[str, int] = Recent(2)
    for number, key in enumerate("abc"):
        recent.put(key, number)
    assert [recent.get(key) for key in "abc"] == [None, 1, 2]
    recent.drop(lambda key: key == "b")
    assert [recent.get(key) for key in "abc"] == [None, None, 2]
