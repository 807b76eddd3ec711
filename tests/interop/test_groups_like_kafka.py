"""The same requests to our coordinator and to Kafka's, step by step: the same answers.

Random lives of groups over the wire. Each client has one connection to either broker; after every step all
answers that have come are compared, member ids by the order of their giving. Left out of the comparison is
only what Kafka itself leaves to the order of a hash map, which member takes over from a leader that goes, and
what follows when a full group turns a member away (docs/coordinators.md: on purpose).
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.group_client import Wire
from interop import kafka_peer
from odradek.errors.codes import ErrorCode
from odradek.testing import Broker
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

pytestmark = pytest.mark.interop

SEED = 7
EPISODES = 12
STEPS = 45
CLIENTS = {"A": None, "B": None, "C": None, "D": "instance-d", "E": "instance-e"}
"""Clients, with the instance ids of the static ones."""
MAX_SIZE = 4
QUIET_S = 0.06
PATIENCE_S = 5.0

KAFKA_SETTINGS = {
    "group.max.size": str(MAX_SIZE),
    "group.coordinator.append.linger.ms": "0",
    "offsets.topic.num.partitions": "3",
    "auto.create.topics.enable": "true",
}

TURNED_AWAY = ("GROUP_MAX_SIZE_REACHED",)
UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Answers = dict[str, Any]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, kafka_toolchain: None) -> Iterator[int]:
    directory = tmp_path_factory.mktemp("kafka-groups")
    with kafka_peer.RealKafka(kafka_peer.NEWEST, directory, KAFKA_SETTINGS) as running:
        kafka_peer.run_tool(
            kafka_peer.NEWEST,
            "topics",
            *("--bootstrap-server", running.bootstrap_servers),
            *("--create", "--topic", "t", "--partitions", "2"),
        )
        yield running.port


class Side:
    """One of the two brokers, as one episode's clients see it."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.wires: dict[str, Wire] = {}
        self.parked: dict[str, asyncio.Task[Any]] = {}
        self.ids: dict[str, list[str]] = {name: [] for name in CLIENTS}
        self.generation = dict.fromkeys(CLIENTS, -1)
        self.leader = ""

    def id_of(self, who: str, age: int) -> str:
        """The client's latest member id (age 0), or an older one; `nobody` when it has none so old."""
        known = self.ids[who]
        return known[-1 - age] if len(known) > age else "nobody"

    def name_of(self, member_id: str) -> str:
        for who, known in self.ids.items():
            if member_id in known:
                return f"{who}#{known.index(member_id)}"
        # Given to somebody who waits and has not heard of it, or not an id at all.
        return UUID.sub("?", member_id)

    def ask(self, who: str, message: Any, version: int) -> None:
        self.parked[who] = asyncio.create_task(self.wires[who].ask(message, version))

    def note(self, who: str, response: Any) -> None:
        """Learn what a client learns from its JoinGroup."""
        if type(response).__name__ != "JoinGroupResponse":
            return
        if UUID.search(response.member_id) and response.member_id not in self.ids[who]:
            self.ids[who].append(response.member_id)
        if not response.error_code:
            self.generation[who] = response.generation_id
            self.leader = self.name_of(response.leader)


def seen(side: Side, response: Any) -> Any:
    """An answer without what may differ."""
    kind = type(response).__name__
    if kind == "JoinGroupResponse":
        return (
            kind,
            ErrorCode(response.error_code).name,
            response.generation_id,
            response.protocol_type,
            response.protocol_name,
            response.skip_assignment,
            side.name_of(response.member_id),
            sorted(
                (side.name_of(m.member_id), m.group_instance_id, bytes(m.metadata)) for m in response.members
            ),
        )
    if kind == "SyncGroupResponse":
        return (
            kind,
            ErrorCode(response.error_code).name,
            response.protocol_type,
            response.protocol_name,
            bytes(response.assignment),
        )
    if kind == "DescribeGroupsResponse":
        return [
            (
                g.group_state,
                ErrorCode(g.error_code).name,
                g.protocol_type,
                g.protocol_data,
                sorted(
                    (
                        side.name_of(m.member_id),
                        m.group_instance_id,
                        m.client_id,
                        m.client_host,
                        bytes(m.member_metadata),
                        bytes(m.member_assignment),
                    )
                    for m in g.members
                ),
            )
            for g in response.groups
        ]
    if kind == "ListGroupsResponse":
        return [
            (g.protocol_type, g.group_state, g.group_type.lower())
            for g in response.groups
            if g.group_id == side.group
        ]
    if kind == "LeaveGroupResponse":
        members = [(side.name_of(m.member_id), m.group_instance_id, m.error_code) for m in response.members]
        return (kind, ErrorCode(response.error_code).name, members)
    if kind == "DeleteGroupsResponse":
        return [ErrorCode(result.error_code).name for result in response.results]
    if kind == "OffsetFetchResponse":
        return [
            (
                g.error_code,
                [[(p.partition_index, p.committed_offset) for p in t.partitions] for t in g.topics],
            )
            for g in response.groups
        ]
    if kind == "OffsetCommitResponse":
        return [[ErrorCode(p.error_code).name for p in t.partitions] for t in response.topics]
    return (kind, ErrorCode(response.error_code).name)


