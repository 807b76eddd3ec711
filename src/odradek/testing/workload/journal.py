"""The journal in which clients write down what they ask for and what they are told.

Beyond the events of a history there is one word more: a client says when it is about to ask for the commit
(`deciding`). A transaction whose client died, or lost the transactional id, before that can never become
visible; it goes into the history as failed, and whoever reads it has found a bug. After it, nobody knows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import IO, Any, Protocol

from odradek.testing.checker.history import Event, Micro, Recorder


class Journal(Protocol):
    """The file that clients write into."""

    def event(self, event: Event) -> None:
        """One event of the history."""

    def deciding(self, process: str) -> None:
        """The process is about to ask for the commit of its transaction."""

    def lost(self, process: str) -> None:
        """The process is gone; what it did had no end."""

    def count(self, name: str) -> None:
        """Something happened that the round's numbers are to show."""


class Notes:
    """A client's way to write: the methods of `Recorder`, into any journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.deciding = journal.deciding
        self.lost = journal.lost
        self.count = journal.count

    def invoke(self, process: str, f: str, micro: Sequence[Micro] = ()) -> None:
        """An operation begins."""
        self._journal.event(Event(process, "invoke", f, tuple(micro)))

    def complete(self, process: str, type_: str, f: str, micro: Sequence[Micro] = ()) -> None:
        """An operation ends: ok, fail or info."""
        self._journal.event(Event(process, type_, f, tuple(micro)))

    def control(self, process: str, f: str, names: Iterable[str] = ()) -> None:
        """An assign, subscribe, seek, rebalance or crash."""
        self._journal.event(Event(process, "info", f, names=tuple(names)))


class LocalJournal:
    """The journal of the process that keeps the history.

    Attributes:
        counts: what happened how often; `transactions` are those that ended.
        decided: processes that have asked, or may have asked, for the commit of their transaction.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.counts: Counter[str] = Counter()
        self.decided: set[str] = set()
        self._open: dict[str, Event] = {}

    def event(self, event: Event) -> None:
        """See `Journal`."""
        if event.type == "invoke":
            self._open[event.process] = event
            self.decided.discard(event.process)
            self.recorder.invoke(event.process, event.f, event.micro)
        elif event.process in self._open and event.f == self._open[event.process].f:
            del self._open[event.process]
            if event.f == "txn":
                self.counts["transactions"] += 1
                self.counts[f"transactions {event.type}"] += 1
            self.recorder.complete(event.process, event.type, event.f, event.micro)
        else:
            self.recorder.control(event.process, event.f, event.names)

    def deciding(self, process: str) -> None:
        """See `Journal`."""
        self.decided.add(process)

    def lost(self, process: str) -> None:
        """See `Journal`."""
        begun = self._open.get(process)
        if begun is not None and begun.f == "txn":
            decided = process in self.decided
            self.event(Event(process, "info" if decided else "fail", "txn", begun.micro))
        elif begun is not None:
            del self._open[process]
        self.recorder.control(process, "crash")

    def count(self, name: str) -> None:
        """See `Journal`."""
        self.counts[name] += 1

    def all_lost(self, processes: Iterable[str]) -> None:
        """The process that hosted these is gone."""
        for process in processes:
            if process in self._open:
                self.lost(process)


class RemoteJournal:
    """Writes lines that `apply` reads in the process that keeps the history.

    Each is flushed before what it announces: the lines outlive this process.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def _write(self, word: str, value: Any) -> None:
        self._stream.write(json.dumps([word, value]) + "\n")
        self._stream.flush()

    def event(self, event: Event) -> None:
        """See `Journal`."""
        self._write("event", event.to_json())

    def deciding(self, process: str) -> None:
        """See `Journal`."""
        self._write("deciding", process)

    def lost(self, process: str) -> None:
        """See `Journal`."""
        self._write("lost", process)

    def count(self, name: str) -> None:
        """See `Journal`."""
        self._write("count", name)


def apply(line: str, journal: LocalJournal) -> str:
    """Write down a line of a `RemoteJournal`; the process it speaks of, "" if none."""
    word, value = json.loads(line)
    if word == "event":
        event = Event.from_json(value)
        journal.event(event)
        return event.process
    getattr(journal, word)(value)
    return "" if word == "count" else str(value)
