"""kill -9 in the middle of a group's life: what was acknowledged is there, and the members go on."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

from odradek.errors.codes import ErrorCode
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
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
from waiting import WITHIN_S

from ..group_client import Wire, find, join_request, sync_request
from ..net import run

SEED = 20_240_611
KILLS = 4


class Server:
    """A broker in a process of its own."""

    def __init__(self, data: Path) -> None:
        arguments = ["server", "--data", str(data), "--port", "0"]
        for setting in ("offsets.topic.num.partitions=2", "group.initial.rebalance.delay.ms=0"):
            arguments += ["--set", setting]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "odradek", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self.process.stdout is not None
        word, _, address = self.process.stdout.readline().decode().strip().partition(" ")
        assert word == "ready", word
        self.port = int(address.rpartition(":")[2])

    async def connect(self) -> Wire:
        return Wire(*await asyncio.open_connection("127.0.0.1", self.port))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(WITHIN_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


def commit(member_id: str, generation: int, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id="g",
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )


async def committed(wire: Wire) -> int:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    wanted = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    for _ in range(200):
        (group,) = (await wire.ask(wanted, 8)).groups
        if group.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert group.error_code == 0
            return int(group.topics[0].partitions[0].committed_offset)
        await asyncio.sleep(0.01)
    raise AssertionError("the group was not loaded")


def test_acknowledged_commits_and_generations_survive_kills(tmp_path: Path) -> None:
    chance = random.Random(SEED)

    async def main() -> None:
        server = Server(tmp_path)
        try:
            wire = await server.connect()
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            created = await wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 4)
            assert created.topics[0].error_code == 0
            await find(wire)
            joined = await wire.ask(join_request(), 3)
            member_id, generation = joined.member_id, joined.generation_id
            assert (await wire.ask(sync_request(member_id, generation), 3)).error_code == 0
            acknowledged = sent = 0
            for _ in range(KILLS):
                for _ in range(chance.randrange(5, 60)):
                    sent += 1
                    wire.send(commit(member_id, generation, sent), 8)
                    if chance.random() < 0.7:
                        answer = await wire.receive()
                        assert answer.topics[0].partitions[0].error_code == 0
                        acknowledged = sent - wire.in_flight
                server.kill()
                await wire.close()
                server = Server(tmp_path)
                wire = await server.connect()
                found = await committed(wire)
                assert acknowledged <= found <= sent, f"seed {SEED}"
                beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
                assert (await wire.ask(beat, 4)).error_code == 0
                synced = await wire.ask(sync_request(member_id, generation), 3)
                assert bytes(synced.assignment) == b"everything"
            await wire.close()
        finally:
            server.kill()

    run(main)
