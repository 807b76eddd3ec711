"""The offsets that a reset gives to a group: planned and shown first, done later as it was shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.client.types import TopicPartition

TARGETS = ("earliest", "latest", "time", "shift", "offset")


@dataclass(frozen=True)
class Reset:
    """A wish.

    Attributes:
        target: one of `TARGETS`.
        number: milliseconds since 1970 of 'time', the offsets to go on of 'shift', the offset of 'offset'.
        topic: '' for all topics that the group has offsets for.
        partitions: of the topic; none for all.
    """

    target: str
    number: int = 0
    topic: str = ""
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True)
class Bounds:
    """The offsets of a partition that a reset needs to know.

    Attributes:
        first, end: the first offset, and that of the next record.
        by_time: the first offset of a time, -1 where no record is as late; of a reset by time only.
    """

    first: int
    end: int
    by_time: int = -1


@dataclass(frozen=True)
class ResetRow:
    """The change of a partition.

    Attributes:
        now: the committed offset, None where there is none.
        new: what it would be.
        left: how many offsets there would be to read.
        note: why `new` is not what was wished; '' where it is.
    """

    tp: TopicPartition
    now: int | None
    new: int
    left: int
    note: str = ""

    @property
    def change(self) -> int | None:
        """The way that the offset would go; None where there is none now."""
        return None if self.now is None else self.new - self.now


def reset_rows(
    reset: Reset, committed: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds]
) -> list[ResetRow]:
    """Plan a reset; an offset outside of a partition becomes the nearest one within.

    Args:
        reset: the wish.
        committed: the group's offsets.
        bounds: of all partitions that are to be reset.

    Raises:
        ValueError: an offset cannot be shifted, as there is none.
    """
    return [_row(reset, tp, committed.get(tp), bounds[tp]) for tp in sorted(bounds)]


def _row(reset: Reset, tp: TopicPartition, now: int | None, bounds: Bounds) -> ResetRow:
    wished, note = _wished(reset, tp, now, bounds)
    new = min(max(wished, bounds.first), bounds.end)
    if new > wished:
        note = f"{wished} is before the first offset"
    elif new < wished:
        note = f"{wished} is beyond the end"
    return ResetRow(tp, now, new, bounds.end - new, note)


def _wished(reset: Reset, tp: TopicPartition, now: int | None, bounds: Bounds) -> tuple[int, str]:
    if reset.target == "earliest":
        return bounds.first, ""
    if reset.target == "offset":
        return reset.number, ""
    if reset.target == "shift":
        if now is None:
            raise ValueError(f"The offset of {tp} cannot be shifted: the group has none.")
        return now + reset.number, ""
    if reset.target == "time" and bounds.by_time >= 0:
        return bounds.by_time, ""
    return bounds.end, "no record is as late: the end" if reset.target == "time" else ""


def plan_text(rows: Iterable[ResetRow]) -> str:
    """Return a plan as a form carries it: what was shown is what is done."""
    return json.dumps([[row.tp.topic, row.tp.partition, row.now, row.new] for row in rows])


def parse_plan(text: str) -> dict[TopicPartition, tuple[int | None, int]]:
    """Return partition → what was committed when it was shown, and the new offset.

    Raises:
        ValueError: it is no plan.
    """
    plan: dict[TopicPartition, tuple[int | None, int]] = {}
    try:
        for topic, partition, now, new in json.loads(text):
            numbers = [partition, new] if now is None else [partition, now, new]
            if not isinstance(topic, str) or any(type(number) is not int for number in numbers):
                raise ValueError(f"no partition and offset: {topic!r}, {partition!r}")
            plan[TopicPartition(topic, partition)] = (now, new)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"The plan cannot be read: {error}") from error
    return plan
