"""The engines of consumers: some tests look at more than a consumer shows its users."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.client.aio import consumer as async_consumer
from odradek.client.aio.consumer_engine import ConsumerEngine
from odradek.client.sync import consumer as sync_consumer


def listed(patch: pytest.MonkeyPatch, kind: type[ConsumerEngine] = ConsumerEngine) -> list[ConsumerEngine]:
    """The engines, of that kind, of the consumers that are made from now on, in order."""
    engines: list[ConsumerEngine] = []

    def made(*args: Any) -> ConsumerEngine:
        engines.append(kind(*args))
        return engines[-1]

    for module in (async_consumer, sync_consumer):
        patch.setattr(module, "ConsumerEngine", made)
    return engines
