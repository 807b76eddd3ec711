"""Our broker and Kafka beside each other, as seen by transactional producers that ask both the same."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from broker.group_client import Wire
from broker.live import fetch
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest

PATIENCE = 400

KAFKA_SETTINGS = {
    "group.coordinator.append.linger.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}

AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""What passes; asked again before answers are compared."""
AT_REST = {"Empty", "Ongoing", "CompleteCommit", "CompleteAbort"}


class Owner:
    """What a producer of one side has been given: ids and epochs, the newest last."""

    def __init__(self) -> None:
        self.given: list[tuple[int, int]] = []

    def at(self, age: int) -> tuple[int, int]:
        return self.given[-1 - age] if age < len(self.given) else (99_999, 0)

    def take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) not in self.given:
            self.given.append((producer_id, epoch))


class Side:
    """One of the two brokers, as its producers see it; `owners` is what each of them was given."""

    def __init__(self, wire: Wire, topic: str) -> None:
        self.wire = wire
        self.topic = topic
        self.group = f"group of {topic}"
        self.owners: defaultdict[str, Owner] = defaultdict(Owner)

    def transactional_id(self, name: str) -> str:
        return f"{name} of {self.topic}"

    def fields(self, name: str, age: int) -> dict[str, Any]:
        producer_id, epoch = self.owners[name].at(age)
        return {
            "transactional_id": self.transactional_id(name),
            "producer_id": producer_id,
            "producer_epoch": epoch,
        }

    def index_of(self, name: str, producer_id: int) -> int:
        """How many other producer ids a producer was given before this one; -1: it was never given."""
        ids = list(dict.fromkeys(one for one, _ in self.owners[name].given))
        return ids.index(producer_id) if producer_id in ids else -1

    def name_of(self, producer_id: int) -> str:
        for name in self.owners:
            index = self.index_of(name, producer_id)
            if index >= 0:
                return f"{name}{index}"
        return "?"

    async def ask(self, message: Any, version: int, errors: Any) -> Any:
        """The answer that stays."""
        for _ in range(PATIENCE):
            answer = await self.wire.ask(message, version)
            if not AGAIN & set(errors(answer)):
                return answer
            await asyncio.sleep(0.01)
        return answer

    async def init(
        self, name: str, expected: tuple[int, int] = (-1, -1), *, timeout_ms: int = 600_000, version: int = 4
    ) -> Any:
        """InitProducerId; what it gives is taken."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id(name), transaction_timeout_ms=timeout_ms
        )
        request.producer_id, request.producer_epoch = expected
        answer = await self.ask(request, version, one_error)
        if not answer.error_code:
            self.owners[name].take(answer.producer_id, answer.producer_epoch)
        return answer

    async def add(
        self, name: str, partitions: list[int], held: dict[str, Any], version: int = 3
    ) -> list[int]:
        """AddPartitionsToTxn as clients send it: the errors."""
        fields = {f"v3_and_below_{key}": value for key, value in held.items()}
        topics = [AddPartitionsToTxnTopic(name=self.topic, partitions=partitions)]
        request = AddPartitionsToTxnRequest(v3_and_below_topics=topics, **fields)

        def errors(answer: Any) -> list[int]:
            (topic,) = answer.results_by_topic_v3_and_below
            return [one.partition_error_code for one in topic.results_by_partition]

        return sorted(errors(await self.ask(request, version, errors)))

    async def end(self, name: str, commits: bool, held: dict[str, Any], version: int) -> Any:
        """EndTxn; what it gives is taken."""
        answer = await self.ask(EndTxnRequest(committed=commits, **held), version, one_error)
        if version >= 5 and not answer.error_code:
            self.owners[name].take(answer.producer_id, answer.producer_epoch)
        return answer

    async def described(self, name: str) -> Any:
        """DescribeTransactions of what has come to rest: the state, and its partitions by kind of topic."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id(name)])
        for _ in range(PATIENCE):
            (found,) = (await self.wire.ask(request, 0)).transaction_states
            if found.error_code not in AGAIN and (found.error_code or found.transaction_state in AT_REST):
                break
            await asyncio.sleep(0.01)
        topics = sorted(
            ("offsets" if one.topic.startswith("_") else "topic", sorted(one.partitions))
            for one in found.topics
        )
        return found, topics


def one_error(answer: Any) -> list[int]:
    return [answer.error_code]


@asynccontextmanager
async def connected(port: int, topic: str) -> AsyncIterator[Side]:
    """A connection to a broker that has the topic, with two partitions, and whose coordinators are there."""
    wire = Wire(*await asyncio.open_connection("127.0.0.1", port))
    side = Side(wire, topic)
    try:
        made = CreateTopicsRequest(
            topics=[CreatableTopic(name=topic, num_partitions=2, replication_factor=1)], timeout_ms=10_000
        )
        error = (await wire.ask(made, 4)).topics[0].error_code
        assert error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        for key_type, key in ((0, side.group), (1, side.transactional_id("x"))):
            request = FindCoordinatorRequest(key_type=key_type, key=key)
            assert not (await side.ask(request, 2, one_error)).error_code
        for index in (0, 1):
            await side.ask(
                fetch(topic, index=index),
                11,
                lambda answer: [answer.responses[0].partitions[0].error_code],
            )
        yield side
    finally:
        await wire.close()
