"""GetTelemetrySubscriptions: which metrics a client is asked to send (KIP-714)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int8, int16, int32, string, uuid
from odradek.wire.message import Message, request, response


@request(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest(Message):
    """The client's instance id."""

    client_instance_id: bytes = uuid()


@response(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse(Message):
    """The metrics and how often."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)
