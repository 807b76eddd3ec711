"""The requests of exactly-once writes to the brokers' coordinators: decisions, and the ends of transactions.

A decision lies where a consumer group's offsets lie: under the group named like the query, as the committed
offset (the batch) and metadata (the transactions) of partition 0 of `__consumer_offsets`, a topic that every
cluster has and nobody deletes. It is committed in a transaction under the query's own transactional id, and
so by the driver only that initialised that id last.
"""

import logging
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from odradek.client import TransactionalWriter
from odradek.client.blocking import BlockingCluster, BlockingConnection
from odradek.client.config import ProducerConfig, build, python_name
from odradek.client.core.find_coordinator import find_coordinator_request, learn_coordinator
from odradek.client.core.group_offsets import committed_in, offset_fetch_request
from odradek.client.core.transactions.requests import CoordinatorKind, at_most
from odradek.client.core.versions import transactions_v2
from odradek.client.errors import ConnectionFailedError
from odradek.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.errors import ErrorCode, KafkaError, UnstableOffsetCommitError, error_for
from odradek.errors.codes import to_code
from odradek.spark.errors import FencedDriverError
from odradek.spark.kafka_configs import BOOTSTRAP_SERVERS
from odradek.spark.writing.decisions import Chunk, Decision, Transaction, chunk_count, from_chunks, to_chunks
from odradek.wire.api import ApiKey
from odradek.wire.internal_topics import GROUP_METADATA_TOPIC
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.list_transactions import ListTransactionsRequest

logger = logging.getLogger(__name__)

PLACE = TopicPartition(GROUP_METADATA_TOPIC, 0)
"""Of the group's committed offset that is the decision."""

_MARK = TopicPartition(GROUP_METADATA_TOPIC, 1)
"""Of the same group's committed offset that says how far an older coordinator has got; see `_settle`."""

SEPARATOR = ":"
"""Stands between a query's name and what tells its transactional ids and further groups apart."""

_STABLE_FROM = 7
"""The version of OffsetFetch that does not read past a transaction which is being completed (Kafka 2.5)."""
_PATIENCE_S = 2.0
"""How long a decision may be in the making before tasks take the driver that makes it for dead."""
_SETTLED_S = 0.5
"""How long older coordinators are given to take a completed transaction's offsets over, where nothing better
can be done: `__consumer_offsets` has one partition."""

