"""The kinds of functions that a handler is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext
    from odradek.errors import ErrorCode

HandlerFunction = Callable[["RequestContext", Any], "Any | asyncio.Future[Any] | None"]
"""`(context, request) -> response`, `None` for no response, or a future of either."""

ErrorResponse = Callable[[Any, int, "ErrorCode", str], Any]
"""`(request, api_version, error, message) -> response` for when the handler itself broke."""
