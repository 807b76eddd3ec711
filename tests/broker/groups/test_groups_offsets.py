"""OffsetCommit and OffsetFetch over the wire, in every version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from odradek.errors.codes import ErrorCode
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

from .. import live
from ..group_client import Wire, become_member, find, running
from ..net import run

UNKNOWN_ID = bytes(range(16))


def commit(version: int, offset: int, *, topic: str = "t", topic_id: bytes = b"", **fields: Any) -> Any:
    """A commit of partitions 0 and 7 of a topic."""
    wanted = OffsetCommitRequestTopic(
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=f"note {offset}"
            )
            for index in (0, 7)
        ]
    )
    if version >= 10:
        wanted.topic_id = topic_id
    else:
        wanted.name = topic
    return OffsetCommitRequest(group_id=fields.pop("group", "g"), topics=[wanted], **fields)


async def fetch(
    wire: Wire, version: int, *, group: str = "g", topic_id: bytes = b"", everything: bool = False
) -> list[Any]:
    """The partitions that come back for t: 0 and 1, or for everything."""
    if version < 8:
        topics = None if everything else [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
        response = await wire.ask(OffsetFetchRequest(group_id=group, topics=topics), version)
        assert response.error_code == 0
        answered = response.topics
    else:
        wanted = OffsetFetchRequestTopics(partition_indexes=[0, 1])
        if version >= 10:
            wanted.topic_id = topic_id
        else:
            wanted.name = "t"
        groups = [
            OffsetFetchRequestGroup(group_id=group, topics=None if everything else [wanted]),
            OffsetFetchRequestGroup(group_id="nobody's", topics=None),
        ]
        response = await wire.ask(OffsetFetchRequest(groups=groups), version)
        assert [g.group_id for g in response.groups] == [group, "nobody's"]
        assert response.groups[0].error_code == 0 and response.groups[1].topics == []
        answered = response.groups[0].topics
    assert len(answered) <= 1
    if answered and version >= 10:
        assert answered[0].topic_id == topic_id
    elif answered:
        assert answered[0].name == "t"
    return answered[0].partitions if answered else []


def test_every_version_stores_and_finds(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            topic_id = await setup.create_topic("t", 2)
            await find(wire)
            for version in range(1, 11):
                response = await wire.ask(commit(version, 100 + version, topic_id=topic_id), version)
                (topic,) = response.topics
                errors = {p.partition_index: p.error_code for p in topic.partitions}
                assert errors == {0: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
                first, second = await fetch(wire, version, topic_id=topic_id)
                assert (first.committed_offset, first.metadata, first.error_code) == (
                    100 + version,
                    f"note {100 + version}",
                    0,
                )
                assert (second.committed_offset, second.metadata, second.error_code) == (-1, "", 0)
                if version >= 2:
                    (only,) = await fetch(wire, version, topic_id=topic_id, everything=True)
                    assert only.committed_offset == 100 + version

    run(main)


def test_offsets_outlive_a_restart_and_die_with_their_topic(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            clock = setup.clock
            wire = await setup.connect()
            await setup.create_topic("t", 2)
            await find(wire)
            response = await wire.ask(commit(8, 42), 8)
            assert {p.partition_index: p.error_code for p in response.topics[0].partitions}[0] == 0
        async with running(tmp_path, clock) as setup:
            wire = await setup.connect()
            assert [p.committed_offset for p in await fetch(wire, 5)] == [42, -1]
            await live.delete_topics(setup.broker, ["t"])
            assert [p.committed_offset for p in await fetch(wire, 5)] == [-1, -1]
            await setup.create_topic("t", 2)
            assert [p.committed_offset for p in await fetch(wire, 5)] == [-1, -1]
        async with running(tmp_path, clock) as setup:
            wire = await setup.connect()
            assert [p.committed_offset for p in await fetch(wire, 5)] == [-1, -1]

    run(main)


def test_version_0_keeps_offsets_in_the_store(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            clock = setup.clock
            wire = await setup.connect()
            await setup.create_topic("t", 2)
            nothing = await fetch(wire, 0)
            assert [(p.committed_offset, p.error_code) for p in nothing] == [(-1, 3), (-1, 3)]
            for offset in (5, 6):
                response = await wire.ask(commit(0, offset), 0)
                errors = {p.partition_index: p.error_code for p in response.topics[0].partitions}
                assert errors == {0: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            data, _ = setup.broker.store.get("/consumers/g/offsets/t/0")
            assert data == b"6"
            # The coordinator knows nothing of them, and was never needed.
            assert setup.broker.image.topic("__consumer_offsets") is None
            for group in ("", "a/b", ".."):
                response = await wire.ask(commit(0, 1, group=group), 0)
                errors = {p.partition_index: p.error_code for p in response.topics[0].partitions}
                assert errors[0] == ErrorCode.INVALID_GROUP_ID
                for partition in await fetch(wire, 0, group=group):
                    assert partition.error_code == ErrorCode.INVALID_GROUP_ID
            setup.broker.store.set("/consumers/g/offsets/t/0", b"not a number")
            assert (await fetch(wire, 0))[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            setup.broker.store.set("/consumers/g/offsets/t/0", b"7")
        async with running(tmp_path, clock) as setup:
            wire = await setup.connect()
            assert [p.committed_offset for p in await fetch(wire, 0)] == [7, -1]

    run(main)


def test_unknown_topics(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            await find(wire)
            named = await wire.ask(commit(8, 1, topic="nowhere"), 8)
            assert {p.error_code for p in named.topics[0].partitions} == {3}
            by_id = await wire.ask(commit(10, 1, topic_id=UNKNOWN_ID), 10)
            assert by_id.topics[0].topic_id == UNKNOWN_ID
            assert {p.error_code for p in by_id.topics[0].partitions} == {ErrorCode.UNKNOWN_TOPIC_ID}
            found = await fetch(wire, 10, topic_id=UNKNOWN_ID)
            assert {p.error_code for p in found} == {ErrorCode.UNKNOWN_TOPIC_ID}
            # Nothing was stored, so there is no group.
            assert (await wire.ask(ListGroupsRequest(), 5)).groups == []

    run(main)


def test_without_a_coordinator_errors_are_where_the_version_has_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            await setup.create_topic("t", 2)
            committed = await wire.ask(commit(5, 1), 5)
            errors = {p.partition_index: p.error_code for p in committed.topics[0].partitions}
            assert errors == {0: ErrorCode.NOT_COORDINATOR, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
            old = await wire.ask(OffsetFetchRequest(group_id="g", topics=topics), 1)
            assert [p.error_code for p in old.topics[0].partitions] == [ErrorCode.NOT_COORDINATOR] * 2
            for version in range(2, 8):
                newer = await wire.ask(OffsetFetchRequest(group_id="g", topics=topics), version)
                assert (newer.error_code, newer.topics) == (ErrorCode.NOT_COORDINATOR, [])
            for version in range(8, 11):
                groups = [OffsetFetchRequestGroup(group_id="g", topics=None)]
                several = await wire.ask(OffsetFetchRequest(groups=groups), version)
                assert [g.error_code for g in several.groups] == [ErrorCode.NOT_COORDINATOR]
            none = await wire.ask(OffsetFetchRequest(groups=[]), 8)
            assert none.groups == []

    run(main)


def test_commits_of_members(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as setup:
            wire = await setup.connect()
            await setup.create_topic("t", 8)
            await find(wire)
            member_id, generation = await become_member(setup, wire)
            for version in range(1, 10):
                mine = commit(version, version, member_id=member_id, generation_id_or_member_epoch=generation)
                assert {p.error_code for p in (await wire.ask(mine, version)).topics[0].partitions} == {0}
                late = commit(
                    version, version, member_id=member_id, generation_id_or_member_epoch=generation + 1
                )
                assert {p.error_code for p in (await wire.ask(late, version)).topics[0].partitions} == {
                    ErrorCode.ILLEGAL_GENERATION
                }
            outside = await wire.ask(commit(8, 1), 8)
            assert {p.error_code for p in outside.topics[0].partitions} == {ErrorCode.UNKNOWN_MEMBER_ID}
            long = commit(8, 1, member_id=member_id, generation_id_or_member_epoch=generation)
            long.topics[0].partitions[0].committed_metadata = "x" * 4097
            errors = [p.error_code for p in (await wire.ask(long, 8)).topics[0].partitions]
            assert errors == [ErrorCode.OFFSET_METADATA_TOO_LARGE, 0]

    run(main)