async def answers_so_far(side: Side) -> Answers:
    """The answers that have come, which are then no longer waited for."""
    done = {who: task for who, task in side.parked.items() if task.done()}
    for who, task in done.items():
        side.note(who, task.result())
        del side.parked[who]
    return {who: seen(side, task.result()) for who, task in done.items()}


async def compare(ours: Side, theirs: Side, what: str) -> bool:
    """Wait until both are quiet and have answered the same clients, and compare the answers.

    Returns:
        Whether the two may still be compared after this.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_S
    our_answers: Answers = {}
    their_answers: Answers = {}
    while True:
        await asyncio.sleep(QUIET_S)
        more_ours, more_theirs = await answers_so_far(ours), await answers_so_far(theirs)
        our_answers |= more_ours
        their_answers |= more_theirs
        for who in our_answers.keys() & their_answers.keys():
            if TURNED_AWAY in (our_answers[who][1:2], their_answers[who][1:2]):
                assert our_answers[who] == their_answers[who], what
                return False
        quiet = not more_ours and not more_theirs
        if quiet and (our_answers.keys() == their_answers.keys() or loop.time() > deadline):
            break
    assert our_answers == their_answers, what
    return ours.leader == theirs.leader


class Episode:
    """A random life of one group on both sides."""

    def __init__(self, seed: int, ours: Side, theirs: Side) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.sides = (ours, theirs)
        self.story: list[str] = []
        self.comparable = True

    def free(self) -> list[str]:
        return [who for who in CLIENTS if all(who not in side.parked for side in self.sides)]

    def join(
        self, who: str, *, fresh: bool, age: int = 0, protocols: str = "range", version: int = 9
    ) -> None:
        self.story.append(f"join {who} fresh={fresh} age={age} {protocols} v{version}")
        for side in self.sides:
            instance = CLIENTS[who] if version >= 5 else None
            request = JoinGroupRequest(
                group_id=side.group,
                session_timeout_ms=600_000,
                rebalance_timeout_ms=600_000,
                member_id="" if fresh else side.id_of(who, age),
                group_instance_id=instance,
                protocol_type="connect" if protocols == "connect" else "consumer",
                protocols=[
                    JoinGroupRequestProtocol(name=name, metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")
                    for name in protocols.split("+")
                ],
            )
            side.ask(who, request, version)

    def sync(self, who: str, *, age: int = 0, shift: int = 0, version: int = 5) -> None:
        self.story.append(f"sync {who} age={age} shift={shift} v{version}")
        for side in self.sides:
            member_id = side.id_of(who, age)
            request = SyncGroupRequest(
                group_id=side.group,
                generation_id=side.generation[who] + shift,
                member_id=member_id,
                group_instance_id=CLIENTS[who] if version >= 3 else None,
            )
            if version >= 5:
                request.protocol_type, request.protocol_name = "consumer", "range"
            if side.leader == side.name_of(member_id):
                request.assignments = [
                    SyncGroupRequestAssignment(member_id=known[-1], assignment=f"for {name}".encode())
                    for name, known in side.ids.items()
                    if known
                ]
            side.ask(who, request, version)

    def heartbeat(self, who: str, *, age: int, shift: int) -> None:
        self.story.append(f"heartbeat {who} age={age} shift={shift}")
        for side in self.sides:
            request = HeartbeatRequest(
                group_id=side.group,
                generation_id=side.generation[who] + shift,
                member_id=side.id_of(who, age),
                group_instance_id=CLIENTS[who],
            )
            side.ask(who, request, 4)

    def leave(self, who: str, *, age: int, by_instance: bool) -> None:
        self.story.append(f"leave {who} age={age} by_instance={by_instance}")
        for side in self.sides:
            identity = MemberIdentity(
                member_id="" if by_instance else side.id_of(who, age), group_instance_id=CLIENTS[who]
            )
            members = [identity, MemberIdentity(member_id="nobody")]
            side.ask(who, LeaveGroupRequest(group_id=side.group, members=members), 5)

    def commit(self, who: str, *, as_member: bool, shift: int, version: int) -> None:
        self.story.append(f"commit {who} as_member={as_member} shift={shift} v{version}")
        offset = self.chance.randrange(100)
        for side in self.sides:
            partitions = [
                OffsetCommitRequestPartition(partition_index=p, committed_offset=offset) for p in (0, 1, 2)
            ]
            request = OffsetCommitRequest(
                group_id=side.group,
                generation_id_or_member_epoch=side.generation[who] + shift if as_member else -1,
                member_id=side.id_of(who, 0) if as_member else "",
                topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)],
            )
            side.ask(who, request, version)

    def look(self, who: str) -> None:
        what = self.chance.choice(["describe", "list", "fetch", "fetch all", "delete"])
        self.story.append(f"{what} by {who}")
        for side in self.sides:
            if what == "describe":
                side.ask(who, DescribeGroupsRequest(groups=[side.group]), 5)
            elif what == "list":
                side.ask(who, ListGroupsRequest(), 5)
            elif what == "delete":
                side.ask(who, DeleteGroupsRequest(groups_names=[side.group]), 2)
            else:
                topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
                group = OffsetFetchRequestGroup(
                    group_id=side.group, topics=None if what == "fetch all" else topics
                )
                side.ask(who, OffsetFetchRequest(groups=[group], require_stable=True), 8)

    async def settle(self) -> None:
        """Compare what has come of the last request: nothing may depend on which of two comes first."""
        if self.comparable:
            what = f"seed {self.seed}: " + "; ".join(self.story)
            self.comparable = await compare(*self.sides, what)

    async def step(self) -> None:
        chance = self.chance
        free = self.free()
        if not free:
            return
        who = chance.choice(free)
        age, shift = (chance.choice([0] * 9 + [1]) for _ in range(2))
        roll = chance.random()
        if roll < 0.15:
            version = chance.choice([3, 5, 9])
            self.join(
                who, fresh=True, version=version, protocols=chance.choice(["range", "range+roundrobin"])
            )
        elif roll < 0.30:
            self.join(who, fresh=False, age=age, protocols=chance.choice(["range"] * 3 + ["range+sticky"]))
        elif roll < 0.33:
            self.join(who, fresh=chance.random() < 0.5, protocols=chance.choice(["sticky", "connect"]))
        elif roll < 0.48:
            for one in free:
                if self.sides[0].ids[one] and one in self.free():
                    self.join(one, fresh=False)
                    await self.settle()
        elif roll < 0.63:
            for one in chance.sample(free, len(free)):
                if self.sides[0].ids[one] and one in self.free():
                    self.sync(one)
                    await self.settle()
        elif roll < 0.68:
            self.sync(who, age=age, shift=-shift, version=chance.choice([2, 3, 5]))
        elif roll < 0.76:
            self.heartbeat(who, age=age, shift=shift)
        elif roll < 0.82:
            self.leave(who, age=age, by_instance=CLIENTS[who] is not None and chance.random() < 0.3)
        elif roll < 0.91:
            self.commit(
                who, as_member=chance.random() < 0.6, shift=shift, version=chance.choice([2, 5, 8, 9])
            )
        else:
            self.look(who)
        await self.settle()


@asynccontextmanager
async def connected(group: str, port: int) -> AsyncIterator[Side]:
    side = Side(group)
    for who in CLIENTS:
        side.wires[who] = Wire(*await asyncio.open_connection("127.0.0.1", port))
    try:
        for _ in range(200):
            found = await side.wires["A"].ask(FindCoordinatorRequest(key=group), 2)
            described = await side.wires["A"].ask(DescribeGroupsRequest(groups=[group]), 5)
            if not found.error_code and not described.groups[0].error_code:
                break
            await asyncio.sleep(0.05)
        yield side
    finally:
        for task in side.parked.values():
            task.cancel()
        await asyncio.gather(*side.parked.values(), return_exceptions=True)
        for wire in side.wires.values():
            await wire.close()


async def live(seed: int, our_port: int, their_port: int) -> int:
    """One episode; returns how many steps it had."""
    group = f"group-{seed}"
    async with connected(group, our_port) as ours, connected(group, their_port) as theirs:
        episode = Episode(seed, ours, theirs)
        for step in range(STEPS):
            await episode.step()
            if not episode.comparable:
                return step
        return STEPS


def test_the_same_answers_as_kafka(kafka: int, tmp_path: Path) -> None:
    with Broker(data=tmp_path, group_max_size=MAX_SIZE, offsets_topic_num_partitions=3) as broker:
        broker.create_topic("t", 2)
        steps = [asyncio.run(live(SEED * 1000 + n, broker.port, kafka)) for n in range(EPISODES)]
    assert sum(steps) > EPISODES * 10
