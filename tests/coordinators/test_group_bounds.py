"""What groups hold is bounded per member, group and coordinator; what is let go of is no longer counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.coordinators.groups.env import Caller
from odradek.coordinators.groups.held_bytes import PER_MEMBER, PER_PENDING_ID
from odradek.errors import ErrorCode
from odradek.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.wire.messages.leave_group import MemberIdentity
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from .harness import World

MIB = 2**20


class Joined:
    """A JoinGroup and its answer, once it has come."""

    def __init__(
        self,
        world: World,
        size: int,
        *,
        group: str = "g",
        member_id: str = "",
        version: int = 3,
        instance: str | None = None,
        protocols: int = 1,
    ) -> None:
        self.answers: list[JoinGroupResponse] = []
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=2**31 - 1,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=f"p{n}", metadata=bytes(size // protocols))
                for n in range(protocols)
            ],
        )
        caller = Caller("client", "127.0.0.1", version)
        self.give_up: Callable[[], None] = world.coordinator.join_group(caller, request, self.answers.append)

    @property
    def error(self) -> ErrorCode | None:
        return ErrorCode(self.answers[0].error_code) if self.answers else None


def held(world: World) -> int:
    return world.coordinator.held.bytes


def counted_anew(world: World) -> int:
    """What all groups hold, counted from their members."""
    total = 0
    for partition in world.coordinator.runtime.partitions():
        for group in world.coordinator.runtime.shard(partition).groups.values():
            total += sum(PER_PENDING_ID + len(one) for one in group.pending_members)
            for member in group.members.values():
                group.count_bytes(member)
                total += member.counted_bytes
    return total


def test_a_member_that_is_too_large_is_refused_and_nothing_is_kept_of_it() -> None:
    world = World()
    for protocols in (1, 7):
        assert Joined(world, MIB, protocols=protocols).error is ErrorCode.MESSAGE_TOO_LARGE
    # Names and the objects around them count, too.
    assert Joined(world, 8_000, protocols=8_000).error is ErrorCode.MESSAGE_TOO_LARGE
    assert held(world) == 0
    assert world.coordinator.list_groups() == (ErrorCode.NONE, [])
    fits = Joined(world, MIB - 2 * PER_MEMBER)
    world.advance(3_000)
    assert fits.error is ErrorCode.NONE


def test_a_group_takes_no_more_than_its_bound_and_others_go_on() -> None:
    world = World(odradek_group_max_bytes=3 * MIB)
    first, second = Joined(world, MIB - 5_000), Joined(world, MIB - 5_000)
    third, small = Joined(world, MIB - 5_000), Joined(world, 100)
    assert Joined(world, 20_000).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    elsewhere = Joined(world, 20_000, group="other")
    world.advance(10_000)
    for one in (first, second, third, small, elsewhere):
        assert one.error is ErrorCode.NONE
    assert held(world) < 3 * MIB + 40_000


def test_a_hundred_large_members_do_not_fill_the_broker() -> None:
    world = World()
    refused = 0
    for n in range(200):
        one = Joined(world, MIB - 5_000, group=f"g{n}")
        refused += one.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused >= 200 - 130
    assert held(world) <= world.config.odradek_group_coordinator_max_bytes
    assert held(world) == counted_anew(world)


def test_a_member_may_shrink_at_the_bound_and_not_grow() -> None:
    world = World(odradek_group_max_bytes=100_000)
    first = Joined(world, 60_000)
    world.advance(3_000)
    member_id = first.answers[0].member_id
    assert Joined(world, 99_000, member_id=member_id).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    again = Joined(world, 20_000, member_id=member_id)
    assert again.error is ErrorCode.NONE
    assert held(world) < 30_000
    assert held(world) == counted_anew(world)


def test_pending_ids_are_counted_and_given_back() -> None:
    world = World(odradek_group_max_bytes=10_000)
    errors = [Joined(world, 10, version=4).error for _ in range(50)]
    assert errors[0] is ErrorCode.MEMBER_ID_REQUIRED
    assert errors[-1] is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert 0 < held(world) == counted_anew(world) <= 10_000
    world.advance(10_000)
    assert held(world) == 0


def test_all_that_leaves_is_counted_no_more() -> None:
    world = World()
    one, other = Joined(world, 50_000), Joined(world, 70_000, instance="i")
    world.advance(6_000)
    ids = [joined.answers[0].member_id for joined in (one, other)]
    generation = one.answers[0].generation_id
    synced: list[Any] = []
    for member_id, instance in zip(ids, (None, "i"), strict=True):
        request = SyncGroupRequest(
            group_id="g",
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            assignments=[SyncGroupRequestAssignment(member_id=m, assignment=bytes(5_000)) for m in ids]
            if member_id == one.answers[0].leader
            else [],
        )
        world.coordinator.sync_group(request, synced.append)
    assert [response.error_code for response in synced] == [0, 0]
    assert held(world) > 50_000 + 70_000 + 2 * 5_000
    assert held(world) == counted_anew(world)
    before = held(world)
    back = Joined(world, 70_000, instance="i")  # restarted: another id, the same place
    assert back.error is ErrorCode.NONE
    assert abs(held(world) - before) < 100
    assert held(world) == counted_anew(world)
    world.coordinator.leave_group("g", [MemberIdentity(member_id=ids[0])], lambda _: None)
    assert held(world) < 80_000
    world.restart(graceful=True)
    assert held(world) == counted_anew(world)
    world.coordinator.leave_group("g", [MemberIdentity(member_id="", group_instance_id="i")], lambda _: None)
    world.advance(100_000)
    assert held(world) == 0


def test_unloading_gives_all_back() -> None:
    world = World()
    Joined(world, 50_000)
    Joined(world, 50_000, version=4, group="h")
    assert held(world) > 50_000
    world.coordinator.runtime.unload_all()
    assert held(world) == 0
    world.advance(10**7)
    assert held(world) == 0


@pytest.mark.parametrize("version", [0, 3, 4, 9])
def test_a_connection_that_dies_while_it_joins_leaves_nothing(version: int) -> None:
    world = World()
    member_id = ""
    if version >= 4:
        pending = Joined(world, 50_000, version=version)
        member_id = pending.answers[0].member_id
    joined = Joined(world, 50_000, version=version, member_id=member_id)
    assert joined.error is None
    joined.give_up()
    assert held(world) == 0
    world.advance(100_000)
    assert held(world) == 0
    # The next one does not wait for it.
    after = Joined(world, 50_000)
    world.advance(3_000)
    assert after.error is ErrorCode.NONE
    assert after.answers[0].members and len(after.answers[0].members) == 1


def test_others_do_not_wait_for_a_new_member_that_has_gone() -> None:
    world = World()
    first = Joined(world, 100)
    world.advance(3_000)
    member_id = first.answers[0].member_id
    newcomer = Joined(world, 100)
    assert newcomer.error is None
    newcomer.give_up()
    again = Joined(world, 100, member_id=member_id)
    assert again.error is ErrorCode.NONE
    assert [member.member_id for member in again.answers[0].members] == [member_id]


def test_a_member_of_long_standing_stays_when_its_connection_breaks() -> None:
    """It comes back with its id; else its session expires."""
    world = World()
    first, second = Joined(world, 100), Joined(world, 100)
    world.advance(6_000)
    ids = [one.answers[0].member_id for one in (first, second)]
    again = Joined(world, 100, member_id=ids[0])
    before = held(world)
    again.give_up()
    assert held(world) == before
    both = Joined(world, 100, member_id=ids[1])
    assert both.error is ErrorCode.NONE
