"""The runtime: loading, unloading, batches, answers that wait for the log."""

from __future__ import annotations

import pytest

from odradek.coordinators.groups.env import Caller
from odradek.coordinators.groups.records import group_record, offset_record
from odradek.coordinators.runtime import ShardState
from odradek.errors import ErrorCode, NotLeaderOrFollowerError
from odradek.records.batch import iter_batches
from odradek.records.builder import build_batch
from odradek.records.control import ControlType, end_marker_batch
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)

from .harness import World
from .memory_log import MemoryRecordLog


def commit(world: World, offset: int, *, group: str = "g", partitions: int = 1) -> list[int]:
    """The error codes that have come back so far; grows when an answer comes later."""
    codes: list[int] = []

    def deliver(response: OffsetCommitResponse) -> None:
        codes.extend(p.error_code for t in response.topics for p in t.partitions)

    topic = OffsetCommitRequestTopic(
        name="t",
        partitions=[
            OffsetCommitRequestPartition(partition_index=p, committed_offset=offset)
            for p in range(partitions)
        ],
    )
    world.coordinator.commit_offsets(8, OffsetCommitRequest(group_id=group, topics=[topic]), deliver)
    return codes


def fetch(
    world: World, group: str = "g", partition: int = 0, *, stable: bool = False
) -> list[tuple[int, int]]:
    """(error, offset) of one partition; (error of the group, -2) when the group was refused."""
    found: list[tuple[int, int]] = []

    def deliver(response: OffsetFetchResponseGroup) -> None:
        if response.error_code:
            found.append((response.error_code, -2))
        found.extend((p.error_code, p.committed_offset) for t in response.topics for p in t.partitions)

    world.coordinator.fetch_offsets(
        OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[partition])]
        ),
        deliver,
        require_stable=stable,
    )
    return found


def heartbeat(world: World, group: str = "g") -> list[int]:
    codes: list[int] = []

    def deliver(response: HeartbeatResponse) -> None:
        codes.append(response.error_code)

    world.coordinator.heartbeat(HeartbeatRequest(group_id=group, generation_id=1, member_id="m"), deliver)
    return codes


def join(world: World) -> list[JoinGroupResponse]:
    answers: list[JoinGroupResponse] = []
    world.coordinator.join_group(
        Caller("c", "127.0.0.1", 3),
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        answers.append,
    )
    return answers


def test_nobody_coordinates_while_the_topic_does_not_exist() -> None:
    world = World(partitions=0)
    assert commit(world, 1) == [ErrorCode.NOT_COORDINATOR]
    assert fetch(world) == [(ErrorCode.NOT_COORDINATOR, -2)]
    assert heartbeat(world) == [ErrorCode.NOT_COORDINATOR]
    assert join(world)[0].error_code == ErrorCode.NOT_COORDINATOR
    assert world.coordinator.describe_group(6, "g").error_code == ErrorCode.NOT_COORDINATOR
    results: list[int] = []
    world.coordinator.delete_groups(["g"], lambda rs: results.extend(r.error_code for r in rs))
    assert results == [ErrorCode.NOT_COORDINATOR]


def test_only_led_partitions_are_coordinated() -> None:
    world = World(partitions=2)
    here = "g" if world.coordinator.partition_of("g") == 0 else "h"
    assert commit(world, 1, group=here) == [0]
    world.coordinator.runtime.unload(world.coordinator.partition_of(here))
    assert commit(world, 1, group=here) == [ErrorCode.NOT_COORDINATOR]
    assert fetch(world, here) == [(ErrorCode.NOT_COORDINATOR, -2)]


def loading_world() -> World:
    world = World()
    for offset in range(5):
        commit(world, offset)
    # Nobody lets the loop run: the second chunk has not been replayed yet.
    world.coordinator.runtime.unload_all()
    world.coordinator = world.start()
    return world


