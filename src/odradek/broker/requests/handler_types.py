"""The kinds of functions that a handler is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.errors import ErrorCode

R = TypeVar("R")

HandlerFunction = Callable[["RequestContext", Any], "Any | asyncio.Future[Any] | None"]
"""`(context, request) -> response`, `None` for no response, or a future of either."""


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
