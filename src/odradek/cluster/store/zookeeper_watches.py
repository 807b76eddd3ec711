"""Persistent watches made of one-shot ones, for servers that know no others (ZooKeeper before 3.6).

A one-shot watch is armed by a read. Between its firing and the next read changes go by unseen, so each firing
is followed by such a read, and what it finds is compared with what the last one found: a node's `czxid`,
`mzxid` and `pzxid` tell whether it was created anew, its data set, its children changed. An event may come
twice (once by comparison, once by the watch that fired for it); none is missed, except that several changes
of one kind between two looks are one event, as with ZooKeeper's own watches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.cluster.store.store import EventType, Watcher, WatchEvent


class Look(NamedTuple):
    """A node as a read found it: the numbers of the transactions that created it, last set its data, and last
    changed its children.
    """

    czxid: int
    mzxid: int
    pzxid: int


class WatchedNode:
    """A node that is watched for good.

    `seen` is the last look, None for "not there"; `known` is False until the first.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.watchers: list[Watcher] = []
        self.known = False
        self.seen: Look | None = None

    def began(self, look: Look | None) -> None:
        """The watch was armed by a read that found `look`; an event may have come before."""
        if not self.known:
            self.known, self.seen = True, look

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
        before, known = self.seen, self.known
        self.seen, self.known = look, True
        if not known or before == look:
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
