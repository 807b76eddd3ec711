"""Groups: brokers bounced, coordinators killed, members that leave and die, all assignors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from odradek.client.types import TopicPartition
from odradek.testing.checker import Send
from scenarios.faults.conftest import Judged
from scenarios.faults.members import GROUP, SESSION_MS, Members, Watch
from scenarios.faults.run import Run
from scenarios.faults.workloads import TOPIC, Workload

pytestmark = [pytest.mark.slow, pytest.mark.faults]
PARTITIONS = 6
CLASSIC = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 500}


@contextmanager
def group(judged: Judged, fault: str, kind: str, configs: dict[str, Any], size: int = 3) -> Iterator[Any]:
    """A group under load during a block; afterwards nothing is missing and no commit went back."""
    workload = Workload()
    with judged(f"group: {fault} ({kind})", workload, partitions=PARTITIONS) as run:
        with Members(run.cluster, run.recorder, workload, **configs) as members, Watch(run.cluster) as watch:
            for _ in range(size):
                members.join()
            members.await_owned_once(PARTITIONS, size)
            members.go_on()
            yield run, members
            members.go_on()
            members.await_owned_once(PARTITIONS, len(members.live))
            members.await_all(acknowledged(run))
        assert not watch.steps_back, watch.steps_back


def acknowledged(run: Run) -> set[str]:
    """The values that were acknowledged until now."""
    ended = [event for event in list(run.recorder.events) if event.type == "ok"]
    sends = (one for event in ended for one in event.micro if isinstance(one, Send))
    return {str(one.value) for one in sends if one.offset is not None}


def brokers_bounced(run: Run, members: Members) -> None:
    for broker in run.cluster.live:
        run.cluster.stop(broker)
        run.cluster.start(broker)
        run.cluster.await_all_whole(TOPIC)
        members.go_on()


def coordinator_killed(run: Run, members: Members) -> None:
    for _ in range(2):
        run.cluster.await_all_whole("__consumer_offsets")
        broker = run.cluster.coordinator(GROUP)
        run.cluster.kill(broker)
        members.go_on()
        run.cluster.start(broker)


def members_killed(run: Run, members: Members) -> None:
    for me in members.live:
        members.kill(me)
        members.join()
        members.go_on()


def members_bounced(run: Run, members: Members) -> None:
    for me in members.live:
        members.leave(me)
        members.join()
        members.go_on()


def all_members_killed(run: Run, members: Members) -> None:
    for me in members.live:
        members.kill(me)
    for _ in range(3):
        members.join()


FAULTS: tuple[tuple[str, Callable[[Run, Members], None]], ...] = (
    ("rolling bounce of brokers", brokers_bounced),
    ("coordinator killed twice", coordinator_killed),
    ("members killed one after the other", members_killed),
    ("members leave one after the other", members_bounced),
    ("all members killed", all_members_killed),
)
KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("range", {**CLASSIC, "partition_assignment_strategy": ("range",)}),
    ("roundrobin", {**CLASSIC, "partition_assignment_strategy": ("roundrobin",)}),
    ("sticky", {**CLASSIC, "partition_assignment_strategy": ("sticky",)}),
    ("cooperative-sticky", {**CLASSIC, "partition_assignment_strategy": ("cooperative-sticky",)}),
)
#: Each fault with two kinds of groups, the coordinator's death with all.
CASES = [
    pytest.param(fault, strike, kind, configs, id=f"{fault}, {kind}")
    for at, (fault, strike) in enumerate(FAULTS)
    for number, (kind, configs) in enumerate(KINDS)
    if strike is coordinator_killed or number in (at, (at + 2) % len(KINDS))
]


@pytest.mark.parametrize(("fault", "strike", "kind", "configs"), CASES)
def test_no_record_is_missed(
    judged: Judged, fault: str, strike: Callable[[Run, Members], None], kind: str, configs: dict[str, Any]
) -> None:
    with group(judged, fault, kind, configs) as (run, members):
        strike(run, members)


def test_static_members_come_back(judged: Judged) -> None:
    """They are killed and keep what they had, while brokers are bounced; the coordinator dies, too."""
    with group(judged, "static members killed, coordinator killed", "static", CLASSIC, 1) as (
        run,
        members,
    ):
        names = ["a", "b"]
        mine = {each: members.join(group_instance_id=each) for each in names}
        members.await_owned_once(PARTITIONS, 3)
        for each in names:
            before = owned_by(run, each)
            members.kill(mine[each])
            mine[each] = members.join(group_instance_id=each)
            members.go_on()
            members.await_owned_once(PARTITIONS, 3)
            assert owned_by(run, each) == before
        coordinator_killed(run, members)


def owned_by(run: Run, instance: str) -> set[TopicPartition]:
    """What a static member has."""
    with run.cluster.admin() as admin:
        members = admin.describe_groups([GROUP])[GROUP].members
    return {tp for one in members if one.group_instance_id == instance for tp in one.assignment}


def test_two_members_with_one_instance_id(judged: Judged) -> None:
    """The later one is the member, the earlier one is fenced."""
    with group(judged, "two members with one instance id", "static", CLASSIC, 1) as (run, members):
        first = members.join(group_instance_id="a")
        members.await_owned_once(PARTITIONS, 2)
        members.join(group_instance_id="a")
        run.cluster.wait_until(lambda: members.problem_of(first) is not None)
        assert "FencedInstanceId" in type(members.problem_of(first)).__name__
        members.kill(first)
        members.await_owned_once(PARTITIONS, 2)


def test_a_group_grows(judged: Judged) -> None:
    with group(judged, "grows from 1 to 6 while its coordinator is killed", "range", CLASSIC, 1) as (
        run,
        members,
    ):
        for _ in range(2):
            members.join()
        coordinator_killed(run, members)
        for _ in range(3):
            members.join()
        members.await_owned_once(PARTITIONS, 6)
