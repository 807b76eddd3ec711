"""ControlledShutdown 0-3: a broker wants to leave; the answer names what it still leads.

- Only the controller answers: STALE_CONTROLLER_EPOCH from any other broker.
- From version 2 on the broker says its epoch: one before the present is STALE_BROKER_EPOCH.
- A broker that is not there is BROKER_NOT_AVAILABLE.
- Partitions with a single replica stay where they are and are not named, as in Kafka: a broker that is alone
  may always leave.
- Its leads go to others first, in the controller's turn; what is named is what nobody else can lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.errors import ClusterAuthorizationError, NotControllerError
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise, promised_if_future
from odradek.wire.api import ApiKey
from odradek.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.cluster.controller.kafka_controller import KafkaController


@handler(ApiKey.CONTROLLED_SHUTDOWN, versions=range(4))
def handle(
    context: RequestContext, request: ControlledShutdownRequest
) -> ControlledShutdownResponse | Promise[ControlledShutdownResponse]:
    """Name the replicated partitions that the broker leads."""
    if not context.authorize(Operation.CLUSTER_ACTION, CLUSTER):
        raise ClusterAuthorizationError
    controller = context.broker.controller
    left: ControlledShutdownResponse | Promise[ControlledShutdownResponse]
    left = promised_if_future(controller.event_queue.run(lambda: _leave(controller, request)))
    return left


def _leave(controller: KafkaController, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
    try:
        remaining = controller.controlled_shutdown(request.broker_id, request.broker_epoch)
    except NotControllerError:
        return ControlledShutdownResponse(error_code=int(ErrorCode.STALE_CONTROLLER_EPOCH))
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=topic, partition_index=index) for topic, index in remaining
        ]
    )
