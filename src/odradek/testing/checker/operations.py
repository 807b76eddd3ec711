"""From events to operations, and from operations to what is known of every partition.

What is known of a write (`Write.fate`): `ok` if it was acknowledged, and, in a transaction, if the commit was
too; `fail` if it certainly did not happen; `info` otherwise. Outside of transactions an offset is an
acknowledgement, whatever became of the other records of the operation. A record that is polled has happened;
and since a transaction happens whole, so have the other records of its transaction (Jepsen: "must have
committed").
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from odradek.testing.checker.history import WORK, Event, HistoryError, Poll, Record, Send, Value


@dataclass(slots=True, eq=False)
class Operation:
    """Work from its invocation to its end; `start` and `end` are numbers of events."""

    process: str
    f: str
    start: int
    end: int | None = None
    type: str = "info"
    sends: list[Send] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    disturbed: set[str] | None = None  # partitions rebalanced meanwhile; None: all of them

    @property
    def event(self) -> int:
        """The number of the event that tells most of it."""
        return self.start if self.end is None else self.end

    @property
    def transactional(self) -> bool:
        return self.f == "txn"


@dataclass(slots=True)
class Write:
    """All there is on a value of a partition: who sent it, where it lies, who has seen it."""

    writers: list[Operation] = field(default_factory=list)
    fate: str = "fail"
    offsets: dict[int, int] = field(default_factory=dict)  # offset → the first event that names it
    acknowledged: int | None = None  # the offset that its producer was told
    reader: int | None = None  # the first event that shows it polled
    exists: bool = False  # it was acknowledged, or seen and not refused: nobody may pass over it
    possible: int = 0  # how many of its sends may have happened


@dataclass(slots=True)
class Facts:
    """`writes`: partition → value → Write. `operations` in the order of their ends; `steps` are those and the
    numbers of control events, in the order of the history."""

    history: Sequence[Event]
    operations: list[Operation] = field(default_factory=list)
    steps: list[Operation | int] = field(default_factory=list)
    writes: dict[str, dict[Value, Write]] = field(default_factory=dict)
    _seen: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def seen_above(self, partition: str, offset: int) -> int | None:
        """The event that shows the lowest polled record of `partition` above `offset`, if there is one."""
        seen = self._seen.get(partition)
        if seen is None:
            writes = self.writes[partition].values()
            seen = sorted((max(w.offsets), w.reader) for w in writes if w.reader is not None)
            self._seen[partition] = seen
        place = bisect.bisect_right(seen, (offset, len(self.history)))
        return seen[place][1] if place < len(seen) else None


def gather(history: Iterable[Event]) -> Facts:
    """Return the operations of a history, and what they wrote and read.

    Raises:
        HistoryError: an operation ends that has not begun, or a process begins two.
    """
    events = list(history)
    facts = Facts(events)
    running: dict[str, Operation] = {}
    for number, event in enumerate(events):
        if event.f not in WORK:
            _control(facts, running, number, event)
        elif event.type == "invoke":
            if event.process in running:
                raise HistoryError(f"event {number}: {event.process} begins an operation within another")
            running[event.process] = Operation(event.process, event.f, number, disturbed=set())
        else:
            operation = running.pop(event.process, None)
            if operation is None or operation.f != event.f:
                raise HistoryError(f"event {number}: {event.process} ends a {event.f} that it has not begun")
            operation.end, operation.type = number, event.type
            _close(facts, operation)
    for operation in sorted(running.values(), key=lambda operation: operation.start):
        _close(facts, operation)
    _find_writes(facts)
    return facts


def _control(facts: Facts, running: dict[str, Operation], number: int, event: Event) -> None:
    operation = running.get(event.process)
    if operation is not None:
        if event.f == "crash":  # nobody will learn how it ended
            _close(facts, running.pop(event.process))
        elif event.f in ("rebalance", "seek"):
            if operation.disturbed is not None:
                operation.disturbed.update(event.names)
        else:
            operation.disturbed = None
    facts.steps.append(number)


def _close(facts: Facts, operation: Operation) -> None:
    history = facts.history
    micro = history[operation.event].micro or history[operation.start].micro
    for entry in micro:
        if isinstance(entry, Poll):
            operation.records += entry.records
        else:
            operation.sends.append(entry)
    ended = {(s.partition, s.value) for s in operation.sends}
    # An end that leaves out what was begun has not undone it.
    for entry in history[operation.start].micro:
        if isinstance(entry, Send) and (entry.partition, entry.value) not in ended:
            operation.sends.append(entry)
    facts.operations.append(operation)
    facts.steps.append(operation)


def _find_writes(facts: Facts) -> None:
    writes = facts.writes
    for operation in facts.operations:
        event = operation.event
        for send in operation.sends:
            write = writes.setdefault(send.partition, {}).setdefault(send.value, Write())
            write.writers.append(operation)
            fate = operation.type
            if not operation.transactional and send.offset is not None:
                fate = "ok"
            if fate != "fail":
                write.possible += 1
            if fate == "ok" or (fate == "info" and write.fate == "fail"):
                write.fate = fate
            # What an aborted transaction wrote keeps its place in the log, but is not to be seen there.
            if send.offset is not None and fate != "fail":
                write.offsets.setdefault(send.offset, event)
                write.acknowledged = send.offset
    for operation in facts.operations:
        for record in operation.records:
            write = writes.setdefault(record.partition, {}).setdefault(record.value, Write())
            write.offsets.setdefault(record.offset, operation.event)
            if write.reader is None:
                write.reader = operation.event
    happened: set[int] = set()
    for values in writes.values():
        for write in values.values():
            write.exists = write.fate == "ok" or (write.fate == "info" and write.reader is not None)
            if write.exists and len(write.writers) == 1 and write.writers[0].transactional:
                happened.add(id(write.writers[0]))
    for values in writes.values():
        for write in values.values():
            if len(write.writers) == 1 and id(write.writers[0]) in happened:
                write.exists = True
