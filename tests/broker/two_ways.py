"""Frames given to two dispatchers of one broker: one takes the short cuts, the other does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.broker.app import Broker
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.slices import Slicer

from .dispatching import PEER, Later, dispatch, plain

__all__ = ["PEER", "Later", "dispatch", "dispatchers", "plain"]


def dispatchers(broker: Broker, request: Sequence[Any]) -> tuple[Dispatcher, Dispatcher]:
    """Two dispatchers, the second without the short cut of the request's API; the request makes the route."""
    # Time stands still: whatever can be answered at once is, however slow the machine.
    broker.slicer = Slicer(lambda: 0.0)
    made = (
        Dispatcher(broker, broker.handlers, broker.slicer),
        Dispatcher(broker, broker.handlers, broker.slicer),
    )
    for one in made:
        dispatch(one, b"".join(request)[4:], Later())
        assert one._fast
    made[1]._fast.clear()
    return made
