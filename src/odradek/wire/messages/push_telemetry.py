"""PushTelemetry: a client's metrics (KIP-714)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import blob, boolean, int8, int16, int32, uuid
from odradek.wire.message import Message, request, response


@request(ApiKey.PUSH_TELEMETRY, versions="0", flexible="0+")
class PushTelemetryRequest(Message):
    """The metrics, serialized and maybe compressed."""

    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = blob()


@response(ApiKey.PUSH_TELEMETRY, versions="0", flexible="0+")
class PushTelemetryResponse(Message):
    """The error if they were not taken."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
