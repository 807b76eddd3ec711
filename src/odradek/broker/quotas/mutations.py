"""The quota of changes of topics, as handlers of such requests use it (KIP-599)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from odradek.broker.quotas.controller_mutation_quota_manager import ControllerMutationQuota
    from odradek.broker.requests.context import RequestContext


class _Response(Protocol):
    throttle_time_ms: int


def mutation_quota(context: RequestContext, *, strict_from: int | None) -> ControllerMutationQuota | None:
    """Return the quota for a request; None while no quota of changes is set.

    Args:
        context: the request's surroundings.
        strict_from: the version from which on clients know that they are refused; None if none does.
    """
    manager = context.broker.quotas.controller_mutation
    if not manager.is_enabled:
        return None
    strict = strict_from is not None and context.api_version >= strict_from
    return manager.quota_of(context.principal, context.client_id, strict=strict)


def throttle_mutations(
    context: RequestContext, quota: ControllerMutationQuota | None, response: _Response
) -> None:
    """Mute the client for as long as the quota says, once the request is done."""
    throttle_ms = 0 if quota is None else quota.throttle_ms
    if throttle_ms:
        context.mute_ms = response.throttle_time_ms = throttle_ms
        context.broker.quotas.controller_mutation.throttled(context.principal, context.client_id, throttle_ms)
