"""Anomalies of order: do producers and consumers walk through the log as it is?

- **nonmonotonic send**: of two records that a process sent to a partition, one after the other was begun,
  the later has the lower offset. `int-` (internal) within one operation, without it between two.
- **nonmonotonic poll**: a consumer sees an offset at or below one that it has seen, though nobody moved it.
- **poll skip**: a consumer passes over a record that is there: acknowledged, or seen by somebody. What is
  aborted, or of unknown end and never seen, may be passed.
- **intermediate read**, here of Adya's G1b: a skip that cuts a transaction in two: the consumer saw some of
  its records in a partition, passed others. (That one poll returns a part of a transaction and the next poll
  the rest is usual: polls are bounded.)

A position is forgotten where the consumer may rightly start elsewhere: after `seek` and `rebalance` for their
partitions, after `assign` for the partitions that were not assigned before, after `subscribe` and `crash`,
and after a transaction that did not commit, whose input is polled again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from odradek.testing.checker.history import Record
from odradek.testing.checker.operations import Facts, Operation
from odradek.testing.checker.report import Anomaly


def find(facts: Facts) -> Iterator[Anomaly]:
    yield from _sends(facts)
    yield from _polls(facts)


def _sends(facts: Facts) -> Iterator[Anomaly]:
    last: dict[tuple[str, str], tuple[int, Operation]] = {}
    for operation in facts.operations:
        for send in operation.sends:
            if send.offset is None:
                continue
            key = operation.process, send.partition
            before = last.get(key)
            if before is not None and send.offset <= before[0]:
                name = "int-nonmonotonic-send" if before[1] is operation else "nonmonotonic-send"
                yield Anomaly(
                    name,
                    f"{operation.process} sent {send.value!r} to {send.partition} at offset {send.offset}, "
                    f"after a record at offset {before[0]}",
                    tuple(sorted({before[1].event, operation.event})),
                )
            last[key] = send.offset, operation


class _Log:
    """The records of a partition that are there, by their place among each other."""

    def __init__(self, facts: Facts, partition: str) -> None:
        there = sorted(
            (offset, value)
            for value, write in facts.writes[partition].items()
            if write.exists
            for offset in write.offsets
        )
        self.offsets = [offset for offset, _ in there]
        self.values = [value for _, value in there]


def _polls(facts: Facts) -> Iterator[Anomaly]:
    logs = {partition: _Log(facts, partition) for partition in facts.writes}
    positions: dict[str, dict[str, tuple[Record, Operation]]] = {}
    assigned: dict[str, frozenset[str]] = {}
    for step in facts.steps:
        if isinstance(step, Operation):
            position = positions.setdefault(step.process, {})
            yield from _walk(facts, logs, step, position)
            if step.transactional and step.type != "ok":
                position.clear()
            continue
        event = facts.history[step]
        position = positions.setdefault(event.process, {})
        if event.f in ("seek", "rebalance"):
            for name in event.names:
                position.pop(name, None)
        elif event.f == "assign":
            kept = assigned.get(event.process, frozenset()) & set(event.names)
            for name in [name for name in position if name not in kept]:
                del position[name]
            assigned[event.process] = frozenset(event.names)
        else:
            position.clear()
            assigned.pop(event.process, None)


def _walk(
    facts: Facts, logs: dict[str, _Log], operation: Operation, position: dict[str, tuple[Record, Operation]]
) -> Iterator[Anomaly]:
    moved = operation.disturbed
    for record in operation.records:
        before = position.get(record.partition)
        position[record.partition] = record, operation
        if before is None or moved is None or record.partition in moved:
            continue
        last, source = before
        internal = "int-" if source is operation else ""
        shown = tuple(sorted({source.event, operation.event}))
        if record.offset <= last.offset:
            yield Anomaly(
                f"{internal}nonmonotonic-poll",
                f"{operation.process} polled offset {record.offset} of {record.partition} after offset "
                f"{last.offset}",
                shown,
            )
            continue
        yield from _skips(facts, logs[record.partition], operation, last, record, internal, shown)


def _skips(
    facts: Facts,
    log: _Log,
    operation: Operation,
    last: Record,
    record: Record,
    internal: str,
    shown: tuple[int, ...],
) -> Iterator[Anomaly]:
    low, high = bisect_right(log.offsets, last.offset), bisect_left(log.offsets, record.offset)
    if low >= high:
        return
    first, value = log.offsets[low], log.values[low]
    missed = facts.writes[record.partition][value]
    proof = missed.offsets[first]
    others = f" and {high - low - 1} more" if high - low > 1 else ""
    yield Anomaly(
        f"{internal}poll-skip",
        f"{operation.process} polled offset {record.offset} of {record.partition} after {last.offset}, "
        f"and passed over {value!r} at offset {first}{others}",
        tuple(sorted({proof, *shown})),
    )
    seen = {
        id(w) for r in (last, record) for w in facts.writes[r.partition][r.value].writers if w.transactional
    }
    for place in {low, high - 1}:
        missed = facts.writes[record.partition][log.values[place]]
        torn = [writer for writer in missed.writers if id(writer) in seen]
        if torn:
            yield Anomaly(
                "intermediate-read",
                f"{operation.process} saw a part of a transaction of {torn[0].process} in "
                f"{record.partition}, and passed over {log.values[place]!r} of it",
                tuple(sorted({torn[0].event, *shown})),
            )
            break
