"""The watchers of a session with ZooKeeper, and the thread that calls them, one after the other.

kazoo calls a watch that fires in its own thread, where nothing may wait: what it means is found out here.

Persistent watches are made of one-shot ones, as servers before ZooKeeper 3.6 know no others. A one-shot watch
is armed by a read. Between its firing and the next read changes go by unseen, so each firing is followed by
such a read, and what it finds is compared with what the last one found: a node's `czxid`, `mzxid` and `pzxid`
tell whether it was created anew, its data set, its children changed. An event may come twice (once by
comparison, once by the watch that fired for it); none is missed, except that several changes of one kind
between two looks are one event, as with ZooKeeper's own watches.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from odradek.cluster.store.store import (
    EventType,
    SessionExpired,
    StoreUnavailable,
    Watcher,
    WatchEvent,
)
from odradek.cluster.store.watchers_thread import WatchersThread

logger = logging.getLogger(__name__)


class Look(NamedTuple):
    """A node as a read found it: the numbers of the transactions that created it, last set its data, and last
    changed its children.
    """

    czxid: int
    mzxid: int
    pzxid: int


class WatchedNode:
    """A node that is watched for good.

    `seen` is the last look, None for "not there"; `is_known` is False until the first.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.watchers: list[Watcher] = []
        self.is_known = False
        self.seen: Look | None = None

    def began(self, look: Look | None) -> None:
        """The watch was armed by a read that found `look`; an event may have come before."""
        if not self.is_known:
            self.is_known, self.seen = True, look

    def fired(self, kind: EventType, look: Look | None) -> list[WatchEvent]:
        """The watch fired, and was armed again by a read that found `look`: the events that this means."""
        kinds = self._differences(look)
        if kind not in kinds:
            kinds = [kind, *kinds]
        return self._events(kinds)

    def reconnected(self, look: Look | None) -> list[WatchEvent]:
        """The connection was lost and is there again, and a read has found `look`.

        There is an event even if nothing has changed: who could not reach the store looks again.
        """
        kinds = self._differences(look)
        if not kinds:
            kinds = [EventType.DELETED] if look is None else [EventType.CHANGED, EventType.CHILDREN]
        return self._events(kinds)

    def _differences(self, look: Look | None) -> list[EventType]:
        before, was_known = self.seen, self.is_known
        self.seen, self.is_known = look, True
        if not was_known or before == look:
            return []
        if before is None:
            return [EventType.CREATED]
        if look is None:
            return [EventType.DELETED]
        if look.czxid != before.czxid:
            return [EventType.DELETED, EventType.CREATED]
        kinds = []
        if look.mzxid != before.mzxid:
            kinds.append(EventType.CHANGED)
        if look.pzxid != before.pzxid:
            kinds.append(EventType.CHILDREN)
        return kinds

    def _events(self, kinds: Iterable[EventType]) -> list[WatchEvent]:
        return [WatchEvent(kind, self.path) for kind in kinds]


