"""The same transactional requests to our broker and to Kafka, one after the other: the same answers.

Two producers and a group, on two partitions: ids are initialised again, partitions and offsets added or not,
batches sent in and out of order and transaction, by current and former owners. One producer speaks the
protocol of before KIP-890, the other that of after. Compared is every answer, and after each step what
readers of either isolation level see, which producers the partitions know, and what the coordinator says.
Producer ids are compared by the order of their giving; how far an epoch is raised is the coordinator's own
affair.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.live import batch, fetch, produce
from broker.transactional import visible
from interop import kafka_peer
from interop.two_sides import KAFKA_SETTINGS, Side, connected, one_error
from odradek.errors.codes import ErrorCode
from odradek.testing import Broker
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
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
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

pytestmark = pytest.mark.interop

SEED = 3
EPISODES = 4
STEPS = 60
NAMES = ("x", "y")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, kafka_toolchain: None) -> Iterator[int]:
    directory = tmp_path_factory.mktemp("kafka-transactions")
    with kafka_peer.RealKafka(kafka_peer.NEWEST, directory, KAFKA_SETTINGS) as running:
        yield running.port


class Episode:
    """The same on both sides."""

    def __init__(self, seed: int, sides: tuple[Side, Side]) -> None:
        self.chance = random.Random(seed)
        self.sides = sides
        self.story = [f"seed {seed}"]
        self.next_sequence: dict[Any, int] = {}
        self.committed = 0

    async def both(self, what: str, ask: Any) -> Any:
        """Ask both; what they say, which has to be the same."""
        self.story.append(what)
        ours, theirs = [await ask(side) for side in self.sides]
        assert ours == theirs, "; ".join(self.story[-40:])
        self.story[-1] += f" -> {ours}"
        return ours

    async def init(self, name: str) -> None:
        async def ask(side: Side) -> Any:
            return ErrorCode((await side.init(name)).error_code).name

        await self.both(f"init {name}", ask)

    async def add(self, name: str, partitions: list[int], age: int) -> None:
        await self.both(
            f"add {name} {partitions} age {age}",
            lambda side: side.add(name, partitions, side.fields(name, age)),
        )

    async def send(self, name: str, index: int, age: int, version: int, shift: int, how: str) -> None:
        key = self.sides[0].owners[name].at(age), index
        sequence = max(0, self.next_sequence.get(key, 0) + shift)

        async def ask(side: Side) -> Any:
            producer_id, epoch = side.owners[name].at(age)
            records = batch(
                [b"v"],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=True,
            )
            request = produce(side.topic, records, index=index)
            if how != "nameless":
                request.transactional_id = side.transactional_id(name)

            def errors(answer: Any) -> list[int]:
                return [answer.responses[0].partition_responses[0].error_code]

            answer = await side.ask(request, version, errors)
            found = answer.responses[0].partition_responses[0]
            return ErrorCode(found.error_code).name, found.base_offset

        error, _ = await self.both(
            f"send {name} to {index} age {age} v{version} sequence {sequence} {how}", ask
        )
        if error == "NONE" and shift == 0:
            self.next_sequence[key] = sequence + 1

    async def add_offsets(self, name: str, age: int) -> None:
        async def ask(side: Side) -> Any:
            request = AddOffsetsToTxnRequest(group_id=side.group, **side.fields(name, age))
            return ErrorCode((await side.ask(request, 3, one_error)).error_code).name

        await self.both(f"add offsets {name} age {age}", ask)

    async def commit_in_transaction(self, name: str, age: int, version: int, member: bool) -> None:
        offset = self.chance.randrange(1_000)

        async def ask(side: Side) -> Any:
            request = TxnOffsetCommitRequest(
                group_id=side.group,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        name=side.topic,
                        partitions=[
                            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                            for index in (0, 9)
                        ],
                    )
                ],
                **side.fields(name, age),
            )
            if member:
                request.generation_id_or_member_epoch, request.member_id = 3, "m"

            def errors(answer: Any) -> list[int]:
                return [one.error_code for one in answer.topics[0].partitions if one.partition_index == 0]

            answer = await side.ask(request, version, errors)
            return sorted((one.partition_index, one.error_code) for one in answer.topics[0].partitions)

        await self.both(f"commit {offset} in {name} age {age} v{version} member {member}", ask)

    async def commit(self) -> None:
        offset = self.chance.randrange(1_000)

        async def ask(side: Side) -> Any:
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
            topic = OffsetCommitRequestTopic(name=side.topic, partitions=[partition])
            request = OffsetCommitRequest(group_id=side.group, topics=[topic])
            return (await side.wire.ask(request, 8)).topics[0].partitions[0].error_code

        await self.both(f"commit {offset}", ask)

    async def end(self, name: str, age: int, version: int, commits: bool) -> None:
        async def ask(side: Side) -> Any:
            return ErrorCode((await side.end(name, commits, side.fields(name, age), version)).error_code).name

        if await self.both(f"end {name} age {age} v{version} {commits}", ask) == "NONE":
            self.committed += commits

    # What is there now

    async def look(self) -> None:
        async def ask(side: Side) -> Any:
            return (
                [await self._state(side, name) for name in NAMES],
                [await self._readers(side, index) for index in (0, 1)],
                [await self._producers(side, index) for index in (0, 1)],
                [await self._offset(side, stable) for stable in (False, True)],
            )

        await self.both("look", ask)
        self.story[-1] = "look"

    async def _state(self, side: Side, name: str) -> Any:
        found, topics = await side.described(name)
        return found.error_code, found.transaction_state, topics

    async def _readers(self, side: Side, index: int) -> Any:
        seen = []
        for level in (0, 1):
            answer = await side.wire.ask(fetch(side.topic, index=index, isolation_level=level), 11)
            (found,) = answer.responses[0].partitions
            aborted = sorted(found.aborted_transactions or (), key=lambda one: one.first_offset)
            listed = await side.wire.ask(
                ListOffsetsRequest(
                    replica_id=-1,
                    isolation_level=level,
                    topics=[
                        ListOffsetsTopic(
                            name=side.topic,
                            partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1)],
                        )
                    ],
                ),
                6,
            )
            seen.append(
                (
                    found.error_code,
                    found.high_watermark,
                    found.last_stable_offset,
                    # Kafka also names some that begin behind what it sends.
                    [
                        (side.name_of(one.producer_id), one.first_offset)
                        for one in aborted
                        if one.first_offset < found.last_stable_offset
                    ],
                    [offset for offset, _ in visible(bytes(found.records or b""), aborted)],
                    listed.topics[0].partitions[0].offset,
                )
            )
        return seen

    async def _producers(self, side: Side, index: int) -> Any:
        request = DescribeProducersRequest(topics=[TopicRequest(name=side.topic, partition_indexes=[index])])
        (found,) = (await side.wire.ask(request, 0)).topics[0].partitions
        return sorted(
            (side.name_of(one.producer_id), one.last_sequence, one.current_txn_start_offset)
            for one in found.active_producers
        )

    async def _offset(self, side: Side, stable: bool) -> Any:
        topics = [OffsetFetchRequestTopics(name=side.topic, partition_indexes=[0])]
        groups = [OffsetFetchRequestGroup(group_id=side.group, topics=topics)]
        answer = await side.wire.ask(OffsetFetchRequest(groups=groups, require_stable=stable), 8)
        (found,) = answer.groups[0].topics[0].partitions
        return answer.groups[0].error_code, found.error_code, found.committed_offset

    async def step(self) -> None:
        chance = self.chance
        name = chance.choice(NAMES)
        new = name == "y"
        if not self.sides[0].owners[name].given:
            await self.init(name)
            return
        age = chance.choice([0] * 9 + [1])
        roll = chance.random()
        if roll < 0.08:
            await self.init(name)
        elif roll < 0.22 and not new:
            await self.add(name, chance.choice([[0], [1], [0, 1]]), age)
        elif roll < 0.55:
            await self.send(
                name,
                chance.choice((0, 1)),
                age,
                12 if new else chance.choice((9, 11)),
                chance.choice([0] * 8 + [-1, 1]),
                chance.choice(["transactional"] * 10 + ["nameless"]),
            )
        elif roll < 0.63 and not new:
            await self.add_offsets(name, age)
        elif roll < 0.76:
            version = 5 if new else chance.choice((0, 2, 3, 4))
            await self.commit_in_transaction(name, age, version, version >= 3 and chance.random() < 0.1)
        elif roll < 0.80:
            await self.commit()
        else:
            await self.end(name, age, 5 if new else 3, chance.random() < 0.6)
        await self.look()


async def live(seed: int, our_port: int, their_port: int) -> int:
    """One episode; how many transactions were committed."""
    topic = f"topic-{seed}"
    async with connected(our_port, topic) as ours, connected(their_port, topic) as theirs:
        episode = Episode(seed, (ours, theirs))
        for _ in range(STEPS):
            await episode.step()
        return episode.committed


def test_the_same_answers_as_kafka(kafka: int, tmp_path: Path) -> None:
    with Broker(
        data=tmp_path, offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1
    ) as broker:
        committed = [asyncio.run(live(SEED * 1_000 + n, broker.port, kafka)) for n in range(EPISODES)]
    assert sum(committed) > EPISODES
