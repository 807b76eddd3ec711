"""Random lives of groups: whatever happens, the invariants hold and the log gives the same state again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.coordinators.groups.classic_group import ClassicGroup
from odradek.coordinators.groups.env import Caller
from odradek.coordinators.groups.records import group_value
from odradek.coordinators.groups.states import GroupState
from odradek.errors import KafkaStorageError, NotEnoughReplicasError
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.leave_group import MemberIdentity
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from .harness import World

pytestmark = pytest.mark.model

GROUPS = st.sampled_from(["g", "g", "g", "h"])
PROTOCOLS = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range")])
RARELY = st.sampled_from([True, False, False, False])
INSTANCES = st.sampled_from([None, None, "i1", "i2"])


class Waiting:
    """Every answer comes at most once; who is never answered is found at the end."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.answers: list[Any] = []

    def deliver(self, response: Any) -> None:
        self.answers.append(response)
        assert len(self.answers) == 1, f"{self.what} was answered twice"


class GroupLives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Waiting] = []
        self.known: list[tuple[str, str, str | None, int]] = []
        self.generations: dict[str, int] = {}

    @initialize(delay=st.sampled_from([0, 3_000]), size=st.sampled_from([3, 100]))
    def start(self, delay: int, size: int) -> None:
        self.world = World(
            group_initial_rebalance_delay_ms=delay,
            group_max_size=size,
            offsets_retention_minutes=30,
        )

    def expect(self, what: str) -> Waiting:
        waiting = Waiting(what)
        self.waiting.append(waiting)
        return waiting

    @property
    def shard(self) -> Any:
        return self.world.coordinator.runtime.shard(0)

    # What happens

    def send_join(
        self, group: str, member: str, instance: str | None, version: int, protocols: tuple[str, ...]
    ) -> None:
        waiting = self.expect(f"join of {member or 'somebody new'}")

        def deliver(response: Any) -> None:
            waiting.deliver(response)
            if response.member_id:
                known = (group, response.member_id, instance, max(response.generation_id, 0))
                self.known = [*[k for k in self.known if k[:2] != known[:2]][-20:], known]

        self.world.coordinator.join_group(
            Caller("c", "10.0.0.1", version),
            JoinGroupRequest(
                group_id=group,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=20_000,
                member_id=member,
                group_instance_id=instance,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name=name, metadata=name.encode()) for name in protocols],
            ),
            deliver,
        )

    @rule(group=GROUPS, instance=INSTANCES, version=st.sampled_from([3, 5, 9]), protocols=PROTOCOLS)
    def join_new(self, group: str, instance: str | None, version: int, protocols: tuple[str, ...]) -> None:
        self.send_join(group, "", instance, version, protocols)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), protocols=PROTOCOLS)
    def join_again(self, data: st.DataObject, protocols: tuple[str, ...]) -> None:
        group, member, instance, _ = data.draw(st.sampled_from(self.known))
        self.send_join(group, member, instance, 9, protocols)

    @rule(group=GROUPS, leader_first=st.booleans())
    def everybody_does_what_is_due(self, group: str, leader_first: bool) -> None:
        """The members join again if they have to, and sync if they have to."""
        present = self.shard.groups.get(group)
        if present is None:
            return
        if present.state is GroupState.PREPARING_REBALANCE:
            for member in list(present.members.values()):
                if member.awaiting_join is None:
                    protocols = tuple(name for name, _ in member.protocols)
                    self.send_join(group, member.member_id, member.group_instance_id, 9, protocols)
        if present.state is GroupState.COMPLETING_REBALANCE:
            order = sorted(present.members.values(), key=lambda m: present.is_leader(m.member_id))
            for member in reversed(order) if leader_first else order:
                if member.awaiting_sync is None:
                    self.send_sync(group, member.member_id, member.group_instance_id, present.generation)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), fail=st.sampled_from([False, False, False, True]))
    def sync(self, data: st.DataObject, fail: bool) -> None:
        self.world.log.failure = KafkaStorageError() if fail else None
        self.send_sync(*data.draw(st.sampled_from(self.known)))
        self.world.log.failure = None

    def send_sync(self, group: str, member: str, instance: str | None, generation: int) -> None:
        waiting = self.expect(f"sync of {member}")
        present = self.shard.groups.get(group)
        everybody = [] if present is None else list(present.members)
        self.world.coordinator.sync_group(
            SyncGroupRequest(
                group_id=group,
                generation_id=generation,
                member_id=member,
                group_instance_id=instance,
                assignments=[
                    SyncGroupRequestAssignment(member_id=who, assignment=f"{generation}:{who}".encode())
                    for who in everybody
                ],
            ),
            waiting.deliver,
        )

    @rule(group=GROUPS)
    def everybody_heartbeats(self, group: str) -> None:
        present = self.shard.groups.get(group)
        for member in [] if present is None else list(present.members.values()):
            waiting = self.expect("heartbeat")
            self.world.coordinator.heartbeat(
                HeartbeatRequest(
                    group_id=group, generation_id=present.generation, member_id=member.member_id
                ),
                waiting.deliver,
            )
            assert waiting.answers[0].error_code in (0, 27)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        group, member, instance, generation = data.draw(st.sampled_from(self.known))
        self.world.coordinator.heartbeat(
            HeartbeatRequest(
                group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
            ),
            self.expect("heartbeat").deliver,
        )

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        group, member, instance, _ = data.draw(st.sampled_from(self.known))
        self.world.coordinator.leave_group(
            group,
            [MemberIdentity(member_id=member, group_instance_id=instance)],
            self.expect("leave").deliver,
        )

    @rule(group=GROUPS, partition=st.integers(0, 2), offset=st.integers(0, 99), data=st.data())
    def commit(self, group: str, partition: int, offset: int, data: st.DataObject) -> None:
        member, instance, generation = "", None, -1
        mine = [k for k in self.known if k[0] == group]
        if mine and data.draw(st.booleans()):
            _, member, instance, generation = data.draw(st.sampled_from(mine))
        waiting = self.expect("commit")
        self.world.coordinator.commit_offsets(
            9,
            OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=generation,
                member_id=member,
                group_instance_id=instance,
                topics=[
                    OffsetCommitRequestTopic(
                        name="t",
                        partitions=[
                            OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
                        ],
                    )
                ],
            ),
            waiting.deliver,
        )
        (answer,) = waiting.answers
        if answer.topics[0].partitions[0].error_code == 0:
            entry = self.shard.offsets.get(group, "t", partition)
            assert entry is not None and entry.offset == offset

    @rule(group=GROUPS, fail=st.booleans(), rarely=RARELY)
    def delete(self, group: str, fail: bool, rarely: bool) -> None:
        if not rarely:
            return
        self.world.log.failure = NotEnoughReplicasError() if fail else None
        before = self.shard.offsets.snapshot()
        waiting = self.expect("delete")
        self.world.coordinator.delete_groups([group], waiting.deliver)
        self.world.log.failure = None
        if waiting.answers[0][0].error_code:
            assert self.shard.offsets.snapshot() == before
        else:
            assert group not in self.shard.groups
            # A group of this name that comes later counts anew.
            self.generations.pop(group, None)

    @rule(ms=st.sampled_from([1, 2_999, 3_000, 3_001, 5_000, 9_000, 20_000, 600_000]))
    def time_passes(self, ms: int) -> None:
        self.world.advance(ms)

    @rule(graceful=st.booleans(), rarely=RARELY)
    def restart(self, graceful: bool, rarely: bool) -> None:
        if not rarely:
            return
        before = self.durable()
        self.world.restart(graceful=graceful)
        if not graceful:
            # Their connections are gone, and with them whoever waited.
            self.waiting = []
        assert self.durable() == before
        for group_id, group in self.shard.groups.items():
            self.generations[group_id] = group.generation

    # What holds

    def durable(self) -> tuple[Any, Any]:
        return dict(self.shard.durable), self.shard.offsets.snapshot()

    @invariant()
    def groups_are_sound(self) -> None:
        for group_id, group in self.shard.groups.items():
            check_group(group)
            assert group.group_id == group_id
            assert group.generation >= self.generations.get(group_id, 0)
            self.generations[group_id] = group.generation
            stored = self.shard.durable.get(group_id)
            if stored is not None:
                assert group.generation >= stored.generation
            if group.state is GroupState.STABLE:
                assignments = {m.member_id: m.assignment for m in group.members.values()}
                ours = group_value(group, group.members.values(), assignments)
                ours.current_state_timestamp = stored.current_state_timestamp
                assert ours == stored
        for group_id in list(self.generations):
            if group_id not in self.shard.groups:
                del self.generations[group_id]

    @invariant()
    def the_log_gives_the_same_state(self) -> None:
        again = World(log=self.world.log)
        again.timers.advance(0)
        shard = again.coordinator.runtime.shard(0)
        assert (dict(shard.durable), shard.offsets.snapshot()) == self.durable()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        # Nobody does anything any more: all sessions end, and everybody has been answered.
        for _ in range(20):
            self.world.advance(20_000)
        for _ in range(40):
            self.world.advance(60_000)
        for group in self.shard.groups.values():
            assert group.state is GroupState.EMPTY, group.state
            assert not group.members and not group.pending_members
        unanswered = [waiting.what for waiting in self.waiting if not waiting.answers]
        assert not unanswered
        # Nothing but the clean-up is left ticking.
        assert len(self.shard.env.deadlines) <= 1 + 2 * len(self.shard.groups)


