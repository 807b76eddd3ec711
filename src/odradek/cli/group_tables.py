"""The tables of `odradek consumer-groups`, column for column those of Kafka 4.3's tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from odradek.cli.tool import table

if TYPE_CHECKING:
    from odradek import Admin
    from odradek.client.types import (
        GroupDescription,
        GroupListing,
        MemberDescription,
        OffsetAndMetadata,
        TopicPartition,
    )

MISSING = "-"
REBALANCING = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}


def remark(group: GroupDescription) -> str:
    """Return what is to be said about a group without members, or between two generations; else ''."""
    if group.state == "Empty":
        return f"Consumer group '{group.group_id}' has no active members."
    if group.state in REBALANCING:
        return f"Warning: Consumer group '{group.group_id}' is rebalancing."
    return ""


def consumer_groups(admin: Admin, **only: Any) -> list[GroupListing]:
    """The groups of consumers: not those of other programs (Connect), of which no offsets can be told.

    Args:
        admin: the cluster.
        only: as `Admin.list_groups`.
    """
    return [group for group in admin.list_groups(**only) if group.protocol_type in ("consumer", "")]


def group_rows(groups: Iterable[GroupListing], *, with_type: bool, with_state: bool) -> list[str]:
    """The table of `--list --state` and `--list --type`."""
    groups = list(groups)
    width = max([15, *(len(g.group_id) for g in groups)]) + 10
    rows = [["GROUP", *(["TYPE"] if with_type else []), *(["STATE"] if with_state else [])]]
    for g in groups:
        row = [g.group_id, *([g.type.capitalize() or "Unknown"] if with_type else [])]
        rows.append([*row, *([g.state or "Unknown"] if with_state else [])])
    return list(table(rows, [width, *[20] * (len(rows[0]) - 1)]))


def end_offsets(
    admin: Admin, partitions: Iterable[TopicPartition], timestamp: int = -1
) -> dict[TopicPartition, int]:
    """Offsets of partitions by time; what has been deleted, or has no leader now, is left out.

    Args:
        admin: the cluster.
        partitions: which; they need not exist.
        timestamp: epoch milliseconds, -1 for the end, -2 for the start.

    Returns: partition → offset, -1 where no record is so young.
    """
    from odradek import TopicPartition
    from odradek.errors import KafkaError

    left = [TopicPartition(*p) for p in partitions]
    while left:
        there = {
            TopicPartition(p.topic, p.partition)
            for topic in admin.describe_topics().values()
            for p in topic.partitions
            if p.leader >= 0
        }
        left = [p for p in left if p in there]
        if not left:
            break
        try:
            offsets_found = admin.list_offsets(dict.fromkeys(left, timestamp))
        except KafkaError as error:
            # Deleted between the two questions: look again, what is there is fewer now.
            if error.code.name != "UNKNOWN_TOPIC_OR_PARTITION":
                raise
        else:
            return {p: o.offset for p, o in offsets_found.items()}
    return {}


def offsets(
    admin: Admin, group: GroupDescription
) -> tuple[dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, int]]:
    """A group's committed offsets, and the log ends of all partitions that it has or has committed for."""
    committed = {p: o for p, o in admin.list_group_offsets(group.group_id).items() if o.offset >= 0}
    assigned = {p for member in group.members for p in member.assignment}
    return committed, end_offsets(admin, {*committed, *assigned})


def offset_rows(
    group: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Mapping[TopicPartition, int],
    *,
    verbose: bool = False,
) -> list[str]:
    """The table of `--describe --offsets`, empty where there is nothing to tell.

    Members with most partitions come first, then members without any, then partitions that nobody has.
    """
    epoch = ["LEADER-EPOCH"] if verbose else []
    head = ["GROUP", "TOPIC", "PARTITION", *epoch, "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID",
            "HOST", "CLIENT-ID"]  # fmt: skip
    rows = [head]

    def add(partition: TopicPartition, member: MemberDescription | None) -> None:
        at, end = committed.get(partition), ends.get(partition)
        rows.append(
            [
                group.group_id,
                partition.topic,
                str(partition.partition),
                *([number_text(_epoch(at))] if verbose else []),
                number_text(None if at is None else at.offset),
                number_text(end),
                number_text(_lag(at, end)),
                *_who(member),
            ]
        )

    assigned: set[TopicPartition] = set()
    for member in sorted(group.members, key=lambda m: -len(m.assignment)):
        for partition in sorted(member.assignment):
            add(partition, member)
        if not member.assignment:
            rows.append([group.group_id, *[MISSING] * (len(head) - 4), *_who(member)])
        assigned |= set(member.assignment)
    for partition in sorted(set(committed) - assigned):
        add(partition, None)
    if len(rows) == 1:
        return []
    return list(table(rows, (15, 15, 10, *(15 for _ in epoch), 15, 15, 15, 15, 15, 0)))


