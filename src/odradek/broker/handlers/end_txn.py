"""EndTxn 0-5: commit or abort a transaction.

- The answer comes when the outcome is in the log for good; the markers are written after it.
- 2 knows PRODUCER_FENCED; before, that is INVALID_PRODUCER_EPOCH.
- 5 is KIP-890's: it raises the epoch, and answers with the producer id and epoch to go on with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.coordinators.reply import Reply
from odradek.coordinators.transactions.commands import ProducerResult
from odradek.coordinators.transactions.coordinator import error_for_version
from odradek.coordinators.transactions.transaction import TRANSACTIONS_V2
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext

_FIRST_VERSION_OF_V2 = 5


@handler(ApiKey.END_TXN, versions=range(6))
def handle(context: RequestContext, request: EndTxnRequest) -> EndTxnResponse | Promise[EndTxnResponse]:
    """End the transaction as its producer asks."""
    if not context.may_write_with(request.transactional_id):
        return EndTxnResponse(error_code=int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    # A transaction of version 2 may use up its epochs, and then needs another producer id.
    return context.broker.transactions.with_producer_ids(lambda: _end(context, request))


def _end(context: RequestContext, request: EndTxnRequest) -> EndTxnResponse | Promise[EndTxnResponse]:
    broker, version = context.broker, context.api_version
    answer: ResponseFuture[EndTxnResponse] = ResponseFuture()

    def deliver(result: ProducerResult) -> None:
        answer.deliver(
            EndTxnResponse(
                error_code=int(error_for_version(result.error, "EndTxn", version)),
                producer_id=result.producer_id,
                producer_epoch=result.epoch,
            )
        )

    broker.transactions.coordinator.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        commit=request.committed,
        client_version=TRANSACTIONS_V2 if version >= _FIRST_VERSION_OF_V2 else 0,
        reply=Reply(deliver, ProducerResult),
    )
    return answer.result(broker.loop)
