"""The bounds of a listener and its connections, and how the configs say them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.broker.config.listeners import parse_ip_overrides

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig

_MIN_PARTIAL_LIMIT = 256 * 1024 * 1024
_BACKLOG = 1024
_LEAST_RESERVED = 16
_MOST_RESERVED = 512


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """The bounds of a listener, under the names of Kafka's configs.

    Attributes:
        max_request_bytes: `socket.request.max.bytes`.
        max_connections: `max.connections`: at this number nothing more is accepted until one closes.
        max_connections_per_ip: `max.connections.per.ip`: further ones from that address are closed at once.
        max_connections_per_ip_overrides: `max.connections.per.ip.overrides`.
        idle_ms: `connections.max.idle.ms`; negative for never.
        queued_max_request_bytes: `queued.max.request.bytes`; -1 for no bound.
        backlog: `socket.listen.backlog.size`.
        send_buffer_bytes, receive_buffer_bytes: `socket.send.buffer.bytes`, `socket.receive.buffer.bytes`;
            -1 leaves it to the operating system.
        partial_frames_bytes: what all frames that have not arrived whole may hold together. Beyond it the
            connection that has been silent longest in the middle of a frame is closed.
        network_threads: `num.network.threads`: those that send long answers beside the event loop.
    """

    max_request_bytes: int = 104_857_600
    max_connections: int = 2**31 - 1
    max_connections_per_ip: int = 2**31 - 1
    max_connections_per_ip_overrides: tuple[tuple[str, int], ...] = ()
    idle_ms: int = 600_000
    queued_max_request_bytes: int = -1
    backlog: int = 50
    send_buffer_bytes: int = 102_400
    receive_buffer_bytes: int = 102_400
    partial_frames_bytes: int = 0
    network_threads: int = 3

    @property
    def partial_limit(self) -> int:
        """`partial_frames_bytes`, or when that is 0 enough for two of the largest frames."""
        if self.partial_frames_bytes > 0:
            return self.partial_frames_bytes
        if self.queued_max_request_bytes > 0:
            return max(self.queued_max_request_bytes, self.max_request_bytes)
        return max(2 * self.max_request_bytes, _MIN_PARTIAL_LIMIT)


def descriptors_for_connections() -> int | None:
    """The file descriptor from which on no connection is taken; None without a limit.

    The system gives the lowest number that is free: one as high as this means that all below are in use. What
    is left is for the broker's own files, whoever connects.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return None
    return soft - min(_MOST_RESERVED, max(_LEAST_RESERVED, soft // 8))


def network_limits(config: BrokerConfig) -> NetworkLimits:
    """The listeners' bounds from the configs."""
    return NetworkLimits(
        max_request_bytes=config.socket_request_max_bytes,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=parse_ip_overrides(config.max_connections_per_ip_overrides or ""),
        idle_ms=config.connections_max_idle_ms,
        queued_max_request_bytes=config.queued_max_request_bytes,
        # Kafka's default of 50 overflows when many clients come at once, and each that does loses a second.
        backlog=config.socket_listen_backlog_size
        if config.is_given("socket.listen.backlog.size")
        else _BACKLOG,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
        network_threads=config.num_network_threads,
    )
