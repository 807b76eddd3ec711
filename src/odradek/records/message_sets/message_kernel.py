"""The loops of message sets: compiled where they are, else in Python; see `odradek.util.compiled`."""

from __future__ import annotations

from odradek.util.compiled import choose

message_kernel, NATIVE = choose(
    "odradek.records.message_sets._messages", "odradek.records.message_sets._pymessages"
)
"""`_messages` or `_pymessages`."""
