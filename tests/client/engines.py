"""The engines of clients: some tests look at more than a client shows its users."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from odradek.client.aio import consumer as async_consumer
from odradek.client.aio.consumer_engine import ConsumerEngine
from odradek.client.aio.producer_engine import ProducerEngine
from odradek.client.sync import consumer, producer

T = TypeVar("T")


def consumer_engines(
    patch: pytest.MonkeyPatch, kind: type[ConsumerEngine] = ConsumerEngine
) -> list[ConsumerEngine]:
    """The engines of the consumers that are made from now on, in order."""
    return _listed(patch, "ConsumerEngine", kind, consumer, async_consumer)


def producer_engines(patch: pytest.MonkeyPatch) -> list[ProducerEngine]:
    """The engines of the producers that are made from now on, in order."""
    return _listed(patch, "ProducerEngine", ProducerEngine, producer)


def _listed(patch: pytest.MonkeyPatch, name: str, kind: type[T], *modules: Any) -> list[T]:
    engines: list[T] = []

    def made(*args: Any) -> T:
        engines.append(kind(*args))
        return engines[-1]

    for module in modules:
        patch.setattr(module, name, made)
    return engines
