"""Stories of a group's time, told with members that say nothing by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from odradek import Consumer
from odradek.errors import ErrorCode
from odradek.testing import Broker
from waiting import until

from .in_hand import GROUP, Member, broker_in_hand, send, stable


def members(broker: Broker, name: str = GROUP) -> list[str]:
    """The client ids of a group's members."""

    def look(app: Any) -> list[str]:
        coordinator = app.groups.coordinator
        group = coordinator.runtime.shard(coordinator.partition_of(name)).groups.get(name)
        return [] if group is None else sorted(member.client_id for member in group.members.values())

    return broker.call(look)


def test_a_session_ends_to_the_millisecond() -> None:
    with broker_in_hand() as broker:
        member = stable(broker, session_ms=10_000)
        broker.advance(milliseconds=9_999)
        assert member.heartbeat() == ErrorCode.NONE
        broker.advance(milliseconds=9_999)
        assert members(broker) == ["alone"]
        broker.advance(milliseconds=1)
        assert members(broker) == []
        assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        member.close()


def test_a_consumer_whose_session_has_ended_joins_anew() -> None:
    """Its heartbeats are by real time, of which next to none passes: for the broker it is silent."""
    with broker_in_hand() as broker:
        config = {"bootstrap_servers": broker.bootstrap_servers, "group_id": GROUP}
        with Consumer(**config, heartbeat_interval_ms=50) as consumer:
            consumer.subscribe(["orders"])
            until(lambda: [consumer.poll(0.05), consumer.assignment()][1], "an assignment")
            joins = broker.requests_by_api()["JoinGroup"]
            broker.advance(hours=1)  # many sessions: a heartbeat in the midst of it does not help
            until(
                lambda: [consumer.poll(0.05), broker.requests_by_api()["JoinGroup"] > joins][1],
                "another join",
            )
            until(lambda: [consumer.poll(0.05), consumer.assignment()][1], "an assignment")
            send(broker)
            assert until(lambda: consumer.poll(0.05), "the record")


def test_a_rebalance_waits_for_a_member_as_long_as_it_has_said() -> None:
    with broker_in_hand() as broker:
        silent = stable(broker, session_ms=300_000, rebalance_ms=60_000)
        new = Member(broker, "new", session_ms=300_000, rebalance_ms=30_000)
        new.ask_to_join()
        until(lambda: members(broker) == ["alone", "new"], "the new member")
        broker.advance(milliseconds=59_999)
        assert new.has_no_answer()
        assert silent.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        broker.advance(milliseconds=1)
        assert new.joined() == ErrorCode.NONE
        assert members(broker) == ["new"]
        assert silent.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        silent.close()
        new.close()


def test_an_assignment_is_waited_for_as_long() -> None:
    """A member that has joined and never syncs is put out (KAFKA-12398)."""
    with broker_in_hand() as broker:
        member = Member(broker, "late", session_ms=300_000, rebalance_ms=60_000)
        until(lambda: member.join_group() == ErrorCode.NONE, "a place in the group")
        broker.advance(milliseconds=59_999)
        assert members(broker) == ["late"]
        broker.advance(milliseconds=1)
        assert members(broker) == []
        member.close()


def test_group_initial_rebalance_delay_ms() -> None:
    with broker_in_hand(group_initial_rebalance_delay_ms=3_000) as broker:
        member = Member(broker, "first")
        member.ask_to_join()
        until(lambda: members(broker) == ["first"], "the member")
        broker.advance(milliseconds=2_999)
        assert member.has_no_answer()
        broker.advance(milliseconds=1)
        assert member.joined() == ErrorCode.NONE
        member.close()


@pytest.mark.parametrize("minutes", [60, 10_080])
def test_offsets_retention_minutes(minutes: int) -> None:
    """Offsets of a group without members are gone so long after the last one has left."""
    with broker_in_hand(offsets_retention_minutes=minutes) as broker:
        config = {"bootstrap_servers": broker.bootstrap_servers, "group_id": GROUP}
        with Consumer(**config) as consumer:
            consumer.assign([("orders", 0)])
            consumer.commit({("orders", 0): 7})
            broker.advance(minutes=minutes - 1)
            assert consumer.committed([("orders", 0)])[("orders", 0)] is not None
            # The next `offsets.retention.check.interval.ms`, 10 minutes.
            broker.advance(minutes=11)
            assert consumer.committed([("orders", 0)]).get(("orders", 0)) is None
