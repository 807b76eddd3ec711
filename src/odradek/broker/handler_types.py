"""The kinds of functions that a handler is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext
    from odradek.broker.network.answer import Answer, Later
    from odradek.broker.network.peer import Peer
    from odradek.errors import ErrorCode

HandlerFunction = Callable[["RequestContext", Any], "Any | asyncio.Future[Any] | None"]
"""`(context, request) -> response`, `None` for no response, or a future of either."""

FastPath = Callable[["Peer", Any, "Later"], "Answer | Any | None"]
"""`(peer, frame, later) -> answer`; None when `later` will be called; `NotImplemented`: nothing has been
done, and the frame is to go the ordinary way."""

ErrorResponse = Callable[[Any, int, "ErrorCode", str], Any]
"""`(request, api_version, error, message) -> response` for when the handler itself broke."""
