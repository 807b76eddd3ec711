"""What a Produce request with transactional batches has to pass before anything is appended.

- The request names a transactional id that the principal may write with:
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED for all of it otherwise.
- One producer: INVALID_PRODUCER_ID_MAPPING.
- Each partition belongs to the producer's transaction (`odradek.broker.transactions.gate`): asked for up to
  version 11, added by 12 and later (KIP-890). INVALID_TXN_STATE, or TRANSACTION_ABORTABLE from 11 on. What a
  client should try again it is told as NOT_ENOUGH_REPLICAS, which old ones know; CONCURRENT_TRANSACTIONS from
  12 on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from odradek.broker.conversion.produce import partitions_of
from odradek.broker.requests.authorization import Operation, transactional_id
from odradek.broker.transactions.gate import Admission, PartitionKey, admit
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
    FLAGS_AT,
    HEADER_BYTES,
    MAGIC_AT,
    MAGIC_V2,
    TRANSACTIONAL_BIT,
    BatchHeader,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.replication.partition import Partition
    from odradek.wire.messages.produce import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )

FIRST_VERSION_THAT_KNOWS_ABORTABLE = 11
FIRST_VERSION_THAT_JOINS = 12

_NO_PRODUCER = -1, -1

_TRIED_AGAIN = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
}


def is_transactional(records: Any) -> bool:
    """Return whether the records of a client are a transactional batch; too few bytes are none."""
    return (
        records is not None
        and len(records) >= HEADER_BYTES
        and bool(records[FLAGS_AT] & TRANSACTIONAL_BIT)
        and records[MAGIC_AT] == MAGIC_V2
    )


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
    name = request.transactional_id
    if name is None or not context.authorize(Operation.WRITE, transactional_id(name)):
        raise TransactionalIdAuthorizationError
    producer: tuple[int, int] | None = None
    sequences: dict[PartitionKey, int] = {}
    for key, header in _batches(context, request):
        if producer is None:
            producer = header.producer_id, header.producer_epoch
        elif producer != (header.producer_id, header.producer_epoch):
            raise InvalidPidMappingError("Transactional records contained more than one producer ID")
        sequences[key] = header.base_sequence
    version = context.api_version
    return admit(
        context.broker,
        name,
        *(producer or _NO_PRODUCER),
        sequences,
        joins=version >= FIRST_VERSION_THAT_JOINS,
        knows_abortable=version >= FIRST_VERSION_THAT_KNOWS_ABORTABLE,
    )


def _has_transactional(request: ProduceRequest) -> bool:
    topics: list[TopicProduceData] = request.topic_data
    for topic in topics:
        partitions: list[PartitionProduceData] = topic.partition_data
        for data in partitions:
            records: Any = data.records
            if records is None or len(records) <= FLAGS_AT:
                continue
            flags: int = records[FLAGS_AT]
            if flags & TRANSACTIONAL_BIT and is_transactional(records):
                return True
    return False


def _batches(context: RequestContext, request: ProduceRequest) -> Iterator[tuple[PartitionKey, BatchHeader]]:
    for _, key, data in partitions_of(context, request):
        records = data.records
        if not is_transactional(records):
            continue
        try:
            header = BatchHeader.parse(records)
        except KafkaError:
            # The append says so, of this partition alone.
            continue
        # Without a producer it is part of no transaction.
        if header.producer_id >= 0:
            yield key, header


def require_admitted(
    admission: Admission, key: PartitionKey, partition: Partition, records: Any, version: int
) -> None:
    """Return whether what a request has for a partition may be appended now.

    Raises:
        KafkaError: it may not.
    """
    if not is_transactional(records):
        return
    error = admission.errors.get(key)
    if error is not None:
        raise _told(error, version)
    header = BatchHeader.parse(records)
    if header.producer_id < 0:
        return
    try:
        admission.check(
            key, partition.log.producers, header.producer_id, header.producer_epoch, header.base_sequence
        )
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
