# compiled: mypyc
"""The gate of a Produce request with transactional batches, passed before anything is appended.

- The request names a transactional id that the principal may write with:
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED for all of it otherwise.
- One producer: INVALID_PRODUCER_ID_MAPPING.
- Each partition belongs to the producer's transaction (`odradek.broker.transactions.gate`): asked for up to
  version 11, added by 12 and later (KIP-890). INVALID_TXN_STATE, or TRANSACTION_ABORTABLE from 11 on. What a
  client should try again it is told as NOT_ENOUGH_REPLICAS, which old ones know; CONCURRENT_TRANSACTIONS from
  12 on, once the broker has asked again for `add.partitions.to.txn.retry.backoff.max.ms`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.conversion.produce import topic_name
from odradek.broker.transactions.gate import Admission
from odradek.errors import (
    ConcurrentTransactionsError,
    InvalidPidMappingError,
    InvalidTxnStateError,
    KafkaError,
    NotEnoughReplicasError,
    TransactionalIdAuthorizationError,
    error_for,
)
from odradek.errors.codes import ErrorCode
from odradek.records.batch import (
    BATCH_OF_PRODUCER_STRUCT,
    FLAGS_AT,
    HEADER_BYTES,
    MAGIC_AT,
    MAGIC_V2,
    MIN_LENGTH,
    TRANSACTIONAL_BIT,
)
from odradek.util.futures import once_done

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.replication.partition import Partition
    from odradek.wire.messages.produce import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )

FIRST_VERSION_THAT_KNOWS_ABORTABLE: Final = 11
FIRST_VERSION_THAT_JOINS: Final = 12

_TRIED_AGAIN = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
}


def transactional_producer(records: Any) -> tuple[int, int, int] | None:
    """Return the producer id, the epoch and the first sequence of a client's transactional batch.

    None for everything else: too few bytes; what is no batch, of which the append says so; a batch without a
    producer, which is part of no transaction.
    """
    if records is None or len(records) < HEADER_BYTES:
        return None
    header: tuple[int, int, int, int, int, int] = BATCH_OF_PRODUCER_STRUCT.unpack_from(records)
    length, magic, attributes, producer_id, epoch, sequence = header
    if not attributes & TRANSACTIONAL_BIT or magic != MAGIC_V2 or length < MIN_LENGTH or producer_id < 0:
        return None
    return producer_id, epoch, sequence


def admit_produce(
    context: RequestContext, request: ProduceRequest
) -> Admission | asyncio.Future[Admission] | None:
    """Look at the transactional batches of a request; None where there are none.

    A partition that may not be written to now is not asked for; nor may it be when the append comes to it.

    Raises:
        KafkaError: nothing of the request may be appended.
    """
    if not _has_transactional(request):
        return None
    transactional_id = request.transactional_id
    if transactional_id is None or not context.may_write_with(transactional_id):
        raise TransactionalIdAuthorizationError
    admission = _noted(context, request)
    if admission is None:
        return None
    before = context.peer.unappended
    if before is not None and admission.is_asked_for():
        # A request before this one is about to open the transaction there: then there is nothing to ask.
        return once_done(before, lambda: _asked_again(context, request, transactional_id))
    return admission.ask(transactional_id)


def _asked_again(
    context: RequestContext, request: ProduceRequest, transactional_id: str
) -> Admission | asyncio.Future[Admission] | None:
    admission = _noted(context, request)
    return None if admission is None else admission.ask(transactional_id)


def _has_transactional(request: ProduceRequest) -> bool:
    topics: list[TopicProduceData] = request.topic_data
    for topic in topics:
        partitions: list[PartitionProduceData] = topic.partition_data
        for data in partitions:
            records: Any = data.records
            if records is None or len(records) < HEADER_BYTES:
                continue
            flags: int = records[FLAGS_AT]
            if flags & TRANSACTIONAL_BIT and records[MAGIC_AT] == MAGIC_V2:
                return True
    return False


def _noted(context: RequestContext, request: ProduceRequest) -> Admission | None:
    """Return what has to be known before the transactional batches of a request are appended."""
    admission: Admission | None = None
    replicas = context.broker.replicas
    by_topic: dict[str, dict[int, Partition]] = replicas.by_topic
    topics: list[TopicProduceData] = request.topic_data
    for topic in topics:
        name = topic_name(context, topic)
        if name is not None and not context.may_write(name):
            name = None
        here: dict[int, Partition] = {} if name is None else by_topic.get(name) or {}
        partitions: list[PartitionProduceData] = topic.partition_data
        for data in partitions:
            producer = transactional_producer(data.records)
            if producer is None:
                continue
            producer_id, epoch, sequence = producer
            if admission is None:
                version = context.api_version
                admission = Admission(
                    context.broker,
                    producer_id,
                    epoch,
                    joins=version >= FIRST_VERSION_THAT_JOINS,
                    asks_again=version >= FIRST_VERSION_THAT_JOINS,
                    knows_abortable=version >= FIRST_VERSION_THAT_KNOWS_ABORTABLE,
                )
            elif producer_id != admission.producer_id or epoch != admission.epoch:
                raise InvalidPidMappingError("Transactional records contained more than one producer ID")
            if name is not None:
                index: int = data.index
                partition = here.get(index) or replicas.try_get(name, index)
                admission.note((name, index), partition, sequence)
    return admission


def require_admitted(admission: Admission, partition: Partition, records: Any, version: int) -> None:
    """Check that what a request has for a partition may be appended now.

    Raises:
        KafkaError: it may not.
    """
    producers = partition.log.producers
    if not admission.errors and admission.is_open_in(producers):
        # All transactional batches of the request are of this producer.
        return
    producer = transactional_producer(records)
    if producer is None:
        return
    error = admission.errors.get(partition.key)
    if error is not None:
        raise _told(error, version)
    try:
        admission.check(partition.key, producers, producer[2])
    except ConcurrentTransactionsError as concurrent:
        raise _told(concurrent.code, version) from concurrent


def _told(error: ErrorCode, version: int) -> KafkaError:
    if error is ErrorCode.INVALID_TXN_STATE:
        return InvalidTxnStateError("Partition was not added to the transaction")
    if error in _TRIED_AGAIN or (
        error is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_VERSION_THAT_JOINS
    ):
        return NotEnoughReplicasError(
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {error.name}"
        )
    return error_for(error)
