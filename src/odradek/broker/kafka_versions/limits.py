"""Handlers within the limits of a release: what is put around those of `odradek.broker.handlers`.

Decided when a broker first needs a handler; a broker without a release has none of this in its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.broker.event_loop.slices import Steps, is_in_steps
from odradek.broker.kafka_versions.answers import adapt, older_code
from odradek.errors.codes import ErrorCode
from odradek.util.futures import then
from odradek.util.promise import Promise, promised

if TYPE_CHECKING:
    from odradek.broker.kafka_versions.release import Release
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import ErrorResponse, Handled, HandlerFunction, Refused


def aged(function: HandlerFunction, release: Release, api_key: int) -> HandlerFunction:
    """A handler whose answers are those of a release, see `odradek.broker.kafka_versions.answers`."""

    def aged_in_steps(context: RequestContext, steps: Steps[Any]) -> Steps[Any]:
        return aged_response(context, (yield from steps))

    def handle(context: RequestContext, request: Any) -> Handled[Any]:
        response: Any = function(context, request)
        if is_in_steps(response):
            return aged_in_steps(context, response)
        return aged_response(context, response)

    def aged_response(context: RequestContext, response: Any) -> Any:
        if isinstance(response, Promise):
            return promised(then(response, lambda later: adapt(release, api_key, context, later)))
        return adapt(release, api_key, context, response)

    return handle


def aged_error(make: ErrorResponse | None, release: Release) -> ErrorResponse | None:
    """Wrap a handler's error response: its codes become those that the release knows."""
    if make is None:
        return None

    def make_aged(refused: Refused[Any]) -> Any:
        error = ErrorCode(older_code(refused.error, release.last_error_code))
        return make(refused._replace(error=error))

    return make_aged
