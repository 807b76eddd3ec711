# compiled: mypyc
"""One question to an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from odradek.broker.requests.authorization import Operation, Resource


# A free list of one: actions are made one after the other.
@mypyc_attr(free_list_len=1)
@final
class Action:
    """An operation on a resource, which an authorizer allows or denies.

    Kafka: `org.apache.kafka.server.authorizer.Action`. Compiled, and no named tuple: one is made for each
    question that an authorizer is asked.

    Attributes:
        operation, resource: what to what.
        reference_count: how often the request names the resource, for the audit log.
        log_if_allowed: whether access is granted by this; not, where it only says what could be done.
        log_if_denied: whether access was asked for by name; not, where what is hidden is left out.
    """

    __slots__ = ("log_if_allowed", "log_if_denied", "operation", "reference_count", "resource")

    def __init__(
        self,
        operation: Operation,
        resource: Resource,
        reference_count: int = 1,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> None:
        self.operation = operation
        self.resource = resource
        self.reference_count = reference_count
        self.log_if_allowed = log_if_allowed
        self.log_if_denied = log_if_denied
