"""The kinds of functions that a handler is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from odradek.broker.event_loop.slices import Steps
from odradek.util.promise import Promise

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.errors import ErrorCode

R = TypeVar("R")

Handled: TypeAlias = (
    R | Promise[R | None] | Promise[R] | Steps[R | Promise[R | None] | Promise[R] | None] | None
)
"""What a handler returns, and nothing else: a response, None for none; a promise of it; or steps to it.

Steps may end with a promise: what they did is done then, and the connection's next request is taken up while
others are waited for. Futures, tasks and the callbacks of threads become promises where they arise
(docs/decisions/one-kind-of-later.md)."""

HandlerFunction = Callable[["RequestContext", Any], Handled[Any]]
"""`(context, request) -> Handled`; of which API's messages only the handler's own signature says."""


class Refused(NamedTuple, Generic[R]):
    """A request, or a piece of one, of which all is answered with one error.

    Attributes:
        request, version: what was asked.
        error, message: what is said of it; the message may be empty.
    """

    request: R
    version: int
    error: ErrorCode
    message: str


ErrorResponse = Callable[[Refused[Any]], Any]
"""Makes the response for when the handler itself broke."""