def test_requests_while_loading() -> None:
    world = loading_world()
    assert world.coordinator.runtime.state(0) is ShardState.LOADING
    assert commit(world, 9) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert fetch(world) == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -2)]
    # A member is not bothered with it: its session only starts once loading is done.
    assert heartbeat(world) == [ErrorCode.NONE]
    assert world.coordinator.list_groups() == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    world.timers.advance(0)
    assert world.coordinator.runtime.state(0) is ShardState.ACTIVE
    assert fetch(world) == [(0, 4)]


def test_unloading_while_loading_stops_the_load() -> None:
    world = loading_world()
    world.coordinator.runtime.unload(0)
    world.timers.advance(0)
    assert world.coordinator.runtime.state(0) is None
    assert world.timers.pending == 0


def test_older_leader_epochs_change_nothing() -> None:
    world = World()
    runtime = world.coordinator.runtime
    runtime.load(0, 5)
    assert commit(world, 3) == [0]
    shard = runtime.shard(0)
    runtime.load(0, 4)
    runtime.load(0, 5)
    runtime.unload(0, 4)
    assert runtime.shard(0) is shard
    runtime.unload(0, 6)
    assert runtime.state(0) is None


@pytest.mark.parametrize("damage", ["crc", "key", "value"])
def test_a_partition_that_cannot_be_read_is_not_served(damage: str) -> None:
    log = MemoryRecordLog()
    good = offset_record("g", "t", 0, None).encode()
    if damage == "crc":
        batch = bytearray(build_batch([(1, *good, ())]))
        batch[-1] ^= 1
    elif damage == "key":
        batch = bytearray(build_batch([(1, b"\x00\x01\x00\x09", None, ())]))
    else:
        batch = bytearray(build_batch([(1, good[0], b"\x00\x63whatever", ())]))
    log.batches[0] = [bytes(batch)]
    world = World(log=log)
    assert world.coordinator.runtime.state(0) is ShardState.FAILED
    assert commit(world, 1) == [ErrorCode.NOT_COORDINATOR]
    assert log.batches[0] == [bytes(batch)]
    # A new election tries again.
    log.batches[0] = []
    world.coordinator.runtime.load(0, 1)
    assert commit(world, 1) == [0]


def test_unknown_record_types_are_left_alone() -> None:
    log = MemoryRecordLog()
    key, value = group_record("g", None).encode()
    log.batches[0] = [
        build_batch([(1, b"\x00\x03" + key[2:], b"\x00\x00\x00\x00\x00\x05", ())]),
        build_batch([(1, *offset_record("g", "t", 0, None).encode(), ())], base_offset=1),
    ]
    world = World(log=log)
    world.timers.advance(0)
    shard = world.coordinator.runtime.shard(0)
    assert shard.unknown_key_types == {3}
    assert value is None and shard.groups == {}


def test_pending_transactions_survive_a_load() -> None:
    world = World()
    commit(world, 1)
    (key, value), log = _offset(5), world.log
    pending = build_batch(
        [(1, key, value, ())],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
        base_offset=1,
    )
    log.batches[0].append(pending)
    log.next_offset[0] = 2
    world.restart()
    assert fetch(world) == [(0, 1)]
    assert fetch(world, stable=True) == [(ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)]
    log.batches[0].append(
        end_marker_batch(
            ControlType.COMMIT,
            producer_id=7,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=2,
            base_offset=2,
        )
    )
    log.next_offset[0] = 3
    world.restart()
    assert fetch(world, stable=True) == [(0, 5)]


def _offset(offset: int) -> tuple[bytes, bytes | None]:
    from odradek.coordinators.groups.offset_store import OffsetEntry

    return offset_record("g", "t", 0, OffsetEntry(offset, -1, "", 1)).encode()


def test_one_command_is_one_batch_or_nothing() -> None:
    world = World(log=MemoryRecordLog(max_batch_bytes=1_000))
    assert commit(world, 1, partitions=5) == [0] * 5
    assert len(world.log.batches[0]) == 1
    assert commit(world, 2, partitions=100) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 100
    assert len(world.log.batches[0]) == 1
    assert fetch(world) == [(0, 1)]


