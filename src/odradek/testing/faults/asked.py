"""A request as a rule looks at it: who asks, and what the request names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.testing.faults.effects import FETCH, topic_name
from odradek.testing.faults.fault import Asked
from odradek.testing.faults.names import Names, parts
from odradek.wire.api import ApiKey

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.services import BrokerServices

_PRODUCE = int(ApiKey.PRODUCE)


def asked_by(broker: BrokerServices, context: RequestContext, request: Any) -> Asked:
    """Return a request as far as a rule looks at it.

    Args:
        broker: the one that it came to.
        context, request: what its handler is called with.
    """
    names = tuple(parts(request, lambda topic_id: topic_name(context, topic_id)))
    if context.api_key == FETCH:
        names += names_in_session(broker, request)
    return Asked(
        context.api_version,
        context.client_id,
        context.listener_name,
        names,
        is_answered=context.api_key != _PRODUCE or request.acks != 0,
    )


def names_in_session(broker: BrokerServices, request: Any) -> tuple[Names, ...]:
    """Return the partitions of a fetch that its session knows, and the request does not name (KIP-227)."""
    session = broker.fetch_sessions.find(request.session_id)
    if session is None or request.session_epoch <= 0:
        return ()
    return tuple(
        {
            "topic": fetched.topic,
            "topic_id": fetched.topic_id,
            "partition": fetched.fetch_partition.partition,
        }
        for fetched in session.partitions.values()
    )
