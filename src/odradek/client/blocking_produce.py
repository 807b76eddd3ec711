"""Record batches into partitions over blocking sockets: the shell of `core.sending` for the caller's thread.

That thread sends and waits while it is in `write`, `leave`, `flush` or `go_on`.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from odradek.client.blocking import BlockingCluster, BlockingConnection, now_ms
from odradek.client.blocking_select import answering
from odradek.client.config import ProducerConfig
from odradek.client.core.backoff import Backoff
from odradek.client.core.batches import ProducerBatch
from odradek.client.core.metadata import KnownTopic, KnownTopics
from odradek.client.core.record_accumulator import RecordAccumulator
from odradek.client.core.sending import SenderState
from odradek.client.core.sequences import Sequences
from odradek.client.core.stuck_partitions import StuckPartitions
from odradek.client.core.transactions.transaction_manager import TransactionManager
from odradek.client.errors import ConnectionFailedError
from odradek.client.types import TopicPartition
from odradek.errors import KafkaError, OdradekError
from odradek.records.compression import Codec


@dataclass(slots=True)
class _Requests:
    """Produce requests on their way to one broker, oldest first."""

    connection: BlockingConnection
    batches: deque[list[ProducerBatch]] = field(default_factory=deque)

    @property
    def deadline_ms(self) -> float:
        """The moment when the oldest answer is overdue (monotonic ms)."""
        deadline = self.connection.state.next_deadline_ms()
        return now_ms() if deadline is None else deadline


class PipelinedProduce:
    """The batches of one transactional writer.

    Args:
        config, cluster: the writer's.
        manager: its transactions.
        run: does the manager's requests until something is true; (condition, what it is for).
    """

    def __init__(
        self,
        config: ProducerConfig,
        cluster: BlockingCluster,
        manager: TransactionManager,
        run: Callable[[Callable[[], bool], str], None],
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._manager = manager
        self._run = run
        self._topics = KnownTopics(cluster.metadata)
        self._accumulator = RecordAccumulator(
            batch_size=config.batch_size,
            linger_ms=0,
            buffer_memory=config.buffer_memory,
            delivery_timeout_ms=config.delivery_timeout_ms,
            codec=Codec.parse(config.compression_type),
            level=config.compression_level,
            backoff=Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
            sequences=Sequences(transactional=True),
            one_in_flight=config.max_in_flight_requests_per_connection == 1,
            in_transaction=manager.may_send,
            leader_epoch=cluster.metadata.leader_epoch,
            topic_id=cluster.metadata.topic_id,
        )
        # Errors of batches that were given up in the present transaction.
        self._failures: list[Exception] = []
        self._state = SenderState(
            config,
            cluster.metadata,
            self._accumulator,
            StuckPartitions(config.client_id),
            self._request_update,
            manager=manager,
            on_failed=self._failures.append,
        )
        # Bytes that were queued and not yet sent, at most.
        self._queued = 0
        self._flushed = 0
        self._requests: dict[int, _Requests] = {}
        self._reconnects = _Pauses(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms)
        self._refreshes = _Pauses(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._wants_update = False
        self._last_failure: OdradekError | None = None

    @property
    def config(self) -> ProducerConfig:
        """The producer's configs."""
        return self._config

    def topic(self, name: str) -> KnownTopic | None:
        """Return the known partitions of a topic; None if it is not in the metadata."""
        return self._topics.get(name)

    def batch_bound(self, topic: str) -> int | None:
        """Return from how many bytes before compression brokers refuse a topic's batches, if known."""
        return self._accumulator.bounds.unpacked_bound(topic)

    @contextlib.contextmanager
    def whole_or_not(self) -> Iterator[None]:
        """Keep the transaction from ever being committed if the block raises: it may have sent a part."""
        try:
            yield
        except BaseException as problem:
            error = problem if isinstance(problem, OdradekError) else KafkaError(repr(problem))
            self._manager.send_failed(error)
            raise

    def write(self, tp: TopicPartition, data: bytes | bytearray, rows: int) -> None:
        """Take a record batch; inside `whole_or_not`.

        Raises:
            KafkaError: as `flush`, also for earlier ones.
        """
        manager = self._manager
        manager.add_partition(tp)
        self._run(lambda: manager.may_send(tp) or manager.last_error is not None, f"adding {tp}")
        manager.add_partition(tp)
        data = data if isinstance(data, bytearray) else bytearray(data)
        self._accumulator.append_built(tp, data, rows, now_ms())
        self._queued += len(data)
        # So that a request takes as many batches as it may, and no more than one request waits.
        if self._queued >= self._config.max_request_size:
            self.leave()

    def leave(self) -> None:
        """Send all that was written; inside `whole_or_not`.

        Raises:
            KafkaError: as `flush`.
        """
        while self._accumulator.has_queued:
            self.go_on()
            self._raise_failure()
        self._queued = 0

    def flush(self) -> int:
        """Wait for all acknowledgements.

        Returns: the rows acknowledged since the last call.

        Whatever it raises, the transaction must then be aborted.

        Raises:
            KafkaError: a batch was refused.
            DeliveryTimeoutError: a batch was not acknowledged within `delivery_timeout_ms`.
        """
        with self.whole_or_not():
            while self._accumulator.has_incomplete:
                self.go_on()
                self._raise_failure()
            self._raise_failure()
        rows, self._flushed = self._state.records_sent - self._flushed, self._state.records_sent
        return rows

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]

    @property
    def has_left_overs(self) -> bool:
        """Return whether a batch has no end yet, or an answer is due, also for one that was given up."""
        return self._accumulator.has_incomplete or bool(self._requests)

    def restart(self) -> None:
        """A transaction has ended."""
        self._failures.clear()
        self._flushed = self._state.records_sent
        self._queued = 0

    # One look after the other

    def go_on(self, until_ms: float = float("inf")) -> None:
        """Send what may leave; if nothing may, wait for an answer, for something to be due, or until then.

        Raises:
            ClosedError: the client is closed.
            KafkaError: a broker will not let this client in.
        """
        self._cluster.check_usable()
        self._state.freed = False
        now = now_ms()
        readiness = self._state.look(now, self._last_failure)
        queued = self._accumulator.has_queued
        due = [until_ms, *(self._send_to(node, now) for node in readiness.nodes)]
        if queued and not self._accumulator.has_queued:
            return  # that may be all that the caller wants
        if readiness.next_check_ms is not None:
            due.append(readiness.next_check_ms)
        if self._wants_update and not self._state.freed:
            if self._refresh():
                return
            due.append(self._refreshes.until_ms())
        if self._state.freed:
            return
        if self._requests:
            self._receive(min(due))
        else:
            time.sleep(max(0.0, min(due) - now_ms()) / 1000)

    def _send_to(self, node: int, now: float) -> float:
        """Send to one broker what may be sent. Returns until when it need not be tried again (ms)."""
        if (wait_until := self._reconnects.until_ms(node)) > now:
            return wait_until
        try:
            connection = self._cluster.connection(node)
        except OdradekError as problem:
            self._failed(problem)
            self._wants_update = True
            return self._reconnects.failed(node)
        self._reconnects.over(node)
        requests = self._requests.get(node) or _Requests(connection)
        if requests.connection is not connection:
            self._lost(node, ConnectionFailedError(f"the connection to {connection.address} was closed"))
            return now
        most = self._config.max_in_flight_requests_per_connection
        for batches in self._state.requests_for(node, now, lambda: len(requests.batches) < most):
            outgoing = self._state.request(batches, connection.pick, now)
            if outgoing is None:
                continue
            requests.batches.append(outgoing.batches)
            self._requests[node] = requests
            try:
                connection.send(outgoing.message, outgoing.version)
            except ConnectionFailedError as problem:
                self._lost(node, problem)
                break
        return float("inf")

    def _receive(self, until_ms: float) -> None:
        """Take answers, when some are here."""
        connections = {node: requests.connection for node, requests in self._requests.items()}
        deadline = min(requests.deadline_ms for requests in self._requests.values())
        if len(connections) == 1 and deadline <= until_ms:
            self._take_answer(next(iter(connections)))
            return
        try:
            nodes = answering(self._cluster, connections, min(deadline, until_ms) - now_ms())
        except ConnectionFailedError:
            nodes = [node for node, connection in connections.items() if connection.closed]
        if not nodes:
            # Who is overdue is asked for the answer nevertheless, which says so.
            nodes = [node for node, requests in self._requests.items() if requests.deadline_ms <= now_ms()]
        for node in nodes:
            self._take_answer(node)

    def _take_answer(self, node: int) -> None:
        requests = self._requests[node]
        try:
            _, response = requests.connection.receive()
        except ConnectionFailedError as problem:
            self._lost(node, problem)
            return
        batches = requests.batches.popleft()
        if not requests.batches:
            del self._requests[node]
        self._last_failure = None
        sent = self._state.records_sent
        self._state.answered(batches, response, now_ms())
        if self._state.records_sent > sent:
            self._refreshes.over()

    def _lost(self, node: int, problem: ConnectionFailedError) -> None:
        self._last_failure = problem
        requests = self._requests.pop(node)
        requests.connection.close()
        for batches in requests.batches:
            self._state.unanswered(batches, problem, now_ms())

    # Metadata

    def _request_update(self) -> None:
        self._wants_update = True

    def _refresh(self) -> bool:
        """Ask for the metadata if the last time is long enough ago. Returns whether they came."""
        if self._refreshes.until_ms() > now_ms():
            return False
        self._refreshes.failed()  # or not: who wants them again soon has not got what was missing
        try:
            self._cluster.refresh([])
        except OdradekError as problem:
            self._failed(problem)
            return False
        self._wants_update = False
        return True

    def _failed(self, problem: OdradekError) -> None:
        self._cluster.check_usable()
        if not (isinstance(problem, KafkaError) and problem.retriable):
            raise problem
        self._last_failure = problem


class _Pauses:
    """The pauses between tries, of each of several things."""

    def __init__(self, initial_ms: float, max_ms: float) -> None:
        self._backoff = Backoff(initial_ms, max_ms)
        self._failures: dict[int, int] = {}
        self._until_ms: dict[int, float] = {}

    def until_ms(self, node_id: int = 0) -> float:
        """Return when the next try may be."""
        return self._until_ms.get(node_id, 0.0)

    def failed(self, node_id: int = 0) -> float:
        """It was tried in vain. Returns when the next try may be."""
        self._failures[node_id] = self._failures.get(node_id, 0) + 1
        self._until_ms[node_id] = now_ms() + self._backoff.delay_ms(self._failures[node_id])
        return self._until_ms[node_id]

    def over(self, node_id: int = 0) -> None:
        """It was not in vain."""
        self._failures.pop(node_id, None)
        self._until_ms.pop(node_id, None)
