"""A transactional producer in raw frames, and what read_committed readers see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from odradek.broker.app import Broker
from odradek.broker.requests.action import Action
from odradek.errors.codes import ErrorCode
from odradek.records.batch import iter_records
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from waiting import until_async

from .live import Client, batch, connect, create_topic, fetch, produce, running

READ_UNCOMMITTED, READ_COMMITTED = 0, 1

SMALL = {"transaction_state_log_num_partitions": 1}


class Transactional:
    """One transactional producer.

    Attributes:
        producer_id, epoch: as the coordinator gave them.
        ongoing: id and epoch of the transaction that was kept, both -1 if there was none.
        sequences: the next sequence of each partition.
    """

    def __init__(self, client: Client, transactional_id: str) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.producer_id, self.epoch = -1, -1
        self.ongoing = -1, -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def init(
        self,
        timeout_ms: int = 60_000,
        *,
        resume: bool = False,
        two_phase: bool = False,
        keep: bool = False,
        version: int = 4,
    ) -> ErrorCode:
        """InitProducerId, again as long as an earlier transaction is being ended."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        if resume:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        request.enable2_pc, request.keep_prepared_txn = two_phase, keep
        answer = await again_while_concurrent(self.client, request, version)
        if not answer.error_code:
            self.ongoing = answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return ErrorCode(answer.error_code)

    async def add(self, topic: str, *indexes: int, version: int = 3) -> ErrorCode:
        """AddPartitionsToTxn; one error for all partitions."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(indexes or (0,)))],
        )

        async def ask() -> ErrorCode:
            answer = await self.client.call(request, version)
            (result,) = answer.results_by_topic_v3_and_below
            (error,) = {one.partition_error_code for one in result.results_by_partition}
            return ErrorCode(error)

        return await until_async(
            ask,
            f"the end of {self.transactional_id}'s transaction before",
            holds=lambda error: error != ErrorCode.CONCURRENT_TRANSACTIONS,
            every_s=0,
        )

    async def send(self, topic: str, values: Sequence[bytes], index: int = 0, version: int = 9) -> ErrorCode:
        """Produce one batch in the transaction."""
        sequence = self.sequences.get((topic, index), 0)
        records = batch(
            values,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        request = produce(topic, records, index=index)
        request.transactional_id = self.transactional_id
        answer = (await self.client.call(request, version)).responses[0].partition_responses[0]
        if not answer.error_code:
            self.sequences[topic, index] = sequence + len(values)
        return ErrorCode(answer.error_code)

    async def end(self, *, commit: bool, version: int = 3) -> ErrorCode:
        """EndTxn, once."""
        answer = await self.client.call(
            EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=commit,
            ),
            version,
        )
        if version >= 5 and not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return ErrorCode(answer.error_code)

    async def write(
        self, topic: str, values: Sequence[bytes], *, commit: bool | None, index: int = 0
    ) -> None:
        """A whole transaction; left open with `commit=None`."""
        assert await self.add(topic, index) == ErrorCode.NONE
        assert await self.send(topic, values, index) == ErrorCode.NONE
        if commit is not None:
            assert await self.end(commit=commit) == ErrorCode.NONE


class Arena:
    """A broker and the connections that a test has opened to it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._clients: list[Client] = []

    async def client(self) -> Client:
        """A connection; closed at the end."""
        self._clients.append(await connect(self.broker))
        return self._clients[-1]

    async def producer(self, transactional_id: str, **kwargs: Any) -> Transactional:
        """A producer that has found its coordinator and initialised."""
        producer = Transactional(await self.client(), transactional_id)
        await find_coordinator(producer.client, transactional_id)
        assert await producer.init(**kwargs) == ErrorCode.NONE
        return producer

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            client.close()


@asynccontextmanager
async def arena(data: Path, **kwargs: Any) -> AsyncIterator[Arena]:
    """A broker with a small topic of transactions, see `live.running`."""
    async with running(data, **{"transaction_state_log_num_partitions": 3, **kwargs}) as broker:
        opened = Arena(broker)
        try:
            yield opened
        finally:
            opened.close()