def test_expired_offsets_may_be_removed_in_several_batches() -> None:
    world = World(
        log=MemoryRecordLog(max_batch_bytes=1_000),
        offsets_retention_minutes=1,
        offsets_retention_check_interval_ms=100_000,
    )
    for number in range(50):
        assert commit(world, 1, group=f"group-{number}") == [0]
    before = len(world.log.batches[0])
    world.advance(100_000)
    batches = world.log.batches[0][before:]
    assert len(batches) > 1 and all(len(batch) <= 1_000 for batch in batches)
    assert sum(header.record_count for header, _ in iter_batches(b"".join(batches))) == 100
    shard = world.coordinator.runtime.shard(0)
    assert not shard.groups and not shard.offsets.snapshot()
    world.restart()
    assert not world.coordinator.runtime.shard(0).groups


def test_answers_keep_their_order_behind_commits() -> None:
    world = World()
    world.log.hold_commits = True
    order: list[str] = []
    first = commit(world, 1)
    second = commit(world, 2)
    assert first == [] and second == []
    # The second is committed out of turn: its answer waits for the first.
    held = world.log.held
    held.reverse()
    late = held.pop()
    world.log.commit_held()
    assert first == [] and second == []
    late()
    assert first == [0] and second == [0]
    assert order == []


def test_losing_a_partition_answers_everybody() -> None:
    world = World()
    waiting_join = join(world)
    world.log.hold_commits = True
    waiting_commit = commit(world, 1, group="other")
    waiting_fetch = fetch(world, "other")
    world.coordinator.runtime.unload(0)
    assert waiting_commit == [ErrorCode.NOT_COORDINATOR]
    assert waiting_fetch == [(ErrorCode.NOT_COORDINATOR, -2)]
    assert [answer.error_code for answer in waiting_join] == [ErrorCode.NOT_COORDINATOR]
    world.log.commit_held()
    assert world.timers.pending == 0
    assert waiting_commit == [ErrorCode.NOT_COORDINATOR]


def test_a_failed_append_leaves_no_trace_of_a_new_group() -> None:
    world = World()
    world.log.failure = NotLeaderOrFollowerError()
    assert commit(world, 1) == [ErrorCode.NOT_COORDINATOR]
    assert world.coordinator.list_groups() == (0, [])
    assert world.coordinator.describe_group(5, "g").group_state == "Dead"
    assert world.coordinator.describe_group(6, "g").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_fault_of_our_own_is_an_error_to_one_client_only(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    def broken(shard: object) -> None:
        raise RuntimeError("a bug")

    from odradek.coordinators.reply import Reply

    codes: list[int] = []
    world.coordinator.runtime.run(
        0,
        "Broken",
        broken,
        Reply(codes.append, lambda error: error),  # type: ignore[arg-type]
    )
    assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert "Broken" in caplog.text
    assert commit(world, 1) == [0]


def test_ten_thousand_groups_are_cheap() -> None:
    world = World(partitions=1, group_initial_rebalance_delay_ms=0)
    answers: list[JoinGroupResponse] = []
    for number in range(10_000):
        world.coordinator.join_group(
            Caller("c", "127.0.0.1", 3),
            JoinGroupRequest(
                group_id=f"group-{number}",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
            ),
            answers.append,
        )
    world.advance(0)
    assert len(answers) == 10_000
    codes: list[int] = []
    for answer, number in zip(answers, range(10_000), strict=True):
        world.coordinator.heartbeat(
            HeartbeatRequest(group_id=f"group-{number}", generation_id=1, member_id=answer.member_id),
            lambda response: codes.append(response.error_code),
        )
    assert codes == [0] * 10_000
    # A session and a sync timer per group, however many heartbeats.
    assert world.timers.pending <= 20_001
