"""The nodes that the controller watches: one table of paths, and of what is done when they change.

A watch reports on a thread of the store's; what is to be done waits for its turn in the event queue, and is
never done inside a write, nor inside the handling of another change. What fails because the store is away
for a moment is done by the next `look_again`: nobody else comes back to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from odradek.cluster import paths
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.store.store import SessionExpired, WatchEvent
from odradek.errors import NotControllerError, OdradekError

logger = logging.getLogger(__name__)


class NodeWatchers:
    """The table, what is pending, and what was not seen.

    Args:
        context: has the session.
        on_deposed: called when the session with the store is over.

    Attributes:
        is_held: changes wait: a write is under way.
    """

    def __init__(self, context: ControllerContext, on_deposed: Callable[[], None]) -> None:
        self._context = context
        self._on_deposed = on_deposed
        self._table: dict[str, Callable[[], None]] = {}
        self._pending: dict[str, None] = {}
        """Paths with changes that wait for their turn, in order. A path is in it once, whatever has changed
        there: its handler reads what there is."""
        self._unseen: dict[str, None] = {}
        """Paths whose handlers have failed; only `look_again` comes back to them."""
        self._handling = False
        self.is_held = False

    def watch(self, path: str, handler: Callable[[], None]) -> None:
        """Watch a path, and call `handler` when something changes there or directly below."""
        self._table[path] = handler
        self._context.store.watch_persistent(path, self._on_event)

    def unwatch(self, path: str) -> None:
        """Forget a path, and what is still to be done for it."""
        self._table.pop(path, None)
        self._context.store.unwatch(path, self._on_event)
        self._pending.pop(path, None)
        self._unseen.pop(path, None)

    def forget_events(self) -> None:
        """Forget all that is pending or was not seen: the session that told of it is over."""
        self._pending.clear()
        self._unseen.clear()

    def _on_event(self, event: WatchEvent) -> None:
        # On a thread of the store's.
        self.post(event.path)

    def post(self, path: str) -> None:
        """Look at a path in a turn of its own."""
        self._context.event_queue.post(partial(self.note, path))

    def note(self, path: str) -> None:
        """Look at a path, now or when what is under way has ended. Run it in the event queue."""
        self._pending[path] = None
        self.handle_pending()

    def note_unseen(self, path: str) -> None:
        """Leave a path to the next `look_again`."""
        self._unseen[path] = None

    def look_again(self) -> None:
        """Look at who is the controller and, if it is this broker, at what could not be followed before.

        To be run in the event queue, from time to time and when another broker says that there is a newer
        controller.
        """
        self._pending[paths.CONTROLLER] = None
        self._pending.update(self._unseen)
        self._unseen.clear()
        self.handle_pending()

    def during(self, work: Callable[[], None]) -> None:
        """Do something as a change is handled: those that come meanwhile wait until it is done."""
        self._handling = True
        try:
            work()
        finally:
            self._handling = False
        self.handle_pending()

    def handle_pending(self) -> None:
        """Handle the changes that are pending, one after the other, unless others are being handled."""
        if self._handling or self.is_held:
            return
        self._handling = True
        try:
            while self._pending and self._context.broker_epoch >= 0:
                path = next(iter(self._pending))
                del self._pending[path]
                handler = self._table.get(path)
                if handler is not None:
                    self.guard(handler, path)
        finally:
            self._handling = False

    def guard(self, handler: Callable[[], None], path: str) -> None:
        """Do what nobody waits for; what fails is looked at again under `path`. Never raises an
        `OdradekError`.
        """
        try:
            handler()
        except NotControllerError:
            return
        except SessionExpired:
            self._on_deposed()
        except OdradekError as error:
            logger.error("cannot follow the change of %s yet: %s", path, error)
            self._unseen[path] = None
