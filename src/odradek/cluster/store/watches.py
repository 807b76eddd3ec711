"""The watches of one session, and the order in which events reach it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from odradek.cluster.store.store import EventType, Watcher, WatchEvent, parent_of


class WatchTable:
    """The watches of one session.

    `collect` turns changes of the tree into calls to be made; `deliver` makes them, in order. A watcher that
    writes to the store does not see its own event arrive inside its call: events queue up behind each other.
    """

    def __init__(self) -> None:
        self._data: dict[str, list[Watcher]] = {}
        self._children: dict[str, list[Watcher]] = {}
        self._persistent: dict[str, list[Watcher]] = {}
        self._recursive: dict[str, list[Watcher]] = {}
        self._queue: deque[tuple[Watcher, WatchEvent]] = deque()
        self._delivering = False
        """Whether a call of `deliver` is under way: a watcher that writes is inside of it."""

    def arm_data(self, path: str, watcher: Watcher) -> None:
        """Arm a one-shot watch of a node's creation, data and deletion."""
        _arm(self._data, path, watcher)

    def arm_children(self, path: str, watcher: Watcher) -> None:
        """Arm a one-shot watch of a node's children and its deletion."""
        _arm(self._children, path, watcher)

    def add_persistent(self, path: str, watcher: Watcher, recursive: bool) -> None:
        """Add a watch that stays."""
        _arm(self._recursive if recursive else self._persistent, path, watcher)

    def remove_persistent(self, path: str, watcher: Watcher) -> None:
        """Remove a watch that stays, of either kind."""
        for table in (self._persistent, self._recursive):
            watchers = table.get(path, [])
            if watcher in watchers:
                watchers.remove(watcher)
                if not watchers:
                    del table[path]

    def clear(self) -> None:
        """Forget all watches and all events not yet delivered."""
        for table in (self._data, self._children, self._persistent, self._recursive):
            table.clear()
        self._queue.clear()

    def collect(self, events: Iterable[WatchEvent]) -> None:
        """Queue the calls that `events` of the tree mean; one-shot watches are disarmed by it."""
        for event in events:
            for watcher in self._watchers_of(event):
                self._queue.append((watcher, event))

    def take(self) -> list[tuple[Watcher, WatchEvent]]:
        """Take the queued calls, in order: for who makes them elsewhere, instead of `deliver`."""
        calls = list(self._queue)
        self._queue.clear()
        return calls

    def watches_for_good(self, path: str) -> bool:
        """Return whether there is a watch of `path` that stays."""
        return path in self._persistent or path in self._recursive

    def _watchers_of(self, event: WatchEvent) -> list[Watcher]:
        path = event.path
        if event.type is EventType.CHILDREN:
            once = self._children.pop(path, [])
        else:
            once = self._data.pop(path, [])
            if event.type is EventType.DELETED:
                # Whoever watched both gets one event.
                once = once + [w for w in self._children.pop(path, []) if w not in once]
        watchers = once + [w for w in self._persistent.get(path, ()) if w not in once]
        # ZooKeeper's recursive watches hear of each child's own creation and deletion instead.
        if self._recursive and event.type is not EventType.CHILDREN:
            above = path
            while True:
                watchers += [w for w in self._recursive.get(above, ()) if w not in watchers]
                if above == "/":
                    break
                above = parent_of(above)
        return watchers

    def deliver(self) -> None:
        """Make the queued calls, in order, including those that the calls themselves cause."""
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._queue:
                watcher, event = self._queue.popleft()
                watcher(event)
        finally:
            self._delivering = False


def _arm(table: dict[str, list[Watcher]], path: str, watcher: Watcher) -> None:
    watchers = table.setdefault(path, [])
    if watcher not in watchers:
        watchers.append(watcher)
