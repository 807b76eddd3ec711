# compiled: mypyc
"""The surroundings of a request, for the handler that answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from odradek.broker.requests.action import Action
from odradek.broker.requests.authorization import (
    GROUP_OPERATIONS_BEFORE_4_0,
    SUPPORTED_OPERATIONS,
    Operation,
    Resource,
    ResourceType,
)

if TYPE_CHECKING:
    from odradek.broker.requests.peer import Grants, Peer
    from odradek.broker.services import BrokerServices
    from odradek.wire.headers import RequestHeader


_LONGEST_TOPIC = 249
"""No topic has a longer name; what strangers make up is not kept."""


# A free list of one: mostly an instance dies before the next is made, which then takes its memory.
@mypyc_attr(free_list_len=1)
class RequestContext:
    """One request's surroundings, handed to its handler.

    Attributes:
        broker: the broker that serves the request; the way to the image, the controller, the partitions,
            the coordinators, the clock and the purgatory.
        header: the decoded request header (`api_key`, `api_version`, `correlation_id`, `client_id`).
        api_version: the version of the request, and so of the response.
        peer: who asks, and by which listener.
        now_ms: wall-clock milliseconds at which the request was taken up; one reading for the whole request.
        worked_ms: for how long the request was worked on, but for the stretch that is going on.
        resumed_ms: the monotonic time at which that began; negative while nothing is done for the request.
            Both are kept only while a quota asks for them.
        has_errors: set where a response may tell an error; of most APIs it is looked for all the same.
        is_follower: set where another broker fetches, to copy.
        is_exempt: whether the time that the request takes counts for nobody's quota.
        mute_ms: set by a handler that throttles: nothing more is taken up from the connection for so long.
        close_connection: set by a handler that wants the connection closed instead of answered (Produce with
            acks=0 that failed).
        on_disconnect: set by a handler that returns a promise; called when the peer goes before the answer,
            so that what waits for nobody is not kept.
    """

    __slots__ = (
        "api_version",
        "broker",
        "close_connection",
        "has_errors",
        "header",
        "is_exempt",
        "is_follower",
        "mute_ms",
        "now_ms",
        "on_disconnect",
        "peer",
        "resumed_ms",
        "worked_ms",
    )

    def __init__(self, broker: BrokerServices, header: RequestHeader, peer: Peer, now_ms: int) -> None:
        self.broker = broker
        self.header = header
        self.peer = peer
        self.api_version: int = header.api_version
        self.now_ms = now_ms
        self.mute_ms = 0
        self.worked_ms = 0.0
        self.resumed_ms = -1.0
        self.is_exempt = False
        self.has_errors = False
        self.is_follower = False
        self.close_connection = False
        self.on_disconnect: Callable[[], None] | None = None

    def thread_ms(self, now_ms: float) -> float:
        """For how many milliseconds the request has been worked on; the time in which it waited is none.

        Args:
            now_ms: monotonic milliseconds.
        """
        return self.worked_ms if self.resumed_ms < 0 else self.worked_ms + now_ms - self.resumed_ms

    def pause(self, now_ms: float) -> None:
        """Stop the clock of `thread_ms`, until `resumed_ms` is set again."""
        self.worked_ms = self.thread_ms(now_ms)
        self.resumed_ms = -1.0

    @property
    def api_key(self) -> int:
        """The number of the request's API."""
        return self.header.api_key

    @property
    def client_host(self) -> str:
        """The peer's address as text, without the port."""
        return self.peer.host

    @property
    def principal(self) -> str:
        """The user who asks, in Kafka's form `User:name`."""
        return self.peer.principal

    @property
    def listener_name(self) -> str:
        """The name of the listener that the request came in by."""
        return self.peer.listener_name

    @property
    def client_id(self) -> str:
        """The client id of the header, `""` when the client gave none."""
        return self.header.client_id or ""

    def authorize(
        self,
        operation: Operation,
        resource: Resource,
        count: int = 1,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        """Return whether this request's principal may do `operation` to `resource`; see `Action`."""
        authorizer = self.broker.authorizer
        if authorizer is None:
            return True
        return authorizer.authorize(self, Action(operation, resource, count, log_if_allowed, log_if_denied))

    def may_write(self, topic: str) -> bool:
        """Return whether the principal may write to a topic; `authorize`, in less time where it was asked
        before."""
        grants = self.peer.grants
        if grants is not None and grants.valid and topic in grants.write:
            return grants.principal == self.peer.principal or self._may_write(topic)
        return self._may_write(topic)

    def _may_write(self, topic: str) -> bool:
        if self.broker.authorizer is None:
            return True
        grants = self._grants()
        if not self.authorize(Operation.WRITE, Resource(ResourceType.TOPIC, topic)):
            return False
        if grants is not None and len(topic) <= _LONGEST_TOPIC:
            grants.write.add(topic)
        return True

    def may_write_with(self, transactional_id: str) -> bool:
        """Return whether the principal may write with a transactional id."""
        if self.broker.authorizer is None:
            return True
        return self.authorize(Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, transactional_id))

    def may_read(self, topic: str, times: Callable[[str], int]) -> bool:
        """Return whether the principal may read a topic; see `may_write`.

        Args:
            topic: its name.
            times: tells how often the request names it, for the audit log.
        """
        grants = self.peer.grants
        if grants is not None and grants.valid and topic in grants.read:
            return grants.principal == self.peer.principal or self._may_read(topic, times)
        return self._may_read(topic, times)

    def _may_read(self, topic: str, times: Callable[[str], int]) -> bool:
        if self.broker.authorizer is None:
            return True
        grants = self._grants()
        if not self.authorize(Operation.READ, Resource(ResourceType.TOPIC, topic), times(topic)):
            return False
        if grants is not None and len(topic) <= _LONGEST_TOPIC:
            grants.read.add(topic)
        return True

    def _grants(self) -> Grants | None:
        """Return where an answer is remembered. Take it before the question: an ACL may change meanwhile."""
        authorizer = self.broker.authorizer
        if authorizer is None:
            return None
        grants = self.peer.grants = authorizer.grants_of(self.peer.principal, self.peer.host)
        return grants

    def authorize_by_type(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the principal may do `operation` to at least one resource of a type (KIP-679)."""
        authorizer = self.broker.authorizer
        return authorizer is None or authorizer.authorize_by_type(self, operation, resource_type)

    def authorized_operations(self, resource: Resource) -> int:
        """The bit field of allowed operations that Metadata, DescribeGroups and DescribeCluster report."""
        bits = 0
        operations = SUPPORTED_OPERATIONS[resource.type]
        release = self.broker.handlers.release
        if resource.type == ResourceType.GROUP and release is not None and not release.at_least("4.0"):
            operations = GROUP_OPERATIONS_BEFORE_4_0
        for operation in operations:
            if self.authorize(operation, resource, log_if_allowed=False, log_if_denied=False):
                bits |= 1 << operation
        return bits
