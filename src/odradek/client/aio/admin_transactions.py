"""Transactions and producers as the administrator sees them (KIP-664, KIP-618)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from odradek.client.aio.admin_base import AdminBase, check, failure, listed, raise_first
from odradek.client.aio.offsets import by_leader
from odradek.client.arguments import names_of, partitions_of, topic_partition
from odradek.client.types import (
    AbortTransactionSpec,
    Node,
    ProducerIdAndEpoch,
    ProducerState,
    TopicPartition,
    TopicPartitionLike,
    TransactionDescription,
    TransactionListing,
)
from odradek.errors import ErrorCode, KafkaError, error_for
from odradek.wire.api import ApiKey

T = TypeVar("T")

_TRANSACTION = 1
"""The kind of coordinator, in FindCoordinator."""


_FENCED_AT_ONCE = 100
"""How many ids are fenced at the same time."""


class TransactionAdmin(AdminBase):
    """The calls about transactions."""

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> dict[int, list[TransactionListing]]:
        """The transactional ids of all brokers.

        Args:
            states: only those in one of these states; nothing: in any.
            producer_ids: only those of these producers; nothing: of any.
            longer_than_ms: only transactions that have been going on for longer; negative: all.
            pattern: only ids that match, a regular expression in the syntax of the broker's language.

        Returns: broker id → ids that it coordinates, sorted.

        Raises:
            UnsupportedVersionError: a broker does not know one of the filters, and would leave it out.
        """
        from odradek.wire.messages.list_transactions import ListTransactionsRequest

        request = ListTransactionsRequest(
            state_filters=names_of(states, "states"),
            producer_id_filters=list(producer_ids),
            duration_filter=max(-1, longer_than_ms),
            transactional_id_pattern=pattern,
        )
        lowest = 2 if pattern is not None else 1 if longer_than_ms >= 0 else None
        cluster = self._started()
        limit_ms = self._config.default_api_timeout_ms
        if not cluster.metadata.brokers and not await cluster.wait_update(limit_ms):
            raise cluster.timeout_error("no broker answered", limit_ms)

        async def ask(node: int) -> list[TransactionListing]:
            subject = f"transactions of broker {node}"

            async def step() -> Any:
                connection = await cluster.connection(node)
                version = connection.pick(ApiKey.LIST_TRANSACTIONS, at_least=lowest)
                response = await connection.send(request, version)
                check(response.error_code, subject)
                return response

            response = await self._retry(subject, step)
            return sorted(
                TransactionListing(t.transactional_id, t.producer_id, t.transaction_state)
                for t in response.transaction_states
            )

        nodes = sorted(cluster.metadata.brokers)
        return dict(zip(nodes, await asyncio.gather(*map(ask, nodes)), strict=True))

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """Describe transactional ids.

        Args:
            transactional_ids: those; each coordinator is asked once about all of its ids (KIP-664).

        Raises:
            KafkaError: `TransactionalIdNotFoundError` and the like.
        """
        from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest

        async def ask(
            node: Node, connection: Any, part: list[str]
        ) -> dict[str, TransactionDescription | KafkaError]:
            version = connection.pick(ApiKey.DESCRIBE_TRANSACTIONS)
            response = await connection.send(DescribeTransactionsRequest(transactional_ids=part), version)
            return {
                state.transactional_id: _refusal(state.transactional_id, state.error_code)
                if state.error_code
                else _description(node, state)
                for state in response.transaction_states
            }

        return await self._by_coordinator("describe", transactional_ids, ask)

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, ProducerIdAndEpoch]:
        """Take transactional ids away from whoever has them; open transactions are aborted (KIP-618).

        Args:
            transactional_ids: those; ids that nobody has used come into being.
            timeout_ms: how long the coordinator may take to write it down; None: `request_timeout_ms`.

        Returns: id → producer id and epoch that it has now.
        """
        from odradek.wire.messages.init_producer_id import InitProducerIdRequest

        async def ask_one(connection: Any, name: str) -> ProducerIdAndEpoch | KafkaError:
            request = InitProducerIdRequest(
                transactional_id=name,
                transaction_timeout_ms=self._config.request_timeout_ms if timeout_ms is None else timeout_ms,
            )
            version = connection.pick(ApiKey.INIT_PRODUCER_ID)
            try:
                # Versions before 3 have no fields for what is left at its default here.
                response = await connection.send(request, version)
            except KafkaError as problem:
                return problem
            if response.error_code:
                return _refusal(name, response.error_code)
            return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

        async def ask(
            _: Node, connection: Any, part: list[str]
        ) -> dict[str, ProducerIdAndEpoch | KafkaError]:
            answers = await asyncio.gather(*(ask_one(connection, name) for name in part))
            return dict(zip(part, answers, strict=True))

        names = list(dict.fromkeys(names_of(transactional_ids, "transactional_ids")))
        fenced: dict[str, ProducerIdAndEpoch] = {}
        problems: dict[str, KafkaError] = {}
        # A request has one id, and waits for the end of its transaction: each slice has a call's whole time.
        for begin in range(0, len(names), _FENCED_AT_ONCE):
            part = names[begin : begin + _FENCED_AT_ONCE]
            try:
                fenced |= await self._by_coordinator("fence", part, ask)
            except KafkaError as problem:
                problems |= getattr(problem, "errors", {}) or dict.fromkeys(part, problem)
        raise_first(problems)
        return fenced

    async def force_terminate_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of an id, prepared or not, and fence its producer (KIP-939)."""
        await self.fence_producers([transactional_id])

    async def describe_producers(
        self, partitions: Iterable[TopicPartitionLike], *, broker_id: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """The producers that partitions remember.

        Args:
            partitions: (topic, partition) pairs.
            broker_id: the replica to ask; None: the leader, wherever it moves.

        Raises:
            UnknownTopicOrPartitionError: there is no such partition.
            NotLeaderOrFollowerError: the broker has no replica of it.
        """
        tps = dict.fromkeys(partitions_of(partitions))
        await self._must_exist(tps)
        states = await self._leaders("producers", tps, self._producers_of, broker_id)
        return {tp: states[tp] for tp in tps}

    async def _producers_of(
        self, node: int, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, list[ProducerState] | KafkaError]:
        from odradek.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest

        topics: dict[str, list[int]] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
        )
        connection = await self._connection_to(node)
        response = await connection.send(request, connection.pick(ApiKey.DESCRIBE_PRODUCERS))
        answers: dict[TopicPartition, list[ProducerState] | KafkaError] = {}
        for topic in response.topics:
            for p in topic.partitions:
                tp = TopicPartition(topic.name, p.partition_index)
                if p.error_code:
                    answers[tp] = failure(tp, p.error_code, p.error_message)
                else:
                    answers[tp] = [_producer(state) for state in p.active_producers]
        return answers

    async def abort_transaction(self, spec: AbortTransactionSpec) -> None:
        """Write an abort marker into one partition, past the coordinator: for transactions that hang.

        Args:
            spec: the partition and the producer, as `describe_producers` shows them (KIP-664).

        Raises:
            KafkaError: `InvalidProducerEpochError`, `TransactionCoordinatorFencedError` and the like.
        """
        from odradek.wire.messages.write_txn_markers import (
            WritableTxnMarker,
            WritableTxnMarkerTopic,
            WriteTxnMarkersRequest,
        )

        tp = topic_partition(spec.partition)
        await self._must_exist([tp])
        marker = WritableTxnMarker(
            producer_id=spec.producer_id,
            producer_epoch=spec.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
            coordinator_epoch=spec.coordinator_epoch,
        )
        cluster = self._started()

        async def step() -> None:
            for node in by_leader(cluster, {tp: None}):
                response = await cluster.request(node, WriteTxnMarkersRequest(markers=[marker]))
                codes = {
                    (result.producer_id, topic.name, p.partition_index): p.error_code
                    for result in response.markers
                    for topic in result.topics
                    for p in topic.partitions
                }
                if codes.keys() != {(spec.producer_id, *tp)}:
                    raise error_for(ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer was about {sorted(codes)}")
                for code in codes.values():
                    check(code, f"{spec}")

        await self._retry("abort transaction", step)

    async def _must_exist(self, partitions: Iterable[TopicPartition]) -> None:
        await self._started().check_partitions(partitions, self._config.default_api_timeout_ms)

    async def _by_coordinator(
        self,
        action: str,
        transactional_ids: Iterable[str],
        ask: Callable[[Node, Any, list[str]], Awaitable[Mapping[str, T | KafkaError]]],
    ) -> dict[str, T]:
        """Ask the coordinators, see `_coordinators`; in the order of the ids."""
        names = dict.fromkeys(names_of(transactional_ids, "transactional_ids"))
        action = f"{action} transactional ids {listed(names)}"
        answers = await self._coordinators(action, names, ask, _TRANSACTION)
        return {name: answers[name] for name in names}


def _refusal(name: str, code: int) -> KafkaError:
    return failure(f"transactional id {name!r}", code)


def _description(node: Node, transaction: Any) -> TransactionDescription:
    started = transaction.transaction_start_time_ms
    return TransactionDescription(
        coordinator_id=node.id,
        transactional_id=transaction.transactional_id,
        state=transaction.transaction_state,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        timeout_ms=transaction.transaction_timeout_ms,
        start_time_ms=None if started < 0 else started,
        partitions=tuple(
            sorted(TopicPartition(t.topic, p) for t in transaction.topics for p in t.partitions)
        ),
    )


def _producer(state: Any) -> ProducerState:
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        None if state.coordinator_epoch < 0 else state.coordinator_epoch,
        None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
    )
