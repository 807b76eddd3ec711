"""Which handler answers which API, at which versions.

A handler module registers itself on import with the `handler` decorator. ApiVersions is built from what has
registered here, so what is not built is not advertised.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext
    from odradek.errors import ErrorCode
    from odradek.wire.api import ApiKey

HandlerFunction = Callable[["RequestContext", Any], "Any | asyncio.Future[Any] | None"]
"""`(context, request) -> response`, `None` for no response, or a future of either."""

ErrorResponse = Callable[[Any, int, "ErrorCode", str], Any]
"""`(request, api_version, error, message) -> response` for when the handler itself broke."""


@dataclass(frozen=True, slots=True)
class Handler:
    """One registered handler.

    Attributes:
        api_key: the API that it answers.
        versions: the versions that it answers and that ApiVersions lists.
        function: the handler.
        error_response: makes the response for an exception that the handler did not foresee; without it a
            response with a top-level `error_code` gets that set, and any other API's connection is closed.
    """

    api_key: ApiKey
    versions: range
    function: HandlerFunction
    error_response: ErrorResponse | None = None


_handlers: dict[int, Handler] = {}


def handler(
    api_key: ApiKey, versions: range, *, error_response: ErrorResponse | None = None
) -> Callable[[HandlerFunction], HandlerFunction]:
    """Register the decorated function as the handler of `api_key` for `versions`.

    Args:
        api_key: the API.
        versions: the versions that are served, as `range(first, last + 1)`.
        error_response: see `Handler.error_response`.

    Raises:
        ValueError: the API has a handler already, or the range is empty or has gaps.
    """
    if len(versions) == 0 or versions.step != 1:
        raise ValueError(f"handler for {api_key!r}: versions must be a range without gaps, not {versions!r}")

    def register(function: HandlerFunction) -> HandlerFunction:
        present = _handlers.get(int(api_key))
        if present is not None and present.function.__module__ != function.__module__:
            raise ValueError(f"{api_key!r} is handled by {present.function.__module__} already")
        _handlers[int(api_key)] = Handler(api_key, versions, function, error_response)
        return function

    return register


def registered() -> dict[int, Handler]:
    """The handlers by API key; the live table, not to be changed by the caller."""
    return _handlers


HANDLER_MODULES: tuple[str, ...] = (
    "alter_configs",
    "api_versions",
    "create_partitions",
    "create_topics",
    "delete_groups",
    "delete_records",
    "delete_topics",
    "describe_cluster",
    "describe_configs",
    "describe_groups",
    "fetch",
    "find_coordinator",
    "heartbeat",
    "incremental_alter_configs",
    "init_producer_id",
    "join_group",
    "leave_group",
    "list_groups",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_fetch",
    "offset_for_leader_epoch",
    "produce",
    "sync_group",
)
"""The modules of `odradek.broker.handlers` that a broker loads."""


def load_handlers(modules: Iterable[str] = HANDLER_MODULES) -> dict[int, Handler]:
    """Import the handler modules, which registers them, and return the table."""
    import importlib.util

    for name in modules:
        if importlib.util.find_spec(f"odradek.broker.handlers.{name}") is None:
            continue
        importlib.import_module(f"odradek.broker.handlers.{name}")
    return _handlers
