"""Record batches into partitions over blocking sockets: pipelined while all goes well, else one by one.

Every batch has its sequence from the start and keeps it. Up to five requests are on their way to a broker,
one batch each. When an answer is missing or says that the batch may be sent again, everything on its way is
awaited first; then what was not acknowledged is sent again in order, each batch when the one before it is in
the log. So the broker never sees a gap, and knows every repeat for what it is. A batch that is too large for
the topic goes in parts, which share its sequences. Until the first batch of the producer in a partition is
acknowledged, no other is on its way there: a broker takes any first sequence of a producer that it does not
know.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from odradek.client.blocking import BlockingCluster, BlockingConnection, now_ms
from odradek.client.config import ProducerConfig
from odradek.client.core.batch_bounds import BatchBounds
from odradek.client.core.batch_splitting import split_batch, unpacked_size
from odradek.client.core.batches import stamp_in_place
from odradek.client.core.known_topics import KnownTopic, KnownTopics
from odradek.client.core.produce import is_too_large, leaves_doubt
from odradek.client.core.transactions.requests import at_most
from odradek.client.core.transactions.states import TxnState
from odradek.client.core.transactions.transaction_manager import FIRST_ADD_BACKOFF_MS, TransactionManager
from odradek.client.errors import ConnectionFailedError, DeliveryTimeoutError
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, KafkaError, LeaderNotAvailableError, OdradekError, error_for
from odradek.errors.codes import to_code
from odradek.records.batch import FLAGS_AT, TRANSACTIONAL_BIT
from odradek.wire.api import ApiKey
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

_IN_FLIGHT = 5
"""As many batches as brokers remember of a producer to recognise repeats."""


@dataclass(slots=True, eq=False)
class _Batch:
    tp: TopicPartition
    data: bytearray
    rows: int
    sequence: int
    since_ms: float
    place: tuple[int, ...]
    """Its number among those written, and within that the part's."""
    tries: int = 0
    in_doubt: bool = False
    """It may be in the log, and only as a whole will the broker recognise it."""


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
        self._next: dict[TopicPartition, int] = {}
        self._identity = (-1, -1)
        self._sent: dict[BlockingConnection, deque[_Batch]] = {}
        self._again: list[_Batch] = []
        self._rows = self._written = 0
        self._code = ErrorCode.NETWORK_EXCEPTION
        self._topics = KnownTopics(cluster.metadata)
        self._bounds = BatchBounds()
        self._introduced: set[TopicPartition] = set()
        """Partitions that have acknowledged a batch of the producer's id."""

    @property
    def config(self) -> ProducerConfig:
        """The producer's configs."""
        return self._config

    def topic(self, name: str) -> KnownTopic | None:
        """Return the known partitions of a topic; None if it is not in the metadata."""
        return self._topics.get(name)

    def batch_bound(self, topic: str) -> int | None:
        """Return from how many bytes before compression brokers refuse a topic's batches, if known."""
        return self._bounds.unpacked_bound(topic)

    @contextlib.contextmanager
    def whole_or_not(self) -> Iterator[None]:
        """Have the transaction never be committed if the block raises: it may have sent a part."""
        try:
            yield
        except BaseException as problem:
            error = problem if isinstance(problem, OdradekError) else KafkaError(repr(problem))
            self._manager.send_failed(error)
            raise

    def write(self, tp: TopicPartition, data: bytes | bytearray, rows: int) -> None:
        """Send a record batch; inside `whole_or_not`. Raises as `flush`, also for earlier ones."""
        manager = self._manager
        manager.add_partition(tp)
        self._run(lambda: manager.may_send(tp) or manager.last_error is not None, f"adding {tp}")
        manager.add_partition(tp)
        identity = (manager.producer_id, manager.producer_epoch)
        if identity != self._identity:
            if identity[0] != self._identity[0]:
                self._introduced.clear()
            self._identity = identity
            self._next.clear()
        bound = self._bounds.bound(tp.topic, now_ms())
        if bound is None or len(data) <= bound or rows == 1:
            self._write(tp, data if isinstance(data, bytearray) else bytearray(data), rows)
            return
        for part in split_batch(data, bound, self._config.compression_level):
            self._write(tp, part.data, part.records)

    def _write(self, tp: TopicPartition, data: bytearray, rows: int) -> None:
        sequence = self._next.get(tp, 0)
        self._next[tp] = (sequence + rows) & 0x7FFF_FFFF
        data[FLAGS_AT] |= TRANSACTIONAL_BIT
        stamp_in_place(data, *self._identity, sequence)
        self._written += 1
        batch = _Batch(tp, data, rows, sequence, now_ms(), (self._written,))
        try:
            self._send(batch)
        except (ConnectionFailedError, LeaderNotAvailableError):
            self._again.append(batch)
        self._recover()

    def flush(self) -> int:
        """Wait for all acknowledgements.

        Returns: the rows acknowledged since the last call.

        Raises: `KafkaError` for a batch that was refused, `DeliveryTimeoutError` for one that was not
        acknowledged within `delivery_timeout_ms`. The transaction must then be aborted.
        """
        with self.whole_or_not():
            while any(self._sent.values()):
                for connection in list(self._sent):
                    self._receive_all(connection)
                self._recover()
            self._recover()
        rows, self._rows = self._rows, 0
        return rows

    def settle(self) -> None:
        """Await what is on its way, and forget what failed: the transaction is going to be aborted."""
        for connection in list(self._sent):
            while self._sent.get(connection):
                # That one failed is known by now; more of the same is no news.
                with contextlib.suppress(KafkaError):
                    self._receive(connection)
        manager = self._manager
        if self._again and not (manager.can_bump or manager.v2 or manager.state is TxnState.FATAL_ERROR):
            # No higher epoch is to be had, so it has to be known what is in the log.
            with contextlib.suppress(KafkaError):
                self._recover()
        if self._again:
            self._lost(error_for(ErrorCode.NETWORK_EXCEPTION, "batches were on their way"))
        self._again.clear()
        self._rows = 0

    def restart(self) -> None:
        """A transaction has ended."""
        self._again.clear()

    def _lost(self, why: OdradekError) -> None:
        """The log may or may not have these batches, so their sequences cannot be used again."""
        self._next.clear()
        self._manager.sequences_lost(why)

    def _send(self, batch: _Batch) -> BlockingConnection:
        leader = self._cluster.leader(batch.tp)
        if leader is None:
            raise self._cluster.leaderless(batch.tp)
        connection = self._cluster.connection(leader)
        while len(self._sent.get(connection, ())) >= _IN_FLIGHT:
            self._receive(connection)
        if batch.tp not in self._introduced:
            for other, sent in list(self._sent.items()):
                if any(earlier.tp == batch.tp for earlier in sent):
                    self._receive_all(other)
        if self._again:
            # What failed goes first.
            self._again.append(batch)
            return connection
        version = connection.pick(
            ApiKey.PRODUCE,
            at_most(ApiKey.PRODUCE, v2=self._manager.v2),
            7 if self._config.compression_type == "zstd" else 3,
        )
        message = ProduceRequest(
            transactional_id=self._manager.transactional_id,
            acks=-1,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=batch.tp.topic,
                    partition_data=[PartitionProduceData(index=batch.tp.partition, records=batch.data)],
                )
            ],
        )
        batch.tries += 1
        self._sent.setdefault(connection, deque()).append(batch)
        try:
            connection.send(message, version)
        except ConnectionFailedError:
            self._sent[connection].pop()
            self._connection_lost(connection)
            raise
        return connection

    def _receive_all(self, connection: BlockingConnection) -> None:
        while self._sent.get(connection):
            self._receive(connection)

    def _connection_lost(self, connection: BlockingConnection) -> None:
        connection.close()
        for batch in self._sent.pop(connection, ()):
            batch.in_doubt = True
            self._again.append(batch)

    def _receive(self, connection: BlockingConnection) -> None:
        try:
            _, response = connection.receive()
        except ConnectionFailedError:
            self._connection_lost(connection)
            return
        batch = self._sent[connection].popleft()
        if not self._sent[connection]:
            del self._sent[connection]
        code, message = _answer(response, batch.tp)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._rows += batch.rows
            self._introduced.add(batch.tp)
            return
        if leaves_doubt(code):
            batch.in_doubt = True
        if is_too_large(code):
            size = unpacked_size(batch.data)
            self._bounds.refused(batch.tp.topic, len(batch.data), size, batch.rows, now_ms())
        if is_too_large(code) and batch.rows > 1:
            self._again += self._split(batch)
        elif self._may_repeat(batch, code):
            self._code = code
            self._again.append(batch)
        else:
            self._refused(batch, code, message)

    def _may_repeat(self, batch: _Batch, code: ErrorCode) -> bool:
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # Because one before it is missing yet.
            return any(other.tp == batch.tp for other in self._again)
        return code.retriable or code == ErrorCode.CONCURRENT_TRANSACTIONS

    def _split(self, batch: _Batch) -> list[_Batch]:
        """Return the parts of a batch that topics like its own have refused, in its place."""
        bound = self._bounds.bound(batch.tp.topic)
        assert bound is not None
        parts: list[_Batch] = []
        sequence = batch.sequence
        for data, rows in split_batch(batch.data, bound, self._config.compression_level):
            stamp_in_place(data, *self._identity, sequence)
            place = (*batch.place, len(parts))
            parts.append(_Batch(batch.tp, data, rows, sequence, batch.since_ms, place, batch.tries))
            sequence = (sequence + rows) & 0x7FFF_FFFF
        return parts

    def _exceeds(self, batch: _Batch) -> bool:
        """Return whether the topic is known to refuse the batch, of which surely nothing is in the log."""
        bound = self._bounds.bound(batch.tp.topic)
        return bound is not None and len(batch.data) > bound and batch.rows > 1 and not batch.in_doubt

    def _refused(self, batch: _Batch, code: ErrorCode, message: str | None) -> None:
        error = error_for(code, f"{batch.tp}: {message or code.message}")
        self._next.pop(batch.tp, None)
        self._manager.batch_failed(error)
        if not (self._manager.can_bump or self._manager.v2):
            # Old coordinators: the sequences after it cannot be closed up with certainty.
            self._manager.sequences_lost(error)
        self._again.clear()
        raise error

    def _recover(self) -> None:
        """Send again what has to be, in order. Nothing else is on its way meanwhile."""
        if not self._again:
            return
        for connection in list(self._sent):
            self._receive_all(connection)
        waiting = sorted(self._again, key=_place)
        retrying = self._cluster.retrying(f"writing to {waiting[0].tp}")
        while waiting:
            self._again.clear()
            batch = waiting[0]
            if self._exceeds(batch):
                waiting[:1] = self._split(batch)
                continue
            problem: KafkaError | None = None
            try:
                self._cluster.refresh([])
                self._receive_all(self._send(batch))
            except KafkaError as failed:
                if not isinstance(failed, ConnectionFailedError) and not failed.retriable:
                    raise
                problem = failed
            if problem is None and not self._again:
                waiting.pop(0)
                retrying.progress()
                continue
            if problem is None and batch not in self._again:
                waiting[:1] = sorted(self._again, key=_place)  # it was too large
                continue
            problem = problem or error_for(self._code, f"{batch.tp}: {self._code.message}")
            if now_ms() - batch.since_ms > self._config.delivery_timeout_ms:
                error = DeliveryTimeoutError(
                    f"{batch.rows} row(s) for {batch.tp} were not acknowledged within "
                    f"{self._config.delivery_timeout_ms} ms ({batch.tries} tries): {problem}"
                )
                self._again.clear()
                self._lost(error)
                raise error
            retrying.tell_if_it_lasts(problem)
            # The transaction before is just being completed.
            concurrent = problem.code == ErrorCode.CONCURRENT_TRANSACTIONS
            retrying.pause(FIRST_ADD_BACKOFF_MS if concurrent else float("inf"))
        self._again.clear()


def _place(batch: _Batch) -> tuple[int, ...]:
    return batch.place


def _answer(response: Any, tp: TopicPartition) -> tuple[ErrorCode, str | None]:
    for topic in response.responses:
        for answer in topic.partition_responses:
            if (topic.name, answer.index) == tp:
                return to_code(answer.error_code), answer.error_message
    return ErrorCode.UNKNOWN_SERVER_ERROR, "the broker did not answer for it"
