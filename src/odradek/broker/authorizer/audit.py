"""The audit log: what was denied, and on demand what was allowed, under Kafka's logger and in its words.

What somebody asked for and was denied is a line at INFO; what was granted one at DEBUG; questions whose
answer grants nothing (which operations are authorized, which topics are not to be seen) are lines at TRACE.
"""

from __future__ import annotations

import logging

from odradek.broker.authorizer.acl_index import AclDecision
from odradek.broker.requests.action import Action
from odradek.broker.requests.authorizer import AuthorizableRequestContext
from odradek.wire.api import ApiKey

LOGGER_NAME = "kafka.authorizer.logger"
TRACE = 5

_MOST_CHARACTERS = 255
"""Names come from strangers, and may be as long as any text can be."""

logger = logging.getLogger(LOGGER_NAME)


def level_of(decision: AclDecision, action: Action) -> int:
    """The level of the line about a decision."""
    if decision.allowed:
        return logging.DEBUG if action.log_if_allowed else TRACE
    return logging.INFO if action.log_if_denied else TRACE


def tell(
    level: int,
    decision: AclDecision,
    context: AuthorizableRequestContext,
    action: Action,
    pattern_type: str = "LITERAL",
) -> None:
    """Write the line about a decision."""
    resource_type, name = action.resource
    logger.log(
        level,
        "Principal = %s is %s operation = %s from host = %s on resource = %s:%s:%s for request = %s "
        "with resourceRefCount = %d based on rule %s",
        context.principal,
        "Allowed" if decision.allowed else "Denied",
        action.operation.name,
        context.client_host,
        resource_type.pascal_name,
        pattern_type,
        name if len(name) <= _MOST_CHARACTERS else f"{name[:_MOST_CHARACTERS]}…",
        ApiKey(context.api_key).api_name,
        action.reference_count,
        decision.rule,
    )
