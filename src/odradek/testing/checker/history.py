"""The events that a history consists of, and its form as lines of JSON.

A line is an event: somebody (`process`) began an operation (`invoke`), or learned how it ended: `ok`, it
happened; `fail`, it certainly did not; `info`, nobody knows, it may happen even later. An operation without
an end counts as `info`. A process does one thing at a time.

| `f` | what it is | `value` |
|---|---|---|
| `send` | records sent outside of transactions | list of micro-operations |
| `poll` | records polled outside of transactions | list of micro-operations |
| `txn` | a transaction, until its commit (`ok`) or abort (`fail`) | list of micro-operations |
| `assign` | the process has chosen its partitions | list of partitions |
| `subscribe` | its group chooses for it | list of topics |
| `seek` | it has set its position in these partitions | list of partitions |
| `rebalance` | the group took these from it or gave them to it | list of partitions |
| `crash` | the client was killed or restarted: it remembers no position | empty |

A micro-operation is `["send", partition, value, offset or null]` or `["poll", [[partition, offset, value],
…]]`. A partition is a name such as `events-0`; a value is a string or a number, unique in its partition.
The last five kinds are single events of type `info`, without an invocation; a rebalance may come while a poll
is open.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

Value = str | int

WORK = frozenset({"send", "poll", "txn"})
CONTROL = frozenset({"assign", "subscribe", "seek", "rebalance", "crash"})
TYPES = frozenset({"invoke", "ok", "fail", "info"})


class HistoryError(ValueError):
    """This is no history: a line that cannot be read, or events that cannot follow each other."""


@dataclass(frozen=True, slots=True)
class Send:
    """A record sent; `offset` is None until the broker has told it."""

    partition: str
    value: Value
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a consumer got it."""

    partition: str
    offset: int
    value: Value


@dataclass(frozen=True, slots=True)
class Poll:
    """The records that one poll returned, in the order in which it did."""

    records: tuple[Record, ...] = ()


Micro = Send | Poll


@dataclass(frozen=True, slots=True)
class Event:
    """A line of a history; `micro` is the value of work, `names` of everything else."""

    process: str
    type: str
    f: str
    micro: tuple[Micro, ...] = ()
    names: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        value: list[Any]
        if self.f in WORK:
            value = [
                ["send", m.partition, m.value, m.offset]
                if isinstance(m, Send)
                else ["poll", [[r.partition, r.offset, r.value] for r in m.records]]
                for m in self.micro
            ]
        else:
            value = list(self.names)
        return {"process": self.process, "type": self.type, "f": self.f, "value": value}

    @classmethod
    def from_json(cls, data: Any) -> Event:
        """Return the event that a line of a history holds.

        Raises:
            HistoryError: `data` is no event.
        """
        try:
            process, type_, f, value = data["process"], data["type"], data["f"], data["value"]
            if not isinstance(process, str) or type_ not in TYPES or f not in WORK | CONTROL:
                raise HistoryError("not an event: its process, type or f is none")
            if f in CONTROL:
                if type_ != "info" or not all(isinstance(name, str) for name in value):
                    raise HistoryError(f"a {f} is of type info, and its value a list of names")
                return cls(process, type_, f, names=tuple(value))
            return cls(process, type_, f, tuple(_micro(entry) for entry in value))
        except (LookupError, TypeError, ValueError) as error:
            if isinstance(error, HistoryError):
                raise
            raise HistoryError(f"not an event: {error!r}") from error


def _micro(entry: Any) -> Micro:
    if entry[0] == "send":
        _, partition, value, offset = entry
        if offset is not None:
            _check(partition, offset, value)
        else:
            _check(partition, 0, value)
        return Send(partition, value, offset)
    if entry[0] == "poll":
        _, records = entry
        for partition, offset, value in records:
            _check(partition, offset, value)
        return Poll(tuple(Record(*record) for record in records))
    raise HistoryError(f"not a micro-operation: {entry[0]!r}")


def _check(partition: Any, offset: Any, value: Any) -> None:
    if type(partition) is not str or type(offset) is not int or type(value) not in (str, int) or offset < 0:
        raise HistoryError("a record is a partition, an offset from 0 on, and a string or whole number")


def dump(events: Iterable[Event], stream: IO[str]) -> None:
    """Write one line of JSON per event."""
    for event in events:
        stream.write(json.dumps(event.to_json(), ensure_ascii=False, separators=(",", ":")) + "\n")


def load(stream: Iterable[str]) -> Iterator[Event]:
    """Read what `dump` has written.

    Raises:
        HistoryError: a line holds no event; names its number.
    """
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            yield Event.from_json(json.loads(line))
        except ValueError as error:
            raise HistoryError(f"line {number}: {error}") from error


@dataclass
class Recorder:
    """Takes events from many threads; the order in which they arrive is the history's.

    Record an invocation before the request leaves, and its end after the answer has come: then what looks
    concurrent may have been, and nothing that was concurrent looks ordered. With a `stream`, each event is
    also written there at once.
    """

    stream: IO[str] | None = None
    events: list[Event] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def _add(self, event: Event) -> None:
        with self._lock:
            self.events.append(event)
            if self.stream is not None:
                dump((event,), self.stream)

    def invoke(self, process: str, f: str, micro: Sequence[Micro] = ()) -> None:
        self._add(Event(process, "invoke", f, tuple(micro)))

    def complete(self, process: str, type_: str, f: str, micro: Sequence[Micro] = ()) -> None:
        """`type_` is ok, fail or info; `micro` says of sends and polls what is known of them now."""
        self._add(Event(process, type_, f, tuple(micro)))

    def control(self, process: str, f: str, names: Sequence[str] = ()) -> None:
        """An assign, subscribe, seek, rebalance or crash."""
        self._add(Event(process, "info", f, names=tuple(names)))