@asynccontextmanager
async def serving(
    data: Path, *, group: str | None = None, **config: Any
) -> AsyncIterator[tuple[Broker, Transactional]]:
    """A broker with topic `t` of two partitions, and a producer with the transactional id `id`.

    With a `group` that has a coordinator as well.
    """
    async with running(data, **SMALL, **config) as broker:
        if broker.image.topic("t") is None:
            await create_topic(broker, "t", 2)
        producer = Transactional(await connect(broker), "id")
        if group is not None:
            await producer.client.call(FindCoordinatorRequest(key=group), 0)
        await find_coordinator(producer.client, "id")
        assert await producer.init() == ErrorCode.NONE
        try:
            yield broker, producer
        finally:
            producer.client.close()


class DenyingName:
    """Refuses one resource by name, whatever is to be done to it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def authorize(self, context: object, action: Action) -> bool:
        return action.resource.name != self.name

    def authorize_by_type(self, *asked: object) -> bool:
        return False

    def grants_of(self, *asked: object) -> None:
        return None


async def again_while_concurrent(client: Client, request: Any, version: int) -> Any:
    """The answer to a request that has to wait for the end of an earlier transaction."""
    return await until_async(
        lambda: client.call(request, version),
        "the end of the transaction before",
        holds=lambda answer: answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS,
        every_s=0,
    )


async def find_coordinator(client: Client, transactional_id: str, version: int = 4) -> Any:
    """FindCoordinator until there is one, as clients do."""
    request = FindCoordinatorRequest(key_type=1)
    if version >= 4:
        request.coordinator_keys = [transactional_id]
    else:
        request.key = transactional_id

    async def ask() -> Any:
        answer = await client.call(request, version)
        return answer.coordinators[0] if version >= 4 else answer

    found = await until_async(
        ask,
        f"the coordinator of {transactional_id}",
        holds=lambda found: found.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE,
        every_s=0,
    )
    assert found.error_code == ErrorCode.NONE
    return found


async def state_of(client: Client, transactional_id: str) -> Any:
    """DescribeTransactions of one id."""
    answer = await client.call(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
    return answer.transaction_states[0]


async def until_state(client: Client, transactional_id: str, state: str) -> Any:
    """Its description once it is in a state."""
    return await until_async(
        lambda: state_of(client, transactional_id),
        f"{transactional_id} in {state}",
        holds=lambda found: found.transaction_state == state,
        every_s=0.001,
    )


async def values(
    client: Client, topic: str, *, isolation_level: int = READ_COMMITTED, index: int = 0
) -> list[bytes | None]:
    """The values that a consumer sees: with read_committed without those of aborted transactions."""
    answer = await client.call(fetch(topic, index=index, isolation_level=isolation_level), 11)
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.NONE
    aborted = sorted(partition.aborted_transactions or (), key=lambda one: one.first_offset)
    return [value for _, value in visible(bytes(partition.records or b""), aborted)]


def visible(records: bytes, aborted: Sequence[Any]) -> list[tuple[int, bytes | None]]:
    """Offsets and values of the records that are not in aborted transactions, as a client filters them."""
    from odradek.records.batch import batch_records, iter_batches
    from odradek.records.control import ControlType, parse_control_type

    waiting = list(aborted)
    dropping: set[int] = set()
    found: list[tuple[int, bytes | None]] = []
    for header, raw in iter_batches(records):
        while waiting and waiting[0].first_offset <= header.last_offset:
            dropping.add(waiting.pop(0).producer_id)
        if header.is_control:
            (record,) = batch_records(header, raw)
            if parse_control_type(record.key) is ControlType.ABORT:
                dropping.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropping):
            found += [(record.offset, record.value) for record in batch_records(header, raw)]
    return found


async def latest(client: Client, topic: str, *, isolation_level: int, index: int = 0) -> int:
    """The end offset that ListOffsets tells."""
    answer = await client.call(
        ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[
                ListOffsetsTopic(
                    name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1)]
                )
            ],
        ),
        6,
    )
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def all_values(records: bytes) -> list[bytes | None]:
    """The values of all records but control records."""
    return [record.value for record in iter_records(records)]