class ZooKeeperWatchers:
    """The watchers of one session.

    Args:
        arm: reads a node of this path, and has the server tell the watch of what changes from then on; raises
            `SessionExpired` and `StoreUnavailable`.
        event_type: what an event of kazoo's says; None for one that says that the connection is lost.
    """

    def __init__(
        self,
        arm: Callable[[str, Callable[[Any], None]], Look | None],
        event_type: Callable[[Any], EventType | None],
    ) -> None:
        self._arm = arm
        self._event_type = event_type
        self._open = True
        self._watched: dict[str, _Persistent] = {}
        self._lock = threading.Lock()  # of the two above; never held while waiting
        self._arming = threading.Lock()  # held while a watch is armed: nobody joins one that is not
        # The following three belong to the thread that calls watchers.
        self._lost: list[_Once] = []
        self._last_event: object = None
        self._told: list[tuple[Watcher, WatchEvent]] = []
        self._calling = WatchersThread("zookeeper-watches")

    def start(self) -> None:
        """Start the thread that calls them."""
        self._calling.start()

    def close(self) -> None:
        """Call nobody any more, and end the thread."""
        with self._lock:
            self._open = False
            self._watched.clear()
        self._calling.end()

    def add(self, path: str, watcher: Watcher) -> None:
        """Watch a node for good.

        Raises:
            StoreError: the node cannot be read; it is not watched then.
        """
        with self._arming:
            with self._lock:
                watch = self._watched.get(path)
                if watch is not None:
                    if watcher not in watch.node.watchers:
                        watch.node.watchers.append(watcher)
                    return
                watch = self._watched[path] = _Persistent(self, WatchedNode(path))
                watch.node.watchers.append(watcher)
            try:
                look = self._arm(path, watch)
            except BaseException:
                with self._lock:
                    self._watched.pop(path, None)
                raise
            with self._lock:
                watch.node.began(look)

    def remove(self, path: str, watcher: Watcher) -> None:
        """Watch a node no more; harmless if it is not watched."""
        with self._lock:
            watch = self._watched.get(path)
            if watch is not None and watcher in watch.node.watchers:
                watch.node.watchers.remove(watcher)
                if not watch.node.watchers:
                    del self._watched[path]

    def once(self, path: str, watcher: Watcher | None, *, of_children: bool) -> _Once | None:
        """Return the watch to be armed by a read, which fires once; None without a watcher."""
        return None if watcher is None else _Once(self, path, watcher, of_children)

    def later(self, call: Callable[[], None]) -> None:
        """Make a call in the thread that calls watchers."""
        self._calling.later(call)

    def reconnected(self) -> None:
        """Look whether changes went by while there was no connection. To be called in the thread."""
        lost, self._lost = self._lost, []
        with self._lock:
            watched = list(self._watched.values())
        for watch in watched:
            self.later(partial(self._look_again, watch, WatchedNode.reconnected))
        for once in lost:
            kind = EventType.CHILDREN if once.of_children else EventType.CHANGED
            self._tell(once.watcher, WatchEvent(kind, once.path), None)

    def once_fired(self, once: _Once, event: Any) -> None:
        """A one-shot watch has fired, or has gone with the connection."""
        kind = self._event_type(event)
        if kind is None:
            self._lost.append(once)
        else:
            self._tell(once.watcher, WatchEvent(kind, once.path), event)

    def persistent_fired(self, watch: _Persistent, event: Any) -> None:
        """One of the one-shot watches of a persistent one has fired."""
        kind = self._event_type(event)
        if kind is not None:  # else the connection is lost: all are armed again when it is back
            self._look_again(watch, lambda node, look: node.fired(kind, look), event)

    def _look_again(
        self,
        watch: _Persistent,
        events_of: Callable[[WatchedNode, Look | None], list[WatchEvent]],
        event: object = None,
    ) -> None:
        node = watch.node
        with self._lock:
            if self._watched.get(node.path) is not watch:
                return
        try:
            look = self._arm(node.path, watch)
        except SessionExpired:
            return
        except StoreUnavailable:
            self.later(partial(self._look_again, watch, events_of, event))
            return
        with self._lock:
            events, watchers = events_of(node, look), list(node.watchers)
        for watch_event in events:
            for watcher in watchers:
                self._tell(watcher, watch_event, event)

    def _tell(self, watcher: Watcher, watch_event: WatchEvent, event: object) -> None:
        """Call a watcher; once for an event of the server, which comes to each of the watches it ends."""
        if not self._open:
            return
        if event is None or event is not self._last_event:
            self._last_event = event
            self._told.clear()
        if (watcher, watch_event) in self._told:
            return
        self._told.append((watcher, watch_event))
        try:
            watcher(watch_event)
        except Exception:
            logger.exception("a watcher of %s has failed", watch_event.path)


class _Once:
    """A one-shot watch; equal for the same watcher, so that kazoo's sets hold it once."""

    __slots__ = ("of_children", "path", "watcher", "watchers")

    def __init__(self, watchers: ZooKeeperWatchers, path: str, watcher: Watcher, of_children: bool) -> None:
        self.watchers = watchers
        self.path = path
        self.watcher = watcher
        self.of_children = of_children

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Once)
            and self.path == other.path
            and self.of_children == other.of_children
            and self.watcher == other.watcher
        )

    def __hash__(self) -> int:
        return hash((self.path, self.of_children))

    def __call__(self, event: Any) -> None:
        self.watchers.later(partial(self.watchers.once_fired, self, event))


class _Persistent:
    """A persistent watch, as kazoo calls it."""

    __slots__ = ("node", "watchers")

    def __init__(self, watchers: ZooKeeperWatchers, node: WatchedNode) -> None:
        self.watchers = watchers
        self.node = node

    def __call__(self, event: Any) -> None:
        self.watchers.later(partial(self.watchers.persistent_fired, self, event))
