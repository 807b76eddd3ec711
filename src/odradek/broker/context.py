"""What a handler knows about the request that it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.authorization import SUPPORTED_OPERATIONS, Operation, Resource

if TYPE_CHECKING:
    from odradek.broker.network.peer import Peer
    from odradek.broker.services import BrokerServices
    from odradek.wire.headers import RequestHeader

ANONYMOUS = "User:ANONYMOUS"


class RequestContext:
    """One request's surroundings, handed to its handler.

    Attributes:
        broker: the broker that serves the request; the way to the image, the controller, the partitions,
            the coordinators, the clock and the purgatory.
        header: the decoded request header (`api_key`, `api_version`, `correlation_id`, `client_id`).
        api_version: the version of the request, and so of the response.
        client_host: the peer's address as text, without the port.
        client_port: the peer's port.
        principal: who asks, in Kafka's form `User:name`.
        listener_name: the name of the listener that the request came in by.
        connection_id: Kafka's `local-remote-n`, unique among live connections; keys per-connection state.
        now_ms: wall-clock milliseconds at which the request was taken up; one reading for the whole request.
        mute_ms: set by a handler that throttles: nothing more is taken up from the connection for so long.
        close_connection: set by a handler that wants the connection closed instead of answered (Produce with
            acks=0 that failed).
        on_disconnect: set by a handler that returns a future; called when the peer goes before the answer, so
            that what waits for nobody is not kept.
    """

    __slots__ = (
        "api_version",
        "broker",
        "client_host",
        "client_port",
        "close_connection",
        "connection_id",
        "header",
        "listener_name",
        "mute_ms",
        "now_ms",
        "on_disconnect",
        "principal",
    )

    def __init__(
        self,
        broker: BrokerServices,
        header: RequestHeader,
        *,
        now_ms: int,
        client_host: str = "127.0.0.1",
        client_port: int = 0,
        principal: str = ANONYMOUS,
        listener_name: str = "PLAINTEXT",
        connection_id: str = "",
    ) -> None:
        self.broker = broker
        self.header = header
        self.api_version: int = header.api_version
        self.now_ms = now_ms
        self.client_host = client_host
        self.client_port = client_port
        self.principal = principal
        self.listener_name = listener_name
        self.connection_id = connection_id
        self.mute_ms = 0
        self.close_connection = False
        self.on_disconnect: Callable[[], None] | None = None

    @classmethod
    def of_frame(cls, broker: BrokerServices, header: RequestHeader, peer: Peer) -> RequestContext:
        """For a request that is taken up now."""
        return cls(
            broker,
            header,
            now_ms=broker.clock.now_ms(),
            client_host=peer.host,
            client_port=peer.port,
            connection_id=peer.connection_id,
            listener_name=peer.listener_name,
        )

    @property
    def client_id(self) -> str:
        """The client id of the header, `""` when the client gave none."""
        return self.header.client_id or ""

    def authorize(self, operation: Operation, resource: Resource) -> bool:
        """Whether this request's principal may do `operation` to `resource`."""
        authorizer = self.broker.authorizer
        return authorizer is None or authorizer.authorize(
            self.principal, self.client_host, operation, resource
        )

    def authorized_operations(self, resource: Resource) -> int:
        """The bit field of allowed operations that Metadata, DescribeGroups and DescribeCluster report."""
        bits = 0
        for operation in SUPPORTED_OPERATIONS[resource.type]:
            if self.authorize(operation, resource):
                bits |= 1 << operation
        return bits
