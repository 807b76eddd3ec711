"""Asks the brokers that coordinate transactions whether partitions belong to one, or has them join (KIP-890).

AddPartitionsToTxn from version 4 on, one request at a time to each broker; what is asked meanwhile goes
together into the next one. A request names a transactional id once:

- what is asked for the same producer in the same epoch is asked as one;
- what a producer of an older epoch waits for is INVALID_PRODUCER_EPOCH at once;
- the rest waits for a request after that.

A broker that cannot be reached, or gives no answer for a partition, is NETWORK_EXCEPTION, which whoever asked
turns into what its client tries again; so is OPERATION_NOT_ATTEMPTED, for which another partition is to
blame. One that does not serve version 4 cannot verify, and nothing is held against the producer, as in
Kafka; nor can it let partitions join: UNSUPPORTED_VERSION. Kafka: `AddPartitionsToTxnManager`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from odradek.broker.interbroker.inter_broker_sender import InterBrokerSender
from odradek.errors import UnsupportedVersionError
from odradek.errors.codes import ErrorCode, to_code
from odradek.util.futures import error_of
from odradek.util.repeats import Repeats
from odradek.wire.errors import InvalidMessageError
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from odradek.broker.interbroker.channels import InterBrokerChannels
    from odradek.coordinators.transactions.coordinator import PartitionErrors
    from odradek.util.topic_partition import TopicPartition
    from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

PURPOSE = "verification"
"""Names the connections."""

NEWEST_VERSION = 5

_SEEN_AS = {
    # Another partition of the same request may not be written to, or is not known there yet.
    ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorCode.NETWORK_EXCEPTION,
}


class _Question:
    """A question about one transaction.

    Attributes:
        transactional_id, producer_id, epoch: whose.
        verify_only: whether nothing is to join.
        partitions: all that is asked for.
        askers: who asked, and for which of the partitions.
    """

    __slots__ = ("askers", "epoch", "partitions", "producer_id", "transactional_id", "verify_only")

    def __init__(self, transactional_id: str, producer_id: int, epoch: int, verify_only: bool) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.epoch = epoch
        self.verify_only = verify_only
        self.partitions: dict[TopicPartition, None] = {}
        self.askers: list[tuple[asyncio.Future[PartitionErrors], Sequence[TopicPartition]]] = []

    def answer(self, errors: PartitionErrors, otherwise: ErrorCode) -> None:
        for future, partitions in self.askers:
            # A peer that has gone took its future with it.
            if not future.done():
                future.set_result({key: errors.get(key, otherwise) for key in partitions})


_Queue = dict[str, list[_Question]]
"""The questions that wait for one broker by transactional id, each id's in the order in which they came."""


class RemoteCoordinator:
    """See above. Used in the event loop's thread."""

    def __init__(self, channels: InterBrokerChannels, loop: asyncio.AbstractEventLoop) -> None:
        self._channels = channels
        self._loop = loop
        self._sender: InterBrokerSender[_Queue, dict[str, _Question]] = InterBrokerSender(
            loop, new_queue=dict, take=_next_of_each, send=self._send, on_answer=self._answered
        )

    def ask(
        self,
        broker_id: int,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> asyncio.Future[PartitionErrors]:
        """Ask a coordinator of transactions.

        Args:
            broker_id: which broker it is on.
            transactional_id, producer_id, epoch: the producer.
            partitions: which partitions.
            verify_only: whether they are to belong to the transaction already, or to join it.

        Returns:
            A future of an error per partition, NONE where they may be written to.
        """
        answer: asyncio.Future[PartitionErrors] = self._loop.create_future()
        questions = self._sender.queue_of(broker_id).setdefault(transactional_id, [])
        question: _Question | None = None
        for waiting in list(questions):
            if waiting.producer_id != producer_id:
                continue
            if waiting.epoch == epoch and waiting.verify_only == verify_only:
                question = waiting
            elif waiting.epoch < epoch:
                questions.remove(waiting)
                waiting.answer({}, ErrorCode.INVALID_PRODUCER_EPOCH)
            elif waiting.epoch > epoch:
                answer.set_result(dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_EPOCH))
                return answer
        if question is None:
            question = _Question(transactional_id, producer_id, epoch, verify_only)
            questions.append(question)
        question.partitions.update(dict.fromkeys(partitions))
        question.askers.append((answer, partitions))
        return answer

    def _send(self, broker_id: int, batch: dict[str, _Question]) -> asyncio.Future[Any]:
        request = AddPartitionsToTxnRequest(
            transactions=[_transaction(question) for question in batch.values()]
        )
        return self._channels.to_broker(broker_id, PURPOSE).send_negotiated(request, NEWEST_VERSION)

    def _answered(self, broker_id: int, batch: dict[str, _Question], answer: asyncio.Future[Any]) -> None:
        error = error_of(answer)
        if isinstance(error, UnsupportedVersionError | InvalidMessageError):
            # The latter: the newest version that both know is too old to carry the question.
            for question in batch.values():
                question.answer({}, ErrorCode.NONE if question.verify_only else ErrorCode.UNSUPPORTED_VERSION)
        elif error is not None:
            repeats.log(
                logging.WARNING, broker_id, "transactions not verified broker=%d: %s", broker_id, error
            )
            for question in batch.values():
                question.answer({}, ErrorCode.NETWORK_EXCEPTION)
        else:
            try:
                self._take(broker_id, batch, answer.result())
            except Exception:
                # Nobody may wait for ever, nor those who asked later.
                logger.exception("unforeseen failure in an answer about transactions of broker %d", broker_id)
                for question in batch.values():
                    question.answer({}, ErrorCode.NETWORK_EXCEPTION)

    def _take(
        self, broker_id: int, batch: dict[str, _Question], response: AddPartitionsToTxnResponse
    ) -> None:
        if response.error_code:
            code = to_code(response.error_code)
            repeats.log(
                logging.ERROR,
                (broker_id, code),
                "transactions not verified broker=%d error=%s",
                broker_id,
                code.name,
            )
            if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                # Not the client's fault, nor for it to know.
                code = ErrorCode.INVALID_TXN_STATE
            for question in batch.values():
                question.answer({}, code)
            return
        errors_by_id: dict[str, PartitionErrors] = {}
        for result in response.results_by_transaction:
            errors = errors_by_id.setdefault(result.transactional_id, {})
            for topic in result.topic_results:
                for partition in topic.results_by_partition:
                    code = to_code(partition.partition_error_code)
                    errors[topic.name, partition.partition_index] = _SEEN_AS.get(code, code)
        for name, question in batch.items():
            question.answer(errors_by_id.get(name, {}), ErrorCode.NETWORK_EXCEPTION)


def _next_of_each(queue: _Queue) -> dict[str, _Question]:
    """Take out the first question of each transactional id."""
    batch: dict[str, _Question] = {}
    for name, questions in list(queue.items()):
        batch[name] = questions.pop(0)
        if not questions:
            del queue[name]
    return batch


def _transaction(question: _Question) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.epoch,
        verify_only=question.verify_only,
        topics=_topics(question.partitions),
    )


def _topics(partitions: Iterable[TopicPartition]) -> list[AddPartitionsToTxnTopic]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()]
