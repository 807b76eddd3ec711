"""InitProducerId 0-5: an id for an idempotent producer.

- Ids come from blocks that are claimed in the metadata store before the first of them is given out, so that
  none is ever given twice, whatever happens in between.
- There is no transaction coordinator yet. A transactional id gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED: the
  one error that every client takes as final, where others make some of them try again for ever.
- Version 6 (two-phase commit, KIP-939) is not stable in Kafka and is not served.
- From version 3 a producer may name its current id and epoch: both or neither, else INVALID_REQUEST. An
  idempotent one gets a new id with epoch 0, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from odradek.broker.authorization import CLUSTER, Operation, transactional_id
from odradek.broker.registry import handler
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext
    from odradek.broker.producer_ids import ProducerIdBlock, ProducerIds

log = logging.getLogger(__name__)


@handler(ApiKey.INIT_PRODUCER_ID, versions=range(6))
def handle(
    context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | asyncio.Future[InitProducerIdResponse]:
    """Give out the next producer id."""
    if request.transactional_id is not None:
        if context.authorize(Operation.WRITE, transactional_id(request.transactional_id)):
            log.warning(
                "transactions are not available: producer refused transactional_id=%s client_id=%s client=%s",
                request.transactional_id,
                context.client_id,
                context.client_host,
            )
        return _failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.authorize(Operation.IDEMPOTENT_WRITE, CLUSTER):
        return _failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _failed(ErrorCode.INVALID_REQUEST)
    ids = context.broker.producer_ids
    if ids.is_exhausted:
        block = context.broker.controller.turns.run(ids.claim)
        if asyncio.isfuture(block):
            return asyncio.ensure_future(_when_claimed(ids, block))
        ids.use(block)
    return InitProducerIdResponse(producer_id=ids.next(), producer_epoch=0)


async def _when_claimed(ids: ProducerIds, block: asyncio.Future[ProducerIdBlock]) -> InitProducerIdResponse:
    ids.use(await block)
    return InitProducerIdResponse(producer_id=ids.next(), producer_epoch=0)


def _failed(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=int(error), producer_id=-1, producer_epoch=-1)
