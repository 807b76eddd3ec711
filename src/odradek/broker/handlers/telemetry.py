"""GetTelemetrySubscriptions 0 and PushTelemetry 0: metrics of clients (KIP-714), of which none are wanted.

THROTTLING_QUOTA_EXCEEDED for who asks or sends too soon, UNKNOWN_SUBSCRIPTION_ID, TELEMETRY_TOO_LARGE,
UNSUPPORTED_COMPRESSION_TYPE, INVALID_REQUEST for who has said goodbye, or has no id. See `broker.telemetry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.metrics.telemetry import ACCEPTED_CODECS, PUSH_INTERVAL_MS
from odradek.wire.api import ApiKey
from odradek.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from odradek.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext


@handler(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=range(1))
def subscribe(
    context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Ask for nothing."""
    telemetry = context.broker.telemetry
    client_id, subscription = telemetry.subscribe(bytes(request.client_instance_id), context.now_ms)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client_id,
        subscription_id=subscription,
        accepted_compression_types=[int(codec) for codec in ACCEPTED_CODECS],
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=[],
    )


@handler(ApiKey.PUSH_TELEMETRY, versions=range(1))
def push(context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Check what comes, and drop it."""
    context.broker.telemetry.push(
        bytes(request.client_instance_id),
        request.subscription_id,
        request.compression_type,
        len(request.metrics),
        context.now_ms,
        terminating=request.terminating,
    )
    return PushTelemetryResponse()
