"""Produce: the request made of batches, and what an answer means for a batch."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Any

from odradek.client.core.batches import ProducerBatch
from odradek.client.core.sequences import Sequences
from odradek.client.errors import UnsupportedByBrokerError
from odradek.errors import ErrorCode, InvalidRecordError, KafkaError, error_for
from odradek.errors.codes import to_code
from odradek.records.batch import BatchHeader, batch_records
from odradek.records.conversion.down_conversion import convert
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


class Verdict(Enum):
    """The fate of a batch after an answer."""

    WRITTEN = auto()
    RETRY = auto()
    SPLIT = auto()
    FAIL = auto()


BATCHES_FROM = 3
"""The first version of Produce that takes record batches; before, message sets: of magic 1 in version 2."""


def produce_request(
    batches: Iterable[ProducerBatch],
    acks: int,
    timeout_ms: int,
    version: int = BATCHES_FROM,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """One request with a batch per partition; for an old version as message sets."""
    by_topic: dict[str, list[PartitionProduceData]] = {}
    for batch in batches:
        data = batch.encode()
        if version < BATCHES_FROM:
            data = convert(data, 1 if version == 2 else 0)
        by_topic.setdefault(batch.tp.topic, []).append(
            PartitionProduceData(index=batch.tp.partition, records=data)
        )
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, partition_data=data) for topic, data in by_topic.items()],
    )


def too_new(batch: ProducerBatch) -> dict[int, Exception] | None:
    """Return what message sets cannot carry: the batch's records with headers, and an error for each record.

    None if there are none with headers, so that nothing is lost by sending the batch to an old broker.
    """
    data = batch.encode()
    records = batch_records(BatchHeader.parse(data), data)
    if not any(record.headers for record in records):
        return None
    reason = (
        f"{batch.tp}: the record has headers, which the broker cannot keep: Kafka 0.11.0 brought them. "
        "Send it without"
    )
    return {
        index: UnsupportedByBrokerError(reason)
        if record.headers
        else KafkaError(f"{batch.tp}: not written, because the batch held other records with headers")
        for index, record in enumerate(records)
    }


_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

_NOT_APPENDED = _TOO_LARGE | {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_VERSION,
}
"""Answers that a leader gives before it appends. Any other may come of a batch that it has appended: also
NOT_LEADER_OR_FOLLOWER, to those that wait for replicas when the leader changes."""


def leaves_doubt(code: ErrorCode) -> bool:
    """Return whether a batch that was answered so may be in the log all the same."""
    return code not in _NOT_APPENDED


def is_too_large(code: ErrorCode) -> bool:
    """Return whether the broker would take the records in smaller batches."""
    return code in _TOO_LARGE


def judge(
    batch: ProducerBatch,
    code: ErrorCode,
    *,
    log_start_offset: int,
    sequences: Sequences | None,
    retries: int,
    expired: bool,
) -> Verdict:
    """Return what to do with a batch.

    Args:
        code: the partition's error code, NONE for success.
        log_start_offset: from the answer, -1 if it has none.
        retries: how many tries may follow the first.
        expired: the delivery timeout is over.
    """
    # Of a duplicate the broker has forgotten where it is: written, offset unknown. Nothing else means
    # written, what became of other batches neither.
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return Verdict.WRITTEN
    if is_too_large(code) and batch.count > 1:
        return Verdict.SPLIT
    if expired or batch.attempts >= retries:
        return Verdict.FAIL
    again = code.retriable if sequences is None else sequences.can_retry(batch, code, log_start_offset)
    return Verdict.RETRY if again else Verdict.FAIL


def failure(batch: ProducerBatch, answer: Any) -> tuple[KafkaError, dict[int, Exception] | None]:
    """The error of a batch that is given up, and those of single records where the broker named them
    (KIP-467).
    """
    code = to_code(answer.error_code)
    message = answer.error_message or code.message
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        message = f"not authorized to write to topic {batch.tp.topic!r}"
    if code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT and batch.has_sequence:
        message = f"{message} An idempotent producer's batches need message.format.version 0.11.0: set "
        message += "enable.idempotence to false, or raise the topic's format"
    error = error_for(answer.error_code, f"{batch.tp}: {message}")
    if not answer.record_errors:
        return error, None
    named = {r.batch_index: r.batch_index_error_message or message for r in answer.record_errors}
    per_record: dict[int, Exception] = {}
    for index in range(batch.count):
        if index in named:
            per_record[index] = (
                error_for(answer.error_code, named[index])
                if len(named) == 1
                else InvalidRecordError(named[index])
            )
        else:
            per_record[index] = KafkaError(
                f"{batch.tp}: not written, because the batch held other records that the broker refused"
            )
    return error, per_record
