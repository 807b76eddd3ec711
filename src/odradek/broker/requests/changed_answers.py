"""Answers that are changed on their way from a handler, whichever way they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.broker.event_loop.slices import Steps, is_in_steps
from odradek.util.futures import then
from odradek.util.promise import Promise, promised

if TYPE_CHECKING:
    from odradek.broker.requests.handler_types import Handled


def changed(handled: Handled[Any], change: Callable[[Any], Any]) -> Handled[Any]:
    """Return what a handler has returned, with another response in it.

    Args:
        handled: a response, a promise of one, or steps to either.
        change: makes the other response, once the first is there; is given None where nothing is answered,
            and not called for an error.
    """
    if is_in_steps(handled):
        return _in_steps(handled, change)
    if isinstance(handled, Promise):
        return promised(then(handled, change))
    return change(handled)


def _in_steps(steps: Any, change: Callable[[Any], Any]) -> Steps[Any]:
    return changed((yield from steps), change)
