"""Responses that tell of errors: one of everything in a request, made piece by piece when that is much, and
messages that are cut where they are too long for the wire.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

from odradek.wire.structs import Struct

if TYPE_CHECKING:
    from odradek.broker.event_loop.slices import Steps
    from odradek.broker.requests.handler_types import ErrorResponse, Refused

ITEMS_AT_ONCE = 250
"""Items that are answered before others get their turn."""


def error_in_steps(make: ErrorResponse, refused: Refused[Any]) -> Any | Steps[Any]:
    """The response that `make` makes, or steps that make it of pieces of the request.

    A topic with very many partitions is in more than one element of such a response.
    """
    request = refused.request
    names = [field.name for field in request.FIELDS if len(_items(request, field.name)) > 0]
    longest = max(names, key=lambda name: _size(_items(request, name)), default=None)
    if longest is None or _size(_items(request, longest)) <= ITEMS_AT_ONCE:
        return make(refused)
    return _of_pieces(make, refused, longest)


def _of_pieces(make: ErrorResponse, refused: Refused[Any], name: str) -> Steps[Any]:
    request = refused.request
    whole: Any = None
    for items in _pieces(getattr(request, name)):
        piece = copy(request)
        setattr(piece, name, items)
        part = make(refused._replace(request=piece))
        if whole is None:
            whole = part
        elif part is not None:
            for field in part.FIELDS:
                if field.kind == "array" and getattr(part, field.name):
                    getattr(whole, field.name).extend(getattr(part, field.name))
        yield
    return whole


def _items(holder: Any, name: str) -> list[Any]:
    value = getattr(holder, name)
    return value if value.__class__ is list else []


def _inner(item: Any) -> list[str]:
    """The arrays in an element of an array."""
    return [field.name for field in getattr(item, "FIELDS", ()) if field.kind == "array"]


def _size(items: list[Any]) -> int:
    if not items:
        return 0
    names = _inner(items[0])
    return len(items) + sum(len(_items(item, name)) for item in items for name in names)


def _pieces(items: list[Any]) -> Iterator[list[Any]]:
    """Pieces of a list whose elements have arrays, with about `ITEMS_AT_ONCE` items in each."""
    names = _inner(items[0])
    piece: list[Any] = []
    size = 0
    for item in items:
        longest = max(names, key=lambda name: len(_items(item, name)), default=None)
        parts = [item]
        if longest is not None and len(_items(item, longest)) > ITEMS_AT_ONCE:
            inner = _items(item, longest)
            parts = []
            for first in range(0, len(inner), ITEMS_AT_ONCE):
                part = copy(item)
                setattr(part, longest, inner[first : first + ITEMS_AT_ONCE])
                parts.append(part)
        for part in parts:
            piece.append(part)
            size += 1 + sum(len(_items(part, name)) for name in names)
            if size >= ITEMS_AT_ONCE:
                yield piece
                piece, size = [], 0
    if piece:
        yield piece


MAX_MESSAGE_BYTES = 1024
"""The length to which a message is cut that no version can carry; only people read it."""

_MAX_STRING_BYTES = 32767


def shorten_messages(value: Any) -> bool:
    """Cut the `error_message` fields of a response, and of every struct in it, that are too long to be sent.

    Returns:
        Whether there were any.
    """
    if isinstance(value, list):
        return sum(map(shorten_messages, value)) > 0
    if not isinstance(value, Struct):
        return False
    shortened = False
    for field in value.FIELDS:
        content = getattr(value, field.name)
        if isinstance(content, str):
            if field.name.endswith("error_message") and len(content.encode()) > _MAX_STRING_BYTES:
                cut = content.encode()[:MAX_MESSAGE_BYTES].decode(errors="ignore")
                setattr(value, field.name, cut + "…")
                shortened = True
        else:
            shortened |= shorten_messages(content)
    return shortened
