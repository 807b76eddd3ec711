"""GetTelemetrySubscriptions 0 and PushTelemetry 0: metrics of clients (KIP-714).

THROTTLING_QUOTA_EXCEEDED for who asks or sends too soon, UNKNOWN_SUBSCRIPTION_ID, TELEMETRY_TOO_LARGE,
UNSUPPORTED_COMPRESSION_TYPE, INVALID_REQUEST for who has said goodbye, or has no id, INVALID_RECORD for what
are no metrics. See `broker.metrics.telemetry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps
from odradek.broker.metrics.telemetry import ACCEPTED_CODECS, Asking
from odradek.wire.api import ApiKey
from odradek.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from odradek.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext


def _asking(context: RequestContext) -> Asking:
    peer = context.peer
    return Asking(context.client_id, *peer.software, context.principal, peer.host, peer.port)


@handler(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=range(1))
def subscribe(
    context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Tell a client which metrics are wanted of it."""
    telemetry = context.broker.telemetry
    client_id, wish = telemetry.subscribe(bytes(request.client_instance_id), _asking(context), context.now_ms)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client_id,
        subscription_id=wish.subscription_id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED_CODECS],
        push_interval_ms=wish.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(wish.metrics),
    )


@handler(ApiKey.PUSH_TELEMETRY, versions=range(1))
def push(context: RequestContext, request: PushTelemetryRequest) -> Steps[PushTelemetryResponse]:
    """Check what comes, and keep it."""
    telemetry, asking = context.broker.telemetry, _asking(context)
    client_id = bytes(request.client_instance_id)
    wish = telemetry.push(
        client_id,
        asking,
        request.subscription_id,
        request.compression_type,
        len(request.metrics),
        context.now_ms,
        terminating=request.terminating,
    )
    if request.metrics and wish.metrics:
        # The frame's memory is the next request's after the first pause.
        data = memoryview(bytes(request.metrics))
        yield from telemetry.keep(client_id, asking, wish, request.compression_type, data, context.now_ms)
    return PushTelemetryResponse()
