"""Anomalies of single records: was what was acknowledged kept, once, in its place, and nothing else shown?

- **inconsistent offsets**: sends and polls must agree on the value at an offset of a partition. Offsets need
  not follow each other without gaps: markers of transactions and compaction leave some.
- **duplicate**: a value sent once lies at two offsets. (A value that was sent twice on purpose, because the
  first send may not have happened, may lie at two.)
- **lost write**: the highest offset that anybody has polled in a partition says how far the log has been
  read. An acknowledged record at or below it that nobody has seen is lost. This takes for granted that
  somebody reads the partition from its beginning.
- **unseen**: an acknowledged record above the highest polled offset (or of unknown offset). Right in the
  midst of a run; at the end of one that has read everything it means the record is gone or stuck.
- **aborted read**, Adya's G1a: a polled value whose only writers failed: transactions that aborted, or sends
  that were refused. A writer with unknown end may have written, so reading it proves nothing.
- **precommitted read**: a transaction polls a record that it has itself sent. Most databases show a
  transaction its own writes; a Kafka consumer must never see what is not yet committed, whoever wrote it.
- **unwritten read**: a value that nobody sent there: damage, or a record of another partition.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.testing.checker.history import Value
from odradek.testing.checker.operations import Facts, Write
from odradek.testing.checker.report import Anomaly


def find(facts: Facts) -> Iterator[Anomaly]:
    """All anomalies of single records."""
    for partition in sorted(facts.writes):
        values = facts.writes[partition]
        highest = max((max(w.offsets) for w in values.values() if w.reader is not None), default=-1)
        at: dict[int, list[tuple[Value, int]]] = {}
        for value, write in values.items():
            for offset, event in write.offsets.items():
                at.setdefault(offset, []).append((value, event))
            yield from _of_value(facts, partition, value, write, highest)
        yield from _inconsistent(partition, at)
    yield from _precommitted(facts)


def _of_value(facts: Facts, partition: str, value: Value, write: Write, highest: int) -> Iterator[Anomaly]:
    writers = tuple(operation.event for operation in write.writers)
    if write.reader is not None:
        yield from _read_wrongly(partition, value, write, writers, write.reader)
    if len(write.offsets) > max(write.possible, 1):
        offsets = sorted(write.offsets)
        yield Anomaly(
            "duplicate",
            f"{value!r} lies in {partition} at the offsets {', '.join(map(str, offsets))}, "
            f"and was sent {_times(len(write.writers))}",
            tuple(sorted({*writers, *write.offsets.values()})),
        )
    if write.exists and write.reader is None:
        yield _not_read(facts, partition, value, write, writers, highest)


def _read_wrongly(
    partition: str, value: Value, write: Write, writers: tuple[int, ...], reader: int
) -> Iterator[Anomaly]:
    """The anomaly of a value that was polled although it should not be there, if it is one."""
    offset = min(write.offsets)
    if not write.writers:
        yield Anomaly(
            "unwritten-read",
            f"{value!r} was polled from {partition} at offset {offset}, and nobody sent it there",
            (reader,),
        )
    elif write.fate == "fail":
        why = "was aborted" if write.writers[0].transactional else "failed"
        yield Anomaly(
            "G1a",
            f"{value!r} was polled from {partition} at offset {offset}, but what sent it {why}",
            (*writers, reader),
        )


def _not_read(
    facts: Facts, partition: str, value: Value, write: Write, writers: tuple[int, ...], highest: int
) -> Anomaly:
    """The anomaly of a value that exists and was not polled: lost where consumers were past it."""
    offset = write.acknowledged
    if offset is not None and offset <= highest:
        why = "belongs to a transaction of which others were seen"
        if write.fate == "ok":
            why = "was acknowledged"
        return Anomaly(
            "lost-write",
            f"{value!r} {why} at offset {offset} of {partition}; consumers read up to offset {highest} "
            "and none has seen it",
            (*writers, *_passed(facts, partition, offset)),
        )
    where = "an unknown offset" if offset is None else f"offset {offset}"
    return Anomaly(
        "unseen",
        f"{value!r} was acknowledged at {where} of {partition}; consumers read up to "
        f"{'nothing' if highest < 0 else f'offset {highest}'}",
        writers,
    )


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _passed(facts: Facts, partition: str, offset: int) -> tuple[int, ...]:
    """The event of the lowest record polled above `offset`."""
    above = facts.seen_above(partition, offset)
    return () if above is None else (above,)


def _inconsistent(partition: str, at: dict[int, list[tuple[Value, int]]]) -> Iterator[Anomaly]:
    for offset in sorted(at):
        if len(at[offset]) > 1:
            values = ", ".join(repr(value) for value, _ in at[offset])
            yield Anomaly(
                "inconsistent-offsets",
                f"at offset {offset} of {partition} there were: {values}",
                tuple(sorted({event for _, event in at[offset]})),
            )


def _precommitted(facts: Facts) -> Iterator[Anomaly]:
    for operation in facts.operations:
        if not operation.transactional or not operation.records:
            continue
        own = {(send.partition, send.value) for send in operation.sends}
        for record in operation.records:
            if (record.partition, record.value) not in own:
                continue
            writers = facts.writes[record.partition][record.value].writers
            if all(writer is operation for writer in writers):
                yield Anomaly(
                    "precommitted-read",
                    f"a transaction of {operation.process} polled {record.value!r} from {record.partition} "
                    f"at offset {record.offset}, which it sent itself",
                    (operation.start, operation.event),
                )
