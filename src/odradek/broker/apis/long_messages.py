"""Error messages that are too long for the wire."""

from __future__ import annotations

from typing import Any

from odradek.wire.structs import Struct

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
    found = False
    for field in value.FIELDS:
        content = getattr(value, field.name)
        if isinstance(content, str):
            if field.name.endswith("error_message") and len(content.encode()) > _MAX_STRING_BYTES:
                cut = content.encode()[:MAX_MESSAGE_BYTES].decode(errors="ignore")
                setattr(value, field.name, cut + "…")
                found = True
        else:
            found |= shorten_messages(content)
    return found
