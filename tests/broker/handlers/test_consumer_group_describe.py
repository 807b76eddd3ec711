"""ConsumerGroupDescribe at each version, where every group is a classic one."""

from __future__ import annotations

from pathlib import Path

from odradek.broker.requests.authorization import Operation
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest

from ..admin_world import Denying
from ..group_client import become_member, find, running
from ..net import run


def test_groups_of_other_kinds(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            request = ConsumerGroupDescribeRequest(group_ids=["g", "missing", "", "secret"])
            for version in range(2):
                answer = await wire.ask(request, version)
                assert answer.groups[0].error_code == ErrorCode.NOT_COORDINATOR
            await find(wire)
            await become_member(setup, wire)
            setup.broker.authorizer = Denying((Operation.DESCRIBE, "secret"))
            for version in range(2):
                answer = await wire.ask(request, version)
                assert [(one.group_id, one.error_code, one.error_message) for one in answer.groups] == [
                    ("g", ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a consumer group."),
                    ("missing", ErrorCode.GROUP_ID_NOT_FOUND, "Group missing not found."),
                    ("", ErrorCode.INVALID_GROUP_ID, None),
                    ("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED, None),
                ]
                assert all(one.members == [] for one in answer.groups)

    run(main)
