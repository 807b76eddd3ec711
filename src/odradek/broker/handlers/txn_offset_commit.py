"""TxnOffsetCommit 0-6: offsets of a group that count when a producer's transaction is committed.

- The transactional id is authorised, then the group, then each topic. A partition that does not exist is
  refused by itself, UNKNOWN_TOPIC_OR_PARTITION; one whose note is too long as well.
- The group's partition of `__consumer_offsets` belongs to the transaction
  (`odradek.broker.transactions.gate`): the producer has said so with AddOffsetsToTxn, 5 and later add it here
  (KIP-890). INVALID_TXN_STATE otherwise, from 4 on TRANSACTION_ABORTABLE.
- 3 names the member and its generation (KIP-447), 6 has topic ids (UNKNOWN_TOPIC_ID). 0 and 1 do not know
  COORDINATOR_LOAD_IN_PROGRESS and are told COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.broker.event_loop.slices import Steps
from odradek.broker.groups.committing import commit_in_pieces, take_refused
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.broker.transactions.gate import Admission
from odradek.coordinators.append_errors import seen_by_client
from odradek.coordinators.groups.commit_answers import transactional_commit_error
from odradek.errors import ConcurrentTransactionsError, KafkaError, NotLeaderOrFollowerError
from odradek.errors.codes import ErrorCode
from odradek.records.batch import NO_SEQUENCE
from odradek.util.futures import then
from odradek.util.promise import Promise, promised
from odradek.util.topic_partition import TopicPartition
from odradek.wire.api import ApiKey
from odradek.wire.internal_topics import GROUP_METADATA_TOPIC
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused

FIRST_VERSION_THAT_KNOWS_LOADING = 2
FIRST_VERSION_THAT_KNOWS_ABORTABLE = 4
FIRST_VERSION_THAT_JOINS = 5
FIRST_VERSION_WITH_TOPIC_IDS = 6


def _error_response(refused: Refused[TxnOffsetCommitRequest]) -> TxnOffsetCommitResponse:
    return transactional_commit_error(refused.request, refused.error)


@handler(ApiKey.TXN_OFFSET_COMMIT, versions=range(7), error_response=_error_response)
def handle(context: RequestContext, request: TxnOffsetCommitRequest) -> Steps[TxnOffsetCommitResponse]:
    """Write the offsets, and answer when they are committed to the log."""
    if not context.may_write_with(request.transactional_id):
        return transactional_commit_error(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.authorize(Operation.READ, group_resource(request.group_id)):
        return transactional_commit_error(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    refused = yield from take_refused(context, request.topics, by_id=by_id)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=refused)
    topics = yield from commit_in_pieces(request, lambda piece: _commit(context, piece), refused)
    return TxnOffsetCommitResponse(topics=topics)


def _commit(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]:
    answer: ResponseFuture[TxnOffsetCommitResponse] = ResponseFuture()

    def deliver(response: TxnOffsetCommitResponse) -> None:
        if context.api_version < FIRST_VERSION_THAT_KNOWS_LOADING:
            _tell_old_clients(response)
        answer.deliver(response)

    def fail(error: ErrorCode) -> None:
        deliver(transactional_commit_error(request, seen_by_client(error)))

    coordinator = context.broker.groups.coordinator
    try:
        if not request.group_id:
            fail(ErrorCode.INVALID_GROUP_ID)
            return answer.result(context.broker.loop)
        key = GROUP_METADATA_TOPIC, coordinator.partition_of(request.group_id)
    except KafkaError as error:
        fail(error.code)
        return answer.result(context.broker.loop)

    def commit(admission: Admission) -> TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]:
        error = _refusal(context, admission, key)
        if error is None:
            coordinator.commit_offsets_in_transaction(request, deliver)
        else:
            fail(error)
        return answer.result(context.broker.loop)

    admission = Admission(
        context.broker,
        request.producer_id,
        request.producer_epoch,
        joins=context.api_version >= FIRST_VERSION_THAT_JOINS,
        knows_abortable=context.api_version >= FIRST_VERSION_THAT_KNOWS_ABORTABLE,
    )
    admission.note(key, context.broker.replicas.find(*key), NO_SEQUENCE)
    answered = admission.ask(request.transactional_id)
    return promised(then(answered, commit)) if isinstance(answered, asyncio.Future) else commit(answered)


def _refusal(context: RequestContext, admission: Admission, key: TopicPartition) -> ErrorCode | None:
    error = admission.errors.get(key)
    partition = context.broker.replicas.find(*key)
    if error is None and partition is not None:
        try:
            admission.check(key, partition.log.producers, NO_SEQUENCE)
        except NotLeaderOrFollowerError:
            return ErrorCode.NOT_COORDINATOR
        except ConcurrentTransactionsError as raised:
            joins = context.api_version >= FIRST_VERSION_THAT_JOINS
            return raised.code if joins else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        except KafkaError as raised:
            return raised.code
    return error


def _tell_old_clients(response: TxnOffsetCommitResponse) -> None:
    """Producers before 2.0 may break at COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                partition.error_code = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
