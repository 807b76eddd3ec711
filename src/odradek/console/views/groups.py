"""The tables of groups, their members and their lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.client.types import TopicPartition

if TYPE_CHECKING:
    from odradek.client.types import GroupDescription, GroupListing, MemberDescription

STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
#: The states in which nobody is in a group: its offsets can be set, and it can be deleted.
UNUSED_STATES = frozenset({"Empty", "Dead"})


@dataclass(frozen=True)
class GroupOffsets:
    """The offsets of a group, as far as they are known.

    Attributes:
        committed: partition → the next offset to read.
        ends: partition → the offset of the next record; absent where it is not known.
        gone: partitions that do not exist any more.
        problem: why offsets are not known; '' where all are.
    """

    committed: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    gone: frozenset[TopicPartition] = frozenset()
    problem: str = ""

    def lag(self, tp: TopicPartition) -> int | None:
        """Return how many offsets are left to read of a partition, None where that is not known."""
        at, end = self.committed.get(tp), self.ends.get(tp)
        return None if at is None or end is None else max(0, end - at)

    @property
    def total(self) -> int | None:
        """The lag of all partitions with a committed offset; None where one is not known, or all."""
        lags = [self.lag(tp) for tp in self.committed if tp not in self.gone]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if known and len(known) == len(lags) else None


@dataclass(frozen=True)
class GroupRow:
    """A line of the table of groups.

    Attributes:
        members: None where the description could not be had.
        lag: as a text, as there are reasons not to know it.
    """

    group_id: str
    state: str
    kind: str
    members: int | None
    lag: int | None
    lag_told: str


def chosen_groups(listed: Iterable[GroupListing], *, text: str, state: str) -> list[GroupListing]:
    """Return the groups that a filter lets through.

    Args:
        listed: all.
        text: a part of the id; upper and lower case are the same.
        state: '' for any.
    """
    return [
        group for group in listed if text.lower() in group.group_id.lower() and state in ("", group.state)
    ]


def group_rows(
    listed: Iterable[GroupListing],
    described: Mapping[str, GroupDescription],
    offsets: Mapping[str, GroupOffsets],
) -> list[GroupRow]:
    """Return a row for each group.

    Args:
        listed: the groups.
        described: those that have been described.
        offsets: those whose offsets have been asked for.
    """
    rows = []
    for group in listed:
        description = described.get(group.group_id)
        known = offsets.get(group.group_id)
        state = group.state or ("" if description is None else description.state)
        members = None
        if description is not None and not (description.state == "Dead" and state != "Dead"):
            members = len(description.members)
        rows.append(
            GroupRow(
                group.group_id,
                state or "not known",
                group.type or group.protocol_type or "not known",
                members,
                None if known is None else known.total,
                _lag_told(known),
            )
        )
    return rows


def _lag_told(known: GroupOffsets | None) -> str:
    if known is None or known.problem:
        return "not known"
    if not known.committed:
        return "nothing committed"
    return "not known" if known.total is None else ""


@dataclass(frozen=True)
class LagRow:
    """A line of a group's table of partitions.

    Attributes:
        committed, end, lag: None where they are not known; `note` says why.
        member: who has the partition; None for nobody.
    """

    tp: TopicPartition
    committed: int | None
    end: int | None
    lag: int | None
    note: str
    member: MemberDescription | None


def lag_rows(group: GroupDescription, offsets: GroupOffsets) -> list[LagRow]:
    """Return a row for each partition that a group has committed for, or that a member has."""
    member_of = {tp: member for member in group.members for tp in member.assignment}
    return [
        LagRow(
            tp,
            offsets.committed.get(tp),
            offsets.ends.get(tp),
            offsets.lag(tp),
            _note(tp, offsets),
            member_of.get(tp),
        )
        for tp in sorted(offsets.committed.keys() | member_of.keys())
    ]


def _note(tp: TopicPartition, offsets: GroupOffsets) -> str:
    at, end = offsets.committed.get(tp), offsets.ends.get(tp)
    if tp in offsets.gone:
        return "the partition is gone"
    if end is None:
        return "its end is not known"
    if at is None:
        return "nothing committed"
    return f"committed beyond the end, by {at - end}" if at > end else ""