#: Answers to EndTxn that mean: this transaction has ended the other way, or its id was initialised since.
_GONE = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE})
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Coordinators:
    """The coordinators of one cluster, over blocking sockets; for one thread.

    Args:
        configs: Kafka's dotted names, `bootstrap.servers` included; `default.api.timeout.ms` bounds each
            step.
        clock: seconds, rising.

    Raises:
        KafkaError: by every method, when the brokers refuse, or do not answer (`ClientTimeoutError`).
    """

    def __init__(self, configs: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        self._configs = configs
        self._clock = clock
        self._looked: dict[str, float] = {}
        """When the open transactions of each query were asked for last, by `clock`."""
        self._cluster = BlockingCluster(
            build(ProducerConfig, {python_name(name): value for name, value in configs.items()}),
            allow_auto_create=False,
        )
        self._nodes: dict[tuple[CoordinatorKind, str], int] = {}
        """The broker of each coordinator; forgotten when it has moved or cannot be reached."""
        self._owner: TransactionalWriter | None = None
        """Who decides here, by the query's transactional id; None before `take_over` and after any error."""
        self._owned: tuple[str, Decision | None] | None = None
        """The query of `_owner` and its newest decision; None while a decision may or may not stand."""

    # Decisions

    def read_decision(self, name: str) -> Decision | None:
        """The newest decision of a query, as seen by a task: a decision may be made while this is asked.

        A decision that does not come to its end holds up all tasks, and so the driver that would end it.
        After `_PATIENCE_S` the task fences the driver that makes it: the decision stands if it was committed,
        and a driver that is alive takes over anew.
        """
        return self._newest(name, time.monotonic() + _PATIENCE_S)

    def _newest(self, name: str, patient_until: float) -> Decision | None:
        def stuck() -> None:
            if time.monotonic() > patient_until:
                self._own(name).abandon()

        retrying = self._cluster.retrying(f"the decisions of {name}")
        while True:
            first = self._committed(name, stuck=stuck)
            if first is None:
                return None
            rest = [
                self._committed(_group(name, number), stuck=stuck) for number in range(1, chunk_count(first))
            ]
            chunks = [first, *(chunk for chunk in rest if chunk is not None)]
            decision = from_chunks(chunks, name)
            if decision is not None:
                return decision
            # The pieces are in several groups, which see the end of the transaction one after the other.
            retrying.failed(error_for(ErrorCode.UNSTABLE_OFFSET_COMMIT, "a decision is being replaced"))

    def take_over(self, name: str, *, anew: bool) -> Decision | None:
        """Fence whoever decides for this query, so that from now on only this object does.

        Nothing is done if this object took over before, unless `anew` says so. If another driver has taken
        over since, `decide` will fail.

        Returns: the newest decision.
        """
        mine = self._owned is not None and self._owned[0] == name and self._owner is not None
        if mine and not anew:
            assert self._owned is not None
            return self._owned[1]
        self._give_up()
        owner = self._own(name)
        try:
            # What the driver before has decided is completed by now; before Kafka 2.5 it may be read later.
            if not self._reads_stable(name):
                self._settle(owner, name)
            decision = self._newest(name, math.inf)
        except BaseException:
            owner.abandon()
            raise
        self._owner, self._owned = owner, (name, decision)
        return decision

    def decide(self, name: str, decision: Decision) -> None:
        """Write a decision down.

        After this and any other error it may or may not stand: `take_over` tells.

        Raises:
            FencedDriverError: somebody took over since `take_over`.
        """
        owner = self._owner
        assert owner is not None
        # Until the commit is answered: an error on the way leaves it open whether the decision stands.
        self._owned = None
        try:
            owner.begin_transaction()
            for number, chunk in enumerate(to_chunks(decision, name)):
                owner.send_offsets_to_transaction(
                    {PLACE: OffsetAndMetadata(chunk.batch, chunk.text)},
                    ConsumerGroupMetadata(_group(name, number)),
                )
            owner.commit_transaction()
        except KafkaError as problem:
            self._give_up()
            if problem.code in _FENCED:
                raise FencedDriverError(f"another driver of {name} took over: {problem}") from problem
            raise
        except BaseException:
            self._give_up()
            raise
        self._owned = (name, decision)

    def _own(self, name: str) -> TransactionalWriter:
        """Fence all that decide for this query, and end what they have begun."""
        owner = TransactionalWriter(self._configs[BOOTSTRAP_SERVERS], name, self._owner_configs())
        try:
            owner.init_transactions()
        except BaseException:
            owner.abandon()
            raise
        return owner

    def _give_up(self) -> None:
        owner, self._owner, self._owned = self._owner, None, None
        if owner is not None:
            # What is open of it is aborted by the next to take over.
            owner.abandon()

    def _owner_configs(self) -> dict[str, str]:
        # If the driver dies, its decision's transaction shall time out, as it never would under KIP-939.
        left = (BOOTSTRAP_SERVERS, "transaction.two.phase.commit.enable")
        return {name: value for name, value in self._configs.items() if name not in left}

    def _committed(
        self, group: str, place: TopicPartition = PLACE, stuck: Callable[[], None] = lambda: None
    ) -> Chunk | None:
        """Return a group's commit; call `stuck` when a transaction without an end is in the way."""

        def ask(connection: BlockingConnection) -> Chunk | None:
            version = connection.pick(ApiKey.OFFSET_FETCH)
            connection.send(offset_fetch_request(group, [place], version, require_stable=True), version)
            try:
                committed = committed_in(connection.receive()[1], version, [place]).get(place)
            except UnstableOffsetCommitError:
                stuck()
                raise
            return None if committed is None else Chunk(committed.offset, committed.metadata)

        result: Chunk | None = self._asking(CoordinatorKind.GROUP, group, ask)
        return result

    def _settle(self, owner: TransactionalWriter, name: str) -> None:
        """Wait until a coordinator before Kafka 2.5 has taken over the offsets of all completed transactions.

        The coordinator does so later than it tells their ends, one transaction after the other. So a mark is
        committed in a further transaction: when the mark can be read, all that was committed before can.
        """
        if not self._exists(_MARK):
            time.sleep(_SETTLED_S)
            return
        mark = f"{owner.producer_id}:{owner.producer_epoch}:{uuid.uuid4().hex}"
        try:
            owner.begin_transaction()
            owner.send_offsets_to_transaction(
                {_MARK: OffsetAndMetadata(0, mark)}, ConsumerGroupMetadata(name)
            )
            owner.commit_transaction()
        except KafkaError as problem:
            if problem.code in _FENCED:
                raise FencedDriverError(f"another driver of {name} took over: {problem}") from problem
            raise
        retrying = self._cluster.retrying(f"the offsets of {name}")
        while (committed := self._committed(name, _MARK)) is None or committed.text != mark:
            retrying.failed(error_for(ErrorCode.UNSTABLE_OFFSET_COMMIT, "they are being taken over"))

    def _exists(self, partition: TopicPartition) -> bool:
        retrying = self._cluster.retrying(f"the partitions of {partition.topic}")
        while True:
            try:
                self._cluster.refresh([partition.topic])
            except KafkaError as problem:
                retrying.failed(problem)
                continue
            topic = self._cluster.metadata.topics.get(partition.topic)
            return topic is not None and partition.partition in topic.partitions

    def _reads_stable(self, name: str) -> bool:
        return bool(
            self._asking(CoordinatorKind.GROUP, name, lambda connection: connection.pick(ApiKey.OFFSET_FETCH))
            >= _STABLE_FROM
        )

    # The ends of transactions

    def end(self, transaction: Transaction, *, commit: bool) -> bool:
        """Commit or abort a transaction of a task; again, if need be, with the same result.

        Returns: False if it is gone: it ended the other way (timed out), or its id was initialised since.

        Raises:
            KafkaError: INVALID_PRODUCER_ID_MAPPING if nobody remembers how it ended.
        """

        def ask(connection: BlockingConnection) -> bool:
            version = connection.pick(ApiKey.END_TXN, at_most(ApiKey.END_TXN, v2=self._v2(connection)))
            connection.send(
                EndTxnRequest(
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer_id,
                    producer_epoch=transaction.producer_epoch,
                    committed=commit,
                ),
                version,
            )
            code = to_code(connection.receive()[1].error_code)
            # Ended again in the same way it is no error, so that whoever lost an answer may ask again.
            if code in _GONE:
                return False
            if code:
                raise error_for(code, f"{transaction.transactional_id}: {code.message}")
            return True

        result: bool = self._asking(CoordinatorKind.TRANSACTION, transaction.transactional_id, ask)
        return result

    def open_transactions(self, name: str) -> list[Transaction]:
        """The transactions that tasks of a query have begun and nobody has ended.

        Empty where brokers cannot list them (before Kafka 3.0): there they time out.
        """
        transactions: list[Transaction] = []
        problems: list[KafkaError] = []
        self._looked[name] = self._clock()
        try:
            self._cluster.refresh([])
        except KafkaError as problem:
            problems.append(problem)
        for node in list(self._cluster.metadata.brokers):
            try:
                transactions += self._open_at(self._cluster.connection(node), name + SEPARATOR)
            except KafkaError as problem:
                problems.append(problem)
        if problems:
            # The next batch looks for them again; those that were listed are ended now.
            logger.warning("open transactions of %s were not all found: %s", name, problems[0])
        return transactions

    def unseen_s(self, name: str) -> float:
        """The seconds since a query's open transactions were last asked for here."""
        return self._clock() - self._looked.get(name, -math.inf)

    def _open_at(self, connection: BlockingConnection, prefix: str) -> Iterator[Transaction]:
        versions = connection.state.versions
        assert versions is not None
        # KIP-664, Kafka 3.0.
        if (
            ApiKey.LIST_TRANSACTIONS not in versions.ranges
            or ApiKey.DESCRIBE_TRANSACTIONS not in versions.ranges
        ):
            return
        connection.send(ListTransactionsRequest(state_filters=["Ongoing"]), 0)
        answer = connection.receive()[1]
        if answer.error_code:
            raise error_for(answer.error_code)
        ids = [t.transactional_id for t in answer.transaction_states if t.transactional_id.startswith(prefix)]
        if not ids:
            return
        connection.send(DescribeTransactionsRequest(transactional_ids=ids), 0)
        for state in connection.receive()[1].transaction_states:
            # It may have ended between the two requests, which is what was wanted.
            if not state.error_code and state.transaction_state == "Ongoing":
                yield Transaction(state.transactional_id, state.producer_id, state.producer_epoch)

    # Requests

    def _asking(self, kind: CoordinatorKind, key: str, ask: Any) -> Any:
        retrying = self._cluster.retrying(f"the coordinator of {key}")
        while True:
            try:
                return ask(self._coordinator(kind, key))
            except ConnectionFailedError as problem:
                self._nodes.pop((kind, key), None)
                retrying.failed(problem)
            except KafkaError as problem:
                if problem.code in _MOVED:
                    self._nodes.pop((kind, key), None)
                retrying.failed(problem)

    def _coordinator(self, kind: CoordinatorKind, key: str) -> BlockingConnection:
        node = self._nodes.get((kind, key))
        if node is None:
            connection = self._cluster.any_connection()
            version = connection.pick(ApiKey.FIND_COORDINATOR, at_least=1)
            connection.send(find_coordinator_request(key, int(kind), version), version)
            coordinator = learn_coordinator(self._cluster.metadata, connection.receive()[1])
            node = self._nodes[kind, key] = coordinator.id
        return self._cluster.connection(node)

    @staticmethod
    def _v2(connection: BlockingConnection) -> bool:
        return transactions_v2([connection.state.versions])

    def close(self) -> None:
        """Close the connections; decisions and transactions stay as they are."""
        self._give_up()
        self._cluster.close()


def _group(name: str, number: int) -> str:
    return name if number == 0 else f"{name}{SEPARATOR}{number}"
