"""A record between its serializers and its batch."""

from __future__ import annotations

from typing import NamedTuple

from odradek.client.core.batches import Callback


class SerializedRecord(NamedTuple):
    """A record in bytes. `partition` is None until it is chosen."""

    topic: str
    partition: int | None
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    size: int
    callback: Callback | None
