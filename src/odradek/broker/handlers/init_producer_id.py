"""InitProducerId 0-6: an id for an idempotent producer, or for the owner of a transactional id.

- Ids come from blocks that are claimed in the metadata store before the first of them is given out, so that
  none is ever given twice, whatever happens in between.
- With a transactional id the transaction coordinator answers: the former owner is fenced, what it left open
  is aborted first (CONCURRENT_TRANSACTIONS until that is done).
- From version 3 a producer may name its current id and epoch, to go on after an error (KIP-360): both or
  neither, else INVALID_REQUEST. An idempotent one gets a new id with epoch 0, as in Kafka.
- Version 4 knows PRODUCER_FENCED; before, that is INVALID_PRODUCER_EPOCH.
- Version 6 takes part in two-phase commits (KIP-939): a producer whose transactions never time out, where
  `transaction.two.phase.commit.enable` allows that (else TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as to who may
  not TWO_PHASE_COMMIT), and one that comes back for its open transaction. Kafka holds it for unstable.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.broker.requests.authorization import CLUSTER, Operation, ResourceType, transactional_id
from odradek.coordinators.reply import Reply
from odradek.coordinators.transactions.commands import Expected, ProducerResult
from odradek.coordinators.transactions.coordinator import error_for_version
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise, promised
from odradek.wire.api import ApiKey
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.transactions.producer_ids import ProducerIds
    from odradek.cluster.nodes import ProducerIdBlock


def _may_be_idempotent(context: RequestContext) -> bool:
    """Return whether the producer may write to any topic at all, or everywhere (KIP-679)."""
    return context.authorize(
        Operation.IDEMPOTENT_WRITE, CLUSTER, log_if_denied=False
    ) or context.authorize_by_type(Operation.WRITE, ResourceType.TOPIC)


@handler(ApiKey.INIT_PRODUCER_ID, versions=range(7))
def handle(
    context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Promise[InitProducerIdResponse]:
    """Give out the next producer id, or the next epoch of a transactional id."""
    name = request.transactional_id
    if name is not None:
        if not context.may_write_with(name):
            return _failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if request.enable2_pc and not context.authorize(Operation.TWO_PHASE_COMMIT, transactional_id(name)):
            return _failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not _may_be_idempotent(context):
        return _failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _failed(ErrorCode.INVALID_REQUEST)
    if name is not None:
        transactions = context.broker.transactions
        return transactions.with_producer_ids(lambda: _initialise(context, name, request))
    ids = context.broker.producer_ids
    if ids.is_exhausted:
        block = context.broker.controller.event_queue.run(ids.claiming())
        if asyncio.isfuture(block):
            return promised(asyncio.ensure_future(_when_claimed(context, ids, block)))
        ids.use(block)
    return _new_id(context, ids)


async def _when_claimed(
    context: RequestContext, ids: ProducerIds, block: asyncio.Future[ProducerIdBlock]
) -> InitProducerIdResponse:
    ids.use(await block)
    return _new_id(context, ids)


def _new_id(context: RequestContext, ids: ProducerIds) -> InitProducerIdResponse:
    broker = context.broker
    throttle_ms = broker.producer_id_throttle.take(
        (context.principal, context.client_host), broker.clock.monotonic_ms()
    )
    context.mute_ms = throttle_ms
    return InitProducerIdResponse(producer_id=ids.next(), producer_epoch=0, throttle_time_ms=throttle_ms)


def _initialise(
    context: RequestContext, name: str, request: InitProducerIdRequest
) -> InitProducerIdResponse | Promise[InitProducerIdResponse]:
    broker, version = context.broker, context.api_version
    answer: ResponseFuture[InitProducerIdResponse] = ResponseFuture()

    def deliver(result: ProducerResult) -> None:
        error = error_for_version(result.error, "InitProducerId", version)
        if error:
            answer.deliver(_failed(error))
        else:
            answer.deliver(
                InitProducerIdResponse(
                    producer_id=result.producer_id,
                    producer_epoch=result.epoch,
                    ongoing_txn_producer_id=result.ongoing_producer_id,
                    ongoing_txn_producer_epoch=result.ongoing_epoch,
                )
            )

    expected = None
    if request.producer_id != -1:
        expected = Expected(request.producer_id, request.producer_epoch)
    broker.transactions.coordinator.init_producer_id(
        name,
        request.transaction_timeout_ms,
        expected,
        Reply(deliver, ProducerResult),
        two_phase=request.enable2_pc,
        keep_prepared=request.keep_prepared_txn,
    )
    return answer.result(broker.loop)


def _failed(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=int(error), producer_id=-1, producer_epoch=-1)