def check_group(group: ClassicGroup) -> None:
    members = group.members
    assert group.leader in members if members else group.leader is None
    assert not group.pending_members & members.keys()
    statics = {m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id is not None}
    assert group.static_members == statics
    assert len(statics) == sum(1 for m in members.values() if m.group_instance_id is not None)
    waiting = [m for m in members.values() if m.awaiting_join is not None]
    assert group.awaiting_join_count == len(waiting)
    assert not waiting or group.state is GroupState.PREPARING_REBALANCE
    syncing = [m for m in members.values() if m.awaiting_sync is not None]
    assert not syncing or group.state is GroupState.COMPLETING_REBALANCE
    support: dict[str, int] = {}
    for member in members.values():
        for name, _ in member.protocols:
            support[name] = support.get(name, 0) + 1
    if group.protocol_type is not None and group.state is not GroupState.EMPTY:
        for name in (*support, "of nobody"):
            wanted = support.get(name, 0) == len(members)
            assert group.supports(group.protocol_type, [(name, b"")]) is wanted
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        assert members and group.protocol is not None and support[group.protocol] == len(members)
        assert group.pending_sync <= members.keys()
    if group.state is GroupState.EMPTY:
        assert not members


TestGroupLives = GroupLives.TestCase
TestGroupLives.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
