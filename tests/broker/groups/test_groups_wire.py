"""Groups over the wire: every version of every group API, against a whole broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek.errors.codes import ErrorCode
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.list_groups import ListGroupsRequest

from ..group_client import (
    _until_parked,
    become_member,
    find,
    join_request,
    running,
    sync_request,
)
from ..net import run, settle


def test_find_coordinator_makes_the_offsets_topic(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            assert setup.broker.image.topic("__consumer_offsets") is None
            for version in range(7):
                request = FindCoordinatorRequest()
                if version < 4:
                    request.key = "some group"
                else:
                    request.coordinator_keys = ["some group", "another", ""]
                response = await wire.ask(request, version)
                answers = [response] if version < 4 else response.coordinators
                assert len(answers) == (1 if version < 4 else 3)
                for answer in answers:
                    assert (answer.error_code, answer.node_id) == (0, setup.broker.broker_id)
                    assert answer.port == setup.broker.port
            topic = setup.broker.image.topic("__consumer_offsets")
            assert topic is not None and len(topic.partitions) == 3
            configs = setup.broker.image.topic_config("__consumer_offsets")
            assert configs["cleanup.policy"] == "compact"
            assert configs["segment.bytes"] == "104857600"
            assert configs["compression.type"] == "producer"

    run(main)


def test_what_has_no_coordinator(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            for version, kind, error in (
                (5, 2, ErrorCode.INVALID_REQUEST),
                (6, 2, ErrorCode.INVALID_REQUEST),
                (6, 9, ErrorCode.INVALID_REQUEST),
            ):
                response = await wire.ask(
                    FindCoordinatorRequest(key_type=kind, coordinator_keys=["t"]), version
                )
                assert [c.error_code for c in response.coordinators] == [error]
            assert setup.broker.image.topic("__transaction_state") is None

    run(main)


@pytest.mark.parametrize("version", range(10))
def test_a_member_s_life_in_every_version(tmp_path: Path, version: int) -> None:
    sync_version, heartbeat_version, leave_version = min(version, 5), min(version, 4), min(version, 5)

    async def main() -> None:
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            await find(wire)
            member_id = ""
            if version >= 4:
                refused = await wire.ask(join_request(), version)
                assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
                assert refused.generation_id == -1 and refused.member_id.startswith("tester-")
                member_id = refused.member_id
            wire.send(join_request(member_id), version)
            await _until_parked(setup, "g")
            setup.advance(0)
            joined = await wire.receive()
            assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
            assert joined.leader == joined.member_id
            assert joined.protocol_type == ("consumer" if version >= 7 else None)
            assert [bytes(member.metadata) for member in joined.members] == [b"\x00\x00metadata"]
            member_id = joined.member_id

            named = {"protocol_type": "consumer", "protocol_name": "range"} if sync_version == 5 else {}
            synced = await wire.ask(sync_request(member_id, 1, **named), sync_version)
            assert (synced.error_code, bytes(synced.assignment)) == (0, b"everything")
            beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
            assert (await wire.ask(beat, heartbeat_version)).error_code == 0

            if leave_version < 3:
                left = await wire.ask(LeaveGroupRequest(group_id="g", member_id=member_id), leave_version)
                assert left.error_code == 0
                again = await wire.ask(LeaveGroupRequest(group_id="g", member_id=member_id), leave_version)
                assert again.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            else:
                leaving = [MemberIdentity(member_id=member_id), MemberIdentity(member_id="nobody")]
                left = await wire.ask(LeaveGroupRequest(group_id="g", members=leaving), leave_version)
                assert left.error_code == 0
                assert [member.error_code for member in left.members] == [0, 25]

    run(main)


def test_errors_have_a_form_in_every_version(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            # Before the topic exists, nobody coordinates.
            for version in range(10):
                response = await wire.ask(join_request(), version)
                assert response.error_code == ErrorCode.NOT_COORDINATOR
            await find(wire)
            for version in range(10):
                response = await wire.ask(join_request("unknown"), version)
                assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            for version in range(6):
                named = {"protocol_type": "consumer", "protocol_name": "range"} if version == 5 else {}
                response = await wire.ask(sync_request("unknown", 1, **named), version)
                assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
                leave = LeaveGroupRequest(group_id="g")
                if version < 3:
                    leave.member_id = "unknown"
                else:
                    leave.members = [MemberIdentity(member_id="unknown")]
                left = await wire.ask(leave, version)
                errors = [left.error_code] if version < 3 else [m.error_code for m in left.members]
                assert errors == [ErrorCode.UNKNOWN_MEMBER_ID]
            # From version 5 on the protocol must be named.
            response = await wire.ask(sync_request("unknown", 1), 5)
            assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            for version in range(5):
                beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="unknown")
                assert (await wire.ask(beat, version)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(main)


def test_describe_list_and_delete_in_every_version(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            await find(wire)
            member_id, _ = await become_member(setup, wire)
            for version in range(7):
                request = DescribeGroupsRequest(groups=["g", "absent"])
                if version >= 3:
                    request.include_authorized_operations = True
                response = await wire.ask(request, version)
                here, absent = response.groups
                assert (here.error_code, here.group_state, here.protocol_type, here.protocol_data) == (
                    0,
                    "Stable",
                    "consumer",
                    "range",
                )
                (member,) = here.members
                assert (member.member_id, member.client_id, member.client_host) == (
                    member_id,
                    "tester",
                    "/127.0.0.1",
                )
                assert bytes(member.member_assignment) == b"everything"
                assert absent.group_state == "Dead"
                assert absent.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
                if version >= 3:
                    # READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
                    assert here.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
            for version in range(6):
                listed = await wire.ask(ListGroupsRequest(), version)
                assert [(g.group_id, g.protocol_type) for g in listed.groups] == [("g", "consumer")]
                if version >= 4:
                    assert listed.groups[0].group_state == "Stable"
                    none = await wire.ask(ListGroupsRequest(states_filter=["Empty"]), version)
                    assert none.groups == []
                    some = await wire.ask(ListGroupsRequest(states_filter=["stable", "Dead"]), version)
                    assert len(some.groups) == 1
                if version >= 5:
                    assert listed.groups[0].group_type == "classic"
                    none = await wire.ask(ListGroupsRequest(types_filter=["consumer"]), version)
                    assert none.groups == []
                    some = await wire.ask(ListGroupsRequest(types_filter=["Classic"]), version)
                    assert len(some.groups) == 1
            for version in range(4):
                refused = await wire.ask(DeleteGroupsRequest(groups_names=["g", "absent"]), version)
                assert [(r.group_id, r.error_code) for r in refused.results] == [
                    ("g", ErrorCode.NON_EMPTY_GROUP),
                    ("absent", ErrorCode.GROUP_ID_NOT_FOUND),
                ]
            left = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
            await wire.ask(left, 3)
            deleted = await wire.ask(DeleteGroupsRequest(groups_names=["g", "g"]), 2)
            assert [(r.group_id, r.error_code) for r in deleted.results] == [("g", 0)]
            assert (await wire.ask(ListGroupsRequest(), 5)).groups == []

    run(main)


def test_members_keep_their_generation_over_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            await find(wire)
            member_id, generation = await become_member(setup, wire)
            clock = setup.clock
            waiting = await setup.connect()
            waiting.send(join_request(group="other"), 3)
            await _until_parked(setup, "other")
            await setup.broker.stop()
            # Who waits is sent to look for the coordinator, not left alone.
            assert (await waiting.receive()).error_code == ErrorCode.NOT_COORDINATOR

        async with running(tmp_path, clock) as setup:
            wire = await setup.connect()
            beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
            assert (await wire.ask(beat, 4)).error_code == 0
            synced = await wire.ask(sync_request(member_id, generation), 4)
            assert bytes(synced.assignment) == b"everything"
            # Its session goes on from the restart.
            setup.advance(9_999)
            assert (await wire.ask(beat, 4)).error_code == 0
            setup.advance(10_000)
            assert (await wire.ask(beat, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            described = await wire.ask(DescribeGroupsRequest(groups=["g"]), 6)
            assert described.groups[0].group_state == "Empty"

    run(main)


def test_a_peer_that_goes_while_it_waits_hurts_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            await find(wire)
            gone = await setup.connect()
            gone.send(join_request(), 3)
            await _until_parked(setup, "g")
            await gone.close()
            beat: Any = HeartbeatRequest(group_id="g", generation_id=0, member_id="x")
            assert (await wire.ask(beat, 0)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            # It had not been told that it is a member: nothing is left of it.
            coordinator = setup.broker.groups.coordinator
            await settle(lambda: coordinator.held.bytes == 0)
            described = await wire.ask(DescribeGroupsRequest(groups=["g"]), 5)
            assert described.groups[0].group_state in ("Empty", "Dead")
            assert described.groups[0].members == []

    run(main)
