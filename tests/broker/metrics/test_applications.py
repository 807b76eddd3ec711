"""Applications: told apart, counted within bounds, with rates of the last minute."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.metrics import applications as module
from odradek.broker.metrics.applications import (
    Application,
    ApplicationIdentity,
    Applications,
    Positions,
    TopicUse,
)


def named(client_id: str, host: str = "10.0.0.1") -> ApplicationIdentity:
    return ApplicationIdentity(client_id, ("apache-kafka-java", "4.1.0"), "User:alice", host)


def names(applications: Applications) -> set[str]:
    return {application.identity.client_id for application in applications}


def test_connections_of_one_application_are_counted_together() -> None:
    applications = Applications()
    first = applications.connect(named("orders"), 1000)
    assert applications.connect(named("orders"), 2000) is first
    assert applications.connect(named("orders", host="10.0.0.2"), 2000) is not first
    assert (first.connections, first.first_ms) == (2, 1000)
    first.disconnect()
    first.disconnect()
    # It is kept, and known when it comes back.
    assert applications.connect(named("orders"), 3000) is first
    assert first.connections == 1


def test_those_that_are_gone_for_longest_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_APPLICATIONS", 2)
    applications = Applications()
    first = applications.connect(named("first"), 0)
    second = applications.connect(named("second"), 0)
    # As long as both are connected, a third has no name.
    assert applications.connect(named("third"), 5) is applications.others
    applications.others.count_produced("t", 1, 10, 5)
    other = applications.others.other_produced
    assert other is not None
    assert (other.records, applications.others.produced) == (1, {})
    second.disconnect()
    first.disconnect()
    assert applications.connect(named("fourth"), 6) is not applications.others
    assert (names(applications), applications.forgotten) == ({"first", "fourth"}, 1)
    applications.others.disconnect()
    assert applications.others.connections == 0


def test_topics_beyond_the_bounds_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TOPICS", 2)
    monkeypatch.setattr(module, "MOST_TOPICS_IN_ALL", 3)
    monkeypatch.setattr(module, "MOST_APPLICATIONS", 2)
    applications = Applications()
    application = applications.connect(named("many"), 0)
    application.count_produced("a", 1, 10, 0)
    application.count_consumed("a", 0, 20, 0)
    for topic in ("b", "c"):
        application.count_consumed(topic, 2, 30, 0)
        application.count_produced(topic, 1, 10, 0)
    assert (set(application.produced), set(application.consumed)) == ({"a"}, {"a"})
    other_consumed, other_produced = application.other_consumed, application.other_produced
    assert other_consumed is not None
    assert other_produced is not None
    assert (other_consumed.records, other_consumed.size, other_produced.records) == (4, 60, 2)
    another = applications.connect(named("another"), 0)
    another.count_produced("a", 1, 1, 0)
    another.count_produced("b", 1, 1, 0)  # the fourth of all
    assert set(another.produced) == {"a"}
    # One that is forgotten gives its topics back.
    application.disconnect()
    third = applications.connect(named("third"), 0)
    third.count_produced("a", 1, 1, 0)
    third.count_produced("b", 1, 1, 0)
    assert set(third.produced) == {"a", "b"}


def test_names_groups_and_errors_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("MOST_GROUPS", "MOST_ERRORS"):
        monkeypatch.setattr(module, bound, 2)
    application = Applications().connect(named("x" * 30_000), 0)
    assert len(application.identity.client_id) == module.LONGEST_NAME
    for number in range(4):
        application.note_commit(f"group-{number}", [f"topic-{index}" for index in range(5)])
        application.count_error(0, number, 1)
        application.count_error(0, 0, 2)
    assert {group: len(topics) for group, topics in application.groups.items()} == {
        "group-0": 2,
        "group-1": 2,
    }
    assert application.errors == {(0, 0): 9, (0, 1): 1}


def test_rates_are_of_the_last_minute() -> None:
    use = TopicUse(0)
    use.count(10, 1000, 0)
    assert use.rates(0) == (10, 1000)
    # Ten records a second, for two minutes.
    for second in range(1, 121):
        use.count(10, 1000, 1000 * second)
    records_per_s, bytes_per_s = use.rates(120_000)
    assert records_per_s == pytest.approx(10, rel=0.05)
    assert bytes_per_s == pytest.approx(1000, rel=0.05)
    assert (use.records, use.size, use.last_ms) == (1210, 121_000, 120_000)
    # It falls when nothing comes, to nothing; what was long ago is not in a rate that begins anew.
    assert use.rates(150_000)[0] == pytest.approx(6, rel=0.2)
    assert use.rates(180_000) == (0, 0)
    use.count(5, 50, 1_000_000)
    assert use.rates(1_001_000) == (5, 50)


@pytest.mark.parametrize(
    ("offsets", "records"),
    [
        ([0, 10, 25], [0, 10, 15]),
        ([0, 10, 1_000_000, 1_000_005], [0, 10, 0, 5]),
        ([100, 50, 60], [0, 0, 10]),
        ([5, 5], [0, 0]),
    ],
    ids=["one after the other", "a jump to the end", "back", "read again"],
)
def test_records_are_counted_by_how_far_a_reader_has_come(offsets: list[int], records: list[int]) -> None:
    positions = Positions()
    assert [positions.read_at(("t", 0), offset, 100) for offset in offsets] == records


def test_positions_of_one_connection_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_POSITIONS", 1)
    positions = Positions()
    reads: list[Any] = [positions.read_at(("t", index), offset, 9) for offset in (0, 3) for index in (0, 1)]
    assert reads == [0, 0, 3, 0]


def test_an_application_knows_the_groups_of_its_topics() -> None:
    application: Application = Applications().connect(named("reader"), 0)
    application.note_group("billing")
    application.note_commit("billing", ["orders"])
    application.note_commit("billing", ["payments"])
    assert application.groups == {"billing": {"orders", "payments"}}