def as_object(admin: Admin, group: GroupDescription) -> dict[str, Any]:
    """The object of `--describe --json`: state, members, and offsets with lag, whatever else is asked for."""
    committed, ends = offsets(admin, group)
    members = {p: m.member_id for m in group.members for p in m.assignment}
    node = group.coordinator
    rows = []
    for partition in sorted({*committed, *members}):
        at, end = committed.get(partition), ends.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "currentOffset": None if at is None else at.offset,
                "leaderEpoch": _epoch(at),
                "logEndOffset": end,
                "lag": _lag(at, end),
                "memberId": members.get(partition),
            }
        )
    return {
        "group": group.group_id,
        "state": group.state,
        "protocol": group.protocol or None,
        "coordinator": None if node is None else {"id": node.id, "host": node.host, "port": node.port},
        "members": [
            {
                "memberId": m.member_id,
                "instanceId": m.group_instance_id,
                "clientId": m.client_id,
                "host": m.client_host,
                "assignment": [{"topic": p.topic, "partition": p.partition} for p in sorted(m.assignment)],
            }
            for m in sorted(group.members, key=lambda m: m.member_id)
        ],
        "offsets": rows,
    }


def _lag(at: OffsetAndMetadata | None, end: int | None) -> int | None:
    return None if at is None or end is None else end - at.offset


def _epoch(at: OffsetAndMetadata | None) -> int | None:
    return None if at is None or at.leader_epoch < 0 else at.leader_epoch


def _who(member: MemberDescription | None) -> list[str]:
    if member is None:
        return [MISSING, MISSING, MISSING]
    return [member.member_id, member.client_host, member.client_id]


def number_text(value: int | None) -> str:
    """A number in a table; None: it is not known."""
    return MISSING if value is None else str(value)


def member_rows(group: GroupDescription, *, verbose: bool = False) -> list[str]:
    """The table of `--describe --members`. The epochs of server-side groups (KIP-848) are not known here."""
    static = any(m.group_instance_id for m in group.members)
    instance = ["GROUP-INSTANCE-ID"] if static else []
    more = ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"] if verbose else []
    rows = [["GROUP", "CONSUMER-ID", *instance, "HOST", "CLIENT-ID", "#PARTITIONS", *more]]
    for m in sorted(group.members, key=lambda m: m.member_id):
        row = [group.group_id, m.member_id, *([m.group_instance_id or ""] if static else [])]
        row += [m.client_host, m.client_id, str(len(m.assignment))]
        rows.append([*row, *([MISSING, assignment_text(m), MISSING, MISSING] if verbose else [])])
    widths = [15, 15, *(17 for _ in instance), 15, 15, 15]
    if verbose:
        return list(table(rows, [*widths, 15, 20, 15, 20]))
    # Kafka's tool ends these lines with the blank that would part the next column.
    return [line + " " for line in table(rows, widths)]


def assignment_text(member: MemberDescription) -> str:
    """A member's partitions as `clicks:0,1;views:3`."""
    by_topic: dict[str, list[str]] = {}
    for topic, partition in sorted(member.assignment):
        by_topic.setdefault(topic, []).append(str(partition))
    return ";".join(f"{topic}:{','.join(ids)}" for topic, ids in by_topic.items()) or MISSING


def state_rows(group: GroupDescription, *, verbose: bool = False) -> list[str]:
    """The table of `--describe --state`."""
    node = group.coordinator
    coordinator = MISSING if node is None else f"{node.host}:{node.port}  ({node.id})"
    epochs = ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"] if verbose else []
    rows = [["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", *epochs, "#MEMBERS"]]
    about = [coordinator, group.protocol or MISSING, group.state, *(MISSING for _ in epochs)]
    rows.append([group.group_id, *about, str(len(group.members))])
    return list(table(rows, (15, 25, 20, 20, *([15, 25] if verbose else []), 0)))
