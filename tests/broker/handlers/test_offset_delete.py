"""OffsetDelete over the wire, against a coordinator with groups of each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from odradek.broker.requests.authorization import Operation
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.leave_group import LeaveGroupRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest

from ..admin_world import Denying
from ..group_client import Setup, Wire, become_member, find, join_alone, join_request, running, sync_request
from ..net import run

SUBSCRIBED_TO_T = b"\x00\x00" + b"\x00\x00\x00\x01\x00\x01t" + b"\xff\xff\xff\xff"


@asynccontextmanager
async def coordinated(data: Path, *topics: str) -> AsyncIterator[tuple[Setup, Wire]]:
    """A broker with topics of two partitions, and a connection to it that has found the coordinator."""
    async with running(data) as setup:
        wire = await setup.connect()
        for topic in topics:
            await setup.create_topic(topic, 2)
        await find(wire)
        yield setup, wire


async def commit(wire: Wire, *topics: str, **fields: Any) -> None:
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=p, committed_offset=5) for p in (0, 1)
                ],
            )
            for topic in topics
        ],
        **fields,
    )
    answer = await wire.ask(request, 7)
    assert {p.error_code for topic in answer.topics for p in topic.partitions} == {0}


async def delete(wire: Wire, *topics: tuple[str, list[int]], group: str = "g") -> dict[Any, int] | int:
    """The errors by topic and partition, or the error of the group."""
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in partitions],
            )
            for topic, partitions in topics
        ],
    )
    answer = await wire.ask(request, 0)
    if answer.error_code:
        assert answer.topics == []
        return int(answer.error_code)
    return {
        (topic.name, one.partition_index): one.error_code
        for topic in answer.topics
        for one in topic.partitions
    }


async def committed(wire: Wire) -> set[tuple[str, int]]:
    answer = await wire.ask(OffsetFetchRequest(group_id="g", topics=None), 7)
    return {(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions}


def test_offsets_of_an_empty_group(tmp_path: Path) -> None:
    async def main() -> None:
        async with coordinated(tmp_path, "t", "u") as (setup, wire):
            await commit(wire, "t", "u")
            errors = await delete(wire, ("t", [1, 9]), ("missing", [0]), ("u", [0, 1]), ("t", []))
            assert errors == {
                ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("t", 1): 0,
                ("u", 0): 0,
                ("u", 1): 0,
            }
            assert await committed(wire) == {("t", 0)}
            # What was not there is deleted as well.
            assert await delete(wire, ("t", [1])) == {("t", 1): 0}
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            assert await committed(wire) == {("t", 0)}

    run(main)


def test_topics_that_members_subscribe_to(tmp_path: Path) -> None:
    async def main() -> None:
        async with coordinated(tmp_path, "t", "u") as (setup, wire):
            request = join_request()
            request.protocols[0].metadata = SUBSCRIBED_TO_T
            joined = await join_alone(setup, wire, request)
            # Neither before the assignment nor after it.
            for _ in range(2):
                errors = await delete(wire, ("t", [0]), ("u", [0]))
                assert errors == {("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("u", 0): 0}
                await wire.ask(sync_request(joined.member_id, joined.generation_id), 2)
            member = {"member_id": joined.member_id, "generation_id_or_member_epoch": joined.generation_id}
            await commit(wire, "t", "u", **member)
            await delete(wire, ("t", [0]), ("u", [0]))
            assert await committed(wire) == {("t", 0), ("t", 1), ("u", 1)}
            await wire.ask(LeaveGroupRequest(group_id="g", member_id=joined.member_id), 2)
            assert await delete(wire, ("t", [0])) == {("t", 0): 0}

    run(main)


def test_a_subscription_that_cannot_be_read_may_be_of_anything(tmp_path: Path) -> None:
    async def main() -> None:
        async with coordinated(tmp_path, "t") as (setup, wire):
            await become_member(setup, wire)
            assert await delete(wire, ("t", [0])) == {("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}

    run(main)


def test_groups_that_have_no_offsets_to_delete(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            await setup.create_topic("t", 2)
            assert await delete(wire, ("t", [0])) == ErrorCode.NOT_COORDINATOR
            await find(wire)
            assert await delete(wire, ("t", [0])) == ErrorCode.GROUP_ID_NOT_FOUND
            assert await delete(wire, ("t", [0]), group="") == ErrorCode.INVALID_GROUP_ID
            request = join_request()
            request.protocol_type = "connect"
            await join_alone(setup, wire, request)
            assert await delete(wire, ("t", [0])) == ErrorCode.NON_EMPTY_GROUP

    run(main)


def test_who_may_delete_offsets(tmp_path: Path) -> None:
    async def main() -> None:
        async with coordinated(tmp_path, "t") as (setup, wire):
            await commit(wire, "t")
            setup.broker.authorizer = Denying((Operation.READ, "t"))
            assert await delete(wire, ("t", [0])) == {("t", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED}
            setup.broker.authorizer = Denying((Operation.DELETE, "g"))
            assert await delete(wire, ("t", [0])) == ErrorCode.GROUP_AUTHORIZATION_FAILED

    run(main)
