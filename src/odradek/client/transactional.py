"""`TransactionalWriter`: Arrow batches in transactions, over blocking sockets, without a thread or a loop.

It is for engines whose tasks write, and whose driver decides (Spark): a task begins, writes and prepares; the
driver ends the transaction, from another process if need be, by the `PreparedTxnState` that the task handed
over.

    with TransactionalWriter("127.0.0.1:9092", "job-7-partition-3") as writer:      # in the task
        writer.init_transactions()
        writer.begin_transaction()
        writer.write_columns(record_batch, topic="copies")
        state = writer.prepare_transaction()

    with TransactionalWriter("127.0.0.1:9092", "job-7-partition-3") as writer:      # in the driver
        writer.resume_transaction(state)
        writer.commit_transaction()
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from odradek.client.blocking import BlockingCluster, BlockingConnection, now_ms
from odradek.client.blocking_produce import PipelinedProduce
from odradek.client.config import ProducerConfig, build, python_name
from odradek.client.core.backoff import Backoff
from odradek.client.core.find_coordinator import learn_coordinator
from odradek.client.core.ownership import Ownership, one_at_a_time
from odradek.client.core.transactions.requests import TxnRequest
from odradek.client.core.transactions.requests import build as build_request
from odradek.client.core.transactions.transaction_manager import TransactionManager
from odradek.client.core.transactions.transactional_request_result import TransactionalRequestResult
from odradek.client.core.versions import v2_if_known
from odradek.client.errors import ClientTimeoutError, ClosedError, ConnectionFailedError
from odradek.client.raw_partitions import check_partitions
from odradek.client.types import (
    ColumnNames,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTxnState,
    Servers,
    TopicPartition,
)
from odradek.errors import KafkaError, OdradekError, UnknownTopicOrPartitionError
from odradek.wire.api import ApiKey

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.client.config_dicts import SendConfigs

_LAST_WORDS_MS = 5_000
"""How long closing may take over the end of an open transaction."""

_DEFAULTS = {"client_id": "odradek-transactional-writer", "max_request_size": 1_000_000}


class TransactionalWriter:
    """Writes under one transactional id; used by one thread at a time, may be made after a fork.

    Args:
        bootstrap_servers: 'host:port[,host:port…]' or a list of such.
        transactional_id: `init_transactions` fences the producer that had it before.
        configs, more: Kafka producer configs; `transaction.timeout.ms` (60,000) is how long the coordinator
            waits before it aborts a transaction, prepared ones too unless
            `transaction.two.phase.commit.enable` is true and the broker allows that (KIP-939).

    Attributes:
        rows_written: the rows that have been acknowledged, in all transactions.

    Raises:
        KafkaError: by every method, with `requires_abort` (`abort_transaction`, and go on) or `fatal` (close;
            the id has another owner, or the broker refuses for good).
        ClientTimeoutError: by every method, when a step took longer than `max.block.ms`; the same call may
            then be repeated, but for writing.
    """

    def __init__(
        self,
        bootstrap_servers: Servers,
        transactional_id: str,
        configs: Mapping[str, object] | None = None,
        **more: Unpack[SendConfigs],
    ) -> None:
        given = {python_name(name): value for name, value in {**(configs or {}), **more}.items()}
        self._config = build(
            ProducerConfig,
            {
                **_DEFAULTS,
                **given,
                "bootstrap_servers": bootstrap_servers,
                "transactional_id": transactional_id,
            },
        )
        self._manager = TransactionManager(
            transactional_id,
            self._config.transaction_timeout_ms,
            two_phase_commit=self._config.transaction_two_phase_commit_enable,
        )
        self._cluster = BlockingCluster(self._config, allow_auto_create=True)
        self._produce = PipelinedProduce(self._config, self._cluster, self._manager, self._run)
        # Connections for the transaction's requests, by broker; that of a broker with batches on their way
        # would answer those first.
        self._coordinators: dict[int, BlockingConnection] = {}
        self._closed = False
        # How long a call may take; less while closing.
        self._patience_ms: float = self._config.max_block_ms
        self.rows_written = 0
        self._ownership = Ownership("this TransactionalWriter")

    def _check_usable(self) -> None:
        if self._closed:
            raise ClosedError("the writer is closed")
        self._cluster.check_usable()

    @property
    def producer_id(self) -> int:
        """The producer id, -1 before `init_transactions`."""
        return self._manager.producer_id

    @property
    def producer_epoch(self) -> int:
        """The producer's epoch, -1 before `init_transactions`."""
        return self._manager.producer_epoch

    @one_at_a_time
    def init_transactions(self, keep_prepared: bool = False) -> PreparedTxnState:
        """Get a producer id; fence the producer that had the transactional id, and abort its transaction.

        Args:
            keep_prepared: leave a transaction that was prepared as it is (KIP-939), to be ended by
                `complete_transaction`.

        Returns: that transaction, empty if there is none.

        Raises:
            UnsupportedByBrokerError: `keep_prepared`, and the broker has no InitProducerId 6.
        """
        self._wait(self._manager.init_transactions(keep_prepared=keep_prepared))
        self._produce.restart()
        return self._manager.prepared

    @one_at_a_time
    def resume_transaction(self, prepared: PreparedTxnState) -> None:
        """Take up another writer's transaction, to commit or to abort it; in place of `init_transactions`.

        This works with every broker, also for a transaction that was ended in the same way before. It fences
        nobody; but if another producer has initialised the transactional id meanwhile, or the transaction
        timed out, ending it fails with `ProducerFencedError` or `InvalidTxnStateError`.
        """
        self._manager.resume(prepared)

    @one_at_a_time
    def begin_transaction(self) -> None:
        """Begin; nothing is sent yet."""
        self._manager.begin(v2=v2_if_known(self._versions()))

    @one_at_a_time
    def write_columns(
        self, batch: pa.RecordBatch | pa.Table, topic: str | None = None, **columns: Unpack[ColumnNames]
    ) -> int:
        """Send the rows; see `RawWriter.write_columns` for the columns. Returns when they are on their way.
        If it raises once rows have left, the transaction has to be aborted, whatever the error.

        Returns: the number of rows.
        """
        from odradek.client.arrow import plan_rows

        plan = plan_rows(self._produce, batch, topic, **columns)
        for name in plan.topics:
            self._cluster.ensure_topic(name)
        # `plan.batches` raises for a partition that is missing after this look, amid the rows before it.
        with contextlib.suppress(UnknownTopicOrPartitionError):
            check_partitions(self._cluster, plan.named)
        with self._produce.whole_or_not():
            for built in plan.batches():
                self._produce.write(built.tp, built.data, built.rows)
            self._produce.leave()
        return plan.rows

    @one_at_a_time
    def flush(self) -> int:
        """Wait for all acknowledgements. Returns the rows written so far by this writer."""
        return self._flush()

    def _flush(self) -> int:
        self.rows_written += self._produce.flush()
        return self.rows_written

    @one_at_a_time
    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
    ) -> None:
        """Commit a group's offsets with the transaction.

        Args:
            offsets: the next offset to read, by partition.
            group: by it the coordinator refuses a member that was rebalanced out (KIP-447).
        """
        if offsets:
            self._wait(self._manager.send_offsets(offsets, group))

    @one_at_a_time
    def prepare_transaction(self) -> PreparedTxnState:
        """Wait for all rows; then nothing can be added, and only `commit_`, `abort_` or
        `complete_transaction` may follow.

        Returns: the transaction's name, for `resume_transaction` or, after
        `init_transactions(keep_prepared=True)`, for `complete_transaction`.
        """
        self._flush()
        return self._manager.prepare()

    @one_at_a_time
    def commit_transaction(self) -> None:
        """Wait for all rows, and commit."""
        self._flush()
        self._end(self._manager.commit())

    @one_at_a_time
    def abort_transaction(self) -> None:
        """Abort the transaction: no read_committed reader will see anything of it."""
        self._abort()

    def _abort(self) -> None:
        self._end(self._manager.abort())

    @one_at_a_time
    def complete_transaction(self, prepared: PreparedTxnState) -> bool:
        """End a prepared transaction: committed if it is `prepared`, else aborted (KIP-939).

        Returns: whether it was committed; with an empty `prepared` and nothing prepared, False.
        """
        call = self._manager.complete(prepared)
        self._end(call)
        return call.commits

    def _end(self, call: TransactionalRequestResult) -> None:
        self._wait(call)
        self._produce.restart()

    def close(self) -> None:
        """Close the connections. An open transaction is aborted if that can be done at once, and one that was
        being committed gets its end; a prepared one stays.

        May be called from anywhere. Amid another call (of another thread, or that a signal has interrupted
        whose handler closes) it is as `abandon`; that call ends with `ClosedError`.
        """
        if self._closed:
            return
        # The other call owns the connections; a fork shares them with the process that goes on.
        if self._ownership.holder is not None or self._cluster.is_forked:
            self.abandon()
            return
        try:
            if self._manager.is_open and self._manager.producer_id >= 0:
                self._patience_ms = min(self._patience_ms, _LAST_WORDS_MS)
                # If that fails, the coordinator aborts the transaction after its timeout.
                pending = self._manager.pending if self._manager.is_completing else None
                with contextlib.suppress(OdradekError):
                    # An end that was given up goes on; it cannot become another one.
                    if pending is not None:
                        self._end(pending)
                    else:
                        self._abort()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the connections and leave everything as it is; from anywhere, as `close`."""
        if not self._closed:
            self._closed = True
            self._cluster.close()
            for connection in list(self._coordinators.values()):
                connection.close()
            # A call under way may be amid the manager's steps; it finds its connections closed.
            if self._ownership.holder is None:
                self._manager.close(ClosedError("the writer was closed"))

    def __enter__(self) -> TransactionalWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # The requests of the manager

    def _versions(self) -> list[Any]:
        return [connection.state.versions for connection in self._coordinators.values()]

    def _wait(self, call: TransactionalRequestResult) -> None:
        self._run(lambda: call.done, call.name)
        call.outcome()

    def _run(self, done: Any, action: str) -> None:
        """Send what the manager has due until `done()`.

        Raises:
            ClientTimeoutError: that took longer than `max.block.ms`.
        """
        if self._closed:
            raise ClosedError("the writer is closed")
        deadline = now_ms() + self._patience_ms
        backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        problem = None
        while not done():
            if self._closed:
                raise ClosedError("the writer was closed meanwhile")
            # As Kafka's Sender.runOnce: the transaction's requests first, then batches.
            request = self._manager.next_request(batches_left=self._produce.has_left_overs)
            if request is not None:
                problem = self._ask_later(request, backoff, deadline)
            elif self._produce.has_left_overs:
                self._produce.go_on(deadline)
            elif not done():
                raise AssertionError(f"{action}: nothing is due, and it is not done")
            if now_ms() >= deadline and not done():
                raise ClientTimeoutError(
                    f"{action} was not done within {self._patience_ms:.0f} ms"
                    f"{f': {problem}' if problem else ''}; it may be called again"
                )

    def _ask_later(self, request: TxnRequest, backoff: Backoff, deadline: float) -> OdradekError | None:
        """Do `_ask` after the pause before a repeat, unless the call's time is over by then."""
        delay = self._manager.delay_ms(request, backoff.delay_ms(min(request.tries, 8)))
        if delay:
            time.sleep(delay / 1000)
        if now_ms() < deadline:
            return self._ask(request)
        self._manager.not_answered(request)
        return None

    def _ask(self, request: TxnRequest) -> OdradekError | None:
        """Send one request, and hand its answer to the manager. Returns the failure that it may get over."""
        try:
            connection = self._connection(self._manager.target(request))
            self._manager.learned(v2=v2_if_known(self._versions()))
            message, version = build_request(request, self._manager.me, _versions_of(connection))
        except KafkaError as problem:
            if problem.retriable:
                self._manager.not_answered(request)
                return problem
            self._manager.refused(request, problem)
            return None
        try:
            connection.send(message, version)
            _, response = connection.receive()
        except ConnectionFailedError as problem:
            self._manager.not_answered(request)
            return problem
        if request.api is ApiKey.FIND_COORDINATOR:
            with contextlib.suppress(KafkaError):  # which is the manager's to deal with
                learn_coordinator(self._cluster.metadata, response)
        self._manager.answered(request, response, _versions_of(connection).highest(ApiKey.INIT_PRODUCER_ID))
        return None

    def _connection(self, node: int | None) -> BlockingConnection:
        """Return a connection for the transaction's requests (None: to any broker)."""
        if node is None:
            for connection in self._coordinators.values():
                if not connection.closed:
                    return connection
            if not self._cluster.metadata.brokers:
                self._cluster.refresh([])
            node = next(iter(self._cluster.metadata.brokers), None)
        existing = self._coordinators.get(node) if node is not None else None
        if node is not None and (existing is None or existing.closed):
            address = self._cluster.metadata.brokers.get(node)
            if address is None:
                raise ConnectionFailedError(f"broker {node} is not in the cluster's metadata")
            try:
                existing = self._coordinators[node] = self._cluster.open(address.host, address.port, node)
            except ConnectionFailedError:
                # The broker may have gone for good, or may have come back elsewhere: the next try asks
                # another one.
                self._cluster.metadata.brokers.pop(node, None)
                raise
        if existing is None:
            raise ConnectionFailedError("the cluster's metadata has no brokers")
        return existing


def _versions_of(connection: BlockingConnection) -> Any:
    assert connection.state.versions is not None
    return connection.state.versions
